/* SPDX-License-Identifier: Apache-2.0 */
/* Touches streams from threads that are not theirs, while no capture begins. */
#include "base/lockorder.h"
#include "internal.h"
#include <errno.h>

_Atomic unsigned fm_cu_captures;
_Atomic uint64_t fm_cu_capture_no;

/* Held while the agent touches a stream, and to announce a capture, so that no capture begins
 * meanwhile. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(capture_lock, CU_CAPTURE);

void fm_cu_capture_begin(void)
{
	pthread_mutex_lock(&capture_lock);
	atomic_fetch_add(&fm_cu_captures, 1);
	atomic_fetch_add(&fm_cu_capture_no, 1);
	pthread_mutex_unlock(&capture_lock);
}

void fm_cu_capture_end(void)
{
	atomic_fetch_sub(&fm_cu_captures, 1);
}

bool fm_cu_bound(const struct fm_cu_queue *q)
{
	return q->stream == FM_CU_STREAM_PER_THREAD ||
	       (q->stream == FM_CU_STREAM_LEGACY && q->base != q->ctx);
}

int fm_cu_visit(struct fm_cu_queue *q)
{
	struct fm_cu_turnstile *t = fm_cu_queue_turnstile(q);
	int rc = 0;

	if (!fm_cu_visit_begin(t))
		return -EAGAIN;
	pthread_mutex_lock(&capture_lock);
	q->visited = t;
	fm_cu_inside++;
	if (atomic_load(&fm_cu_captures))
		rc = -EBUSY;
	else if (q->cu->ctx_push(q->base))
		rc = -EIO;
	if (!rc)
		return 0;
	fm_cu_inside--;
	pthread_mutex_unlock(&capture_lock);
	fm_cu_visit_end(t);
	return rc;
}

int fm_cu_touch(struct fm_cu_queue *q)
{
	return fm_cu_bound(q) ? -EBUSY : fm_cu_visit(q);
}

void fm_cu_untouch(struct fm_cu_queue *q)
{
	struct fm_cu_turnstile *t = q->visited;
	CUcontext old;

	q->cu->ctx_pop(&old);
	fm_cu_inside--;
	pthread_mutex_unlock(&capture_lock);
	fm_cu_visit_end(t);
}

int fm_cu_visit_own(struct fm_cu_queue *q)
{
	unsigned long long id = 0;
	CUcontext old;
	int rc = 0;

	if (!q->id || atomic_load(&fm_cu_captures))
		return -EBUSY;
	fm_cu_inside++;
	if (q->cu->ctx_push(q->base)) {
		rc = -EIO;
	} else if (q->cu->stream_id(q->stream, &id) || id != q->id) {
		q->cu->ctx_pop(&old);
		rc = -EBUSY;
	}
	fm_cu_inside -= rc != 0;
	return rc;
}

void fm_cu_leave_own(struct fm_cu_queue *q)
{
	CUcontext old;

	q->cu->ctx_pop(&old);
	fm_cu_inside--;
}

void fm_cu_visit_fork_child(void)
{
	capture_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
