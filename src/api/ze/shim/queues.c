/* SPDX-License-Identifier: Apache-2.0 */
/* From handles to queues, and the ends of queues and lists. */
#include "base/cancel.h"
#include "base/lockorder.h"
#include "proof/proof.h"
#include "ze.h"
#include <stdlib.h>
#include <time.h>

/* By handle: where lists were executed when a gate was closed. */
static struct {
	pthread_mutex_t lock; /* over changes */
	struct fm_handles stands;
	struct fm_list living; /* queues of ours, also ended ones that something still uses */
} made = {.lock = PTHREAD_MUTEX_INITIALIZER, .living = {&made.living, &made.living}};
FM_LOCK_RANK(made.lock, ZE_MADE);

struct place {
	uintptr_t key; /* of the queue */
	uint64_t number;
};

bool fm_ze_is_immediate(ze_command_list_handle_t list)
{
	const struct fm_ze_made *m = fm_shim_made_with(list);

	return m && m->immediate;
}

static void forget_place(const void *list)
{
	void *was;

	pthread_mutex_lock(&made.lock);
	was = fm_handles_find(&made.stands, (uintptr_t)list);
	if (was)
		fm_handles_erase(&made.stands, (uintptr_t)list, was);
	pthread_mutex_unlock(&made.lock);
	free(was);
}

void fm_ze_made(const void *handle, const struct fm_ze_made *with)
{
	struct fm_ze_made *m = malloc(sizeof(*m));

	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)handle, false);
	if (m)
		*m = *with;
	free(fm_shim_made(handle, m));
}

/* --- queues --- */

static bool where(struct fm_shim_place *at)
{
	const struct fm_ze_made *m = fm_shim_made_with((void *)at->handle);

	at->key = at->handle;
	at->of = m ? m->device : NULL;
	return m && fm_ze_driver();
}

static void free_queue(struct fm_ze_hwq *hw)
{
	struct fm_ze_queue *q = fm_container(hw, struct fm_ze_queue, hw);

	pthread_mutex_lock(&made.lock);
	fm_list_del(&q->living);
	pthread_mutex_unlock(&made.lock);
	free(q);
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	struct fm_ze_queue *q = fm_container(e, struct fm_ze_queue, entry);
	void *handle = (void *)at->handle;
	char what[FM_PROOF_TEXT];

	fm_ze_hwq_init(&q->hw, fm_ze_driver(), fm_shim_made_with(handle), handle, free_queue);
	q->hw.unproven = !fm_ze_proof(q->hw.ze, q->hw.made.device, what, sizeof(what)) ||
			 !fm_proof_allows(what);
	pthread_mutex_lock(&made.lock);
	fm_list_add_tail(&made.living, &q->living);
	pthread_mutex_unlock(&made.lock);
	config->ops = fm_ze_ops(&q->hw);
	config->hwq = &q->hw;
	return fm_ze_device_key(q->hw.ze, q->hw.made.device, device, FM_DEVKEY_MAX);
}

/* Returns it with a reference; NULL: there is none. */
static struct fm_ze_hwq *close_queue(const void *handle)
{
	struct fm_ze_queue *q = fm_shim_find((uintptr_t)handle);
	struct fm_ze_hwq *hw = q ? &q->hw : NULL;

	if (hw)
		fm_ze_ref(hw);
	fm_shim_close((uintptr_t)handle, false);
	if (hw)
		fm_ze_end(hw);
	return hw;
}

void fm_ze_queue_ends(const void *handle)
{
	struct fm_ze_hwq *hw = fm_shim_has_client() ? close_queue(handle) : NULL;

	if (hw)
		fm_ze_unref(hw);
	free(fm_shim_made(handle, NULL));
}

struct of_context {
	ze_context_handle_t context;
	const void *handle;
};

static bool look_for(struct fm_shim_entry *e, void *arg)
{
	struct fm_ze_queue *q = fm_container(e, struct fm_ze_queue, entry);
	struct of_context *of = arg;

	if (q->hw.made.context == of->context)
		of->handle = (void *)q->key;
	return !of->handle;
}

