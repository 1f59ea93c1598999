/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bounds of src/rta are about, simulated tick by tick: fixed priorities on each CPU, and
 * one GPU. A job computes, and then for each of its segments: asks for the GPU, works on the CPU
 * (misc), on the GPU (gpu), gives it back, and computes again. Whom the GPU serves is the method's:
 * gcaps, the most urgent, with updates that one at a time makes, on its CPU, for asking and giving
 * back; rr, turns of a slice, with a switch before each turn of another one; fmlp and mpcp, the one
 * whose lock it is. Times are small whole numbers, so that what seldom coincides does so often.
 */
#pragma once
#include <errno.h>
#include <fermata/rta.h>
#include <string.h>

#define TASKS    7
#define SEGMENTS 3
#define STEPS    (5 * SEGMENTS + 1)

enum place { ON_CPU, UPDATING, ON_GPU };

/* What is tried. */
struct trial {
	enum fm_rta_method method;
	int64_t update, epsilon; /* gcaps: how long an update takes; what is declared */
	int64_t theta, declared; /* rr: the same of a switch */
	bool holds; /* gcaps: who has asked for the GPU has it from then on, in misc, too */
};

/* Of sets. MANY: as they are found, the urgent are the frequent. FEW: tasks that delay each other
 * for long. LATE: one that comes seldom and takes long, one that comes often and is made late by
 * it, so that two jobs of it follow each other closely, and one that both delay. */
enum shape { MANY, FEW, LATE };

struct plan {
	enum place place[STEPS];
	int64_t length[STEPS];
	bool segment[STEPS]; /* between asking and giving back */
	int steps;
};

struct job {
	bool active;
	int64_t release, next, left, worst, asked;
	int64_t entered;  /* the step, when */
	size_t waits_for; /* it is released when this task enters that step; TASKS: in time */
	int waits_for_step;
	int64_t patience;      /* but so much late at most */
	int64_t length[STEPS]; /* of this one */
	int step;
	bool updates; /* it has the lock of updates */
	bool owns;    /* that of the GPU */
};

struct world {
	const struct trial *trial;
	struct fm_rta_random r;
	struct fm_rta_segment segment[TASKS][SEGMENTS];
	struct fm_rta_task task[TASKS];
	struct fm_rta_set set;
	struct plan plan[TASKS];
	struct job job[TASKS];
	uint32_t level[TASKS]; /* GPU priority: larger first */
	size_t tasks, cpus;
	bool busy, locks, turns; /* by method: tasks spin; there is a lock; there are turns */
	enum shape shape;
	bool varies;       /* jobs are shorter than they may be, at random */
	bool sporadic;     /* and come later */
	bool unlucky;      /* of two who ask at the same moment, the less urgent is first */
	size_t first_user; /* of the GPU: its context is there at the beginning */
	size_t turn;       /* whose, */
	int64_t turn_left, switch_left;
	uint64_t jobs;
};

static inline int64_t draw(struct world *w, int64_t min, int64_t max)
{
	return fm_rta_uniform(&w->r, min, max);
}

static inline void add_step(struct plan *p, enum place place, int64_t length, bool segment)
{
	if (!length)
		return;
	p->place[p->steps] = place;
	p->segment[p->steps] = segment;
	p->length[p->steps++] = length;
}

static inline void make_segment(struct world *w, size_t k, size_t s)
{
	struct fm_rta_segment *g = &w->segment[k][s];
	struct plan *p = &w->plan[k];
	int64_t cpu = draw(w, w->locks, w->shape == LATE && k == 1 ? 8 : 2); /* between two locks */

	g->misc = draw(w, 0, 2);
	g->gpu = draw(w, 1, w->shape == FEW ? 12 : w->shape == LATE && !k ? 14 : 5);
	g->total = g->misc + g->gpu;
	add_step(p, UPDATING, w->trial->update, false);
	add_step(p, ON_CPU, g->misc, true);
	add_step(p, ON_GPU, g->gpu, true);
	add_step(p, UPDATING, w->trial->update, true);
	add_step(p, ON_CPU, cpu, false);
	w->task[k].cpu_time += cpu;
}

