/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of global EDF against an exact simulation, tick by tick: sets that pass miss no
 * deadline, together or apart, whether jobs come as often as they may or later. And each test
 * passes sets of which one task must not take a tick longer.
 *
 *   test_gedf_sim               some seconds
 *   test_gedf_sim SETS [SEED]   prints what came of it
 */
#include <fermata/rta.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASKS   8
#define CPUS    4
#define HORIZON 1000
#define SETS    6000

struct world {
	struct fm_rta_random r;
	struct fm_gedf_task task[TASKS];
	int64_t next[TASKS], left[TASKS], deadline[TASKS];
	bool sporadic;
	uint64_t jobs;
};

struct tally {
	uint64_t sets, jobs, passed[FM_GEDF_TESTS];
	uint64_t missed, first;
	uint64_t edge[FM_GEDF_TESTS]; /* passed, and a tick more is too much */
};

static int64_t draw(struct world *w, int64_t min, int64_t max)
{
	return fm_rta_uniform(&w->r, min, max);
}

static void make_set(struct world *w, uint64_t seed, size_t *n, uint32_t *cpus)
{
	memset(w, 0, sizeof(*w));
	fm_rta_seed(&w->r, seed, 0);
	*cpus = (uint32_t)draw(w, 1, CPUS);
	*n = (size_t)draw(w, *cpus, *cpus + 1 < TASKS ? *cpus + 3 : TASKS);
	for (size_t k = 0; k < *n; k++) {
		w->task[k].period = draw(w, 2, 16);
		w->task[k].cpu_time =
			draw(w, 1, 1 + w->task[k].period * (draw(w, 0, 2) ? 1 : 2) / 2);
		if (w->task[k].cpu_time > w->task[k].period)
			w->task[k].cpu_time = w->task[k].period;
	}
}

static bool release(struct world *w, size_t n, int64_t now)
{
	for (size_t k = 0; k < n; k++) {
		if (w->left[k] && w->deadline[k] <= now)
			return false;
		if (w->next[k] > now)
			continue;
		w->left[k] = w->task[k].cpu_time;
		w->deadline[k] = now + w->task[k].period;
		w->next[k] = w->deadline[k] + (w->sporadic && !draw(w, 0, 2) ? draw(w, 0, 5) : 0);
		w->jobs++;
	}
	return true;
}

static void tick(struct world *w, size_t n, uint32_t cpus)
{
	bool runs[TASKS] = {0};

	for (uint32_t c = 0; c < cpus; c++) {
		size_t best = TASKS;

		for (size_t k = 0; k < n; k++)
			if (w->left[k] && !runs[k] &&
				(best == TASKS || w->deadline[k] < w->deadline[best]))
				best = k;
		if (best == TASKS)
			return;
		runs[best] = true;
		w->left[best]--;
	}
}

/* Is every deadline met? */
static bool simulate(struct world *w, size_t n, uint32_t cpus)
{
	bool together = draw(w, 0, 1);

	w->sporadic = draw(w, 0, 1);
	memset(w->left, 0, sizeof(w->left));
	for (size_t k = 0; k < n; k++)
		w->next[k] = together ? 0 : draw(w, 0, 20);
	for (int64_t now = 0; now < HORIZON; now++) {
		if (!release(w, n, now))
			return false;
		tick(w, n, cpus);
	}
	return true;
}

static bool often(struct world *w, size_t n, uint32_t cpus)
{
	return simulate(w, n, cpus) && simulate(w, n, cpus) && simulate(w, n, cpus);
}

static void one_set(uint64_t seed, struct tally *t)
{
	bool passes[FM_GEDF_TESTS], any = false, kept;
	struct world w;
	uint32_t cpus;
	size_t n, k;

	make_set(&w, seed, &n, &cpus);
	assert_int_equal(fm_gedf_analyze(w.task, n, cpus, FM_GEDF_NONE, passes), 0);
	for (int i = 0; i < FM_GEDF_TESTS; i++) {
		t->passed[i] += passes[i];
		any |= passes[i];
	}
	if (!any)
		return;
	t->sets++;
	if (!often(&w, n, cpus))
		t->first = t->missed++ ? t->first : seed;
	t->jobs += w.jobs;
	k = (size_t)draw(&w, 0, (int64_t)n - 1);
	w.task[k].cpu_time++;
	kept = often(&w, n, cpus);
	for (int i = 0; i < FM_GEDF_TESTS; i++)
		t->edge[i] += passes[i] && !kept;
}

static struct tally try_sets(uint64_t seed, uint64_t n)
{
	struct tally t = {0};

	for (uint64_t i = 0; i < n; i++)
		one_set(seed + i, &t);
	return t;
}

static void who_passes_misses_nothing(void **state)
{
	struct tally t = try_sets(1, SETS);

	if (t.missed)
		fail_msg("set %llu", (unsigned long long)t.first);
	for (int i = 0; i < FM_GEDF_TESTS; i++) {
		assert_true(t.passed[i] > SETS / 20);
		assert_true(t.edge[i] > SETS / 200);
	}
}

static int print_all(uint64_t sets, uint64_t seed)
{
	struct tally t = try_sets(seed, sets);

	printf("gedf: %llu sets that pass, %llu jobs, %llu of them with a deadline missed",
		(unsigned long long)t.sets, (unsigned long long)t.jobs,
		(unsigned long long)t.missed);
	if (t.missed)
		printf("; set %llu", (unsigned long long)t.first);
	printf("\n%-8s%12s%22s\n", "TEST", "PASSED", "A TICK MORE MISSES");
	for (int i = 0; i < FM_GEDF_TESTS; i++)
		printf("%-8s%12llu%22llu\n", fm_gedf_test_name((enum fm_gedf_test)i),
			(unsigned long long)t.passed[i], (unsigned long long)t.edge[i]);
	return t.missed != 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_passes_misses_nothing)};

	if (argc == 2 || argc == 3)
		return print_all(
			strtoull(argv[1], NULL, 10), argc == 3 ? strtoull(argv[2], NULL, 10) : 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
