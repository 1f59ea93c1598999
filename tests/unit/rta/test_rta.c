/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of every set: drawn ones, by the thousand. Single values are in test_analyze.py.
 */
#include "base/util.h"
#include "rta/internal.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

static struct fm_rta_set *draw(uint64_t stream, const struct fm_rta_generator *g)
{
	struct fm_rta_random r;
	struct fm_rta_set *set;

	fm_rta_seed(&r, 42, stream);
	assert_int_equal(fm_rta_generate(g, &r, &set), 0);
	assert_true(set->tasks <= MOST);
	return set;
}

static bool analyze(const struct fm_rta_set *set, enum fm_rta_method m, struct fm_rta_bound *bound)
{
	fm_rta *rta;
	bool ok;

	assert_int_equal(fm_rta_new(&rta, set, NULL), 0);
	assert_int_equal(fm_rta_analyze(rta, m, bound, &ok), 0);
	fm_rta_free(rta);
	return ok;
}

/* Random numbers, sets: what another machine must draw as well. */
static void numbers_are_the_same_everywhere(void **state)
{
	struct fm_rta_random r;
	int64_t share[4];

	fm_rta_seed(&r, 1, 0);
	assert_true(fm_rta_next(&r) == UINT64_C(0x6082e9993631e7d5));
	assert_int_equal(fm_rta_uniform(&r, -5, 1000000), 912792);
	fm_rta_uunifast(&r, FM_RTA_ONE, 4, share);
	assert_true(share[0] == 713887179 && share[1] == 199485016 && share[2] == 52620748 &&
		    share[3] == 34007057);
	fm_rta_seed(&r, 1, 1);
	assert_true(fm_rta_next(&r) != UINT64_C(0x6082e9993631e7d5));
}

static void sets_are_the_same_everywhere(void **state)
{
	struct fm_rta_generator g;
	uint64_t hash = UINT64_C(14695981039346656037);

	fm_rta_generator_default(&g);
	g.best_effort = FM_RTA_ONE / 5;
	for (uint64_t k = 0; k < 20; k++) {
		struct fm_rta_set *set = draw(k, &g);

		for (size_t t = 0; t < set->tasks; t++) {
			const struct fm_rta_task *x = &set->task[t];
			int64_t v[] = {x->priority, x->cpu, x->period, x->cpu_time,
				(int64_t)x->segments, x->segments ? x->segment[0].misc : 0};

			for (size_t n = 0; n < FM_ARRAY_LEN(v); n++)
				hash = (hash ^ (uint64_t)v[n]) * UINT64_C(1099511628211);
		}
		fm_rta_set_free(set);
	}
	assert_true(hash == UINT64_C(0x119daa7a9f911908));
}

static void uniform_is_even(void **state)
{
	struct fm_rta_random r;
	int seen[6] = {0};

	fm_rta_seed(&r, 3, 0);
	for (int k = 0; k < 60000; k++) {
		int64_t v = fm_rta_uniform(&r, -2, 3);

		assert_in_range(v + 2, 0, 5);
		seen[v + 2]++;
	}
	for (int k = 0; k < 6; k++)
		assert_in_range(seen[k], 9500, 10500);
	assert_int_equal(fm_rta_uniform(&r, 7, 7), 7);
	fm_rta_uniform(&r, INT64_MIN, INT64_MAX);
}

/* Each share has the mean, and the variance, of an even distribution over all that add up. */
static void uunifast_is_even(void **state)
{
	int64_t share[5];
	double sum[5] = {0}, square[5] = {0};
	struct fm_rta_random r;

	fm_rta_seed(&r, 4, 0);
	for (int k = 0; k < 40000; k++) {
		int64_t all = 0;

		fm_rta_uunifast(&r, FM_RTA_ONE, 5, share);
		for (int n = 0; n < 5; n++) {
			double u = (double)share[n] / (double)FM_RTA_ONE;

			assert_true(share[n] >= 0);
			all += share[n];
			sum[n] += u / 40000;
			square[n] += u * u / 40000;
		}
		assert_int_equal(all, FM_RTA_ONE);
	}
	for (int n = 0; n < 5; n++) {
		double variance = square[n] - sum[n] * sum[n];

		assert_true(sum[n] > 0.196 && sum[n] < 0.204);
		assert_true(variance > 0.0255 && variance < 0.0279); /* 4/150 */
	}
}

