// SPDX-License-Identifier: Apache-2.0
/* On how many multiprocessors a group pads by itself, against simulated urgent groups. */
#include "base/util.h"
#include "bridge/pad_auto.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TARGET 30000u /* parts of a million */

static unsigned percent = 3;

#define JOB   2400000u /* ns */
#define SOON  20u      /* jobs until it must have found its number */
#define LATER 1000u

/* How much longer a job takes beside k multiprocessors, in parts of a million. */
typedef unsigned response(unsigned k);

static unsigned flat(unsigned k)
{
	return 1000;
}

static unsigned linear(unsigned k)
{
	return k * 600;
}

static unsigned cliff(unsigned k)
{
	return k > 16 ? 200000 : 2000;
}

static unsigned hurts_at_once(unsigned k)
{
	return 190000;
}

static uint64_t random_state;

/* From 0 to 2 n. */
static unsigned noise(unsigned n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return n ? (unsigned)(random_state >> 33) % (2 * n + 1) : 0;
}

static void one_job(struct pad_auto *a, response *r, unsigned n, uint64_t kind)
{
	bool alone = pad_auto_alone(a);
	uint64_t took = JOB * kind;

	took += took * ((alone ? 0 : r(a->k)) + noise(n)) / 1000000;
	pad_auto_job(a, kind, took, !alone);
}

/* Returns the largest number after the first jobs. */
static unsigned settles(response *r, unsigned n, unsigned kinds, unsigned jobs)
{
	unsigned low = 1000, high = 0;
	struct pad_auto a;

	random_state = 7;
	pad_auto_init(&a, percent);
	for (unsigned i = 0; i < SOON; i++)
		one_job(&a, r, n, 1);
	for (unsigned i = 0; i < jobs; i++) {
		one_job(&a, r, n, 1 + i % kinds);
		low = FM_MIN(low, a.k);
		high = FM_MAX(high, a.k);
	}
	assert_true(high - low <= PAD_STEP);
	assert_true(!high || !r(high) || high <= PAD_MOST);
	return high;
}

static void test_flat(void **state)
{
	assert_int_equal(settles(flat, 0, 1, LATER), PAD_MOST);
	assert_int_equal(settles(flat, 0, 3, LATER), PAD_MOST);
}

/* Between half of the target and all of it there is nothing to be gained. */
static void test_linear(void **state)
{
	unsigned k = settles(linear, 0, 1, LATER);

	assert_in_range(linear(k), TARGET / 2, TARGET);
}

static void test_other_target(void **state)
{
	unsigned k = settles(linear, 0, 1, LATER);

	percent = 1;
	assert_true(settles(linear, 0, 1, LATER) < k);
	percent = 3;
}

static void test_cliff(void **state)
{
	assert_in_range(settles(cliff, 0, 1, LATER), 16, 24);
}

static void test_hurts_at_once(void **state)
{
	assert_in_range(settles(hurts_at_once, 0, 1, LATER), 0, PAD_STEP);
}

static void test_noise(void **state)
{
	assert_in_range(settles(cliff, 10000, 1, LATER), 16, 24);
	assert_true(linear(settles(linear, 5000, 1, LATER)) <= TARGET);
	assert_in_range(settles(hurts_at_once, 10000, 2, LATER), 0, PAD_STEP);
}

/* Each 16th job runs alone; one of a kind that was never seen alone teaches nothing. */
static void test_runs_alone(void **state)
{
	unsigned alone = 0;
	struct pad_auto a;

	pad_auto_init(&a, 3);
	assert_true(pad_auto_alone(&a));
	for (unsigned i = 0; i < 161; i++) {
		alone += pad_auto_alone(&a);
		one_job(&a, flat, 0, 1);
	}
	assert_int_equal(alone, 11);
	assert_false(pad_auto_job(&a, 99, 5 * JOB, true));
	assert_false(pad_auto_job(&a, 99, 0, true));
	assert_int_equal(a.k, PAD_MOST);
}

/* What was too much is tried again, but seldom. */
static void test_tries_again(void **state)
{
	struct pad_auto a;
	unsigned hurt = 0;

	pad_auto_init(&a, 3);
	for (unsigned i = 0; i < 2000; i++) {
		hurt += !pad_auto_alone(&a) && a.k > 16;
		one_job(&a, cliff, 0, 1);
	}
	assert_in_range(hurt, 4, 20);
	for (unsigned i = 0; i < 10000; i++)
		one_job(&a, flat, 0, 1);
	assert_int_equal(a.k, PAD_MOST);
}

/* A job as long as none is. */
static void test_extremes(void **state)
{
	struct pad_auto a;

	pad_auto_init(&a, 3);
	pad_auto_job(&a, 1, 1, false);
	pad_auto_job(&a, 1, UINT64_MAX, true);
	pad_auto_job(&a, 1, UINT64_MAX, true);
	assert_int_equal(a.k, 0);
	pad_auto_job(&a, 1, UINT64_MAX, false);
	for (unsigned i = 0; i < 100; i++)
		pad_auto_job(&a, i, UINT64_MAX - i, i % 2);
	assert_true(a.k <= PAD_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flat),
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_other_target),
		cmocka_unit_test(test_cliff),
		cmocka_unit_test(test_hurts_at_once),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_runs_alone),
		cmocka_unit_test(test_tries_again),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
