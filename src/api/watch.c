/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"
#include "base/list.h"
#include "base/lockorder.h"
#include "tune.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

struct tracker {
	struct fm_list link;
	struct fm_watched *q;
	void *event;
	fm_reached_fn *reached;
	void *cookie;
};

/* The thread is started at first use, and once more in a forked child that uses it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fm_list queues; /* that have trackers under way */
	uint64_t next;         /* when the thread will look again */
	pid_t pid;
	bool stop, telling;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(watch.lock, WATCH);

static uint64_t look_at(const struct fm_watched *q, uint64_t now)
{
	uint64_t wait = fm_sub_sat(now, q->since) / 4;

	return now + FM_MIN(FM_MAX(wait, FM_WATCHED_LOOK_MIN), FM_WATCHED_LOOK_MAX);
}

/* Move what has finished to `done`; returns when to look again. A queue's trackers finish in order:
 * only the first is asked about. Lock held. */
static uint64_t look(struct fm_list *done)
{
	uint64_t now = fm_now(), next = FM_NEVER;
	struct fm_watched *q, *tmp;

	fm_list_each_safe (q, tmp, &watch.queues, in_watch) {
		while (!fm_list_empty(&q->trackers)) {
			struct tracker *t = fm_list_first(&q->trackers, struct tracker, link);

			if (!q->ops->finished(q, t->event)) {
				next = FM_MIN(next, look_at(q, now));
				break;
			}
			fm_list_del(&t->link);
			fm_list_add_tail(done, &t->link);
			q->since = now;
		}
		if (fm_list_empty(&q->trackers))
			fm_list_del(&q->in_watch);
	}
	return next;
}

static void tell(struct fm_list *done)
{
	struct tracker *t, *tmp;

	fm_list_each_safe (t, tmp, done, link) {
		t->q->ops->drop(t->q, t->event);
		t->reached(t->cookie, fm_now());
		free(t);
	}
}

static void *watcher(void *arg)
{
	/* The kernel's usual slack of 50 us is a long time here. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	pthread_mutex_lock(&watch.lock);
	while (!watch.stop) {
		struct timespec ts;
		struct fm_list done;

		fm_list_init(&done);
		watch.next = look(&done);
		if (!fm_list_empty(&done)) {
			watch.telling = true;
			pthread_mutex_unlock(&watch.lock);
			tell(&done);
			pthread_mutex_lock(&watch.lock);
			watch.telling = false;
			continue;
		}
		ts = fm_timespec(watch.next);
		if (watch.next == FM_NEVER)
			pthread_cond_wait(&watch.cond, &watch.lock);
		else
			pthread_cond_timedwait(&watch.cond, &watch.lock, &ts);
	}
	pthread_mutex_unlock(&watch.lock);
	return NULL;
}

/* The parent's watcher may have had the lock, and what it watched is the parent's. */
static void fork_child(void)
{
	watch.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fm_list_init(&watch.queues);
	watch.telling = false;
}

static void hear_forks(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static int start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_condattr_t clock;
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int rc;

	pthread_once(&once, hear_forks);
	fm_list_init(&watch.queues);
	watch.next = 0;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&watch.cond, &clock);
	pthread_condattr_destroy(&clock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, watcher, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!rc)
		watch.pid = getpid();
	return -rc;
}

static void look_by(uint64_t at)
{
	if (at < watch.next) {
		watch.next = at;
		pthread_cond_signal(&watch.cond);
	}
}

void fm_watch_init(struct fm_watched *q, const struct fm_watch_ops *ops)
{
	q->ops = ops;
	q->since = 0;
	fm_list_init(&q->trackers);
	fm_list_init(&q->in_watch);
}

int fm_watch_event(struct fm_watched *q, void *event, fm_reached_fn *reached, void *cookie)
{
	struct tracker *t = malloc(sizeof(*t));
	int rc = 0;

	if (!t)
		return -ENOMEM;
	*t = (struct tracker){.q = q, .event = event, .reached = reached, .cookie = cookie};
	pthread_mutex_lock(&watch.lock);
	if (watch.stop)
		rc = -ESHUTDOWN;
	else if (watch.pid != getpid())
		rc = start();
	if (!rc) {
		if (fm_list_empty(&q->trackers)) {
			q->since = fm_now();
			fm_list_add_tail(&watch.queues, &q->in_watch);
			look_by(look_at(q, q->since));
		}
		fm_list_add_tail(&q->trackers, &t->link);
	}
	pthread_mutex_unlock(&watch.lock);
	if (rc)
		free(t);
	return rc;
}

void fm_watch_stir(struct fm_watched *q)
{
	pthread_mutex_lock(&watch.lock);
	if (!fm_list_empty(&q->trackers)) {
		q->since = fm_now();
		look_by(look_at(q, q->since));
	}
	pthread_mutex_unlock(&watch.lock);
}

void fm_watch_stop(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	bool mine, first;

	pthread_mutex_lock(&watch.lock);
	mine = watch.pid == getpid();
	first = !watch.stop;
	watch.stop = true;
	if (mine)
		pthread_cond_signal(&watch.cond);
	/* Who is told by the thread calls the driver. */
	for (int i = 0; mine && first && watch.telling && i < FM_WATCHED_STOP_MS; i++) {
		pthread_mutex_unlock(&watch.lock);
		nanosleep(&ms, NULL);
		pthread_mutex_lock(&watch.lock);
	}
	pthread_mutex_unlock(&watch.lock);
}
