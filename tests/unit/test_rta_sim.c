/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of gcaps against an exact simulation, in ticks, of what they are about: fixed
 * priorities on each CPU, and one GPU that always serves the most urgent segment. A job computes,
 * and then for each of its segments: asks for the GPU (epsilon), works on the CPU, on the GPU,
 * gives it back (epsilon), and computes again. Random small sets, random phases; every bound must
 * be kept.
 */
#include <fermata/rta.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASKS    5
#define SEGMENTS 2
#define STEPS    (5 * SEGMENTS + 1)
#define HORIZON  4000

enum place { ON_CPU, UPDATING, ON_GPU };
enum order { PREEMPTIVE, ROUND_ROBIN, FIRST_COME, BY_PRIORITY };

struct plan {
	enum place place[STEPS];
	int64_t length[STEPS];
	bool locked[STEPS]; /* with the GPU's lock */
	int steps;
};

struct job {
	bool active;
	int64_t release, next, left, worst;
	int step;
	bool holds; /* the lock of updates */
	bool owns;  /* that of the GPU */
	int64_t asked;
};

struct world {
	struct fm_rta_random r;
	struct fm_rta_segment segment[TASKS][SEGMENTS];
	struct fm_rta_task task[TASKS];
	struct fm_rta_set set;
	struct plan plan[TASKS];
	struct job job[TASKS];
	uint32_t level[TASKS]; /* GPU priority: larger first */
	bool busy;
	enum order order;
	size_t turn; /* round robin: whose, */
	int64_t turn_left;
	int64_t update; /* what epsilon stands for */
};

static void step(struct plan *p, enum place place, int64_t length, bool locked)
{
	if (!length)
		return;
	p->place[p->steps] = place;
	p->locked[p->steps] = locked;
	p->length[p->steps++] = length;
}

static int64_t draw(struct world *w, int64_t min, int64_t max)
{
	return fm_rta_uniform(&w->r, min, max);
}

static void make_task(struct world *w, size_t k)
{
	struct fm_rta_task *t = &w->task[k];
	struct plan *p = &w->plan[k];
	int64_t cpu = draw(w, 1, 4);

	*t = (struct fm_rta_task){.priority = (int64_t)(TASKS - k),
		.cpu = draw(w, 0, 1),
		.period = draw(w, 15, 60) + 12 * (int64_t)k,
		.segment = w->segment[k],
		.segments = (size_t)draw(w, 0, SEGMENTS),
		.gpu_total = FM_RTA_UNSET};
	t->deadline = t->period;
	*p = (struct plan){0};
	step(p, ON_CPU, cpu, false);
	t->cpu_time = cpu;
	for (size_t s = 0; s < t->segments; s++) {
		struct fm_rta_segment *g = &w->segment[k][s];

		g->misc = draw(w, 0, 2);
		g->gpu = draw(w, 1, 5);
		g->total = g->misc + g->gpu;
		step(p, UPDATING, w->update, false);
		step(p, ON_CPU, g->misc, w->order >= FIRST_COME);
		step(p, ON_GPU, g->gpu, w->order >= FIRST_COME);
		step(p, UPDATING, w->update, false);
		cpu = draw(w, w->order >= FIRST_COME, 2); /* between two locks */
		step(p, ON_CPU, cpu, false);
		t->cpu_time += cpu;
	}
}

static void make(struct world *w, uint64_t seed, enum order order, int64_t update, int64_t epsilon)
{
	*w = (struct world){.update = update,
		.order = order,
		.set = {.tasks = TASKS, .epsilon = epsilon, .slice = 1, .theta = 0}};
	fm_rta_seed(&w->r, seed, 0);
	w->set.task = w->task;
	for (size_t k = 0; k < TASKS; k++) {
		make_task(w, k);
		w->level[k] = (uint32_t)(TASKS - k);
	}
}

static enum place place_of(const struct world *w, size_t k)
{
	return w->plan[k].place[w->job[k].step];
}

