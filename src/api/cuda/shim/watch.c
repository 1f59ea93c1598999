/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"
#include "base/list.h"
#include "base/lockorder.h"
#include "shim.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define STACK (256 * 1024)

/* The program is told of a stream's stops and of their ends in turn. Turns that come while the
 * program is inside one of its functions wait. If there are more than two, the older two cancel
 * each other. */
struct fm_cuda_watch {
	struct fm_list link; /* in the list: something is to be told */
	unsigned refs;
	CUstream stream;
	fm_cuda_callback *preempted, *resumed;
	void *ctx;
	bool told, dead; /* told: the program was told that it is stopped */
	unsigned turns;  /* not told yet */
	uint64_t at[2];  /* of the last two */
	_Atomic uint64_t stops;
};

static struct {
	pthread_mutex_t lock; /* never held while the program is called */
	pthread_cond_t work, over;
	struct fm_list list;
	struct fm_cuda_watch *now; /* the watch whose function runs, */
	pthread_t thread;          /* called by this thread */
	bool started;
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.over = PTHREAD_COND_INITIALIZER};
FM_LOCK_RANK(watches.lock, CUDA_TELLER);

/* Lock held. */
static void put(struct fm_cuda_watch *w)
{
	if (--w->refs)
		return;
	fm_list_del(&w->link);
	free(w);
}

/* Lock held; it is released during the call. */
static void tell(struct fm_cuda_watch *w)
{
	bool stopped = !w->told;
	fm_cuda_callback *fn = stopped ? w->preempted : w->resumed;
	uint64_t at = w->at[w->turns == 2 ? 0 : 1];

	w->told = stopped;
	w->turns--;
	if (!fn)
		return;
	watches.now = w;
	pthread_mutex_unlock(&watches.lock);
	fn(w->stream, at, w->ctx);
	pthread_mutex_lock(&watches.lock);
	watches.now = NULL;
	pthread_cond_broadcast(&watches.over);
}

static void *teller(void *unused)
{
	pthread_mutex_lock(&watches.lock);
	for (;;) {
		struct fm_cuda_watch *w;

		while (fm_list_empty(&watches.list))
			pthread_cond_wait(&watches.work, &watches.lock);
		w = fm_list_first(&watches.list, struct fm_cuda_watch, link);
		fm_list_del(&w->link);
		w->refs++;
		if (w->turns && !w->dead)
			tell(w);
		/* Another turn may have put it back during the call. */
		if (w->turns && !w->dead && fm_list_empty(&w->link))
			fm_list_add_tail(&watches.list, &w->link);
		put(w);
	}
	return unused;
}

/* Lock held. The program's signals are blocked in this thread. */
static bool start(void)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (watches.started)
		return true;
	if (pthread_attr_init(&attr))
		return false;
	fm_list_init(&watches.list);
	sigfillset(&all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	watches.started = !pthread_create(&watches.thread, &attr, teller, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return watches.started;
}

struct fm_cuda_watch *fm_cuda_watch_new(CUstream stream, const struct fm_cuda_binding *b)
{
	struct fm_cuda_watch *w = calloc(1, sizeof(*w));
	bool ok;

	if (!w)
		return NULL;
	w->refs = 1;
	w->stream = stream;
	w->preempted = b->preempted;
	w->resumed = b->resumed;
	w->ctx = b->ctx;
	fm_list_init(&w->link);
	pthread_mutex_lock(&watches.lock);
	ok = start();
	pthread_mutex_unlock(&watches.lock);
	if (ok)
		return w;
	free(w);
	return NULL;
}

void fm_cuda_watch_put(struct fm_cuda_watch *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&watches.lock);
	put(w);
	pthread_mutex_unlock(&watches.lock);
}

void fm_cuda_watch_turned(struct fm_cuda_watch *w, bool stopped, uint64_t at)
{
	pthread_mutex_lock(&watches.lock);
	if (stopped)
		atomic_fetch_add_explicit(&w->stops, 1, memory_order_relaxed);
	w->at[0] = w->at[1];
	w->at[1] = at;
	w->turns = w->turns == 2 ? 1 : w->turns + 1;
	if (!w->dead && fm_list_empty(&w->link)) {
		fm_list_add_tail(&watches.list, &w->link);
		pthread_cond_signal(&watches.work);
	}
	pthread_mutex_unlock(&watches.lock);
}

void fm_cuda_watch_end(struct fm_cuda_watch *w, bool wait)
{
	FM_NO_CANCEL;

	if (!w)
		return;
	pthread_mutex_lock(&watches.lock);
	w->dead = true;
	w->refs++;
	fm_list_del(&w->link);
	while (wait && watches.now == w && !pthread_equal(watches.thread, pthread_self()))
		pthread_cond_wait(&watches.over, &watches.lock);
	put(w);
	pthread_mutex_unlock(&watches.lock);
}

uint64_t fm_cuda_watch_stops(const struct fm_cuda_watch *w)
{
	return w ? atomic_load_explicit(&w->stops, memory_order_relaxed) : 0;
}

/* The thread does not exist in the child. */
void fm_cuda_watch_fork_child(void)
{
	watches.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	watches.work = watches.over = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	watches.started = false;
	watches.now = NULL;
}
