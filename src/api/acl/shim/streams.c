/* SPDX-License-Identifier: Apache-2.0 */
/* From streams to queues, and the ends of queues. */
#include "acl.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* Streams that belong to a model: what is put there runs when the model does. */
static struct fm_shim_set of_models;

/* --- keys --- */

static aclrtContext current(void)
{
	const struct fm_acl_driver *acl = fm_acl_driver();
	aclrtContext context = NULL;

	return acl && !acl->get_context(&context) ? context : NULL;
}

static uintptr_t default_key(aclrtStream stream)
{
	const struct fm_acl_driver *acl = fm_acl_driver();
	aclrtStream given = NULL;
	aclrtContext context;

	if (!stream && acl && acl->default_stream && !acl->default_stream(&given) && given)
		return (uintptr_t)given;
	context = current();
	if (!context)
		return 0;
	return stream ? fm_shim_thread_key(context) : fm_shim_default_key(context);
}

/* A program may have the handle of a default stream as well. 0: it has no key now. */
static uintptr_t key_of(aclrtStream stream)
{
	const struct fm_acl_driver *acl;
	aclError before;
	uintptr_t key;

	if (FM_LIKELY(stream && stream != FM_ACL_NO_STREAM))
		return (uintptr_t)stream;
	acl = fm_acl_driver();
	before = fm_acl_last_error(acl);
	key = default_key(stream);
	fm_acl_take_own_error(acl, before);
	return key;
}

/* Makes it, unless it is there. NULL: it is not scheduled. The result may be gone. */
static void *first(aclrtStream stream, const char *call)
{
	void *found = fm_shim_look_up(key_of(stream));

	if (found && found != &fm_shim_refused)
		return found;
	if (fm_shim_set_has(&of_models, (uintptr_t)stream))
		return NULL;
	return fm_shim_first((uintptr_t)stream, found, false, call);
}

/* generation: of its mark; 0: any. NULL: it is gone. The caller leaves it. */
static struct fm_acl_queue *use(uintptr_t key, uint64_t generation)
{
	struct fm_shim_entry *e;

	fm_shim_lock();
	e = key ? fm_shim_at(key) : NULL;
	if (e && generation && e->generation != generation)
		e = NULL;
	if (e)
		atomic_fetch_add(&fm_acl_queue_of(e)->users, 1);
	fm_shim_unlock();
	return e ? fm_acl_queue_of(e) : NULL;
}

struct fm_acl_queue *fm_acl_enter(aclrtStream stream, const char *call)
{
	struct fm_acl_queue *q = use(key_of(stream), 0);

	if (FM_LIKELY(q))
		return q;
	return first(stream, call) ? use(key_of(stream), 0) : NULL;
}

void fm_acl_leave(struct fm_acl_queue *q)
{
	if (FM_UNLIKELY(atomic_fetch_sub(&q->users, 1) == 1))
		fm_xq_close(q->xq);
}

/* A thread that was cancelled in a call has never left it. So calls are waited for only if the
 * program may be in one. */
static bool let_go(struct fm_shim_entry *e)
{
	struct fm_acl_queue *q = fm_acl_queue_of(e);

	if (q->disturbed)
		return atomic_fetch_sub(&q->users, 1) == 1;
	atomic_store(&q->users, UINT_MAX / 2); /* nobody closes it once more */
	return true;
}

void fm_acl_order(aclrtStream stream)
{
	struct fm_acl_queue *q = use(key_of(stream), 0);

	if (!q)
		return;
	fm_shim_order(&q->progress);
	fm_acl_leave(q);
}

/* --- lives --- */

/* An older library cannot tell. */
static bool is_no_queue(const struct fm_acl_driver *acl, aclrtStream stream)
{
	uint32_t flags = 0;

	return acl && acl->stream_flags && stream && stream != FM_ACL_NO_STREAM &&
	       !acl->stream_flags(stream, &flags) && (flags & FM_ACL_STREAM_IS_NO_QUEUE);
}

