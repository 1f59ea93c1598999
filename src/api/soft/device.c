// SPDX-License-Identifier: Apache-2.0
/* The software device: its engine, its clock and its thread. */
#include "base/cleanup.h"
#include "engine.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

static struct fm_sim_entry *head(struct fm_simq *q)
{
	return fm_list_empty(&q->fifo) ? NULL : fm_list_first(&q->fifo, struct fm_sim_entry, node);
}

static void arrive(struct fm_simq *q, struct fm_sim_entry *e)
{
	e->waits = true;
	q->dev->waiting++;
	atomic_store(e->words.progress, 2 * e->progress + !!e->words.gate);
	if (!e->words.gate)
		return;
	if (q->sampling && q->samples < FM_SIM_SAMPLES)
		q->sample[q->samples++] = q->dev->clock - q->sample_since;
	q->sampling = false;
}

static bool is_closed(const struct fm_sim_entry *e)
{
	if (e->words.rest && atomic_load(e->words.rest))
		return true;
	if (e->words.memory && e->words.number - atomic_load(e->words.memory) - 1 < INT32_MAX)
		return true;
	return !e->open &&
	       (atomic_load(e->words.gate) || (e->words.hold && atomic_load(e->words.hold)));
}

/* The device at a gate: true when it goes on. Where it waits for a rest it is slow: it says a tick
 * later that it goes, when the words may be closed again. */
static bool pass_gate(struct fm_simq *q, struct fm_sim_entry *e)
{
	bool late = e->words.rest;

	if (!e->goes && is_closed(e))
		return false;
	if (late && !e->goes) {
		e->goes = true;
		return false;
	}
	if (!e->gone) {
		atomic_store(e->words.progress, 2 * e->progress);
		q->sampling = e->sample;
		q->sample_since = q->dev->clock;
	}
	e->gone = true;
	return !late || !atomic_load(e->words.leave);
}

/* The device at a word: true when it goes on. */
static bool pass_word(struct fm_simq *q, struct fm_sim_entry *e)
{
	if (!e->waits)
		arrive(q, e);
	if (e->words.gate && !pass_gate(q, e))
		return false;
	q->dev->waiting--;
	return true;
}

static void settle_words(struct fm_simdev *d)
{
	struct fm_simq *q;

	if (d->waiting)
		fm_list_each (q, &d->queues, node)
			fm_simdev_settle(q);
}

void fm_simdev_settle(struct fm_simq *q)
{
	struct fm_sim_entry *e;

	while ((e = head(q)) && e->kind != FM_SIM_COMMAND) {
		if (e->kind == FM_SIM_GATE && !e->open)
			return;
		if (e->kind == FM_SIM_WORD && !pass_word(q, e))
			return;
		fm_list_del(&e->node);
		if (e->kind != FM_SIM_TRACK) {
			q->entries--;
			free(e);
		} else {
			e->at = q->dev->clock;
			fm_list_add_tail(&q->dev->due, &e->node);
		}
	}
}

static struct fm_simq *next_turn(struct fm_simdev *d)
{
	struct fm_sim_entry *e;
	struct fm_simq *q;

	fm_list_each (q, &d->queues, node) {
		e = head(q);
		if (!q->interrupted && e && e->kind == FM_SIM_COMMAND)
			return q;
	}
	return NULL;
}

static void start(struct fm_simdev *d)
{
	struct fm_simq *q;

	if (d->running || d->clock < d->free_at)
		return;
	q = next_turn(d);
	if (!q)
		return;
	d->running = head(q);
	d->started = d->clock;
	fm_list_del(&q->node);
	fm_list_add_tail(&d->queues, &q->node);
}

static void finish(struct fm_simdev *d)
{
	struct fm_sim_entry *e = d->running;

	d->running = NULL;
	e->left_ns = 0;
	e->at = d->clock;
	fm_list_del(&e->node);
	fm_list_add_tail(&d->due, &e->node);
	fm_simdev_settle(e->queue);
}

static uint64_t next_event(struct fm_simdev *d)
{
	uint64_t look = d->waiting && !d->opt.virtual_time ? d->clock + FM_SIM_WORD_NS : FM_NEVER;

	if (d->running && !d->running->hang)
		return FM_MIN(look, fm_add_sat(d->started, d->running->left_ns));
	return d->clock < d->free_at && next_turn(d) ? d->free_at : look;
}