static void worst_fit(void **state)
{
	int64_t share[] = {5, 9, 3, 7, 2};
	uint32_t bin[5], expected[] = {2, 0, 2, 1, 1}; /* 9 | 7 | 5; 5+3; 7+2 */

	assert_int_equal(fm_rta_worst_fit(share, 5, 3, bin), 0);
	assert_memory_equal(bin, expected, sizeof(bin));
	assert_int_equal(fm_rta_worst_fit(share, 5, 0, bin), -EINVAL);
}

static void check_task(const struct fm_rta_task *t, const struct fm_rta_generator *g)
{
	int64_t gpu = 0;

	assert_in_range(t->period, g->period.min, g->period.max);
	assert_true(t->cpu >= 0 && t->cpu < g->cpus && t->segments <= 3);
	for (size_t s = 0; s < t->segments; s++) {
		const struct fm_rta_segment *x = &t->segment[s];

		gpu += x->total;
		assert_true(x->misc + x->gpu == x->total && x->misc >= 0 && x->gpu >= 0);
		assert_true(x->misc * 10 <= x->total * 3 && (x->misc + 1) * 10 >= x->total);
	}
	if (t->segments) /* 0.2 to 2, but for what was rounded */
		assert_true(gpu * 5 >= t->cpu_time - 10 && gpu <= 2 * t->cpu_time + 10);
	assert_true(gpu + t->cpu_time <= t->period);
}

static void sets_are_as_asked_for(void **state)
{
	struct fm_rta_generator g;
	size_t users = 0, all = 0;

	fm_rta_generator_default(&g);
	g.best_effort = FM_RTA_ONE / 4;
	for (uint64_t k = 0; k < 300; k++) {
		struct fm_rta_set *set = draw(k, &g);
		size_t real_time = 0;

		assert_in_range(set->tasks, 12, 24);
		for (size_t t = 0; t < set->tasks; t++) {
			const struct fm_rta_task *x = &set->task[t];

			check_task(x, &g);
			users += x->segments > 0;
			real_time += x->priority >= 0;
			if (t && x->priority >= 0)
				assert_true(x[-1].priority == x->priority + 1 &&
					    x[-1].period <= x->period);
		}
		assert_int_equal(set->tasks - real_time, set->tasks / 4);
		all += set->tasks;
		fm_rta_set_free(set);
	}
	assert_true(users * 100 > all * 46 && users * 100 < all * 54);
	g.tasks = 7;
	for (uint64_t k = 0; k < 50; k++) {
		struct fm_rta_set *set = draw(k, &g);

		assert_int_equal(set->tasks, 7);
		fm_rta_set_free(set);
	}
	g.cpus = 0;
	assert_int_equal(fm_rta_generate(&g, &(struct fm_rta_random){0}, NULL), -EINVAL);
}

static int64_t least_known(const struct fm_rta_bound *b)
{
	return b->verdict == FM_RTA_MEETS ? b->wcrt : INT64_MAX;
}

static void bounds_are_monotone(void **state)
{
	struct fm_rta_bound small[MOST], large[MOST];
	struct fm_rta_generator g;
	size_t met = 0;

	fm_rta_generator_default(&g);
	g.best_effort = FM_RTA_ONE / 10;
	for (uint64_t k = 0; k < 200; k++) {
		for (unsigned m = 0; m < FM_RTA_METHODS; m++) {
			struct fm_rta_set *set = draw(k, &g);
			struct fm_rta_task *t = (struct fm_rta_task *)&set->task[k % set->tasks];

			analyze(set, (enum fm_rta_method)m, small);
			set->epsilon += 10000;
			set->theta += 10000;
			t->cpu_time += 50000;
			analyze(set, (enum fm_rta_method)m, large);
			for (size_t n = 0; n < set->tasks; n++) {
				assert_true(least_known(&small[n]) <= least_known(&large[n]));
				met += small[n].verdict == FM_RTA_MEETS;
			}
			fm_rta_set_free(set);
		}
	}
	assert_true(met > 5000);
}

