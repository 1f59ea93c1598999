/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs, and the device time that they needed. That is what the core charged for a job. The charge
 * is exact when the next job begins (what the core reports at the end of a job may go beyond that
 * end).
 *
 * Two kinds of jobs are charged too little: a short job that ran while another group was still
 * coming to rest and was charged instead, and a job that the end of the recording cuts off. For
 * these, the segments that the program's own client measured count; if there are none, the time in
 * which the job's gate was open. Devices with turns of their own are different: see
 * recorded_turns.c.
 */
#include "base/clock.h"
#include "recorded_state.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct recorded_group *group_of(struct reading *x, const struct member *m)
{
	return &x->r->group[m->group];
}

static uint64_t deadline_of(struct reading *x, const struct member *m)
{
	return fm_sim_deadline(&x->program[m->program].hints);
}

void job_begin(struct reading *x, struct member *m, const struct fm_trace_rec *rec)
{
	struct recorded_group *g = group_of(x, m);
	struct recorded_job *more;

	job_settle(x, m, rec->arg[1]);
	if (g->jobs == WORKLOAD_RECORDS) {
		x->rc = -E2BIG;
		return;
	}
	if (!(g->jobs & (g->jobs - 1))) { /* full at each power of two */
		more = reallocarray(g->job, FM_MAX(2 * g->jobs, (size_t)1), sizeof(*more));
		if (!more) {
			x->rc = -ENOMEM;
			return;
		}
		g->job = more;
	}
	g->job[g->jobs++] = (struct recorded_job){.at = rec->at,
		.end = FM_NEVER,
		.deadline = deadline_of(x, m),
		.before = rec->at <= x->r->begin};
	m->works = m->settled = true;
	m->served = m->served_idle = rec->arg[1];
	m->measured = m->commands = m->open_ns = 0;
	m->open_since = rec->at;
}

void job_gate(struct member *m, bool open, uint64_t at)
{
	if (m->works && m->open)
		m->open_ns += fm_sub_sat(at, m->open_since);
	m->open = open;
	m->open_since = at;
}

void job_end(struct reading *x, struct member *m, const struct fm_trace_rec *rec)
{
	struct recorded_group *g = group_of(x, m);

	if (!m->works || !g->jobs)
		return;
	job_gate(m, m->open, rec->at);
	m->works = false;
	m->served_idle = FM_MAX(m->served_idle, rec->arg[1]);
	g->job[g->jobs - 1].end = FM_MAX(rec->at, g->job[g->jobs - 1].at);
	g->job[g->jobs - 1].deadline = deadline_of(x, m);
}

void job_sample(uint64_t **v, size_t *n, uint64_t value)
{
	if (!*v)
		*v = malloc(RECORDED_SAMPLES * sizeof(**v));
	if (*v && *n < RECORDED_SAMPLES)
		(*v)[(*n)++] = value;
}

/* A client's record of its own segment. Its numbers can be anything. */
void job_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec)
{
	struct recorded_group *g = group_of(x, m);
	uint64_t commands = FM_MIN(rec->arg[1], UINT64_C(1) << 30);
	uint64_t took = FM_MIN(rec->arg[2], FM_S * 3600);

	if (!took || !commands)
		return;
	m->all_measured = fm_add_sat(m->all_measured, took);
	m->all_commands = fm_add_sat(m->all_commands, commands);
	if (!g->jobs || rec->at < g->job[g->jobs - 1].at)
		return;
	turns_segment(x, m, rec, &(struct segment){took, commands});
	m->measured = fm_add_sat(m->measured, took);
	m->commands = fm_add_sat(m->commands, commands);
}

/* How many commands a job of this length has. A command is as long as the measured ones, or else as
 * long as a usual segment. */
static uint32_t commands_in(struct reading *x, const struct member *m, uint64_t length)
{
	uint64_t took = m->all_measured, n = m->all_commands;

	if (m->measured >= length / 2 && m->commands) {
		took = m->measured;
		n = m->commands;
	}
	if (!n) {
		took = 500 * FM_US;
		n = 1;
	}
	n = (uint64_t)(((unsigned __int128)length * n + took / 2) / took);
	n = FM_MIN(n, length / FM_SIM_COMMAND);
	return (uint32_t)FM_MIN(FM_MAX(n, UINT64_C(1)), UINT64_C(1000000000));
}

