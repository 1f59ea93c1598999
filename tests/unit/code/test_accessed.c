/* SPDX-License-Identifier: Apache-2.0 */
/* Cells that tell reads, writes, what comes first, atomics and blocks apart. */
#include "device/accessed.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* last */
#include <cmocka.h>

#define AT     UINT64_C(0x10000)
#define READ   FM_ACCESSED_READ
#define WRITE  FM_ACCESSED_WRITE
#define ATOMIC FM_ACCESSED_ATOMIC
#define LATER  FM_ACCESSED_LATER

static struct fm_accessed *table_of(uint64_t size, uint32_t shift)
{
	struct fm_accessed *t = calloc(1, sizeof(*t) + 64 * sizeof(t->cell[0]));

	assert_non_null(t);
	t->n = 1;
	t->region[0] = (struct fm_accessed_region){.at = AT, .size = size, .shift = shift};
	return t;
}

static unsigned set(const struct fm_accessed *t, unsigned cell, unsigned which)
{
	return t->cell[cell] >> which & 15;
}

static bool many(const struct fm_accessed *t, unsigned cell)
{
	return t->cell[cell] >> FM_ACCESSED_MANY & 1;
}

static void read_and_written(void **state)
{
	struct fm_accessed *t = table_of(64, 0);

	fm_accessed_mark(t, 0, 4, AT, 4, READ); /* then written: what was there was needed */
	fm_accessed_mark(t, 0, 4, AT, 4, WRITE);
	assert_int_equal(set(t, 0, FM_ACCESSED_R), 15);
	assert_int_equal(set(t, 0, FM_ACCESSED_W), 15);
	fm_accessed_mark(t, 1, 4, AT + 4, 4, WRITE); /* first, then read by itself: it was not */
	fm_accessed_mark(t, 1, 4, AT + 5, 1, READ);
	assert_int_equal(set(t, 1, FM_ACCESSED_R), 0);
	assert_int_equal(set(t, 1, FM_ACCESSED_ALL), 15);
	fm_accessed_mark(t, 2, 4, AT + 6, 2, READ); /* another one may have come earlier */
	assert_int_equal(set(t, 1, FM_ACCESSED_R), 12);
	fm_accessed_mark(t, 1, 4, AT + 8, 2, WRITE); /* half of it, and read whole */
	fm_accessed_mark(t, 1, 4, AT + 8, 4, READ);
	assert_int_equal(set(t, 2, FM_ACCESSED_R), 12);
	fm_accessed_mark(t, 1, 4, AT + 12, 4, WRITE);
	fm_accessed_mark(t, 1, 4, AT + 12, 4, LATER);
	assert_int_equal(set(t, 3, FM_ACCESSED_R), 15);
	fm_accessed_mark(t, 1, 4, AT + 16, 4, ATOMIC);
	assert_int_equal(
		set(t, 4, FM_ACCESSED_A) & set(t, 4, FM_ACCESSED_R) & set(t, 4, FM_ACCESSED_W), 15);
	fm_accessed_mark(t, 3, 4, AT + 18, 8, WRITE); /* over three cells */
	assert_int_equal(set(t, 5, FM_ACCESSED_ALL), 15);
	assert_int_equal(set(t, 6, FM_ACCESSED_ALL), 3);
	assert_false(t->outside);
	free(t);
}

static void blocks(void **state)
{
	struct fm_accessed *t = table_of(64, 0);

	fm_accessed_mark(t, 3, 4, AT, 4, WRITE);
	fm_accessed_mark(t, 0, 4, AT, 4, WRITE); /* of the same block */
	assert_false(many(t, 0));
	fm_accessed_mark(t, 4, 4, AT, 4, READ);
	assert_true(many(t, 0));
	fm_accessed_mark(t, FM_ACCESSED_THREADS - 1, 4, AT + 4, 4, WRITE); /* the last there is */
	assert_int_equal(t->cell[1] >> FM_ACCESSED_WHO, FM_ACCESSED_THREADS);
	assert_false(many(t, 1));
	free(t);
}

/* Quarters of 16 bytes: a write of a part is never first, and a read of a part is of all. */
static void coarse(void **state)
{
	struct fm_accessed *t = table_of(200, 4);

	assert_int_equal(fm_accessed_cells(&t->region[0]), 4);
	for (unsigned i = 0; i < 4; i++)
		fm_accessed_mark(t, 0, 4, AT + 4 * i, 4, WRITE);
	assert_int_equal(set(t, 0, FM_ACCESSED_W), 1);
	assert_int_equal(set(t, 0, FM_ACCESSED_ALL), 0);
	fm_accessed_mark(t, 0, 4, AT, 4, READ); /* its own, but that is not known of the whole */
	assert_int_equal(set(t, 0, FM_ACCESSED_R), 1);
	fm_accessed_mark(t, 1, 4, AT + 64, 16, WRITE);
	fm_accessed_mark(t, 1, 4, AT + 68, 4, READ);
	assert_int_equal(set(t, 1, FM_ACCESSED_ALL), 1);
	assert_int_equal(set(t, 1, FM_ACCESSED_R), 0);
	fm_accessed_mark(t, 1, 4, AT + 192, 8, WRITE); /* the last, which ends with its region */
	assert_int_equal(set(t, 3, FM_ACCESSED_ALL), 1);
	free(t);
}

static void outside(void **state)
{
	static const uint64_t at[] = {AT - 1, AT + 64, AT + 62, 8};

	for (unsigned i = 0; i < 4; i++) {
		struct fm_accessed *t = table_of(64, 0);

		fm_accessed_mark(t, 0, 4, at[i], 4, READ);
		assert_true(t->outside);
		assert_int_equal(t->cell[15], 0);
		free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_and_written),
		cmocka_unit_test(blocks),
		cmocka_unit_test(coarse),
		cmocka_unit_test(outside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
