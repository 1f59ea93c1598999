/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a recording as a workload. fermata-lab-sim(1) describes the format. */
#include "base/clock.h"
#include "base/parse.h"
#include "recorded.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STOPS_FEW 5
#define LATE_FEW  5

/* Writes untrusted text in a comment: on one line, and without anything that steers a terminal. */
static void comment(FILE *f, const char *text)
{
	for (; *text; text++)
		fputc(*text >= ' ' && *text <= '~' ? *text : '?', f);
}

static void head_lengths(const struct recorded *r, FILE *f)
{
	const uint64_t *how = r->how;

	fprintf(f,
		"# %" PRIu64 " jobs: of %" PRIu64
		" the length is what the scheduler charged, of %" PRIu64 " what the program\n"
		"# measured, of %" PRIu64 " for how long its gate was open.\n",
		how[RECORDED_CHARGED] + how[RECORDED_MEASURED] + how[RECORDED_ELAPSED] +
			how[RECORDED_APART],
		how[RECORDED_CHARGED], how[RECORDED_MEASURED] + how[RECORDED_APART],
		how[RECORDED_ELAPSED]);
}

static void head(const struct recorded *r, FILE *f, const char *from)
{
	fputs("# Recorded by fermata " FM_VERSION " from ", f);
	comment(f, from);
	fputs(". `fermata-lab sim' runs it; fermata-record(1) explains it.\n", f);
	head_lengths(r, f);
	if (r->lost)
		fprintf(f, "# LOST: %" PRIu64 " records. Jobs are missing, or are two in one.\n",
			r->lost);
	if (r->unknown)
		fprintf(f, "# %" PRIu64 " records of unknown events were left out.\n", r->unknown);
	if (r->policies > 1)
		fprintf(f,
			"# The policy was changed %" PRIu64
			" times meanwhile: the first is here.\n",
			r->policies - 1);
}

static void put_policy(const struct recorded *r, FILE *f)
{
	char name[RECORDED_POLICY];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(r->policy, " "), r->policy);
	if (fm_policy_find(name)) {
		fprintf(f, "policy = %s\n", r->policy);
		return;
	}
	fprintf(f, "# Recorded under %s, which is not built in: give --policy ./NAME.so.\n",
		*name ? name : "a policy that it does not name");
	fputs("policy = fixed-priority\n", f);
}

/* The level at which the device was seen to stop, or else the deepest that its queues can do. */
static unsigned level_of(const struct recorded_device *d)
{
	unsigned best = 0;

	for (unsigned l = 1; l <= 3; l++)
		if (d->stopped[l] > d->stopped[best])
			best = l;
	for (unsigned l = 3; l && !best; l--)
		if (d->levels & 1u << l)
			best = l;
	return best ? best : 2;
}

/* A little more than most segments took, because a gate is in front of the first command that does
 * not fit. */
static uint64_t spacing_of(const struct recorded_device *d)
{
	uint64_t median = recorded_median(d->took, d->n_took);
	uint64_t more = d->took_all / FM_MAX(4 * d->commands, UINT64_C(1));

	return FM_MAX(median + FM_MIN(more, median / 4), 10 * FM_US);
}

/* In a uniform distribution, half of the values lie between the first and the third quartile. */
static void put_slice(const struct recorded_device *d, FILE *f)
{
	uint64_t low = recorded_quantile(d->turn, d->n_turn, 25);
	uint64_t high = recorded_quantile(d->turn, d->n_turn, 75);
	uint64_t edge = (high - low) / 2;

	fputs("# Who was stopped and who was chosen had it in such turns.\n", f);
	fprintf(f, "slice = uniform %" PRIu64 "ns %" PRIu64 "ns\nturns = %s\n",
		FM_MAX(fm_sub_sat(low, edge), FM_SIM_COMMAND), high + edge,
		d->fair ? "fair" : "in-order");
}

static void put_device(const struct recorded_device *d, FILE *f)
{
	unsigned level = level_of(d);

	fputs("\n# ", f);
	comment(f, d->label);
	fprintf(f, "\n[device %s]\nlevel = %u\n", d->name, level);
	if (level == 2 && d->n_took >= RECORDED_SAMPLES / 256) {
		fputs("# The median of its segments, and a quarter of a command.\n", f);
		fprintf(f, "spacing = %" PRIu64 "ns\n", spacing_of(d));
	}
	if (level == 2 && !strncmp(d->label, "cuda", 4))
		fputs("lead = 0\n", f);
	if (level == 3 && d->n_stop >= STOPS_FEW) {
		fputs("# The median of its stops.\n", f);
		fprintf(f, "flush = %" PRIu64 "ns\n", recorded_median(d->stop, d->n_stop));
	}
	if (d->n_open >= STOPS_FEW) {
		fputs("# From an open gate until commands went on, the median.\n", f);
		fprintf(f, "open = %" PRIu64 "ns\n", recorded_median(d->open, d->n_open));
	}
	if (level < 3 && d->turns)
		put_slice(d, f);
}

