/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many random sets of tasks are analysed in a second, by one thread: the default generator's
 * (Table 3 of GCAPS). One line a number, with its unit.
 *
 *   bench_core_rta [--sets N] [--rounds R]
 *
 * N: 20000 sets, R: 20 times each. Rates are by the thread's CPU time, which other work on the
 * machine leaves nearly as it is, and by the clock (_wall).
 * analyze: bounds of a set that is prepared; whole: checked, copied, analysed and freed besides.
 */
#include "base/clock.h"
#include <fermata/rta.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define TASKS_MAX 256

struct bench {
	struct fm_rta_set **set;
	fm_rta **rta;
	unsigned sets, rounds, passed;
	struct fm_rta_bound bound[TASKS_MAX];
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * FM_S + (uint64_t)ts.tv_nsec;
}

static void generate(struct bench *b)
{
	struct fm_rta_generator g;
	struct fm_rta_random r;
	uint64_t tasks = 0;

	b->set = calloc(b->sets, sizeof(struct fm_rta_set *));
	b->rta = calloc(b->sets, sizeof(fm_rta *));
	if (!b->set || !b->rta)
		exit(1);
	fm_rta_generator_default(&g);
	fm_rta_seed(&r, 1, 1);
	for (unsigned k = 0; k < b->sets; k++) {
		if (fm_rta_generate(&g, &r, &b->set[k]) || b->set[k]->tasks > TASKS_MAX ||
			fm_rta_new(&b->rta[k], b->set[k], NULL))
			exit(1);
		tasks += b->set[k]->tasks;
	}
	printf("rta_sets %u 1\n", b->sets);
	printf("rta_tasks_per_set %.1f 1\n", (double)tasks / b->sets);
}

static void analyze(struct bench *b, const fm_rta *rta, enum fm_rta_method method)
{
	bool ok;

	if (fm_rta_analyze(rta, method, b->bound, &ok))
		exit(1);
	b->passed += ok;
}

static void prepared(struct bench *b, unsigned k, enum fm_rta_method method)
{
	analyze(b, b->rta[k], method);
}

static void whole(struct bench *b, unsigned k, enum fm_rta_method method)
{
	fm_rta *rta;

	if (fm_rta_new(&rta, b->set[k], NULL))
		exit(1);
	analyze(b, rta, method);
	fm_rta_free(rta);
}

static void measure(struct bench *b, const char *what, enum fm_rta_method method,
	void (*once)(struct bench *b, unsigned k, enum fm_rta_method method))
{
	uint64_t wall = fm_now(), cpu = cpu_ns();
	double n = (double)b->sets * b->rounds;

	b->passed = 0;
	for (unsigned r = 0; r < b->rounds; r++)
		for (unsigned k = 0; k < b->sets; k++)
			once(b, k, method);
	cpu = cpu_ns() - cpu;
	wall = fm_now() - wall;
	printf("rta_%s_%s %.0f sets/s\n", what, fm_rta_method_name(method), n * 1e9 / (double)cpu);
	printf("rta_%s_%s_wall %.0f sets/s\n", what, fm_rta_method_name(method),
		n * 1e9 / (double)wall);
	printf("rta_%s_%s_schedulable %.1f %%\n", what, fm_rta_method_name(method),
		100 * b->passed / n);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"sets", required_argument, NULL, 's'},
		{"rounds", required_argument, NULL, 'r'}, {0}};
	struct bench b = {.sets = 20000, .rounds = 20};
	int c;

	while ((c = getopt_long(argc, argv, "s:r:", options, NULL)) != -1) {
		if (c == 's')
			b.sets = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			b.rounds = (unsigned)strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (!b.sets || !b.rounds)
		return 2;
	generate(&b);
	for (unsigned m = 0; m < FM_RTA_METHODS; m++)
		measure(&b, "analyze", (enum fm_rta_method)m, prepared);
	measure(&b, "whole", FM_RTA_GCAPS_SUSPEND, whole);
	for (unsigned k = 0; k < b.sets; k++) {
		fm_rta_free(b.rta[k]);
		fm_rta_set_free(b.set[k]);
	}
	free(b.rta);
	free(b.set);
	return 0;
}
