/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan of a device's memory costs, by groups and extents. The groups take turns; two of them
 * fit at a time; the plan is for the middle of a turn, when the next group's memory is to come in.
 *
 *   bench_core_mem [--groups N] [--extents N] [--seconds S]
 */
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "mem/mem.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK (UINT64_C(128) << 20)
#define TURN  (100 * FM_MS)

struct bench {
	struct fm_mem_world w;
	struct fm_extent *extent;
	struct fm_mem_group *group;
	struct fm_mem_turn *turn;
};

static bool make(struct bench *b, unsigned groups, unsigned each, const char *policy)
{
	unsigned n = groups * each;

	*b = (struct bench){0};
	b->extent = calloc(n, sizeof(*b->extent));
	b->group = calloc(groups, sizeof(*b->group));
	b->turn = calloc(2 * (size_t)groups, sizeof(*b->turn));
	if (!b->extent || !b->group || !b->turn)
		return false;
	for (unsigned i = 0; i < n; i++) {
		unsigned at = i % each;

		/* Some of it is cold; the rest is used in turn, in an order of its own. */
		b->extent[i] = (struct fm_extent){.bytes = CHUNK,
			.next = at % 10 == 9 ? FM_NEVER : at * UINT64_C(2654435761) % TURN,
			.client = i / each,
			.kept = at % 3 == 0,
			.where = i < 2 * each ? FM_ON_DEVICE : FM_ON_HOST};
	}
	for (unsigned i = 0; i < groups; i++)
		b->group[i] = (struct fm_mem_group){
			.first = i * each, .n = each, .turn = TURN, .running = i == 0};
	for (unsigned k = 0; k < 2 * groups; k++)
		b->turn[k] =
			(struct fm_mem_turn){(k ? k + 1 : 0) % groups, k * TURN, (k + 1) * TURN};
	b->w = (struct fm_mem_world){.policy = fm_mem_policy_find(policy),
		.now = TURN / 2,
		.capacity = 2 * each * CHUNK,
		.host_left = UINT64_MAX,
		.link = {UINT64_C(55000000000), UINT64_C(55000000000), UINT64_C(78000000000), 0},
		.slack = 5 * FM_MS,
		.window = 2 * CHUNK,
		.extent = b->extent,
		.group = b->group,
		.turn = b->turn,
		.extents = n,
		.groups = groups,
		.turns = 2 * groups,
		.clients = groups};
	return true;
}

static void run(unsigned groups, unsigned each, const char *policy, double seconds)
{
	static struct fm_hist h;
	struct fm_mem_plan plan = {0};
	struct bench b;
	uint64_t end;

	fm_hist_reset(&h);
	if (!make(&b, groups, each, policy))
		exit(1);
	end = fm_now() + (uint64_t)(seconds * (double)FM_S);
	while (fm_now() < end) {
		uint64_t from = fm_now();

		if (fm_mem_plan(&plan, &b.w))
			exit(1);
		fm_hist_add(&h, fm_now() - from);
	}
	printf("mem %s %u groups of %u extents, in %u out %u: least %.1f us, p50 %.1f us, p99 %.1f "
	       "us\n",
		policy, groups, each, plan.n_in, plan.n_out, (double)h.min / 1e3,
		(double)fm_hist_quantile(&h, 0.5) / 1e3, (double)fm_hist_quantile(&h, 0.99) / 1e3);
	fm_mem_plan_free(&plan);
	free(b.extent);
	free(b.group);
	free(b.turn);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"groups", 1, NULL, 'g'}, {"extents", 1, NULL, 'e'},
		{"seconds", 1, NULL, 's'}, {0}};
	unsigned groups = 32, each = 1000;
	double seconds = 1;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'g')
			groups = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'e')
			each = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 's')
			seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	if (groups < 3 || !each)
		return 2;
	for (const struct fm_mem_policy *const *p = fm_mem_policies; *p; p++)
		run(groups, each, (*p)->name, seconds);
	return 0;
}
