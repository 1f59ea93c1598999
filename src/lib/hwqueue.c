// SPDX-License-Identifier: Apache-2.0
/* Hwqueues from a program's callbacks. */
#include "base/cleanup.h"
#include "lib.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_lib_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int rc;

	if (pthread_condattr_init(&attr))
		return -ENOMEM;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return rc ? -ENOMEM : 0;
}

bool fm_lib_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline)
{
	struct timespec ts = fm_timespec(deadline);

	if (deadline == FM_NEVER)
		return !pthread_cond_wait(cond, lock);
	return pthread_cond_timedwait(cond, lock, &ts) != ETIMEDOUT;
}

static bool device_ok(const char *name)
{
	size_t n = name ? strnlen(name, FM_DEVKEY_MAX) : 0;

	if (n == 0 || n == FM_DEVKEY_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] < ' ' || name[i] > '~')
			return false;
	return true;
}

int fm_hwqueue_new(struct fm_hwqueue **out, const char *device)
{
	FM_CLEAN_FREE struct fm_hwqueue *h = NULL;

	if (!device_ok(device))
		return -EINVAL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	strcpy(h->device, device);
	h->generation = fm_lib_born();
	h->refs = 2;
	if (fm_lib_cond_init(&h->cond))
		return -ENOMEM;
	pthread_mutex_init(&h->lock, NULL);
	fm_lock_rank(&h->lock, LIB_HWQUEUE);
	*out = fm_take_ptr(h);
	return 0;
}

static void put_unlock(struct fm_hwqueue *h)
{
	bool last = --h->refs == 0;

	pthread_mutex_unlock(&h->lock);
	if (!last)
		return;
	pthread_cond_destroy(&h->cond);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void fm_hwqueue_released(struct fm_hwqueue *h)
{
	pthread_mutex_lock(&h->lock);
	h->released = true;
	pthread_cond_broadcast(&h->cond);
	put_unlock(h);
}

void fm_hwqueue_leave(struct fm_hwqueue *h)
{
	uint64_t deadline = fm_now() + FM_S;

	pthread_mutex_lock(&h->lock);
	while (!h->released && fm_lib_cond_wait(&h->cond, &h->lock, deadline))
		;
	put_unlock(h);
}

int fm_hwqueue_destroy(fm_hwqueue *hwq)
{
	if (!hwq)
		return 0;
	if (!fm_lib_alive(hwq->generation))
		return -EBADF;
	if (atomic_exchange(&hwq->taken, true))
		return -EBUSY;
	hwq->ops->release(hwq, false);
	fm_hwqueue_leave(hwq);
	return 0;
}

/* The result of a program's callback: only 0 is success. */
static int verdict(int rc)
{
	return rc > 0 ? -EIO : rc;
}

static unsigned user_levels(void *hwq)
{
	struct fm_hwqueue *h = hwq;

	return 1u << FM_LEVEL_PENDING | (h->user.deactivate ? 1u << FM_LEVEL_QUEUED : 0) |
	       (h->user.interrupt ? 1u << FM_LEVEL_RUNNING : 0);
}

static int user_launch(void *hwq, const void *command)
{
	const struct fm_command *c = command;
	struct fm_hwqueue *h = hwq;

	return verdict(c->fn(h->ctx, c->arg));
}

static int user_sync(void *hwq)
{
	struct fm_hwqueue *h = hwq;

	return verdict(h->user.sync(h->ctx));
}

/* The public callback has no time argument: time is read when it comes. */
struct tracker {
	fm_reached_fn *reached;
	void *cookie;
};

static void user_reached(void *cookie)
{
	struct tracker t = *(struct tracker *)cookie;

	free(cookie);
	t.reached(t.cookie, fm_now());
}

static int user_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct tracker *t = malloc(sizeof(*t));
	struct fm_hwqueue *h = hwq;
	int rc;

	if (!t)
		return -ENOMEM;
	*t = (struct tracker){reached, cookie};
	rc = verdict(h->user.track(h->ctx, user_reached, t));
	if (rc)
		free(t);
	return rc == -EBUSY ? -EIO : rc; /* every error is final here */
}

static int user_deactivate(void *hwq, void **gate)
{
	struct fm_hwqueue *h = hwq;

	return verdict(h->user.deactivate(h->ctx, gate));
}

static void user_reactivate(void *hwq, void *gate)
{
	struct fm_hwqueue *h = hwq;

	h->user.reactivate(h->ctx, gate);
}

static int user_interrupt(void *hwq)
{
	struct fm_hwqueue *h = hwq;

	return verdict(h->user.interrupt(h->ctx));
}

static int user_restore(void *hwq)
{
	struct fm_hwqueue *h = hwq;

	return verdict(h->user.restore(h->ctx));
}

static void user_release(void *hwq, bool orphaned)
{
	struct fm_hwqueue *h = hwq;

	if (h->user.release)
		h->user.release(h->ctx);
	fm_hwqueue_released(h);
}

/* One table for each set of callbacks that a program can bring: an absent op is NULL. */
#define HAS_TRACK   1u
#define HAS_QUEUED  2u
#define HAS_RUNNING 4u
#define OPS(has)                                                                   \
	[has] = {                                                                  \
		.name = "callbacks",                                               \
		.levels = user_levels,                                             \
		.launch = user_launch,                                             \
		.sync = user_sync,                                                 \
		.track = (has)&HAS_TRACK ? user_track : NULL,                      \
		.release = user_release,                                           \
		.host_gate.deactivate = (has)&HAS_QUEUED ? user_deactivate : NULL, \
		.host_gate.reactivate = (has)&HAS_QUEUED ? user_reactivate : NULL, \
		.stop.interrupt = (has)&HAS_RUNNING ? user_interrupt : NULL,       \
		.stop.restore = (has)&HAS_RUNNING ? user_restore : NULL,           \
	}

static const struct fm_hw_ops user_ops[] = {
	OPS(0), OPS(1), OPS(2), OPS(3), OPS(4), OPS(5), OPS(6), OPS(7)};

static unsigned has(const struct fm_hwqueue_ops *u)
{
	return (u->track ? HAS_TRACK : 0) | (u->deactivate ? HAS_QUEUED : 0) |
	       (u->interrupt ? HAS_RUNNING : 0);
}

int fm_hwqueue_create(
	fm_hwqueue **hwq, const char *device, const struct fm_hwqueue_ops *ops, void *ctx)
{
	struct fm_hwqueue_ops user = {0};
	struct fm_hwqueue *h;
	int rc;

	if (!hwq || !ops || ops->size < sizeof(user))
		return -EINVAL;
	memcpy(&user, ops, sizeof(user));
	if (!user.sync || !user.deactivate != !user.reactivate || !user.interrupt != !user.restore)
		return -EINVAL;
	rc = fm_hwqueue_new(&h, device);
	if (rc)
		return rc;
	h->user = user;
	h->ctx = ctx;
	h->ops = &user_ops[has(&user)];
	*hwq = h;
	return 0;
}