static inline int64_t draw_period(struct world *w, size_t k)
{
	switch (w->shape) {
	case MANY:
		return draw(w, 12, 50) + (int64_t)k * draw(w, 4, 24);
	case FEW:
		return draw(w, 15, 60);
	default:
		return k == 0 ? draw(w, 50, 120) : k == 1 ? draw(w, 12, 30) : draw(w, 20, 80);
	}
}

static inline int64_t draw_cpu_time(struct world *w, size_t k)
{
	if (w->shape == LATE)
		return k ? draw(w, w->locks || !w->task[k].segments, 4) : draw(w, 1, 14);
	return draw(w, 1, draw(w, 0, 2) ? 4 : 16);
}

/* Those without a deadline come last, as fm_rta_new() has them. */
static inline void make_task(struct world *w, size_t k, size_t best_effort)
{
	struct fm_rta_task *t = &w->task[k];
	bool real = k + best_effort < w->tasks;
	int64_t most = draw(w, 1, 4) == 4 ? SEGMENTS : 1;

	*t = (struct fm_rta_task){.priority = real ? (int64_t)(w->tasks - k) : FM_RTA_BEST_EFFORT,
		.cpu = draw(w, 0, (int64_t)w->cpus - 1),
		.period = draw_period(w, k),
		.segment = w->segment[k],
		.segments = (size_t)draw(w, 0, most),
		.gpu_total = FM_RTA_UNSET};
	t->deadline = draw(w, 0, 3) ? t->period : draw(w, t->period / 2, t->period);
	t->cpu_time = draw_cpu_time(w, k);
	w->plan[k] = (struct plan){0};
	add_step(&w->plan[k], ON_CPU, t->cpu_time, false);
	for (size_t s = 0; s < t->segments; s++)
		make_segment(w, k, s);
}

static inline void make_set(struct world *w, const struct trial *trial, uint64_t seed)
{
	enum fm_rta_method m = trial->method;
	size_t best_effort;

	*w = (struct world){.trial = trial,
		.busy = m == FM_RTA_GCAPS_BUSY || m == FM_RTA_RR_BUSY || m == FM_RTA_FMLP_BUSY ||
			m == FM_RTA_MPCP_BUSY,
		.turns = m == FM_RTA_RR_SUSPEND || m == FM_RTA_RR_BUSY,
		.locks = m >= FM_RTA_FMLP_SUSPEND};
	fm_rta_seed(&w->r, seed, (uint64_t)m);
	w->shape = (enum shape)draw(w, MANY, LATE);
	w->tasks = w->shape == LATE ? 3 : (size_t)draw(w, 2, w->shape == FEW ? 4 : TASKS);
	w->cpus = (size_t)draw(w, 1, 3);
	best_effort =
		w->shape == LATE || draw(w, 0, 2) ? 0 : (size_t)draw(w, 0, (int64_t)w->tasks / 2);
	w->set = (struct fm_rta_set){.task = w->task,
		.tasks = w->tasks,
		.epsilon = trial->epsilon,
		.slice = draw(w, 1, 3),
		.theta = trial->declared};
	for (size_t k = w->tasks; k-- > 0;) {
		make_task(w, k, best_effort);
		w->level[k] = (uint32_t)(w->tasks - k);
		w->first_user = w->task[k].segments ? k : w->first_user;
	}
}

static inline enum place place_of(const struct world *w, size_t k)
{
	return w->plan[k].place[w->job[k].step];
}

static inline bool real_time(const struct world *w, size_t k)
{
	return w->task[k].priority != FM_RTA_BEST_EFFORT;
}