static bool where(struct fm_shim_place *at)
{
	const struct fm_acl_driver *acl = fm_acl_driver();
	aclrtStream stream = (aclrtStream)at->handle;
	aclError before = fm_acl_last_error(acl);

	at->of = is_no_queue(acl, stream) ? NULL : current();
	at->key = key_of(stream);
	fm_acl_take_own_error(acl, before);
	at->thread = stream == FM_ACL_NO_STREAM ? fm_this_thread() : NULL;
	return at->of && at->key;
}

static bool name_device(struct fm_acl_queue *q, char *key, size_t size)
{
	aclError before = fm_acl_last_error(q->acl);
	bool known = !q->acl->get_device(&q->device);

	if (known)
		fm_acl_device_key(q->acl, q->device, key, size);
	fm_acl_take_own_error(q->acl, before);
	return known;
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	struct fm_acl_queue *q = fm_acl_queue_of(e);

	config->ops = at->thread ? &fm_hw_acl_thread : &fm_hw_acl;
	q->acl = fm_acl_driver();
	q->context = (aclrtContext)at->of;
	q->stream = (aclrtStream)at->handle;
	atomic_init(&q->users, 1);
	fm_acl_queue_init(q);
	return name_device(q, device, FM_DEVKEY_MAX);
}

static struct fm_shim_mark mark_of(struct fm_acl_queue *q)
{
	return fm_shim_mark(&q->entry, &q->progress, atomic_load(&q->ours));
}

struct fm_shim_mark fm_acl_waits(aclrtStream stream, uint64_t now)
{
	struct fm_acl_queue *q = use(key_of(stream), 0);
	struct fm_shim_mark m = {0};

	if (!q)
		return m;
	m = mark_of(q);
	fm_xq_waits(q->xq, now);
	fm_acl_leave(q);
	return m;
}

void fm_acl_waited(const struct fm_shim_mark *m, uint64_t since)
{
	struct fm_acl_queue *q = use(m->key, m->generation);

	if (!q)
		return;
	fm_shim_finished(&q->entry, &q->progress, m, since);
	fm_acl_leave(q);
}

bool fm_acl_idle_but_for_us(const struct fm_shim_mark *m)
{
	struct fm_acl_queue *q = use(m->key, m->generation);
	bool idle;

	if (!q)
		return false;
	idle = fm_shim_idle_but_for_us(&q->entry, &q->progress, atomic_load(&q->ours));
	fm_acl_leave(q);
	return idle;
}

static bool add_mark(struct fm_shim_entry *e, void *arg)
{
	struct fm_acl_queue *q = fm_acl_queue_of(e);
	struct fm_shim_marks *m = arg;

	/* What another thread's call without a stream does is not waited for. */
	if (!q->thread && q->context == current() && m->n < FM_BOARD_SLOTS)
		m->of[m->n++] = mark_of(q);
	return true;
}

void fm_acl_marks(struct fm_shim_marks *m)
{
	m->n = 0;
	if (!fm_acl_inside)
		fm_shim_marks(m, add_mark);
}

void fm_acl_synced(const struct fm_shim_marks *m)
{
	for (size_t i = 0; i < m->n; i++)
		fm_acl_waited(&m->of[i], m->since);
}

/* If the library uses an address again, it is another stream. */
void fm_acl_made(aclrtStream stream, uint32_t flags)
{
	fm_acl_ends(stream);
	if (flags & FM_ACL_STREAM_IS_NO_QUEUE) {
		fm_shim_hear_forks();
		fm_shim_set_add(&of_models, (uintptr_t)stream);
	}
}

static bool of_key(struct fm_shim_entry *e, const void *key)
{
	fm_acl_queue_of(e)->disturbed = e->key == *(const uintptr_t *)key;
	return fm_acl_queue_of(e)->disturbed;
}

