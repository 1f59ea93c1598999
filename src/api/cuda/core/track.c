/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 1: used where the driver has no memory operations, or by wish. A callback of the driver's
 * would hold up the stream for tens of microseconds. Instead a thread that waits for an event
 * queries it.
 */
#include "base/clock.h"
#include "base/util.h"
#include "internal.h"
#include <errno.h>

#define LAST FM_CU_TRACKS /* was reached, and reported */

static struct fm_cu_tracker *nth(struct fm_cu_queue *q, unsigned i)
{
	return &q->track[(q->track_head + i) % (FM_CU_TRACKS + 1)];
}

static bool has_come(struct fm_cu_queue *q, unsigned i)
{
	return q->cu->event_query(nth(q, i)->event) != FM_CU_ERROR_NOT_READY;
}

/* How many events were reached. Few of them are queried: if one was reached, those in front of it
 * were, too. An event that cannot be queried counts as reached. */
static unsigned come(struct fm_cu_queue *q)
{
	unsigned n = q->track_n;

	if (!n || !has_come(q, 0))
		return 0;
	while (n > 1 && !has_come(q, n - 1))
		n--;
	return n;
}

/* The time between two reached events, ns; 0: not known. */
static uint64_t between(struct fm_cu_queue *q, unsigned from, unsigned to)
{
	float ms = 0;

	if (q->cu->event_elapsed(&ms, nth(q, from)->event, nth(q, to)->event) || !(ms > 0))
		return 0;
	return (uint64_t)(ms * 1e6f);
}

/* When the first n were reached. The last was reached just now, at the latest, and those before it
 * earlier by the device's clock. All are moved back if the device's clock says so relative to the
 * event that was reported last. So the time between two events is what the device took, however
 * late they are queried. */
static void times(struct fm_cu_queue *q, unsigned n, uint64_t now, uint64_t *at)
{
	uint64_t late = 0, apart;

	if (!n)
		return;
	at[n - 1] = now;
	for (unsigned i = n - 1; i > 0; i--)
		at[i - 1] = fm_sub_sat(at[i], between(q, i - 1, i));
	apart = q->track_at && fm_sub_sat(at[0], q->track_at) < FM_CU_CLOCKS_TOGETHER
			? between(q, LAST, 0)
			: 0;
	if (apart)
		late = fm_sub_sat(at[0], FM_MAX(q->track_at + apart, nth(q, 0)->put_at));
	for (unsigned i = 0; i < n; i++)
		at[i] -= late;
	q->track_at = at[n - 1];
}

static void tell(struct fm_cu_queue *q, unsigned n, const uint64_t *at)
{
	for (unsigned i = 0; i < n; i++) {
		struct fm_cu_tracker *t = nth(q, 0);

		q->track_head = (q->track_head + 1) % (FM_CU_TRACKS + 1);
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

/* The program's thread records as it is; another thread records with the stream's context. */
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
		return -ENOBUFS;
	if (!q->cu->ctx_get_current(&current) && current == q->ctx) {
		mode = fm_cu_enter(q->cu);
		rc = record(q, t);
		fm_cu_leave(q->cu, mode);
	} else {
		rc = fm_cu_touch(q);
		if (rc)
			return -EPERM; /* that may last: its end counts as reached in time */
		rc = record(q, t);
		fm_cu_untouch(q);
	}
	if (rc)
		return rc;
	t->reached = reached;
	t->cookie = cookie;
	t->put_at = fm_now();
	q->track_n++;
	return 0;
}

void fm_cu_track_close(struct fm_cu_queue *q)
{
	unsigned n = q->track_n;
	uint64_t at[FM_CU_TRACKS];
	int mode = fm_cu_enter(q->cu);

	times(q, n, fm_now(), at);
	for (unsigned i = 0; i <= FM_CU_TRACKS; i++)
		if (q->track[i].event)
			q->cu->event_destroy(q->track[i].event);
	fm_cu_leave(q->cu, mode);
	tell(q, n, at);
	for (unsigned i = 0; i <= FM_CU_TRACKS; i++)
		q->track[i] = (struct fm_cu_tracker){.event = NULL};
	q->track_at = 0;
}
