/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the decision about one more task takes, with so many admitted: the time in which the
 * daemon does nothing else. One line a number, with its unit.
 *
 *   bench_core_admit [--tasks N] [--rounds R]
 *
 * N: 1000 if it is not given. The last task asks R times (20): as the most urgent of all, so that
 * every bound is found anew; as the least urgent; and, each time, as one that has to be refused.
 * warm: the set has only grown since its bounds were found; cold: a task has left just before.
 */
#include "admit/admit.h"
#include "base/clock.h"
#include "base/hist.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define CPUS 16

static uint64_t no_use(void *ctx, void *data, uint64_t now, unsigned *devices)
{
	*devices = 0;
	return 0;
}

static void no_place(void *ctx, void *data, enum fm_astate state, int64_t place, uint64_t now)
{
}

static const struct fm_admit_host host = {.used = no_use, .place = no_place};

/* Periods from 50 ms to 2 s, by which priorities are; together a quarter of the device and a sixth
 * of each CPU, with the time that changes take. */
static struct fm_admit_spec task(unsigned i, unsigned n)
{
	int64_t period = 50000000 + (int64_t)i * (1950000000 / (int64_t)n);
	int64_t gpu = period / (4 * n), cpu = period * CPUS / (6 * (int64_t)n);
	struct fm_admit_spec s = {.cpu = i % CPUS,
		.period = period,
		.deadline = period,
		.cpu_time = cpu,
		.gpu_total = FM_RTA_UNSET,
		.segments = 1,
		.segment = {{.total = gpu + gpu / 10, .misc = gpu / 10, .gpu = gpu}},
		.epsilon = 2000};

	snprintf(s.name, sizeof(s.name), "task-%u", i);
	return s;
}

static void fill(struct fm_admit *a, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct fm_admit_spec s = task(i, n);
		struct fm_admit_answer answer = {0};
		struct fm_atask *t;
		struct fm_err err = {0};

		if (fm_admit_ask(a, &s, 1, false, true, &t, &answer, 0, &err) || !answer.admitted) {
			fprintf(stderr, "%s: %s%s\n", s.name, err.text, answer.why);
			exit(1);
		}
	}
}

/* One that is admitted and leaves again makes the next decision begin from nothing. */
static void forget(struct fm_admit *a)
{
	struct fm_admit_spec s = {.period = FM_S,
		.deadline = FM_S,
		.cpu_time = 1,
		.own_cpu = true,
		.gpu_total = FM_RTA_UNSET,
		.epsilon = 2000,
		.name = "passer-by"};
	struct fm_admit_answer answer = {0};
	struct fm_atask *t;
	struct fm_err err;

	if (!fm_admit_ask(a, &s, 1, false, true, &t, &answer, 0, &err) && t)
		fm_admit_remove(a, t);
}

static void measure(struct fm_admit *a, unsigned rounds, const char *name,
	const struct fm_admit_spec *s, bool cold, bool reassign)
{
	struct fm_hist h;
	bool admitted = false;

	fm_hist_reset(&h);
	for (unsigned r = 0; r < rounds; r++) {
		struct fm_admit_answer answer = {0};
		struct fm_atask *t;
		struct fm_err err = {0};
		uint64_t begin;

		if (cold)
			forget(a);
		begin = fm_now();
		if (fm_admit_ask(a, s, 1, reassign, false, &t, &answer, 0, &err))
			exit(1);
		fm_hist_add(&h, fm_now() - begin);
		admitted = answer.admitted;
	}
	printf("admit_%s %s\n", name, admitted ? "admitted" : "refused");
	printf("admit_%s_p50 %.3f ms\n", name, (double)fm_hist_quantile(&h, 0.5) / 1e6);
	printf("admit_%s_max %.3f ms\n", name, (double)h.max / 1e6);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"tasks", required_argument, NULL, 't'},
		{"rounds", required_argument, NULL, 'r'}, {0}};
	unsigned n = 1000, rounds = 20;
	struct fm_admit_spec first, last, much;
	struct fm_admit *a;
	int c;

	while ((c = getopt_long(argc, argv, "t:r:", options, NULL)) != -1) {
		if (c == 't')
			n = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			rounds = (unsigned)strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (n < 2 || n > FM_ADMIT_TASKS - 1 || !rounds || fm_admit_new(&a, &host, NULL))
		return 2;
	fill(a, n - 1);
	first = last = much = task(n - 1, n);
	first.priority = 1;
	much.priority = 1;
	much.segment[0] = (struct fm_rta_segment){much.period, 0, much.period};
	printf("admit_tasks %u 1\n", n);
	measure(a, rounds, "last_warm", &last, false, false);
	measure(a, rounds, "first_warm", &first, false, false);
	measure(a, rounds, "refused_warm", &much, false, false);
	measure(a, rounds, "last_cold", &last, true, false);
	measure(a, rounds, "first_cold", &first, true, false);
	measure(a, rounds, "gpu_priority_cold", &much, true, true);
	fm_admit_free(a);
	return 0;
}