/* A bound solves its equation, is no less than its own work, and is the sum of its terms. */
static void bounds_are_their_terms(void **state)
{
	struct fm_rta_generator g;

	fm_rta_generator_default(&g);
	for (uint64_t k = 0; k < 100; k++) {
		struct fm_rta_set *set = draw(k, &g);
		struct fm_rta_bound bound[MOST];
		struct fm_rta_term term[8 * MOST];
		fm_rta *rta;
		bool ok;

		assert_int_equal(fm_rta_new(&rta, set, NULL), 0);
		for (unsigned m = 0; m < FM_RTA_METHODS; m++) {
			enum fm_rta_method method = (enum fm_rta_method)m;

			assert_int_equal(fm_rta_analyze(rta, method, bound, &ok), 0);
			for (size_t t = 0; t < set->tasks; t++) {
				int n = fm_rta_explain(
					rta, method, bound, NULL, t, term, FM_ARRAY_LEN(term));
				int64_t sum = 0;

				if (bound[t].verdict == FM_RTA_SKIPPED) {
					assert_int_equal(n, -ENOENT);
					continue;
				}
				for (int x = 0; x < n; x++)
					sum += term[x].total;
				assert_int_equal(sum, bound[t].wcrt);
				assert_true(sum >= set->task[t].cpu_time);
				assert_int_equal(
					fm_rta_explain(rta, method, bound, NULL, t, term, 0), n);
			}
		}
		fm_rta_free(rta);
		fm_rta_set_free(set);
	}
}

/* Each has a level of its own, those of a CPU in the order of their priorities. */
static void gpu_priorities(void **state)
{
	struct fm_rta_generator g;
	size_t assigned = 0, gained = 0;

	fm_rta_generator_default(&g);
	g.cpu_share = (struct fm_rta_range){FM_RTA_ONE * 3 / 10, FM_RTA_ONE * 4 / 10};
	for (uint64_t k = 0; k < 300; k++) {
		struct fm_rta_set *set = draw(k, &g);
		enum fm_rta_method m = k % 2 ? FM_RTA_GCAPS_BUSY : FM_RTA_GCAPS_SUSPEND;
		struct fm_rta_bound bound[MOST];
		uint32_t level[MOST];
		uint64_t seen = 0;
		bool base, ok;
		fm_rta *rta;

		assert_int_equal(fm_rta_new(&rta, set, NULL), 0);
		assert_int_equal(fm_rta_analyze(rta, m, bound, &base), 0);
		assert_int_equal(fm_rta_gpu_priorities(rta, m, level, bound, &ok), 0);
		for (size_t t = 0; ok && t < set->tasks; t++) {
			seen |= UINT64_C(1) << level[t];
			assert_int_equal(bound[t].verdict, FM_RTA_MEETS);
			for (size_t h = 0; h < t; h++)
				if (set->task[h].cpu == set->task[t].cpu)
					assert_true(level[h] > level[t]);
		}
		if (ok)
			assert_true(seen == (UINT64_C(1) << (set->tasks + 1)) - 2);
		assigned += ok;
		gained += ok && !base;
		assert_int_equal(
			fm_rta_gpu_priorities(rta, FM_RTA_RR_BUSY, level, NULL, &ok), -EINVAL);
		fm_rta_free(rta);
		fm_rta_set_free(set);
	}
	assert_true(assigned > 50 && gained > 5);
}

/* Fractions against whole numbers: what floating point cannot tell. */
static void fractions_are_exact(void **state)
{
	struct fraction thirds[] = {{1, 3}, {1, 3}, {1, 3}};
	struct fraction close[] = {{1, 3}, {1, 3}, {333333333333333334, 1000000000000000000}};
	struct fraction below[] = {{1, 3}, {1, 3}, {333333333333333333, 1000000000000000000}};
	unsigned __int128 big = (unsigned __int128)1 << 126;
	struct fraction huge[] = {{big - 1, big}, {1, big}};
	struct fraction less[] = {{big - 1, big}, {1, big}};

	assert_int_equal(fraction_sum_sign(thirds, 3, 1), 0);
	assert_int_equal(fraction_sum_sign(close, 3, 1), 1);
	assert_int_equal(fraction_sum_sign(below, 3, 1), -1);
	assert_int_equal(fraction_sum_sign(huge, 2, 1), 0);
	assert_int_equal(fraction_sum_sign(less, 2, 2), -1);
	assert_int_equal(fraction_sum_sign(NULL, 0, 0), 0);
	assert_int_equal(fraction_sum_sign(NULL, 0, -1), 1);
}