static void set_length(struct reading *x, const struct member *m, uint64_t charged, bool cut)
{
	struct recorded_group *g = group_of(x, m);
	struct recorded_job *j = &g->job[g->jobs - 1];
	uint64_t measured = FM_MIN(m->measured, m->open_ns);
	uint64_t most = fm_sub_sat(FM_MIN(j->end, x->r->end), j->at);

	charged = FM_MIN(charged, most);
	if (charged && (cut ? charged >= measured : charged >= measured / 2)) {
		j->length = charged;
		j->how = RECORDED_CHARGED;
	} else if (measured) {
		j->length = measured;
		j->how = RECORDED_MEASURED;
	} else {
		j->length = m->open_ns;
		j->how = RECORDED_ELAPSED;
	}
	j->length = FM_MAX(j->length, FM_SIM_COMMAND);
	j->commands = commands_in(x, m, j->length);
}

void job_settle(struct reading *x, struct member *m, uint64_t charged)
{
	if (m->settled)
		set_length(x, m, fm_sub_sat(charged, m->served), false);
	m->settled = false;
}

void job_cut(struct reading *x, struct member *m)
{
	if (!m->settled)
		return;
	if (m->works)
		job_gate(m, m->open, x->r->end);
	set_length(x, m, fm_sub_sat(m->served_idle, m->served), m->works);
	m->settled = m->works = false;
}

uint64_t recorded_pause(const struct recorded_group *g, size_t job)
{
	return fm_sub_sat(g->job[job].at, g->job[job - 1].end);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t recorded_quantile(uint64_t *v, size_t n, unsigned percent)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_size);
	return v[FM_MIN(n * percent / 100, n - 1)];
}

uint64_t recorded_median(uint64_t *v, size_t n)
{
	return recorded_quantile(v, n, 50);
}

/* The difference between the first and the last quartile. */
static uint64_t spread(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n - 1 - n / 4] - v[n / 4];
}

#define FEW  16 /* with fewer jobs there is no answer */
#define STEP 16 /* a clock's arrivals vary no more over this many than over one */

static uint64_t spread_of_arrivals(const struct recorded_group *g, uint64_t *v, size_t step)
{
	for (size_t i = step; i < g->jobs; i++)
		v[i - step] = g->job[i].at - g->job[i - step].at;
	return spread(v, g->jobs - step);
}

static uint64_t spread_of_pauses(const struct recorded_group *g, uint64_t *v)
{
	for (size_t i = 1; i < g->jobs; i++)
		v[i - 1] = recorded_pause(g, i);
	return spread(v, g->jobs - 1);
}

/* If jobs follow each other, their delays add up from job to job. If they come by a clock, they do
 * not. */
static bool keeps_time(const struct recorded_group *g, uint64_t *v, uint64_t one)
{
	uint64_t median = v[(g->jobs - 1) / 2]; /* sorted distances between arrivals */

	return g->jobs >= 4 * STEP && one < median / 4 && spread_of_arrivals(g, v, STEP) < 2 * one;
}

bool recorded_clocked(const struct recorded_group *g, const char **why)
{
	uint64_t *v, arrivals, pauses;
	bool clocked = true;

	*why = "the hint period says so";
	if (g->hints.value[FM_HINT_PERIOD])
		return true;
	*why = "too few jobs to tell";
	v = g->jobs < FEW ? NULL : reallocarray(NULL, g->jobs, sizeof(*v));
	if (!v)
		return false;
	pauses = spread_of_pauses(g, v);
	arrivals = spread_of_arrivals(g, v, 1);
	if (arrivals < pauses / 2) {
		*why = "times between arrivals vary less than half as much as pauses";
	} else if (keeps_time(g, v, arrivals)) {
		*why = "delays of arrivals do not add up";
	} else {
		*why = "no clock shows in the arrivals";
		clocked = false;
	}
	free(v);
	return clocked;
}