static inline void begin_job(struct world *w, size_t k, int64_t now)
{
	struct job *j = &w->job[k];
	int64_t late = w->sporadic && !draw(w, 0, 2) ? draw(w, 0, 9) : 0;

	j->active = true;
	j->release = j->entered = now;
	j->next = now + w->task[k].period + late;
	for (int s = 0; s < w->plan[k].steps; s++) {
		int64_t length = w->plan[k].length[s];

		j->length[s] = w->varies ? draw(w, (length + 1) / 2, length) : length;
	}
	j->step = 0;
	j->left = j->length[0];
	w->jobs++;
}

static inline bool is_updating(const struct world *w)
{
	for (size_t k = 0; k < w->tasks; k++)
		if (w->job[k].updates)
			return true;
	return false;
}

static inline bool waits_for_lock(const struct world *w, size_t k)
{
	return w->locks && w->plan[k].segment[w->job[k].step] && !w->job[k].owns;
}

static inline bool wants_cpu(const struct world *w, size_t k, bool updating)
{
	if (waits_for_lock(w, k))
		return false;
	switch (place_of(w, k)) {
	case ON_CPU:
		return true;
	case UPDATING:
		return !updating; /* who waits for another's update sleeps */
	default:
		return w->busy;
	}
}

/* Who runs on a CPU: who has a lock, if he wants to, else the most urgent that does. */
static inline size_t runs_on(const struct world *w, int64_t cpu)
{
	bool updating = is_updating(w);
	size_t best = TASKS;

	for (size_t k = w->tasks; k-- > 0;) {
		if (!w->job[k].active || w->task[k].cpu != cpu)
			continue;
		if (w->job[k].updates || (w->job[k].owns && wants_cpu(w, k, updating)))
			return k;
		if (wants_cpu(w, k, updating))
			best = k;
	}
	return best;
}

/* Whose turn it is keeps it for a slice of work; then whoever is next and has work. */
static inline size_t takes_turn(struct world *w)
{
	for (size_t k = w->turn_left ? 0 : 1; k <= w->tasks; k++) {
		size_t who = (w->turn + k) % w->tasks;

		if (!w->job[who].active || place_of(w, who) != ON_GPU)
			continue;
		if (k % w->tasks)
			w->switch_left = w->trial->theta;
		if (k)
			w->turn_left = w->set.slice;
		w->turn = who;
		if (w->switch_left) {
			w->switch_left--;
			return TASKS;
		}
		w->turn_left--;
		return who;
	}
	return TASKS;
}

static inline size_t on_gpu(struct world *w)
{
	size_t best = TASKS;

	if (w->turns)
		return takes_turn(w);
	for (size_t k = 0; k < w->tasks; k++) {
		bool asks = w->job[k].active &&
			    (place_of(w, k) == ON_GPU ||
				    (w->trial->holds && w->plan[k].segment[w->job[k].step])) &&
			    !waits_for_lock(w, k);

		if (asks && (best == TASKS || w->level[k] > w->level[best]))
			best = k;
	}
	return best < TASKS && place_of(w, best) == ON_GPU ? best : TASKS;
}

/* Of those that a CPU has chosen, one may update. */
static inline void begin_update(struct world *w, const size_t *chosen)
{
	size_t best = TASKS;

	if (is_updating(w))
		return;
	for (size_t c = 0; c < w->cpus; c++)
		if (chosen[c] < TASKS && place_of(w, chosen[c]) == UPDATING &&
			(best == TASKS || (chosen[c] < best) != w->unlucky))
			best = chosen[c];
	if (best < TASKS)
		w->job[best].updates = true;
}

/* Does k get the lock before o, who is more urgent? By priority; but who is unlucky comes the
 * moment after somebody else, or after the lock was given away to who has waited. */
static inline bool overtakes(const struct world *w, size_t k, size_t o, int64_t now)
{
	int64_t a = w->job[k].asked, b = w->job[o].asked;

	if (w->trial->method >= FM_RTA_MPCP_SUSPEND)
		return w->unlucky && b == now;
	return a < b || (a == b && w->unlucky);
}