/* The test by response times, as it is written: one nanosecond may be one step. */
static bool slow_rta(const struct fm_gedf_task *t, int n, int64_t m)
{
	int64_t slack[MOST] = {0};
	bool changed = true, all = false;

	while (changed && !all) {
		changed = false;
		all = true;
		for (int k = 0; k < n; k++) {
			int64_t r = t[k].cpu_time, next = 0;

			for (; r <= t[k].period; r = next) {
				int64_t sum = 0;

				for (int i = 0; i < n; i++) {
					int64_t c = t[i].cpu_time, p = t[i].period;
					int64_t x = r + p - c - slack[i];
					int64_t w = x / p * c + FM_MIN(c, x % p);
					int64_t rest = FM_MAX(t[k].period % p - slack[i], 0);
					int64_t e = t[k].period / p * c + FM_MIN(c, rest);

					w = FM_MIN(w, e);
					w = FM_MIN(w, r - t[k].cpu_time + 1);
					sum += i == k ? 0 : w;
				}
				next = t[k].cpu_time + sum / m;
				if (next == r)
					break;
			}
			if (r > t[k].period) {
				all = false;
				continue;
			}
			changed |= slack[k] != t[k].period - r;
			slack[k] = t[k].period - r;
		}
	}
	return all;
}

static void steps_of_edf_miss_nothing(void **state)
{
	unsigned passed = 0, failed = 0;

	for (uint64_t k = 0; k < 4000; k++) {
		struct fm_gedf_task task[12];
		bool passes[FM_GEDF_TESTS];
		struct fm_rta_random r;
		int64_t m, load = 0;
		int n;

		fm_rta_seed(&r, 9, k);
		m = fm_rta_uniform(&r, 1, 4);
		n = (int)fm_rta_uniform(&r, 1, 12);
		for (int t = 0; t < n; t++) {
			task[t].period = fm_rta_uniform(&r, 5, 400);
			task[t].cpu_time = fm_rta_uniform(&r, 1, task[t].period * 2 / 3);
			load += task[t].cpu_time * 1000 / task[t].period + 1;
		}
		if (load > m * 1000)
			continue;
		assert_int_equal(
			fm_gedf_analyze(task, (size_t)n, (uint32_t)m, FM_GEDF_NONE, passes), 0);
		assert_int_equal(passes[FM_GEDF_RTA], slow_rta(task, n, m));
		passed += passes[FM_GEDF_RTA];
		failed += !passes[FM_GEDF_RTA];
	}
	assert_true(passed > 300 && failed > 300);
}

static void charges_cost(void **state)
{
	bool before[FM_GEDF_TESTS], after[FM_GEDF_TESTS], any;
	struct fm_gedf_task task[MOST];
	struct fm_rta_random r;

	for (uint64_t k = 0; k < 300; k++) {
		int64_t sum = 0;
		size_t n;

		fm_rta_seed(&r, 11, k);
		n = fm_gedf_generate(&r, 3 * FM_RTA_ONE, task, MOST);
		for (size_t t = 0; t < n; t++) {
			assert_in_range(task[t].period, 10000000, 100000000);
			sum += task[t].cpu_time * 1000 / task[t].period;
		}
		assert_true(n > 0 && sum <= 3000 && sum > 2500);
		assert_int_equal(fm_gedf_analyze(task, n, 4, FM_GEDF_FLOOR, before), 0);
		assert_int_equal(fm_gedf_analyze(task, n, 4, FM_GEDF_CEIL, after), 0);
		any = false;
		for (int t = 0; t < FM_GEDF_TESTS; t++)
			any |= after[t];
		assert_true(before[FM_GEDF_GFB] || !after[FM_GEDF_GFB]);
		assert_int_equal(fm_gedf_schedulable(task, n, 4, FM_GEDF_CEIL, &before[0]), 0);
		assert_int_equal(before[0], any);
	}
	assert_int_equal(fm_gedf_analyze(task, 1, 0, FM_GEDF_NONE, before), -EINVAL);
	assert_int_equal(fm_gedf_analyze(task, 1, FM_GEDF_CPUS + 1, FM_GEDF_NONE, before), -EINVAL);
}