static void put_hint(FILE *f, const struct fm_sim_change *c, const char *between)
{
	fprintf(f, "%s%s%" PRId64 "%s\n", fm_hint_name(c->hint), between, c->value,
		fm_hint_suffix(c->hint));
}

/* The group begins with the hints that were set when it came. Defaults are those of workloads. */
static void put_hints(const struct recorded_group *g, uint64_t begin, FILE *f)
{
	struct fm_sim_change first[FM_HINT_COUNT];
	uint32_t set = 0;
	size_t i = 0;

	for (; i < g->changes && g->change[i].at <= begin; i++) {
		first[g->change[i].hint] = g->change[i];
		set |= 1u << g->change[i].hint;
	}
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		if (set & 1u << h)
			put_hint(f, &first[h], " = ");
	for (; i < g->changes; i++) {
		fprintf(f, "change = %" PRIu64 "ns ", g->change[i].at - begin);
		put_hint(f, &g->change[i], "=");
	}
}

static void put_jobs(const struct recorded_group *g, FILE *f)
{
	for (size_t i = 0; i < g->jobs; i++) {
		const struct recorded_job *j = &g->job[i];

		fprintf(f, "job = %" PRIu64 "ns %" PRIu64 "ns %u", fm_sub_sat(j->at, g->start),
			j->length, j->commands);
		if (i)
			fprintf(f, " %" PRIu64 "ns", recorded_pause(g, i));
		fputc('\n', f);
	}
}

static void put_input(const struct recorded_group *g, FILE *f)
{
	if (!g->input)
		return;
	fputs("# Its jobs begin with a command that is shorter than the others.\n", f);
	fprintf(f, "input = %" PRIu64 "ns\n", g->input);
}

static void put_arrivals(const struct recorded_group *g, FILE *f, char how)
{
	const char *why = "asked for";
	bool clocked = how == 'o';

	if (how == 'a')
		clocked = recorded_clocked(g, &why);
	fprintf(f, "# %s\n", why);
	if (clocked)
		fputs("arrive = trace\nqueue = 10000000\n", f);
	else
		fputs("arrive = closed trace\n", f);
}

static void put_group(const struct recorded *r, const struct recorded_group *g, FILE *f, char how)
{
	fputs("\n# ", f);
	comment(f, *g->label ? g->label : g->name);
	fputs(" on ", f);
	comment(f, r->device[g->device].label);
	if (g->away)
		fprintf(f, "; %" PRIu64 " times it was not there for a while", g->away);
	if (g->elsewhere)
		fputs("; it has work on other devices, too, and is not a gang here", f);
	fprintf(f, "\n[group %s]\ndevices = %s\n", g->name, r->device[g->device].name);
	if (g->start > r->begin)
		fprintf(f, "start = %" PRIu64 "ns\n", g->start - r->begin);
	if (g->stop < r->end)
		fprintf(f, "stop = %" PRIu64 "ns\n", FM_MAX(g->stop, g->start + 1) - r->begin);
	put_hints(g, g->start, f);
	put_input(g, f);
	put_arrivals(g, f, how);
	put_jobs(g, f);
}

bool recorded_write(const struct recorded *r, FILE *f, const char *from, char how)
{
	head(r, f, from);
	fputs("\n[workload]\n", f);
	put_policy(r, f);
	fprintf(f, "duration = %" PRIu64 "ns\n", FM_MAX(r->end - r->begin, UINT64_C(1)));
	if (r->linger == FM_LINGER_AUTO)
		fputs("linger = auto\n", f);
	else
		fprintf(f, "linger = %" PRIu64 "ns\n", r->linger);
	if (r->n_late >= LATE_FEW) {
		fputs("# How late the daemon was where it waited for a time, the median.\n", f);
		fprintf(f, "late = %" PRIu64 "ns\n", recorded_median(r->late, r->n_late));
	}
	for (uint32_t i = 0; i < r->devices; i++)
		put_device(&r->device[i], f);
	for (uint32_t i = 0; i < r->groups; i++)
		put_group(r, &r->group[i], f, how);
	return !ferror(f);
}
