/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that have turns of their own, as a processor has under Linux. While a group whose gate
 * was closed comes to rest, the chosen group has the device in between. What the core charges then
 * is not what the device did, since it charges the closed group until that rests. A client's
 * measure is not what the device did, either.
 *
 * On such a device, a segment counts with its measured length if no group came to rest meanwhile.
 * Otherwise it counts with at most the time that so many commands of this group usually take. What
 * segments of groups that came to rest took beyond that is what the other groups had: the turns.
 */
#include "base/clock.h"
#include "recorded_state.h"
#include <errno.h>
#include <stdlib.h>

#define FEW           16 /* with fewer segments or turns there is no answer */
#define INPUT_PERCENT 5  /* this part of the measured inputs is shorter than the result */

static struct sharing *sharing_of(struct reading *x, const struct member *m)
{
	return &x->sharing[x->r->group[m->group].device];
}

void turns_stop(struct reading *x, struct member *m)
{
	struct sharing *s = sharing_of(x, m);

	if (m->stopping)
		return;
	m->stopping = s->first = true;
	m->opened_at = 0;
	s->stopping++;
}

void turns_rest(struct reading *x, struct member *m, uint64_t at)
{
	struct sharing *s;

	if (!m->stopping || m->group == UINT32_MAX)
		return;
	s = sharing_of(x, m);
	m->stopping = s->first = false;
	s->stopping--;
	s->until = m->rested_at = at;
}

void turns_went_on(struct reading *x, struct member *m, uint64_t at)
{
	struct recorded_device *d = &x->r->device[x->r->group[m->group].device];

	if (m->opened_at && at >= m->opened_at)
		job_sample(&d->open, &d->n_open, FM_MIN(at - m->opened_at, FM_S));
	m->opened_at = 0;
}

static void keep_shared(struct reading *x, const struct member *m, const struct segment *s,
	bool stopping, bool first)
{
	struct shared_segment *more;

	if (x->n_shared == x->shared_cap) {
		x->shared_cap = FM_MAX(2 * x->shared_cap, (size_t)64);
		more = reallocarray(x->shared, x->shared_cap, sizeof(*more));
		if (!more) {
			x->rc = -ENOMEM;
			return;
		}
		x->shared = more;
	}
	x->shared[x->n_shared++] = (struct shared_segment){.segment = *s,
		.member = (uint32_t)(m - x->member),
		.group = m->group,
		.job = x->r->group[m->group].jobs - 1,
		.stopping = stopping,
		.first = first};
}

static void keep_alone(struct reading *x, struct member *m, const struct segment *s, bool first)
{
	struct recorded_group *g = &x->r->group[m->group];
	struct recorded_device *d = &x->r->device[g->device];

	g->job[g->jobs - 1].alone = fm_add_sat(g->job[g->jobs - 1].alone, s->took);
	g->alone = fm_add_sat(g->alone, s->took);
	g->commands += s->commands;
	if (first)
		g->job[g->jobs - 1].first = s->took;
	if (d->n_took < RECORDED_SAMPLES) {
		job_sample(&d->took, &d->n_took, s->took);
		d->took_all += s->took;
		d->commands += s->commands;
	}
	if (!m->alone)
		m->alone = malloc(RECORDED_SAMPLES * sizeof(*m->alone));
	if (m->alone && m->n_alone < RECORDED_SAMPLES)
		m->alone[m->n_alone++] = *s;
}

/* A segment of the present job, which must be there. */
void turns_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec,
	const struct segment *s)
{
	struct sharing *sharing = sharing_of(x, m);
	struct recorded_group *g = &x->r->group[m->group];
	struct recorded_job *j = &g->job[g->jobs - 1];
	uint64_t begin = fm_sub_sat(rec->at, s->took);
	bool first = !j->counted && s->commands == 1;

	if (first)
		job_sample(&g->first, &g->n_first, s->took);
	j->counted += (uint32_t)FM_MIN(s->commands, (uint64_t)(UINT32_MAX - j->counted));
	if (sharing->first && m->stopping)
		sharing->own++;
	else if (sharing->first)
		sharing->others++;
	sharing->first = false;
	if (sharing->stopping || begin < sharing->until)
		keep_shared(x, m, s, m->stopping || begin < m->rested_at, first);
	else
		keep_alone(x, m, s, first);
}

