/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes out for whom. */
#include "base/clock.h"
#include "bridge/victims.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW 1000

static uint64_t choose(struct victim *v, unsigned n, uint64_t want, uint64_t least)
{
	uint64_t when;

	return victims_choose(v, n, want, least, NOW, &when);
}

static bool goes(const struct victim *v, unsigned n, uint64_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		if (v[i].bytes == bytes)
			return v[i].goes;
	fail();
	return false;
}

static void the_idle_first_and_of_them_the_longest(void **state)
{
	struct victim v[] = {
		{.state = VICTIM_RUNS, .since = 1, .bytes = 11},
		{.state = VICTIM_STOPPED, .since = 2, .bytes = 12},
		{.state = VICTIM_IDLE, .since = 900, .bytes = 13},
		{.state = VICTIM_IDLE, .since = 100, .bytes = 14},
	};

	(void)state;
	assert_int_equal(choose(v, 4, 10, 10), 14);
	assert_true(goes(v, 4, 14));
	assert_int_equal(choose(v, 4, 20, 20), 27);
	assert_true(goes(v, 4, 13) && !goes(v, 4, 12));
	assert_int_equal(choose(v, 4, 30, 30), 39);
	assert_true(goes(v, 4, 12) && !goes(v, 4, 11));
	assert_int_equal(choose(v, 4, 50, 50), 50);
	assert_true(goes(v, 4, 11));
}

static void nobody_goes_in_vain(void **state)
{
	struct victim v[] = {
		{.state = VICTIM_IDLE, .since = 1, .bytes = 5},
		{.state = VICTIM_IDLE, .since = 2, .bytes = 40},
	};

	(void)state;
	/* The second is enough, so the first stays. */
	assert_int_equal(choose(v, 2, 40, 40), 40);
	assert_true(!goes(v, 2, 5) && goes(v, 2, 40));
	/* Both together are too little. */
	assert_int_equal(choose(v, 2, 46, 46), 0);
	assert_true(!goes(v, 2, 5) && !goes(v, 2, 40));
	/* Where less would help as well, both go. */
	assert_int_equal(choose(v, 2, 100, 1), 45);
	assert_int_equal(choose(v, 0, 1, 1), 0);
	assert_int_equal(choose(v, 2, 0, 0), 0);
}

static void one_that_came_in_lately_keeps_its_memory(void **state)
{
	struct victim v[] = {
		{.state = VICTIM_STOPPED, .since = 1, .bytes = 10, .keeps = NOW + 50},
		{.state = VICTIM_STOPPED, .since = 2, .bytes = 20, .keeps = NOW + 20},
		{.state = VICTIM_STOPPED, .since = 3, .bytes = 4, .keeps = NOW},
	};
	uint64_t when;

	(void)state;
	assert_int_equal(victims_choose(v, 3, 4, 4, NOW, &when), 4);
	assert_int_equal(when, FM_NEVER);
	assert_int_equal(victims_choose(v, 3, 24, 24, NOW, &when), 0);
	assert_int_equal(when, NOW + 20);
	assert_int_equal(victims_choose(v, 3, 34, 34, NOW, &when), 0);
	assert_int_equal(when, NOW + 50);
	assert_int_equal(victims_choose(v, 3, 35, 35, NOW, &when), 0);
	assert_int_equal(when, FM_NEVER);
	assert_int_equal(victims_choose(v, 3, 34, 34, NOW + 50, &when), 34);
}

/* Against all subsets: what is chosen suffices whenever something does, and none of it could stay.
 */
static void enough_and_no_more(void **state)
{
	uint32_t random = 12345;

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		struct victim v[6] = {0};
		uint64_t all = 0, want, got;

		for (unsigned i = 0; i < 6; i++) {
			random = random * 1664525 + 1013904223;
			v[i].state = (enum victim_state)((random >> 8) % 3);
			v[i].since = (random >> 12) % 7;
			v[i].bytes = (random >> 16) % 9;
			all += v[i].bytes;
		}
		want = 1 + (random >> 24) % 40;
		got = choose(v, 6, want, want);
		assert_int_equal(got != 0, all >= want);
		for (unsigned i = 0; got && i < 6; i++)
			assert_true(!v[i].goes || got - v[i].bytes < want);
		assert_true(!got || got >= want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_idle_first_and_of_them_the_longest),
		cmocka_unit_test(nobody_goes_in_vain),
		cmocka_unit_test(one_that_came_in_lately_keeps_its_memory),
		cmocka_unit_test(enough_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
