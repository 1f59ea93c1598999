// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting for a device that cannot tell when it is done (no track), or without a client because
 * Fermata is switched off. A wait without a limit calls sync itself. A wait with a limit asks a
 * thread, made when first needed, to call sync, and leaves it there when the time is over.
 */
#include "lib.h"
#include <errno.h>
#include <signal.h>

int fm_waiter_init(struct fm_waiter *w)
{
	if (fm_lib_cond_init(&w->cond))
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	fm_lock_rank(&w->lock, LIB_WAITER);
	return 0;
}

static int sync_now(struct fm_xqueue *q, uint64_t *mark)
{
	int rc;

	*mark = fm_xqueue_mark(q);
	rc = q->hwq->ops->sync(q->hwq);
	if (rc)
		return rc;
	if (q->xq) {
		fm_xq_synced(q->xq, *mark);
	} else {
		uint64_t seen = atomic_load(&q->completed);

		while (seen < *mark && !atomic_compare_exchange_weak(&q->completed, &seen, *mark))
			;
	}
	return 0;
}

static void *waiter(void *arg)
{
	struct fm_xqueue *q = arg;
	struct fm_waiter *w = &q->waiter;
	uint64_t mark;
	int rc;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (w->wanted <= w->synced && !w->stop)
			pthread_cond_wait(&w->cond, &w->lock);
		if (w->stop)
			break;
		pthread_mutex_unlock(&w->lock);
		rc = sync_now(q, &mark);
		pthread_mutex_lock(&w->lock);
		if (rc) {
			w->error = rc;
			w->failures++;
			w->wanted = w->synced; /* threads that still want it ask again */
		} else {
			w->synced = FM_MAX(w->synced, mark);
		}
		pthread_cond_broadcast(&w->cond);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* All signals are blocked in this thread: the program's handlers run in the program's threads. */
static int start(struct fm_xqueue *q)
{
	struct fm_waiter *w = &q->waiter;
	sigset_t all, old;
	int rc;

	if (w->started)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, waiter, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->started = !rc;
	return -rc;
}

static int wait_limited(struct fm_xqueue *q, uint64_t seq, uint64_t deadline)
{
	struct fm_waiter *w = &q->waiter;
	unsigned failures;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	failures = w->failures;
	while (!rc && w->synced < seq) {
		if (w->failures != failures) {
			rc = w->error;
			break;
		}
		rc = start(q);
		if (rc)
			break;
		w->wanted = FM_MAX(w->wanted, seq);
		pthread_cond_broadcast(&w->cond);
		if (!fm_lib_cond_wait(&w->cond, &w->lock, deadline) && w->synced < seq)
			rc = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int fm_waiter_wait(struct fm_xqueue *q, uint64_t seq, uint64_t timeout_ns)
{
	uint64_t mark;

	if (timeout_ns == FM_FOREVER)
		return sync_now(q, &mark);
	return wait_limited(q, seq, fm_add_sat(fm_now(), timeout_ns));
}

void fm_waiter_fini(struct fm_waiter *w)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
}