/* The GPU's lock, if it is free, to the first of those who wait. */
static inline void grant(struct world *w, int64_t now)
{
	size_t best = TASKS;

	for (size_t k = 0; k < w->tasks; k++)
		if (w->job[k].owns)
			return;
	for (size_t k = 0; k < w->tasks; k++) {
		if (!w->job[k].active || !waits_for_lock(w, k))
			continue;
		if (best == TASKS || overtakes(w, k, best, now))
			best = k;
	}
	if (best < TASKS)
		w->job[best].owns = true;
}

static inline void advance(struct world *w, size_t k, int64_t now)
{
	const struct plan *p = &w->plan[k];
	struct job *j = &w->job[k];

	if (--j->left)
		return;
	j->updates = false;
	if (++j->step == p->steps) {
		j->active = j->owns = false;
		if (now + 1 - j->release > j->worst)
			j->worst = now + 1 - j->release;
		return;
	}
	j->entered = now + 1;
	j->left = j->length[j->step];
	if (!p->segment[j->step])
		j->owns = false;
	else if (!j->owns)
		j->asked = now + 1;
}

static inline void tick(struct world *w, int64_t now)
{
	size_t chosen[3], gpu;

	if (w->locks)
		grant(w, now);
	for (size_t c = 0; c < w->cpus; c++)
		chosen[c] = runs_on(w, (int64_t)c);
	if (w->trial->update) {
		begin_update(w, chosen);
		for (size_t c = 0; c < w->cpus; c++)
			chosen[c] = runs_on(w, (int64_t)c);
	}
	gpu = on_gpu(w);
	for (size_t c = 0; c < w->cpus; c++) {
		size_t k = chosen[c];

		if (k < TASKS && (place_of(w, k) == ON_CPU || w->job[k].updates))
			advance(w, k, now);
	}
	if (gpu < TASKS)
		advance(w, gpu, now);
}

static inline bool is_due(const struct world *w, size_t k, int64_t now)
{
	const struct job *j = &w->job[k], *o = &w->job[j->waits_for % TASKS];

	if (j->active || j->next > now)
		return false;
	return j->waits_for == TASKS || now >= j->next + j->patience ||
	       (o->active && o->entered == now && o->step == j->waits_for_step);
}

/* Those who wait for others come right after those. */
static inline bool release(struct world *w, int64_t now)
{
	bool active = false;

	for (int pass = 0; pass < 2; pass++)
		for (size_t k = 0; k < w->tasks; k++) {
			if (is_due(w, k, now))
				begin_job(w, k, now);
			active |= w->job[k].active;
		}
	return active;
}

static inline void begin(struct world *w)
{
	bool together = !draw(w, 0, 3), sly = draw(w, 0, 1);

	memset(w->job, 0, sizeof(w->job));
	w->turn = w->first_user;
	w->turn_left = w->switch_left = 0;
	w->varies = !draw(w, 0, 2);
	w->sporadic = draw(w, 0, 1);
	w->unlucky = draw(w, 0, 1);
	for (size_t k = 0; k < w->tasks; k++) {
		struct job *j = &w->job[k];
		size_t other = w->shape == LATE ? 1 : (size_t)draw(w, 0, (int64_t)w->tasks - 1);

		j->next = together ? 0 : draw(w, 0, 40);
		j->waits_for =
			sly && other != k && (w->shape == LATE || draw(w, 0, 1)) ? other : TASKS;
		j->waits_for_step =
			w->shape == LATE && !k ? 0 : (int)draw(w, 0, w->plan[other].steps - 1);
		j->patience = draw(w, 10, 80);
	}
}

/* From a start of its own, up to the time `until`: the worst response time of each task. */
static inline void simulate(struct world *w, int64_t until)
{
	begin(w);
	for (int64_t now = 0; now < until; now++) {
		int64_t next = until;

		if (release(w, now)) {
			tick(w, now);
			continue;
		}
		for (size_t k = 0; k < w->tasks; k++)
			next = w->job[k].next < next ? w->job[k].next : next;
		now = next - 1 > now ? next - 1 : now;
	}
}
