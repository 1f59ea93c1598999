/* SPDX-License-Identifier: Apache-2.0 */
/* Random sets of tasks, as the studies of the papers draw them. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define US INT64_C(1000)

/* Limits of a generator, well within 64 bits and some memory. */
#define MAX_CPUS     1024
#define MAX_TASKS    1024
#define MAX_SEGMENTS 64
#define MAX_PERIOD   (INT64_C(1000000) * MS)

void fm_rta_generator_default(struct fm_rta_generator *g)
{
	*g = (struct fm_rta_generator){.cpus = 4,
		.tasks_per_cpu = {3, 6},
		.task_share = {FM_RTA_ONE / 20, FM_RTA_ONE * 3 / 10},
		.cpu_share = {FM_RTA_ONE * 4 / 10, FM_RTA_ONE * 6 / 10},
		.gpu_tasks = {FM_RTA_ONE * 4 / 10, FM_RTA_ONE * 6 / 10},
		.gpu_to_cpu = {FM_RTA_ONE / 5, FM_RTA_ONE * 2},
		.misc = {FM_RTA_ONE / 10, FM_RTA_ONE * 3 / 10},
		.segments = {1, 3},
		.period = {30 * MS, 500 * MS},
		.epsilon = MS,
		.slice = MS,
		.theta = MS / 5,
		.worst_fit = true};
}

static bool within(struct fm_rta_range r, int64_t min, int64_t max)
{
	return r.min >= min && r.min <= r.max && r.max <= max;
}

static bool valid(const struct fm_rta_generator *g)
{
	return g->cpus >= 1 && g->cpus <= MAX_CPUS && g->tasks <= MAX_TASKS &&
	       within(g->tasks_per_cpu, 1, MAX_TASKS) && within(g->task_share, 0, FM_RTA_ONE) &&
	       within(g->cpu_share, 0, FM_RTA_ONE) && within(g->gpu_tasks, 0, FM_RTA_ONE) &&
	       within(g->gpu_to_cpu, 0, 1000 * FM_RTA_ONE) && within(g->misc, 0, FM_RTA_ONE) &&
	       within(g->segments, 1, MAX_SEGMENTS) && within(g->period, MS, MAX_PERIOD) &&
	       g->best_effort >= 0 && g->best_effort <= FM_RTA_ONE && g->epsilon >= FM_RTA_UNSET &&
	       g->theta >= FM_RTA_UNSET && (g->slice > 0 || g->slice == FM_RTA_UNSET);
}

static int64_t draw(struct fm_rta_random *r, struct fm_rta_range range)
{
	return fm_rta_uniform(r, range.min, range.max);
}

/* a * b / one, rounded down; the products stay far below 128 bits. */
static int64_t part(int64_t a, int64_t b, int64_t one)
{
	return (int64_t)((__int128)a * b / one);
}

/* The set with what it is made of, and what is needed while it is drawn. */
struct block {
	struct fm_rta_set set;
	struct fm_rta_task task[];
};

struct draft {
	const struct fm_rta_generator *g;
	struct fm_rta_random *r;
	size_t n;
	int64_t *share;
	uint32_t *cpu;
	struct fm_rta_task *task;
	struct fm_rta_segment *segment; /* room for the most that each may have */
};

static void draft_free(struct draft *d)
{
	free(d->share);
	free(d->cpu);
	free(d->task);
	free(d->segment);
}

/* How many tasks there are on each CPU, and what each uses. */
static int draw_shares(struct draft *d)
{
	const struct fm_rta_generator *g = d->g;
	uint32_t on[MAX_CPUS], k = 0;

	for (uint32_t c = 0; !g->tasks && c < g->cpus; c++) {
		on[c] = (uint32_t)draw(d->r, g->tasks_per_cpu);
		d->n += on[c];
	}
	d->n = g->tasks ? g->tasks : d->n;
	d->share = calloc(d->n, sizeof(*d->share));
	d->cpu = calloc(d->n, sizeof(*d->cpu));
	if (!d->share || !d->cpu)
		return -ENOMEM;
	for (uint32_t t = 0; t < g->tasks; t++)
		d->share[t] = draw(d->r, g->task_share);
	for (uint32_t c = 0; !g->tasks && c < g->cpus; c++) {
		fm_rta_uunifast(d->r, draw(d->r, g->cpu_share), on[c], d->share + k);
		for (uint32_t end = k + on[c]; k < end; k++)
			d->cpu[k] = c;
	}
	if (!g->tasks && !g->worst_fit)
		return 0;
	return fm_rta_worst_fit(d->share, d->n, g->cpus, d->cpu);
}

static void draw_segments(struct draft *d, struct fm_rta_task *t, int64_t total)
{
	size_t room = (size_t)d->g->segments.max, n = (size_t)draw(d->r, d->g->segments);
	struct fm_rta_segment *s = d->segment + (size_t)(t - d->task) * room;
	int64_t length[MAX_SEGMENTS];

	fm_rta_uunifast(d->r, total, n, length);
	for (size_t k = 0; k < n; k++) {
		s[k].total = length[k];
		s[k].misc = part(length[k], draw(d->r, d->g->misc), FM_RTA_ONE);
		s[k].gpu = s[k].total - s[k].misc;
	}
	t->segment = s;
	t->segments = n;
}