/* Marks those that are still there. */
static bool any_living(ze_context_handle_t context, bool forsake)
{
	struct fm_ze_queue *q;
	bool any = false;

	pthread_mutex_lock(&made.lock);
	fm_list_each (q, &made.living, living) {
		if (q->hw.made.context != context)
			continue;
		any = true;
		if (forsake)
			atomic_store(&q->hw.gone, true);
	}
	pthread_mutex_unlock(&made.lock);
	return any;
}

/* The last reference to a queue destroys what was made for it in the context, also if the program
 * has ended the queue before. At the process's end nobody gives it back. */
static void await_last(ze_context_handle_t context, const struct fm_client *c, uint64_t until)
{
	const struct timespec look = {.tv_nsec = FM_ZE_END_LOOK};
	FM_NO_CANCEL;

	while (any_living(context, false)) {
		if (fm_client_exits(c) || fm_now() > until) {
			any_living(context, true);
			return;
		}
		nanosleep(&look, NULL);
	}
}

/* With queues that the program has not ended. */
void fm_ze_context_ends(ze_context_handle_t context)
{
	const struct fm_client *c = fm_shim_has_client();
	uint64_t until = fm_now() + FM_ZE_END_MOST;
	struct of_context of = {context, NULL};
	struct fm_ze_hwq *hw;

	if (!c)
		return;
	for (fm_shim_each(look_for, &of); of.handle; fm_shim_each(look_for, &of)) {
		hw = close_queue(of.handle);
		if (hw)
			fm_ze_unref(hw);
		fm_ze_capture_ended(of.handle);
		free(fm_shim_made(of.handle, NULL));
		of.handle = NULL;
	}
	await_last(context, c, until);
}

/* --- lists that stand behind gates --- */

void fm_ze_stands(struct fm_ze_queue *q, uint32_t n, ze_command_list_handle_t *lists)
{
	struct place *p;

	if (FM_LIKELY(!atomic_load(&q->hw.closed)))
		return;
	for (uint32_t i = 0; i < n; i++) {
		p = malloc(sizeof(*p));
		if (!p)
			return;
		*p = (struct place){q->key, atomic_load(&q->hw.placed)};
		forget_place(lists[i]);
		pthread_mutex_lock(&made.lock);
		if (!fm_handles_set(&made.stands, (uintptr_t)lists[i], p))
			free(p);
		pthread_mutex_unlock(&made.lock);
	}
}

/* The hwqueue, too, must stay, since another thread may end the queue. */
static bool keep_of_key(const struct fm_shim_entry *e, const void *key)
{
	if (e->key != *(const uintptr_t *)key)
		return false;
	fm_ze_ref(&fm_container((struct fm_shim_entry *)e, struct fm_ze_queue, entry)->hw);
	return true;
}

/* A program may only do so when the device is done with the list, which it may know in ways that we
 * do not: by then the gate is open. Other programs rely on the time that the list takes. */
void fm_ze_list_changes(ze_command_list_handle_t list)
{
	struct place *p, at;
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n;

	if (FM_LIKELY(!fm_handles_find(&made.stands, (uintptr_t)list)) || !fm_shim_has_client())
		return;
	pthread_mutex_lock(&made.lock);
	p = fm_handles_find(&made.stands, (uintptr_t)list);
	at = p ? *p : (struct place){0, 0};
	pthread_mutex_unlock(&made.lock);
	n = fm_shim_keep(xq, keep_of_key, &at.key);
	for (size_t i = 0; i < n; i++) {
		struct fm_ze_hwq *hw = xq[i]->hwq;

		if (fm_ze_is_behind(hw, at.number)) {
			fm_xq_await_gates(xq[i]);
			fm_xq_await_end(xq[i]);
		}
		fm_xq_unref(xq[i]);
		fm_ze_unref(hw);
	}
	forget_place(list);
}

/* The driver does not survive a fork. */
static void fork_child(void)
{
	made.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fm_list_init(&made.living);
	fm_ze_captures_clear();
	fm_ze_trials_fork_child();
	fm_calls_forget();
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.size = sizeof(struct fm_ze_queue),
	.init = init,
};

const struct fm_shim_api fm_shim_api = {
	.name = "ze",
	.queues = &queues,
	.fork_child = fork_child,
};
