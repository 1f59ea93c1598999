/* SPDX-License-Identifier: Apache-2.0 */
#include "queues.h"
#include "base/lockorder.h"
#include "captures.h"
#include "threads.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct fm_map fm_shim_map;
struct fm_shim_entry fm_shim_refused;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, SHIM_MAP);
static uint64_t generations; /* under it */

static struct {
	pthread_mutex_t lock; /* over changes */
	struct fm_handles with;
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(made.lock, SHIM_MADE);

/* No client could be made for a first command, so later first commands do not try again. */
static _Atomic bool gave_up;
/* The context in which this thread's default queue was refused. It is not noted in the map, where
 * it would outlive the thread. */
static __thread const void *thread_refused __attribute__((tls_model("initial-exec")));

static const struct fm_shim_queue_ops *ops(void)
{
	return fm_shim_api.queues;
}

static struct fm_shim_entry *refused(void)
{
	return ops()->refused ? ops()->refused : &fm_shim_refused;
}

void fm_shim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fm_shim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct fm_shim_entry *fm_shim_at(uintptr_t key)
{
	struct fm_shim_entry *e = fm_shim_look_up(key);

	return e == refused() ? NULL : e;
}

/* The entry in a slot of the map. Lock held. */
static struct fm_shim_entry *entry_in(size_t slot)
{
	struct fm_shim_entry *e;

	if (atomic_load(&fm_shim_map.slot[slot].key) <= FM_MAP_REMOVED)
		return NULL;
	e = atomic_load(&fm_shim_map.slot[slot].value);
	return e == refused() ? NULL : e;
}

/* Lock held. */
static struct fm_shim_entry *take_out(uintptr_t key)
{
	struct fm_shim_entry *e = fm_map_erase(&fm_shim_map, key);

	if (!e || e == refused())
		return NULL;
	if (ops()->left)
		ops()->left(e);
	return e;
}

/* Lock held; nothing is under that key. */
static bool put_in(struct fm_shim_entry *e, uintptr_t key)
{
	if (e != refused())
		e->generation = ++generations;
	if (!fm_map_insert(&fm_shim_map, key, e))
		return false;
	if (e != refused() && ops()->entered)
		ops()->entered(e);
	return true;
}

void fm_shim_close_entry(struct fm_shim_entry *e, bool wait)
{
	if (!e || e == refused())
		return;
	if (ops()->closing)
		ops()->closing(e, wait);
	if (!ops()->let_go || ops()->let_go(e))
		fm_xq_close(e->xq); /* frees e in the end */
}

struct fm_shim_entry *fm_shim_enter(struct fm_shim_entry *e, uintptr_t key)
{
	struct fm_shim_entry *there;

	fm_shim_lock();
	there = fm_map_find(&fm_shim_map, key);
	if (!there)
		there = put_in(e, key) ? e : refused();
	fm_shim_unlock();
	if (there != e)
		fm_shim_close_entry(e, false);
	return there;
}

bool fm_shim_replace(struct fm_shim_entry *e, struct fm_shim_entry **was)
{
	bool ok;

	fm_shim_lock();
	*was = take_out(e->key);
	ok = put_in(e, e->key);
	fm_shim_unlock();
	return ok;
}

void fm_shim_close(uintptr_t key, bool wait)
{
	struct fm_shim_entry *e;

	fm_shim_lock();
	e = take_out(key);
	fm_shim_unlock();
	fm_shim_close_entry(e, wait);
}

void fm_shim_close_if(bool (*is)(struct fm_shim_entry *e, const void *arg), const void *arg,
	uintptr_t refused_key)
{
	struct fm_shim_entry *e, *found[FM_BOARD_SLOTS];
	size_t n = 0;

	fm_shim_lock();
	for (size_t i = 0; i < FM_MAP_SLOTS && n < FM_BOARD_SLOTS; i++) {
		e = entry_in(i);
		if (e && is(e, arg))
			found[n++] = take_out(e->key);
	}
	if (refused_key)
		fm_map_erase(&fm_shim_map, refused_key);
	fm_shim_unlock();
	for (size_t i = 0; i < n; i++)
		fm_shim_close_entry(found[i], false);
}

void fm_shim_each(bool (*look)(struct fm_shim_entry *e, void *arg), void *arg)
{
	bool goes_on = true;

	fm_shim_lock();
	for (size_t i = 0; goes_on && i < FM_MAP_SLOTS; i++) {
		struct fm_shim_entry *e = entry_in(i);

		goes_on = !e || look(e, arg);
	}
	fm_shim_unlock();
}

size_t fm_shim_keep(struct fm_xq **xq, bool (*is)(const struct fm_shim_entry *e, const void *arg),
	const void *arg)
{
	struct fm_shim_entry *e;
	size_t n = 0;

	if (!fm_shim_has_client())
		return 0;
	fm_shim_lock();
	for (size_t i = 0; i < FM_MAP_SLOTS && n < FM_BOARD_SLOTS; i++) {
		e = entry_in(i);
		if (!e || !is(e, arg))
			continue;
		fm_xq_keep(e->xq);
		xq[n++] = e->xq;
	}
	fm_shim_unlock();
	return n;
}

static bool any(const struct fm_shim_entry *e, const void *arg)
{
	return true;
}

/* It may call the driver. A queue that is closed meanwhile is left alone. */
void fm_shim_nudge(void)
{
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n = fm_shim_keep(xq, any, NULL);

	for (size_t i = 0; i < n; i++) {
		fm_xq_nudge(xq[i]);
		fm_xq_unref(xq[i]);
	}
}

void *fm_shim_made(const void *handle, void *with)
{
	void *was;

	if (with)
		fm_shim_hear_forks();
	pthread_mutex_lock(&made.lock);
	was = fm_handles_find(&made.with, (uintptr_t)handle);
	if (!with)
		fm_handles_erase(&made.with, (uintptr_t)handle, NULL);
	else if (!fm_handles_set(&made.with, (uintptr_t)handle, with))
		was = with;
	pthread_mutex_unlock(&made.lock);
	return was;
}

void *fm_shim_made_with(const void *handle)
{
	return fm_handles_find(&made.with, (uintptr_t)handle);
}

/* --- the first command --- */

static struct fm_shim_entry *make(struct fm_client *c, const struct fm_shim_place *at)
{
	char device[FM_DEVKEY_MAX];
	struct fm_shim_entry *e;
	struct fm_xq_config config = {.group = at->group, .device = device, .in_order = true};