/* Let everything up to t happen. In virtual time it stops at the first callback that is due, so
 * that what the callback does happens at that time. */
static void run_to(struct fm_simdev *d, uint64_t t)
{
	uint64_t next;

	while (!d->opt.virtual_time || fm_list_empty(&d->due)) {
		settle_words(d);
		start(d);
		next = next_event(d);
		if (next > t || next == FM_NEVER) {
			d->clock = FM_MAX(d->clock, t);
			return;
		}
		d->clock = FM_MAX(d->clock, next);
		if (d->running && !d->running->hang && next == d->started + d->running->left_ns)
			finish(d);
	}
}

void fm_simdev_catch_up(struct fm_simdev *d)
{
	if (!d->opt.virtual_time)
		run_to(d, fm_now());
}

void fm_simdev_poke(struct fm_simdev *d)
{
	if (!d->opt.virtual_time)
		pthread_cond_signal(&d->wake);
}

void fm_simdev_stop_running(struct fm_simdev *d)
{
	struct fm_sim_entry *e = d->running;

	if (!e->hang)
		e->left_ns = fm_sub_sat(e->left_ns, d->clock - d->started);
	d->running = NULL;
	d->free_at = fm_add_sat(d->clock, d->opt.interrupt_ns);
}

bool fm_simdev_take_fault(struct fm_simdev *d, enum fm_sim_fault fault)
{
	if (!d->faults[fault])
		return false;
	d->faults[fault]--;
	return true;
}

/* Call what is due, without the lock. Only the driver does, so the order is kept. */
static void deliver(struct fm_simdev *d)
{
	struct fm_sim_entry *e;
	struct fm_simq *q;

	while (!fm_list_empty(&d->due)) {
		e = fm_list_first(&d->due, struct fm_sim_entry, node);
		q = e->queue;
		fm_list_del(&e->node);
		pthread_mutex_unlock(&d->lock);
		if (e->reached)
			e->reached(e->arg, d->opt.virtual_time ? fm_now() : e->at);
		if (e->done)
			e->done(e->arg);
		pthread_mutex_lock(&d->lock);
		if (e->kind == FM_SIM_COMMAND) {
			q->finished++;
			pthread_cond_broadcast(&q->finished_cond);
		}
		q->entries--;
		free(e);
		fm_simdev_reap(q);
	}
}

static void wait_until(struct fm_simdev *d, uint64_t t)
{
	struct timespec ts = fm_timespec(t);

	if (t == FM_NEVER)
		pthread_cond_wait(&d->wake, &d->lock);
	else
		pthread_cond_timedwait(&d->wake, &d->lock, &ts);
}

static void *device_thread(void *arg)
{
	struct fm_simdev *d = arg;

	pthread_mutex_lock(&d->lock);
	d->driver = pthread_self();
	d->driving = true;
	while (!d->stop) {
		run_to(d, fm_now());
		if (fm_list_empty(&d->due))
			wait_until(d, next_event(d));
		else
			deliver(d);
	}
	d->driving = false;
	fm_simdev_put_unlock(d);
	return NULL;
}

/* With every signal blocked: the program's handlers are to run in the program's threads. Detached:
 * the last reference may be dropped by a callback, which could not wait for its own thread. */
static int start_thread(struct fm_simdev *d)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int rc;

	if (pthread_attr_init(&attr))
		return -EAGAIN;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, device_thread, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc)
		return -EAGAIN;
	d->refs++;
	d->has_thread = true;
	return 0;
}

int fm_simdev_enqueue(struct fm_simq *q, struct fm_sim_entry *e)
{
	struct fm_simdev *d = q->dev;
	int rc;

	if (!d->opt.virtual_time && !d->has_thread) {
		rc = start_thread(d);
		if (rc)
			return rc;
	}
	e->queue = q;
	q->entries++;
	fm_list_add_tail(&q->fifo, &e->node);
	fm_simdev_settle(q);
	fm_simdev_poke(d);
	return 0;
}

static void drop_list(struct fm_simq *q, struct fm_list *list)
{
	struct fm_sim_entry *e, *tmp;

	fm_list_each_safe (e, tmp, list, node) {
		if (e->queue != q)
			continue;
		fm_list_del(&e->node);
		q->entries--;
		free(e);
	}
}

