// SPDX-License-Identifier: Apache-2.0
/* XQueues for programs: submit, wait, suspend, resume. */
#include "base/cleanup.h"
#include "lib.h"
#include "xqueue/tune.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int usable(const fm_xqueue *q)
{
	if (FM_UNLIKELY(!q))
		return -EINVAL;
	return FM_LIKELY(fm_lib_alive(q->generation)) ? 0 : -EBADF;
}

static int check_options(const struct fm_xqueue_options *o)
{
	if (!o)
		return 0;
	if (o->size < sizeof(*o) || o->level > FM_LEVEL_RUNNING)
		return -EINVAL;
	return o->group && !fm_lib_alive(o->group->generation) ? -EBADF : 0;
}

static int make_xq(struct fm_xqueue *q, const struct fm_xqueue_options *o)
{
	struct fm_client *c = fm_lib_client();
	const struct fm_xq_config config = {
		.group = o && o->group ? o->group->index : 0,
		.device = q->hwq->device,
		.ops = q->hwq->ops,
		.hwq = q->hwq,
		.level_wish = o ? (enum fm_level)o->level : FM_LEVEL_NONE,
		.in_order = true,
	};

	return c ? fm_xq_create(&q->xq, c, &config) : 0;
}

int fm_xqueue_create(fm_xqueue **q, fm_hwqueue *hwq, const struct fm_xqueue_options *options)
{
	FM_CLEAN_FREE struct fm_xqueue *new = NULL;
	int rc;

	if (!q || !hwq)
		return -EINVAL;
	if (!fm_lib_alive(hwq->generation))
		return -EBADF;
	rc = check_options(options);
	if (rc)
		return rc;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	if (atomic_exchange(&hwq->taken, true))
		return -EBUSY;
	new->hwq = hwq;
	new->generation = fm_lib_generation();
	rc = fm_waiter_init(&new->waiter);
	if (!rc) {
		rc = make_xq(new, options);
		if (rc)
			fm_waiter_fini(&new->waiter);
	}
	if (rc) {
		atomic_store(&hwq->taken, false);
		return rc;
	}
	*q = fm_take_ptr(new);
	return 0;
}

uint64_t fm_xqueue_mark(struct fm_xqueue *q)
{
	return q->xq ? fm_xq_mark(q->xq) : atomic_load(&q->submitted);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	return x ? x : 1;
}

/* Commands with the same key count as alike in cost. By length there are four classes to each power
 * of two. */
static uint64_t key_of(const struct fm_command *c)
{
	unsigned log;

	if (c->kind)
		return c->kind;
	if (c->fn)
		return mix((uint64_t)(uintptr_t)c->fn);
	if (c->device_ns < 4)
		return mix(c->device_ns + 1);
	log = 63 - (unsigned)__builtin_clzll(c->device_ns);
	return mix(8 + 4 * log + (c->device_ns >> (log - 2) & 3));
}

int fm_xqueue_submit(fm_xqueue *q, const struct fm_command *command, uint64_t *seq)
{
	int rc = usable(q);

	if (FM_UNLIKELY(rc))
		return rc;
	/* A software queue takes commands without fn, all others need it. */
	if (FM_UNLIKELY(!command || !command->fn != !!q->hwq->sim))
		return -EINVAL;
	if (FM_LIKELY(q->xq != NULL)) {
		fm_xq_begin(q->xq, key_of(command), true);
		rc = q->hwq->ops->launch(q->hwq, command);
		fm_xq_end(q->xq);
	} else {
		rc = q->hwq->ops->launch(q->hwq, command);
		atomic_fetch_add(&q->submitted, 1);
	}
	/* Counted after the launch: a thread that sees this many finished has waited for this
	 * one. */
	if (seq)
		*seq = fm_xqueue_mark(q);
	return rc;
}

static uint64_t completed(struct fm_xqueue *q)
{
	return atomic_load(q->xq ? &q->xq->slot->done : &q->completed);
}

