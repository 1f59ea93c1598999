// SPDX-License-Identifier: Apache-2.0
/*
 * A program with its own device API put under Fermata. The "device" runs one command at a time;
 * each of its queues is a thread that takes commands in order. Twelve lines of callbacks make the
 * queues preemptible: a background group fills the device, an urgent one overtakes it.
 *
 *   cc own_device.c -o own_device $(pkg-config --cflags --libs fermata) -lpthread
 *   ./own_device                              scheduled in this process
 *   fermata run -- ./own_device --daemon     scheduled by fermatad
 */
#include <errno.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The device API, as a vendor might offer it: launch, event, wait. */

static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER; /* one command at a time */

struct entry {
	struct entry *next;
	long run_us;                   /* a command, or */
	void (*reached)(void *cookie); /* an event, or */
	void *cookie;
	atomic_int *gate; /* a wait until the value is not 0 */
};

struct queue {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct entry *first, **last;
	unsigned long pushed, finished;
	int stop;
};

static void execute(struct queue *q, struct entry *e)
{
	struct timespec t = {.tv_nsec = e->run_us * 1000};

	if (e->run_us) {
		pthread_mutex_lock(&device);
		nanosleep(&t, NULL);
		pthread_mutex_unlock(&device);
	}
	if (e->gate) {
		pthread_mutex_lock(&q->lock);
		while (!*e->gate)
			pthread_cond_wait(&q->changed, &q->lock);
		pthread_mutex_unlock(&q->lock);
		free(e->gate);
	}
	if (e->reached)
		e->reached(e->cookie);
}

static void *queue_thread(void *arg)
{
	struct queue *q = arg;
	struct entry *e;

	pthread_mutex_lock(&q->lock);
	while (q->first || !q->stop) {
		e = q->first;
		if (!e) {
			pthread_cond_wait(&q->changed, &q->lock);
			continue;
		}
		pthread_mutex_unlock(&q->lock);
		execute(q, e); /* stays in the list until it has finished */
		pthread_mutex_lock(&q->lock);
		q->first = e->next;
		if (!q->first)
			q->last = &q->first;
		free(e);
		q->finished++;
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static int push(struct queue *q, struct entry what)
{
	struct entry *e = malloc(sizeof(*e));

	if (!e)
		return -1;
	*e = what;
	pthread_mutex_lock(&q->lock);
	*q->last = e;
	q->last = &e->next;
	q->pushed++;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

/* What Fermata needs of it: 0 or a negative errno. */

static int launch(void *ctx, void *arg)
{
	return push(ctx, (struct entry){.run_us = *(long *)arg}) ? -ENOMEM : 0;
}

static int sync_queue(void *ctx)
{
	struct queue *q = ctx;
	unsigned long target;

	pthread_mutex_lock(&q->lock);
	target = q->pushed;
	while (q->finished < target)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

static int track(void *ctx, void (*reached)(void *cookie), void *cookie)
{
	return push(ctx, (struct entry){.reached = reached, .cookie = cookie}) ? -ENOMEM : 0;
}

static int deactivate(void *ctx, void **gate)
{
	atomic_int *g = calloc(1, sizeof(*g));

	if (!g || push(ctx, (struct entry){.gate = g})) {
		free(g);
		return -ENOMEM;
	}
	*gate = g;
	return 0;
}

static void reactivate(void *ctx, void *gate)
{
	struct queue *q = ctx;

	pthread_mutex_lock(&q->lock);
	*(atomic_int *)gate = 1;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

static void release(void *ctx)
{
	struct queue *q = ctx;

	pthread_mutex_lock(&q->lock);
	q->stop = 1;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
}

static const struct fm_hwqueue_ops ops = {
	.size = sizeof(ops),
	.sync = sync_queue,
	.track = track,
	.deactivate = deactivate,
	.reactivate = reactivate,
	.release = release,
};

/* The program. */

static void check(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-rc));
	exit(1);
}

static fm_xqueue *make_queue(struct queue *q, const char *group, int priority)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};
	fm_hwqueue *hwq;
	fm_xqueue *x;

	*q = (struct queue){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	q->last = &q->first;
	check(-pthread_create(&q->thread, NULL, queue_thread, q), "thread");
	check(fm_group_create(&o.group, group), "group");
	check(fm_group_hint(o.group, FM_HINT_PRIORITY, priority), "priority");
	check(fm_hwqueue_create(&hwq, "example:0", &ops, q), "hwqueue");
	check(fm_xqueue_create(&x, hwq, &o), "xqueue");
	return x;
}

static unsigned long long completed(fm_xqueue *x)
{
	struct fm_xqueue_info info = {.size = sizeof(info)};

	check(fm_xqueue_query(x, &info), "query");
	return info.completed;
}

int main(int argc, char **argv)
{
	const int daemon = argc > 1 && strcmp(argv[1], "--daemon") == 0;
	const struct fm_options options = {.local_policy = daemon ? NULL : "fixed-priority"};
	long length_us = 500;
	const struct fm_command command = {.fn = launch, .arg = &length_us};
	struct queue queue[2];
	fm_xqueue *background, *urgent;

	check(fm_init(&options), "init");
	background = make_queue(&queue[0], "background", FM_PRIORITY_LOW);
	urgent = make_queue(&queue[1], "urgent", FM_PRIORITY_HIGH);
	for (int i = 0; i < 400; i++)
		check(fm_xqueue_submit(background, &command, NULL), "submit");
	for (int job = 1; job <= 4; job++) {
		for (int i = 0; i < 5; i++)
			check(fm_xqueue_submit(urgent, &command, NULL), "submit");
		check(fm_xqueue_wait_all(urgent, FM_FOREVER), "wait");
		printf("urgent job %d is done, background has done %llu of 400 commands\n", job,
			completed(background));
	}
	check(fm_xqueue_wait_all(background, FM_FOREVER), "wait");
	printf("background has done %llu of 400 commands, %s\n", completed(background),
		fm_scheduled() ? "scheduled" : "not scheduled");
	check(fm_xqueue_destroy(urgent), "destroy");
	check(fm_xqueue_destroy(background), "destroy");
	return 0;
}
