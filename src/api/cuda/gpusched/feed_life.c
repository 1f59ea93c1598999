// SPDX-License-Identifier: Apache-2.0
/* A feed from its making to its end. */
#include "base/lockorder.h"
#include "base/util.h"
#include "feed_internal.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

static int init(struct fm_cu_feed *f)
{
	pthread_condattr_t attr;
	int rc = -pthread_condattr_init(&attr);

	if (rc)
		return rc;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = -pthread_cond_init(&f->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (rc)
		return rc;
	pthread_mutex_init(&f->park, NULL);
	fm_lock_rank(&f->park, GPU_PARK);
	pthread_mutex_init(&f->reading, NULL);
	fm_lock_rank(&f->reading, GPU_READ);
	pthread_mutex_init(&f->lock, NULL);
	fm_lock_rank(&f->lock, GPU_FEED);
	return 0;
}

static int keep(struct fm_cu_feed *f, const struct fm_cu_feed_task *task)
{
	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t *after = calloc(task[i].n_after + 1, sizeof(*after));

		if (!after)
			return -ENOMEM;
		for (uint32_t k = 0; k < task[i].n_after; k++)
			after[k] = task[i].after[k];
		f->work[i].task = task[i];
		f->work[i].task.after = after;
		f->work[i].ahead = task[i].period && fm_cu_gates_is_resident(f->gates);
	}
	fm_cu_feed_find_early(f);
	return 0;
}

static void free_all(struct fm_cu_feed *f)
{
	for (uint32_t i = 0; i < f->n; i++)
		free((void *)(uintptr_t)f->work[i].task.after);
	free(f);
}

static void destroy_locks(struct fm_cu_feed *f)
{
	pthread_cond_destroy(&f->cond);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->reading);
	pthread_mutex_destroy(&f->park);
}

/* All signals are blocked in the thread: the program's handlers run in the program's. */
static int begin(struct fm_cu_feed *f)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&f->thread, NULL, fm_cu_feed_look, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? -EAGAIN : 0;
}

int fm_cu_feed_create(const struct fm_cu_driver *cu, CUcontext ctx, struct fm_cu_gates *gates,
	const struct fm_cu_feed_task *task, uint32_t n, unsigned depth, CUdeviceptr words,
	const struct fm_cu_feed_hooks *hooks, struct fm_cu_feed **out)
{
	struct fm_cu_feed *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	f->cu = cu;
	f->ctx = ctx;
	f->gates = gates;
	if (hooks)
		f->hooks = *hooks;
	f->n = n;
	f->words = words;
	f->depth = FM_MIN(depth, (unsigned)FM_GS_BACKLOG);
	rc = keep(f, task);
	if (!rc)
		rc = init(f);
	if (!rc) {
		rc = begin(f);
		if (rc)
			destroy_locks(f);
	}
	if (rc)
		free_all(f);
	else
		*out = f;
	return rc;
}

void fm_cu_feed_end(struct fm_cu_feed *f)
{
	fm_cu_gates_lend(f->gates, 0);
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

void fm_cu_feed_destroy(struct fm_cu_feed *f)
{
	if (!f)
		return;
	fm_cu_feed_end(f);
	pthread_mutex_lock(&f->lock);
	while (f->inside)
		pthread_cond_wait(&f->cond, &f->lock);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	destroy_locks(f);
	free_all(f);
}