/* The stream stays. */
void fm_acl_aborts(aclrtStream stream)
{
	uintptr_t key = fm_acl_inside ? 0 : key_of(stream);

	if (key && fm_shim_has_client())
		fm_shim_close_if(of_key, &key, 0);
}

void fm_acl_ends(aclrtStream stream)
{
	if (!stream || fm_acl_inside)
		return;
	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)stream, false);
	fm_shim_set_take(&of_models, (uintptr_t)stream);
	fm_shim_capture_ended((uintptr_t)stream);
}

static bool of_context(struct fm_shim_entry *e, const void *context)
{
	return fm_acl_queue_of(e)->context == context;
}

void fm_acl_context_ends(aclrtContext context)
{
	if (context && fm_shim_has_client() && !fm_acl_inside)
		fm_shim_close_if(of_context, context, fm_shim_default_key(context));
}

static bool of_device(struct fm_shim_entry *e, const void *device)
{
	fm_acl_queue_of(e)->disturbed = fm_acl_queue_of(e)->device == *(const int32_t *)device;
	return fm_acl_queue_of(e)->disturbed;
}

void fm_acl_device_ends(int32_t device)
{
	if (fm_shim_has_client() && !fm_acl_inside)
		fm_shim_close_if(of_device, &device, 0);
}

static bool any(struct fm_shim_entry *e, const void *arg)
{
	fm_acl_queue_of(e)->disturbed = true;
	return true;
}

void fm_acl_all_ends(void)
{
	if (fm_shim_has_client() && !fm_acl_inside)
		fm_shim_close_if(any, NULL, 0);
}

static bool of_thread(struct fm_shim_entry *e, const void *thread)
{
	return e->thread == thread;
}

static void thread_ends(bool may_call)
{
	fm_shim_close_if(of_thread, fm_this_thread(), 0);
}

/* --- captures --- */

bool fm_acl_capturing(aclrtStream stream)
{
	const struct fm_acl_driver *acl = fm_acl_driver();
	aclrtStream given = stream;
	aclError before, rc;
	aclmdlRI model;
	int status = 0;

	if (!acl || !acl->capture_info)
		return false;
	before = fm_acl_last_error(acl);
	fm_acl_inside++;
	if (!stream && acl->default_stream && acl->default_stream(&given))
		given = NULL;
	rc = acl->capture_info(given, &status, &model);
	fm_acl_inside--;
	fm_acl_take_own_error(acl, before);
	return rc || status;
}

/* The queue is made before the capture. */
void fm_acl_capture_begins(aclrtStream stream)
{
	if (fm_acl_driver() && !fm_acl_inside && !fm_acl_capturing(stream))
		first(stream, "aclmdlRICaptureBegin");
	fm_shim_capture_begins();
}

void fm_acl_capture_begun(aclrtStream stream, aclError rc)
{
	fm_shim_capture_begun(rc ? 0 : key_of(stream), !rc);
}

/* It may fail because there was no capture. In the wrong thread it fails, too, and then the capture
 * goes on. */
void fm_acl_capture_ended(aclrtStream stream, aclError rc)
{
	if (rc == FM_ACL_SUCCESS || !fm_acl_capturing(stream))
		fm_shim_capture_ended(key_of(stream));
}

/* The library does not survive a fork. */
static void fork_child(void)
{
	fm_calls_forget();
	fm_shim_set_clear(&of_models);
}

static int may_bind(uintptr_t handle)
{
	if (!fm_acl_driver())
		return -ENODEV;
	if (!handle || (aclrtStream)handle == FM_ACL_NO_STREAM)
		return -EINVAL;
	return atomic_load(&fm_shim_captures) ? -EBUSY : 0;
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.size = sizeof(struct fm_acl_queue),
	.init = init,
	.may_bind = may_bind,
	.closing = fm_acl_queue_ends,
	.let_go = let_go,
};

const struct fm_shim_api fm_shim_api = {
	.name = "acl",
	.queues = &queues,
	.thread_ends = thread_ends,
	.fork_child = fork_child,
};