	if (ops()->make)
		return ops()->make(c, at);
	e = calloc(1, ops()->size);
	if (!e)
		return NULL;
	e->key = at->key;
	e->thread = at->thread;
	config.hwq = e;
	if (ops()->init(e, at, &config, device) && !fm_xq_create(&e->xq, c, &config))
		return e;
	config.ops->release(config.hwq, false);
	return NULL;
}

static struct fm_shim_entry *first_of_thread(struct fm_client *c, const struct fm_shim_place *at)
{
	struct fm_shim_entry *e = NULL;

	if (thread_refused == at->of)
		return refused();
	if (fm_shim_thread_hear())
		e = make(c, at);
	if (!e) {
		thread_refused = at->of;
		return refused();
	}
	return fm_shim_enter(e, at->key);
}

static struct fm_shim_entry *first(uintptr_t handle)
{
	struct fm_shim_place at = {.handle = handle};
	struct fm_shim_entry *e;
	struct fm_client *c;

	if (!ops()->where(&at))
		return NULL;
	c = fm_shim_client();
	if (!c) {
		atomic_store(&gave_up, true);
		return NULL;
	}
	/* Default queues that threads share are nobody's own. */
	if (at.key == at.handle || at.thread)
		at.group = fm_shim_thread_group(c);
	if (at.thread)
		return first_of_thread(c, &at);
	e = make(c, &at);
	return fm_shim_enter(e ? e : refused(), at.key);
}

struct fm_shim_entry *fm_shim_first(
	uintptr_t handle, const void *found, bool not_now, const char *call)
{
	struct fm_shim_entry *e = NULL;

	if (atomic_load_explicit(&gave_up, memory_order_relaxed) && !fm_shim_has_client())
		return NULL;
	if (found != refused() && !not_now)
		e = first(handle);
	if (e && e != refused())
		return e;
	fm_shim_ungoverned(call);
	return NULL;
}

int fm_shim_reach(uintptr_t handle, uintptr_t *key)
{
	struct fm_shim_place at = {.handle = handle, .key = handle};
	struct fm_shim_entry *e;
	int rc = ops()->may_bind ? ops()->may_bind(handle) : 0;

	if (rc)
		return rc;
	if (ops()->where && !ops()->where(&at))
		return -EINVAL;
	*key = at.key;
	e = fm_shim_look_up(at.key);
	if (!e && !ops()->make && !ops()->init)
		return -EOPNOTSUPP;
	e = e ? e : first(handle);
	if (!e)
		return -ENODEV;
	return e == refused() ? -ENOSPC : 0;
}

void fm_shim_forget_queues(void)
{
	for (size_t i = 0; i < FM_MAP_SLOTS; i++)
		atomic_store(&fm_shim_map.slot[i].key, 0);
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&gave_up, false);
	thread_refused = NULL;
	made.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&made.with.table, NULL);
	made.with.live = 0;
	fm_shim_threads_fork_child();
	fm_shim_captures_fork_child();
}