static int wait_for(struct fm_xqueue *q, uint64_t seq, uint64_t timeout_ns)
{
	if (seq > fm_xqueue_mark(q))
		return -EINVAL; /* no caller was ever given this number */
	if (completed(q) >= seq)
		return 0;
	return q->xq && q->hwq->ops->track ? fm_xq_wait(q->xq, seq, timeout_ns)
					   : fm_waiter_wait(q, seq, timeout_ns);
}

int fm_xqueue_wait(fm_xqueue *q, uint64_t seq, uint64_t timeout_ns)
{
	int rc = usable(q);

	return rc ? rc : wait_for(q, seq, timeout_ns);
}

int fm_xqueue_wait_all(fm_xqueue *q, uint64_t timeout_ns)
{
	int rc = usable(q);

	return rc ? rc : wait_for(q, fm_xqueue_mark(q), timeout_ns);
}

int fm_xqueue_destroy(fm_xqueue *q)
{
	struct fm_hwqueue *h;
	int rc;

	if (!q)
		return 0;
	rc = usable(q);
	if (rc)
		return rc;
	h = q->hwq;
	if (q->xq)
		fm_xq_resume(q->xq);
	rc = wait_for(q, fm_xqueue_mark(q), FM_FOREVER);
	fm_waiter_fini(&q->waiter);
	if (q->xq)
		fm_xq_close(q->xq);
	else
		h->ops->release(h, false);
	fm_hwqueue_leave(h);
	free(q);
	return rc;
}

/* How far the device still gets: to its first closed gate, or (level 1) to the end of what was
 * launched. */
static uint64_t rest_at(struct fm_xq *x)
{
	return FM_MIN(atomic_load(&x->slot->released), fm_xq_mark(x));
}

static int wait_rest(struct fm_xqueue *q, uint64_t timeout_ns)
{
	uint64_t deadline = fm_add_sat(fm_now(), timeout_ns), now, left;
	struct timespec pause = fm_timespec(FM_XQ_COMMAND_LOOK);
	int rc;

	while (!fm_xq_stalled(q->xq)) {
		if (q->xq->level >= FM_LEVEL_QUEUED && !q->hwq->ops->track)
			return -EOPNOTSUPP;
		now = fm_now();
		left = deadline == FM_NEVER ? FM_NEVER : fm_sub_sat(deadline, now);
		rc = wait_for(q, rest_at(q->xq), left);
		if (rc || fm_xq_stalled(q->xq))
			return rc;
		if (now >= deadline)
			return -ETIMEDOUT;
		/* A launch is under way in another thread, and counts when it has returned. */
		nanosleep(&pause, NULL);
	}
	return 0;
}

int fm_xqueue_suspend(fm_xqueue *q, bool wait, uint64_t timeout_ns)
{
	int rc = usable(q);

	if (rc)
		return rc;
	if (!q->xq)
		return -EOPNOTSUPP;
	rc = fm_xq_suspend(q->xq);
	return rc || !wait ? rc : wait_rest(q, timeout_ns);
}

int fm_xqueue_resume(fm_xqueue *q)
{
	int rc = usable(q);

	return rc || !q->xq ? rc : fm_xq_resume(q->xq);
}

int fm_xqueue_query(fm_xqueue *q, struct fm_xqueue_info *info)
{
	struct fm_xqueue_info i = {.stalled = true, .scheduled = true};
	int rc = usable(q);

	if (rc)
		return rc;
	if (!info || info->size < sizeof(i))
		return -EINVAL;
	i.size = info->size;
	i.levels = q->hwq->ops->levels(q->hwq);
	i.completed = completed(q);
	i.submitted = fm_xqueue_mark(q);
	i.stalled = i.completed >= i.submitted;
	if (q->xq) {
		struct fm_slot *s = q->xq->slot;

		i.level = fm_xq_level(q->xq);
		i.device_ns = atomic_load(&s->device_ns);
		i.gates = atomic_load(&s->gates);
		i.suspended = fm_xq_own_suspended(q->xq);
		i.stalled = fm_xq_stalled(q->xq);
		i.scheduled = atomic_load(atomic_load(&q->xq->gate)) == FM_GATE_OPEN;
	}
	memcpy(info, &i, sizeof(i));
	return 0;
}