static void release(struct world *w, int64_t now)
{
	for (size_t k = 0; k < TASKS; k++) {
		struct job *j = &w->job[k];

		if (j->active || j->next > now)
			continue;
		j->active = true;
		j->release = j->next;
		j->next += w->task[k].period + (draw(w, 0, 2) ? 0 : draw(w, 0, 9));
		j->step = 0;
		j->left = w->plan[k].length[0];
	}
}

static bool locked(const struct world *w)
{
	for (size_t k = 0; k < TASKS; k++)
		if (w->job[k].holds)
			return true;
	return false;
}

static bool waits_for_gpu(const struct world *w, size_t k)
{
	return w->plan[k].locked[w->job[k].step] && !w->job[k].owns;
}

static bool wants_cpu(const struct world *w, size_t k)
{
	if (waits_for_gpu(w, k))
		return false;
	switch (place_of(w, k)) {
	case ON_CPU:
		return true;
	case UPDATING:
		return !locked(w); /* who waits for the lock sleeps */
	default:
		return w->busy;
	}
}

/* Who runs on a CPU: who holds a lock, if he wants to, else the most urgent that does. */
static size_t runs_on(const struct world *w, int64_t cpu)
{
	size_t best = TASKS;

	for (size_t k = TASKS; k-- > 0;) {
		if (!w->job[k].active || w->task[k].cpu != cpu)
			continue;
		if (w->job[k].holds || (w->job[k].owns && wants_cpu(w, k)))
			return k;
		if (wants_cpu(w, k))
			best = k;
	}
	return best;
}

/* Whose turn it is keeps it for a slice; then whoever is next and has work. */
static size_t takes_turn(struct world *w)
{
	for (size_t k = w->turn_left ? 0 : 1; k <= TASKS; k++) {
		size_t who = (w->turn + k) % TASKS;

		if (!w->job[who].active || place_of(w, who) != ON_GPU)
			continue;
		if (k) {
			w->turn = who;
			w->turn_left = w->set.slice;
		}
		w->turn_left--;
		return who;
	}
	return TASKS;
}

static size_t on_gpu(struct world *w)
{
	size_t best = TASKS;

	if (w->order == ROUND_ROBIN)
		return takes_turn(w);
	for (size_t k = 0; k < TASKS; k++)
		if (w->job[k].active && place_of(w, k) == ON_GPU && !waits_for_gpu(w, k) &&
			(best == TASKS || w->level[k] > w->level[best]))
			best = k;
	return best;
}

/* Of those that a CPU has chosen, one may update. */
static void take_lock(struct world *w, const size_t chosen[2])
{
	size_t best = TASKS;

	if (locked(w))
		return;
	for (int c = 0; c < 2; c++)
		if (chosen[c] < best && place_of(w, chosen[c]) == UPDATING)
			best = chosen[c];
	if (best < TASKS)
		w->job[best].holds = true;
}

/* The GPU's lock, if it is free, to the first of those who wait. */
static void grant(struct world *w)
{
	size_t best = TASKS;

	for (size_t k = 0; k < TASKS; k++)
		if (w->job[k].owns)
			return;
	for (size_t k = 0; k < TASKS; k++) {
		if (!w->job[k].active || !waits_for_gpu(w, k))
			continue;
		if (best == TASKS ||
			(w->order == FIRST_COME && w->job[k].asked < w->job[best].asked))
			best = k;
	}
	if (best < TASKS)
		w->job[best].owns = true;
}

static void enter_step(struct world *w, size_t k, int64_t now)
{
	struct job *j = &w->job[k];
	const struct plan *p = &w->plan[k];

	j->left = p->length[j->step];
	if (!p->locked[j->step])
		j->owns = false;
	else if (!j->owns)
		j->asked = now + 1;
}

static void advance(struct world *w, size_t k, int64_t now)
{
	struct job *j = &w->job[k];

	if (--j->left)
		return;
	j->holds = false;
	if (++j->step < w->plan[k].steps) {
		enter_step(w, k, now);
		return;
	}
	j->active = j->owns = false;
	if (now + 1 - j->release > j->worst)
		j->worst = now + 1 - j->release;
}

