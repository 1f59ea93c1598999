// SPDX-License-Identifier: Apache-2.0
/* The software device's queues: the backend's ops. */
#include "base/cleanup.h"
#include "engine.h"
#include <errno.h>
#include <stdlib.h>

int fm_simq_new(struct fm_simq **out, struct fm_simdev *d)
{
	struct fm_simq *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	if (pthread_cond_init(&q->finished_cond, NULL)) {
		free(q);
		return -ENOMEM;
	}
	q->dev = d;
	fm_list_init(&q->fifo);
	pthread_mutex_lock(&d->lock);
	d->refs++;
	fm_list_add_tail(&d->queues, &q->node);
	pthread_mutex_unlock(&d->lock);
	*out = q;
	return 0;
}

static void lock(struct fm_simq *q)
{
	pthread_mutex_lock(&q->dev->lock);
	fm_simdev_catch_up(q->dev);
}

static void unlock(struct fm_simq **q)
{
	pthread_mutex_unlock(&(*q)->dev->lock);
}

/* Holds the device from here to the end of the scope. */
#define LOCKED(q)                                                      \
	__attribute__((cleanup(unlock))) struct fm_simq *locked = (q); \
	lock(locked)

static bool can(struct fm_simq *q, unsigned level)
{
	return level <= q->dev->opt.max_level; /* constant: needs no lock */
}

static unsigned sim_levels(void *hwq)
{
	struct fm_simq *q = hwq;

	return (2u << q->dev->opt.max_level) - 2;
}

static int sim_launch(void *hwq, const void *command)
{
	const struct fm_command *c = command;
	FM_CLEAN_FREE struct fm_sim_entry *e = calloc(1, sizeof(*e));
	struct fm_simq *q = hwq;
	int rc;

	if (!e)
		return -ENOMEM;
	LOCKED(q);
	if (fm_simdev_take_fault(q->dev, FM_SIM_FAULT_LAUNCH))
		return -EIO;
	e->kind = FM_SIM_COMMAND;
	e->left_ns = fm_add_sat(q->dev->opt.launch_ns, c->device_ns);
	e->hang = fm_simdev_take_fault(q->dev, FM_SIM_FAULT_HANG);
	e->done = c->done;
	e->arg = c->arg;
	rc = fm_simdev_enqueue(q, e);
	if (rc)
		return rc;
	fm_take_ptr(e);
	q->launched++;
	return 0;
}

static int sim_sync(void *hwq)
{
	struct fm_simq *q = hwq;
	uint64_t target;

	LOCKED(q);
	target = q->launched;
	if (q->finished < target && fm_simdev_in_callback(q->dev))
		return -EDEADLK;
	while (q->finished < target)
		pthread_cond_wait(&q->finished_cond, &q->dev->lock);
	return 0;
}

static int enqueue_track(struct fm_simq *q, fm_reached_fn *reached, void *cookie, bool *now)
{
	FM_CLEAN_FREE struct fm_sim_entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	LOCKED(q);
	if (fm_simdev_take_fault(q->dev, FM_SIM_FAULT_TRACK))
		return -EIO;
	*now = !q->entries;
	if (*now)
		return 0;
	e->kind = FM_SIM_TRACK;
	e->reached = reached;
	e->arg = cookie;
	rc = fm_simdev_enqueue(q, e);
	if (!rc)
		fm_take_ptr(e);
	return rc;
}

static int sim_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_simq *q = hwq;
	bool now = false;
	int rc = enqueue_track(q, reached, cookie, &now);

	if (!rc && now)
		reached(cookie, fm_now());
	return rc;
}

static int sim_deactivate(void *hwq, void **gate)
{
	FM_CLEAN_FREE struct fm_sim_entry *e = calloc(1, sizeof(*e));
	struct fm_simq *q = hwq;
	int rc;

	if (!can(q, 2))
		return -EOPNOTSUPP;
	if (!e)
		return -ENOMEM;
	LOCKED(q);
	if (fm_simdev_take_fault(q->dev, FM_SIM_FAULT_DEACTIVATE))
		return -EIO;
	e->kind = FM_SIM_GATE;
	rc = fm_simdev_enqueue(q, e);
	if (!rc)
		*gate = fm_take_ptr(e);
	return rc;
}