static void names(void **state)
{
	enum fm_rta_method m;

	for (unsigned k = 0; k < FM_RTA_METHODS; k++) {
		assert_int_equal(
			fm_rta_method_find(fm_rta_method_name((enum fm_rta_method)k), &m), 0);
		assert_int_equal(m, k);
	}
	assert_int_equal(fm_rta_method_find("gedf", &m), -ENOENT);
	assert_null(fm_rta_method_name(FM_RTA_METHODS));
	assert_null(fm_rta_kind_name(FM_RTA_KINDS));
	assert_null(fm_gedf_test_name(FM_GEDF_TESTS));
	assert_null(fm_gedf_charge_name(FM_GEDF_CHARGES));
}

static bool on_device(int64_t a, int64_t b, uint32_t slots, int64_t decision)
{
	/* Ten chunks each, of 100. */
	const struct fm_gedf_task task[] = {{1000, a}, {1000, b}};
	const struct fm_gedf_gpu gpu = {slots, 100, decision};
	bool ok;

	assert_int_equal(fm_gedf_gpu_schedulable(task, 2, &gpu, &ok), 0);
	return ok;
}

static void gedf_on_a_device(void **state)
{
	const struct fm_gedf_task task = {INT64_MAX / 2, INT64_MAX / 4};
	struct fm_gedf_gpu gpu = {1, 1, 3};
	bool ok;

	/* 1100 of its own, and of the other's 100 and two decisions: 1220 to the first deadline. */
	assert_true(on_device(1220, 1000000, 1, 10));
	assert_false(on_device(1219, 1000000, 1, 10));
	/* 1100 / 3000 + 1100 / 1736.8; nobody is later than the last. */
	assert_true(on_device(3000, 1737, 1, 10));
	assert_false(on_device(3000, 1736, 1, 10));
	/* Without charges, and with equal deadlines, it is EDF. */
	assert_true(on_device(2000, 2000, 1, 0));
	assert_false(on_device(2000, 2000, 1, 1));
	/* Two slots: each has one, but twice the chunk and its decisions are charged to the first.
	 */
	assert_true(on_device(1341, 1000000, 2, 10));
	assert_false(on_device(1340, 1000000, 2, 10));
	assert_int_equal(fm_gedf_gpu_schedulable(&task, 1, &gpu, &ok), -EOVERFLOW);
	gpu.chunk = 0;
	assert_int_equal(fm_gedf_gpu_schedulable(&task, 1, &gpu, &ok), -EINVAL);
	gpu = (struct fm_gedf_gpu){0, 1, 1};
	assert_int_equal(fm_gedf_gpu_schedulable(&task, 1, &gpu, &ok), -EINVAL);
}

/* Of these the second task misses a deadline, in simulation: the third one's chunks keep one slot
 * while the first one, again and again, takes the other. Tests by interference pass them. */
static void displaced_on_a_device(void **state)
{
	static const struct {
		struct fm_gedf_task task[3];
		int64_t chunk;
	} known[] = {
		{{{5, 26}, {437, 450}, {732, 8608}}, 5}, {{{9, 33}, {466, 489}, {543, 8089}}, 10}};

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++) {
		const struct fm_gedf_gpu gpu = {2, known[i].chunk, 0};
		bool ok = true;

		assert_int_equal(fm_gedf_gpu_schedulable(known[i].task, 3, &gpu, &ok), 0);
		assert_false(ok);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_the_same_everywhere),
		cmocka_unit_test(sets_are_the_same_everywhere),
		cmocka_unit_test(uniform_is_even),
		cmocka_unit_test(uunifast_is_even),
		cmocka_unit_test(worst_fit),
		cmocka_unit_test(sets_are_as_asked_for),
		cmocka_unit_test(bounds_are_monotone),
		cmocka_unit_test(bounds_are_their_terms),
		cmocka_unit_test(gpu_priorities),
		cmocka_unit_test(fractions_are_exact),
		cmocka_unit_test(steps_of_edf_miss_nothing),
		cmocka_unit_test(charges_cost),
		cmocka_unit_test(names),
		cmocka_unit_test(gedf_on_a_device),
		cmocka_unit_test(displaced_on_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
