/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 1: where the driver has no memory operations, or by wish. A callback of the driver's would
 * hold up the stream for tens of microseconds; an event is asked for instead, by who waits for it.
 */
#include "base/clock.h"
#include "base/util.h"
#include "internal.h"
#include <errno.h>

static struct fm_cu_tracker *nth(struct fm_cu_queue *q, unsigned i)
{
	return &q->track[(q->track_head + i) % FM_CU_TRACKS];
}

static bool has_come(struct fm_cu_queue *q, unsigned i)
{
	return q->cu->event_query(nth(q, i)->event) != FM_CU_ERROR_NOT_READY;
}

/* How many of them have come, for which few are asked: where one has, those in front of it have,
 * too. One that cannot be asked for is taken to have. */
static unsigned come(struct fm_cu_queue *q)
{
	unsigned n = q->track_n;

	if (!n || !has_come(q, 0))
		return 0;
	while (n > 1 && !has_come(q, n - 1))
		n--;
	return n;
}

/* When the first n came: the last just now, those before it so much earlier as the device's clock
 * says. */
static void times(struct fm_cu_queue *q, unsigned n, uint64_t now, uint64_t *at)
{
	for (unsigned i = n; i-- > 0;) {
		float ms = 0;

		at[i] = now;
		if (i && !q->cu->event_elapsed(&ms, nth(q, i - 1)->event, nth(q, i)->event) &&
			ms > 0)
			now = fm_sub_sat(now, (uint64_t)(ms * 1e6f));
	}
}

static void tell(struct fm_cu_queue *q, unsigned n, const uint64_t *at)
{
	for (unsigned i = 0; i < n; i++) {
		struct fm_cu_tracker *t = nth(q, 0);

		q->track_head = (q->track_head + 1) % FM_CU_TRACKS;
		q->track_n--;
		t->reached(t->cookie, at[i]);
	}
}

void fm_cu_reap(void *hwq)
{
	uint64_t at[FM_CU_TRACKS];
	struct fm_cu_queue *q = hwq;
	unsigned n;
	int mode;

	if (!q->track_n)
		return;
	mode = fm_cu_enter(q->cu);
	n = come(q);
	times(q, n, fm_now(), at);
	fm_cu_leave(q->cu, mode);
	tell(q, n, at);
}

/* In the program's thread as it is; in another with the stream's context. */
static int record(struct fm_cu_queue *q, struct fm_cu_tracker *t)
{
	fm_cu_result rc;

	if (!t->event && q->cu->event_create(&t->event, FM_CU_EVENT_DEFAULT))
		return -EIO;
	atomic_fetch_add(&q->ours, 1);
	rc = q->cu->event_record(t->event, q->stream);
	atomic_fetch_add(&q->ours_put, 1);
	return rc ? -EIO : 0;
}

int fm_cu_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_tracker *t = nth(q, q->track_n);
	CUcontext current = NULL;
	int mode, rc;

	if (q->track_n == FM_CU_TRACKS || !q->cu->event_elapsed)
		return -EBUSY;
	if (!q->cu->ctx_get_current(&current) && current == q->ctx) {
		mode = fm_cu_enter(q->cu);
		rc = record(q, t);
		fm_cu_leave(q->cu, mode);
	} else {
		rc = fm_cu_touch(q);
		if (rc)
			return rc;
		rc = record(q, t);
		fm_cu_untouch(q);
	}
	if (rc)
		return rc;
	t->reached = reached;
	t->cookie = cookie;
	q->track_n++;
	return 0;
}

void fm_cu_track_close(struct fm_cu_queue *q)
{
	unsigned n = q->track_n;
	uint64_t at[FM_CU_TRACKS];
	int mode = fm_cu_enter(q->cu);

	times(q, n, fm_now(), at);
	for (unsigned i = 0; i < FM_CU_TRACKS; i++)
		if (q->track[i].event)
			q->cu->event_destroy(q->track[i].event);
	fm_cu_leave(q->cu, mode);
	tell(q, n, at);
	for (unsigned i = 0; i < FM_CU_TRACKS; i++)
		q->track[i] = (struct fm_cu_tracker){.event = NULL};
}
