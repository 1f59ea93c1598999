/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from memory that was used though nothing named it, turn by turn. */
#include "predict/miss.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SLOW  FM_MISS_LATE
#define SOME  (4 * FM_MISS_BYTES)
#define EVERY FM_MISS_TURNS

static struct fm_miss m;

static enum fm_miss_act turn(uint64_t late, uint64_t mapped, uint64_t foretold, unsigned writes)
{
	return fm_miss_turn(&m, &(struct fm_miss_turn){late, mapped, foretold, writes});
}

static int begin(void **state)
{
	(void)state;
	memset(&m, 0, sizeof(m));
	return 0;
}

static void as_foretold(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(turn(SLOW - 1, SOME, 0, 0), FM_MISS_NOTHING);
		assert_int_equal(turn(100 * SLOW, 0, 0, 0), FM_MISS_NOTHING);
		assert_int_equal(turn(100 * SLOW, FM_MISS_BYTES - 1, 0, 0), FM_MISS_NOTHING);
		assert_int_equal(turn(100 * SLOW, SOME, 1, 0), FM_MISS_NOTHING);
	}
	assert_int_equal(m.missed, 0);
}

/* What was named comes in, and that was it: after 64 turns it is believed again. */
static void named_memory_helps(void **state)
{
	(void)state;
	for (unsigned round = 1; round < 4; round++) {
		assert_int_equal(turn(SLOW, SOME, 0, 0), FM_MISS_NAMED);
		assert_false(m.by_write);
		for (unsigned i = 1; i < EVERY; i++)
			assert_int_equal(turn(0, SOME, 0, 0), FM_MISS_NOTHING);
		assert_int_equal(turn(0, SOME, 0, 0), FM_MISS_TRUST);
		assert_int_equal(m.missed, round);
	}
}

/* While it comes in nothing is learnt; if it is slow all the same, all of it comes in. */
static void named_memory_does_not_help(void **state)
{
	(void)state;
	assert_int_equal(turn(SLOW, SOME, 0, 0), FM_MISS_NAMED);
	assert_int_equal(turn(SLOW, SOME, 1, 0), FM_MISS_NOTHING);
	assert_int_equal(turn(SLOW, SOME, 0, 0), FM_MISS_ALL);
	assert_int_equal(turn(SLOW, SOME, SOME, 0), FM_MISS_NOTHING);
	for (unsigned i = 2; i < EVERY; i++)
		assert_int_equal(turn(SLOW, 0, 0, 0), FM_MISS_NOTHING);
	assert_int_equal(turn(0, 0, 0, 0), FM_MISS_TRUST);
	assert_int_equal(turn(0, SOME, 0, 0), FM_MISS_NOTHING);
	assert_int_equal(m.missed, 2);
}

static void writes_are_proofs(void **state)
{
	(void)state;
	assert_int_equal(turn(0, SOME, SOME, 3), FM_MISS_NAMED);
	assert_true(m.by_write);
	assert_int_equal(turn(0, SOME, SOME, 1), FM_MISS_ALL);
	assert_int_equal(turn(0, SOME, SOME, 1), FM_MISS_NOTHING);
	assert_int_equal(m.missed, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(as_foretold, begin),
		cmocka_unit_test_setup(named_memory_helps, begin),
		cmocka_unit_test_setup(named_memory_does_not_help, begin),
		cmocka_unit_test_setup(writes_are_proofs, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