static void sim_reactivate(void *hwq, void *gate)
{
	struct fm_sim_entry *e = gate;
	struct fm_simq *q = hwq;

	LOCKED(q);
	e->open = true; /* from here on settle() may free it */
	fm_simdev_settle(q);
	fm_simdev_poke(q->dev);
}

static int enqueue_word(struct fm_simq *q, const struct fm_gate_words *w, uint64_t progress,
	bool is_gate, bool sample)
{
	FM_CLEAN_FREE struct fm_sim_entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!can(q, 2))
		return -EOPNOTSUPP;
	if (!e)
		return -ENOMEM;
	LOCKED(q);
	if (fm_simdev_take_fault(q->dev, FM_SIM_FAULT_DEACTIVATE))
		return -EIO;
	e->kind = FM_SIM_WORD;
	e->words = *w;
	e->progress = progress;
	e->sample = sample;
	if (!is_gate)
		e->words.gate = NULL;
	rc = fm_simdev_enqueue(q, e);
	if (!rc)
		fm_take_ptr(e);
	fm_simdev_settle(q);
	return rc;
}

static int sim_gate(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool sample)
{
	return enqueue_word(hwq, w, finished, true, sample);
}

static int sim_write_fence(void *hwq, const struct fm_gate_words *w, uint64_t finished)
{
	return enqueue_word(hwq, w, finished, false, false);
}

static int sim_sampled(void *hwq, uint64_t *ns, bool *exact)
{
	*exact = true;
	struct fm_simq *q = hwq;

	LOCKED(q);
	if (!q->samples)
		return 0;
	*ns = q->sample[0];
	q->samples--;
	for (unsigned i = 0; i < q->samples; i++)
		q->sample[i] = q->sample[i + 1];
	return 1;
}

static int sim_interrupt(void *hwq)
{
	struct fm_simq *q = hwq;
	struct fm_simdev *d = q->dev;

	if (!can(q, 3))
		return -EOPNOTSUPP;
	LOCKED(q);
	if (fm_simdev_take_fault(d, FM_SIM_FAULT_INTERRUPT))
		return -EIO;
	q->interrupted = true;
	if (d->running && d->running->queue == q) {
		fm_simdev_stop_running(d);
		fm_simdev_poke(d);
	}
	return 0;
}

static int sim_restore(void *hwq)
{
	struct fm_simq *q = hwq;

	if (!can(q, 3))
		return -EOPNOTSUPP;
	LOCKED(q);
	q->interrupted = false;
	fm_simdev_poke(q->dev);
	return 0;
}

static void open_gates(struct fm_simq *q)
{
	struct fm_sim_entry *e;

	fm_list_each (e, &q->fifo, node)
		e->open = true;
	fm_simdev_settle(q);
}

static void sim_release(void *hwq, bool orphaned)
{
	struct fm_simq *q = hwq;
	struct fm_simdev *d = q->dev;

	lock(q);
	d->refs++; /* q's own goes with it */
	q->released = true;
	q->interrupted = false;
	open_gates(q);
	fm_simdev_reap(q);
	fm_simdev_poke(d);
	fm_simdev_put_unlock(d);
}

const struct fm_hw_ops fm_simq_ops = {
	.name = "sim",
	.levels = sim_levels,
	.launch = sim_launch,
	.sync = sim_sync,
	.track = sim_track,
	.release = sim_release,
	.host_gate = {.deactivate = sim_deactivate, .reactivate = sim_reactivate},
	.stop = {.interrupt = sim_interrupt, .restore = sim_restore},
};

const struct fm_hw_ops fm_simq_word_ops = {
	.name = "sim",
	.levels = sim_levels,
	.launch = sim_launch,
	.sync = sim_sync,
	.release = sim_release,
	.device_gate = {.gate = sim_gate, .write_fence = sim_write_fence, .sampled = sim_sampled},
};