static void draw_task(struct draft *d, size_t k)
{
	struct fm_rta_range ms = {d->g->period.min / MS, d->g->period.max / MS};
	struct fm_rta_task *t = &d->task[k];
	int64_t work;

	t->cpu = d->cpu[k];
	t->period = t->deadline = draw(d->r, ms) * MS;
	t->gpu_total = FM_RTA_UNSET;
	t->cpu_time = work = part(t->period, d->share[k], FM_RTA_ONE);
	if (fm_rta_uniform(d->r, 0, FM_RTA_ONE - 1) >= draw(d->r, d->g->gpu_tasks))
		return;
	t->cpu_time = part(work, FM_RTA_ONE, FM_RTA_ONE + draw(d->r, d->g->gpu_to_cpu));
	draw_segments(d, t, work - t->cpu_time);
}

/* Any of them, each choice as likely. */
static void draw_best_effort(struct draft *d)
{
	size_t left = (size_t)part((int64_t)d->n, d->g->best_effort, FM_RTA_ONE);

	for (size_t k = 0; left && k < d->n; k++) {
		if (fm_rta_uniform(d->r, 1, (int64_t)(d->n - k)) > (int64_t)left)
			continue;
		d->task[k].priority = FM_RTA_BEST_EFFORT;
		left--;
	}
}

static int draw_tasks(struct draft *d)
{
	int rc = draw_shares(d);

	if (rc)
		return rc;
	d->task = calloc(d->n, sizeof(*d->task));
	d->segment = calloc(d->n * (size_t)d->g->segments.max, sizeof(*d->segment));
	if (!d->task || !d->segment)
		return -ENOMEM;
	for (size_t k = 0; k < d->n; k++)
		draw_task(d, k);
	draw_best_effort(d);
	return 0;
}

/* Does a come before b? Shorter periods first, best effort last; equals as they were drawn. */
static bool before(const struct fm_rta_task *a, const struct fm_rta_task *b)
{
	bool x = a->priority == FM_RTA_BEST_EFFORT, y = b->priority == FM_RTA_BEST_EFFORT;

	if (x != y)
		return y;
	return !x && a->period < b->period;
}

static void sort(struct fm_rta_task *task, size_t n)
{
	for (size_t k = 1; k < n; k++) {
		struct fm_rta_task t = task[k];
		size_t to = k;

		for (; to && before(&t, &task[to - 1]); to--)
			task[to] = task[to - 1];
		task[to] = t;
	}
}

static void prioritise(struct fm_rta_task *task, size_t n)
{
	size_t real_time = 0;

	while (real_time < n && task[real_time].priority != FM_RTA_BEST_EFFORT)
		real_time++;
	for (size_t k = 0; k < real_time; k++)
		task[k].priority = (int64_t)(real_time - k);
}

/* Everything in one block, segments behind the tasks. */
static int pack(const struct draft *d, struct fm_rta_set **set)
{
	struct fm_rta_segment *s;
	struct block *b;
	size_t segments = 0;

	for (size_t k = 0; k < d->n; k++)
		segments += d->task[k].segments;
	b = calloc(1, sizeof(*b) + d->n * sizeof(b->task[0]) + segments * sizeof(*s));
	if (!b)
		return -ENOMEM;
	s = (struct fm_rta_segment *)&b->task[d->n];
	for (size_t k = 0; k < d->n; k++) {
		struct fm_rta_task *t = &b->task[k];

		*t = d->task[k];
		if (t->segments)
			memcpy(s, t->segment, t->segments * sizeof(*s));
		t->segment = s;
		s += t->segments;
	}
	b->set = (struct fm_rta_set){.task = b->task,
		.tasks = d->n,
		.epsilon = d->g->epsilon,
		.slice = d->g->slice,
		.theta = d->g->theta};
	*set = &b->set;
	return 0;
}

int fm_rta_generate(
	const struct fm_rta_generator *g, struct fm_rta_random *r, struct fm_rta_set **set)
{
	struct draft d = {.g = g, .r = r};
	int rc;

	if (!valid(g))
		return -EINVAL;
	rc = draw_tasks(&d);
	if (!rc) {
		sort(d.task, d.n);
		prioritise(d.task, d.n);
		rc = pack(&d, set);
	}
	draft_free(&d);
	return rc;
}

void fm_rta_set_free(struct fm_rta_set *set)
{
	free(set); /* the first member of its block */
}

size_t fm_gedf_generate(struct fm_rta_random *r, int64_t cap, struct fm_gedf_task *task, size_t max)
{
	int64_t sum = 0;
	size_t n = 0;

	while (n < max) {
		int64_t period = fm_rta_uniform(r, 10, 100) * MS;
		int64_t share = fm_rta_uniform(r, FM_RTA_ONE / 10, FM_RTA_ONE * 4 / 10);

		if (sum + share > cap)
			break;
		sum += share;
		task[n].period = period;
		task[n++].cpu_time = part(period / US, share, FM_RTA_ONE) * US;
	}
	return n;
}