void fm_simdev_reap(struct fm_simq *q)
{
	struct fm_simdev *d = q->dev;

	if (!q->released)
		return;
	if (d->orphan) {
		if (d->running && d->running->queue == q)
			d->running = NULL;
		drop_list(q, &q->fifo);
		drop_list(q, &d->due);
	}
	if (q->entries)
		return; /* it runs on, or deliver() has one in hand */
	fm_list_del(&q->node);
	pthread_cond_destroy(&q->finished_cond);
	free(q);
	d->refs--;
}

void fm_simdev_put_unlock(struct fm_simdev *d)
{
	bool last = --d->refs == 0;

	if (d->has_thread && d->refs == 1) {
		d->stop = true;
		pthread_cond_signal(&d->wake);
	}
	pthread_mutex_unlock(&d->lock);
	if (!last)
		return;
	pthread_cond_destroy(&d->wake);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int init_sync(struct fm_simdev *d)
{
	pthread_condattr_t attr;
	int rc;

	if (pthread_mutex_init(&d->lock, NULL))
		return -ENOMEM;
	fm_lock_rank(&d->lock, SOFT_DEVICE);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(&d->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (rc)
		pthread_mutex_destroy(&d->lock);
	return -rc;
}

int fm_simdev_new(struct fm_simdev **out, const struct fm_sim_options *options)
{
	FM_CLEAN_FREE struct fm_simdev *d = NULL;
	int rc;

	if (options->max_level > 3)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	rc = init_sync(d);
	if (rc)
		return rc;
	d->opt = *options;
	if (!d->opt.max_level)
		d->opt.max_level = 3;
	d->clock = options->virtual_time ? 0 : fm_now();
	d->refs = 1;
	fm_list_init(&d->queues);
	fm_list_init(&d->due);
	*out = fm_take_ptr(d);
	return 0;
}

void fm_simdev_free(struct fm_simdev *d)
{
	struct fm_simq *q, *tmp;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->orphan = true;
	fm_list_each_safe (q, tmp, &d->queues, node)
		fm_simdev_reap(q);
	fm_simdev_put_unlock(d);
}

uint64_t fm_simdev_now(struct fm_simdev *d)
{
	uint64_t now;

	if (!d->opt.virtual_time)
		return fm_now();
	pthread_mutex_lock(&d->lock);
	now = d->clock;
	pthread_mutex_unlock(&d->lock);
	return now;
}

bool fm_simdev_in_callback(const struct fm_simdev *d)
{
	return d->driving && pthread_equal(d->driver, pthread_self());
}

int fm_simdev_advance(struct fm_simdev *d, uint64_t ns)
{
	uint64_t until;
	int rc = 0;

	if (!d->opt.virtual_time)
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	d->refs++;
	if (fm_simdev_in_callback(d))
		rc = -EDEADLK;
	while (!rc && d->driving)
		pthread_cond_wait(&d->wake, &d->lock);
	if (!rc && __builtin_add_overflow(d->clock, ns, &until))
		rc = -EOVERFLOW;
	if (!rc) {
		d->driver = pthread_self();
		d->driving = true;
		run_to(d, until);
		while (!fm_list_empty(&d->due)) {
			deliver(d);
			run_to(d, until);
		}
		d->driving = false;
		pthread_cond_broadcast(&d->wake);
	}
	fm_simdev_put_unlock(d);
	return rc;
}

int fm_simdev_fault(struct fm_simdev *d, enum fm_sim_fault fault, unsigned count)
{
	if ((unsigned)fault >= FM_SIM_FAULT_COUNT)
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	d->faults[fault] = count;
	pthread_mutex_unlock(&d->lock);
	return 0;
}

void fm_simdev_reset(struct fm_simdev *d)
{
	struct fm_sim_entry *e;
	struct fm_simq *q;

	pthread_mutex_lock(&d->lock);
	fm_simdev_catch_up(d);
	fm_list_each (q, &d->queues, node) {
		fm_list_each (e, &q->fifo, node) {
			if (e->hang)
				e->left_ns = 0;
			e->hang = false;
		}
	}
	fm_simdev_poke(d);
	pthread_mutex_unlock(&d->lock);
}