static int by_each(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;
	uint64_t v = x->took / x->commands, w = y->took / y->commands;

	return v < w ? -1 : v > w;
}

/* The length of a usual command: half of the time was spent in commands that are no longer. */
static uint64_t usual(struct segment *s, size_t n)
{
	uint64_t all = 0, half = 0;

	for (size_t i = 0; i < n; i++)
		all += s[i].took;
	if (n)
		qsort(s, n, sizeof(*s), by_each);
	for (size_t i = 0; i < n; i++) {
		half += s[i].took;
		if (half >= all / 2)
			return s[i].took / s[i].commands;
	}
	return 0;
}

/* The length of a shared segment; 0: nothing is known about this group's commands. */
static uint64_t length_of(const struct reading *x, const struct shared_segment *s)
{
	unsigned __int128 most = (unsigned __int128)x->member[s->member].each * s->segment.commands;
	uint64_t input = x->r->group[s->group].input;

	if (s->first && input)
		return FM_MIN(s->segment.took, input);
	return most < s->segment.took ? (uint64_t)most : s->segment.took;
}

static void find_turns(struct reading *x)
{
	struct recorded *r = x->r;

	for (size_t i = 0; i < x->n_shared; i++) {
		const struct shared_segment *s = &x->shared[i];
		struct recorded_device *d = &r->device[r->group[s->group].device];
		uint64_t own = length_of(x, s);

		if (s->stopping && own && s->segment.took - own > own / 2)
			job_sample(&d->turn, &d->n_turn, s->segment.took - own);
	}
	for (uint32_t i = 0; i < r->devices; i++) {
		struct recorded_device *d = &r->device[i];

		d->turns = d->n_turn >= FEW && 3 * d->n_turn >= d->n_stop;
		d->fair = x->sharing[i].others > x->sharing[i].own;
	}
}

/* If the daemon looked late at the next job, segments of that job are counted to this one. So the
 * length is limited. */
static void bound(const struct recorded *r, struct recorded_job *j)
{
	uint64_t most = fm_sub_sat(FM_MIN(j->end, r->end), j->at);

	j->length = FM_MAX(FM_MIN(j->length, most), FM_SIM_COMMAND);
}

static void set_lengths(struct reading *x)
{
	struct recorded *r = x->r;
	struct recorded_job *j;

	for (uint32_t i = 0; i < r->groups; i++)
		for (size_t k = 0; r->device[r->group[i].device].turns && k < r->group[i].jobs;
			k++) {
			j = &r->group[i].job[k];
			if (!j->counted)
				continue;
			j->length = j->alone;
			if (r->group[i].input)
				j->length -= fm_sub_sat(j->first, r->group[i].input);
			j->commands = FM_MIN(j->counted, 1000000000u);
			j->how = RECORDED_APART;
		}
	for (size_t i = 0; i < x->n_shared; i++) {
		const struct shared_segment *s = &x->shared[i];

		j = &r->group[s->group].job[s->job];
		if (j->how == RECORDED_APART)
			j->length = fm_add_sat(j->length,
				x->member[s->member].each ? length_of(x, s) : s->segment.took);
	}
	for (uint32_t i = 0; i < r->groups; i++)
		for (size_t k = 0; k < r->group[i].jobs; k++)
			if (r->group[i].job[k].how == RECORDED_APART)
				bound(r, &r->group[i].job[k]);
}

/* Most first segments are longer than the command itself: they include what other groups had
 * meanwhile, and the time until the client heard of their end. So a low quantile is taken. */
static void find_input(struct recorded_group *g)
{
	uint64_t input = recorded_quantile(g->first, g->n_first, INPUT_PERCENT);

	if (g->n_first >= FEW && g->commands && input < g->alone / g->commands / 2)
		g->input = input;
}

void turns_end(struct reading *x)
{
	for (uint32_t i = 0; i < x->members; i++) {
		struct member *m = &x->member[i];

		m->each = m->n_alone >= FEW ? usual(m->alone, m->n_alone) : 0;
	}
	for (uint32_t i = 0; i < x->r->groups; i++)
		find_input(&x->r->group[i]);
	find_turns(x);
	set_lengths(x);
}

void turns_free(struct reading *x)
{
	for (uint32_t i = 0; i < x->members; i++)
		free(x->member[i].alone);
	free(x->shared);
}