static void tick(struct world *w, int64_t now)
{
	size_t chosen[2], gpu;

	release(w, now);
	grant(w);
	for (int c = 0; c < 2; c++)
		chosen[c] = runs_on(w, c);
	take_lock(w, chosen);
	for (int c = 0; c < 2; c++)
		chosen[c] = runs_on(w, c);
	gpu = on_gpu(w);
	for (int c = 0; c < 2; c++) {
		size_t k = chosen[c];

		if (k < TASKS && (place_of(w, k) == ON_CPU || w->job[k].holds))
			advance(w, k, now);
	}
	if (gpu < TASKS)
		advance(w, gpu, now);
}

/* Runs the set with phases of its own; does everybody keep his bound? */
static void keep(struct world *w, const struct fm_rta_bound *bound)
{
	memset(w->job, 0, sizeof(w->job));
	for (size_t k = 0; k < TASKS; k++)
		w->job[k].next = draw(w, 0, 30);
	for (int64_t now = 0; now < HORIZON; now++)
		tick(w, now);
	for (size_t k = 0; k < TASKS; k++)
		assert_true(w->job[k].worst <= bound[k].wcrt);
}

static unsigned try_sets(
	enum fm_rta_method method, int64_t update, int64_t epsilon, uint64_t from, unsigned n)
{
	enum order order = method >= FM_RTA_MPCP_SUSPEND   ? BY_PRIORITY
			   : method >= FM_RTA_FMLP_SUSPEND ? FIRST_COME
			   : method >= FM_RTA_RR_SUSPEND   ? ROUND_ROBIN
							   : PREEMPTIVE;
	struct fm_rta_bound bound[TASKS];
	unsigned tried = 0;
	struct world w;
	bool ok;

	for (unsigned k = 0; k < n; k++) {
		fm_rta *rta;

		make(&w, from + k, order, update, epsilon);
		w.busy = strstr(fm_rta_method_name(method), "-busy") != NULL;
		assert_int_equal(fm_rta_new(&rta, &w.set, NULL), 0);
		assert_int_equal(fm_rta_analyze(rta, method, bound, &ok), 0);
		for (int phases = 0; ok && phases < 3; phases++)
			keep(&w, bound);
		tried += ok;
		if (!ok && fm_rta_method_gpu_priority(method)) {
			assert_int_equal(
				fm_rta_gpu_priorities(rta, method, w.level, bound, &ok), 0);
			for (int phases = 0; ok && phases < 3; phases++)
				keep(&w, bound);
		}
		fm_rta_free(rta);
	}
	return tried;
}

static void free_updates(void **state)
{
	assert_true(try_sets(FM_RTA_GCAPS_SUSPEND, 0, 0, 1, 1500) > 200);
	assert_true(try_sets(FM_RTA_GCAPS_BUSY, 0, 0, 10000, 1500) > 200);
}

/* With epsilon no longer than an update the bounds of spinning tasks are exceeded now and then, by
 * less than an update for each segment: docs/analysis.md. */
static void updates_cost_time(void **state)
{
	for (int64_t update = 1; update <= 3; update++) {
		assert_true(try_sets(FM_RTA_GCAPS_SUSPEND, update, 2 * update, 1, 1500) > 10);
		assert_true(try_sets(FM_RTA_GCAPS_BUSY, update, 2 * update, 10000, 1500) > 10);
	}
}

static void turns(void **state)
{
	assert_true(try_sets(FM_RTA_RR_SUSPEND, 0, 0, 30000, 2500) > 100);
	assert_true(try_sets(FM_RTA_RR_BUSY, 0, 0, 30000, 2500) > 100);
}

/* Not fmlp-suspend, which is as published: docs/analysis.md says what it leaves out. */
static void locks(void **state)
{
	assert_true(try_sets(FM_RTA_FMLP_BUSY, 0, 0, 20000, 2500) > 100);
	assert_true(try_sets(FM_RTA_MPCP_SUSPEND, 0, 0, 20000, 2500) > 100);
	assert_true(try_sets(FM_RTA_MPCP_BUSY, 0, 0, 20000, 2500) > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(free_updates),
		cmocka_unit_test(updates_cost_time), cmocka_unit_test(turns),
		cmocka_unit_test(locks)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
