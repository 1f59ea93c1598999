// SPDX-License-Identifier: Apache-2.0
/* Times of kernels: medians, waves, blocks, and records that make no sense. */
#include "profile/times.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* last */
#include <cmocka.h>

#define IMAGE "0123456789abcdef0123456789abcdef"

static struct fm_record_timed record(unsigned on, uint64_t ns)
{
	return (struct fm_record_timed){.image = IMAGE,
		.device = "a device",
		.grid = {100, 10, 1},
		.block = {128, 1, 1},
		.registers = 32,
		.per_multiprocessor = 4,
		.multiprocessors = 132,
		.on = on,
		.name = 3,
		.ns = ns};
}

static void add(struct fm_times *t, unsigned on, uint64_t ns)
{
	struct fm_record_timed r = record(on, ns);

	assert_true(fm_timed_makes_sense(&r));
	assert_int_equal(fm_times_add(t, &r, "abcdef"), 0);
}

static void medians(void **state)
{
	struct fm_times t = {0};

	add(&t, 132, 3000);
	add(&t, 16, 9000);
	add(&t, 132, 1000);
	add(&t, 132, 2000);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.timed->name, "abc");
	assert_int_equal(fm_timed_on(t.timed, 132), 2000);
	assert_int_equal(fm_timed_on(t.timed, 16), 9000);
	assert_int_equal(fm_timed_on(t.timed, 8), 0);
	add(&t, 16, 5000);
	assert_int_equal(fm_timed_on(t.timed, 16), 5000); /* the lower one of two */
	assert_int_equal(t.timed->n, 2);
	assert_true(t.timed->room[0].on == 16 && t.timed->room[1].on == 132);
	for (unsigned i = 0; i < 10; i++)
		add(&t, 16, 1);
	assert_int_equal(t.timed->room[0].n, FM_TIMED_SAMPLES);
	/* 1000 blocks, 528 at a time. */
	assert_int_equal(fm_timed_blocks(t.timed), 1000);
	assert_int_equal(fm_timed_waves(t.timed), 2);
	assert_int_equal(fm_timed_block(t.timed), 1000);
	t.timed->is.per_multiprocessor = 0;
	assert_int_equal(fm_timed_waves(t.timed), 0);
	assert_int_equal(fm_timed_block(t.timed), 0);
	/* More numbers than there is room for. */
	for (unsigned on = 1; on <= 20; on++)
		add(&t, on, 5);
	assert_int_equal(t.timed->n, FM_PROFILE_ROOMS + 1);
	fm_times_free(&t);
}

static void apart(void **state)
{
	struct fm_record_timed r = record(132, 5), other;
	struct fm_times t = {0};

	assert_int_equal(fm_times_add(&t, &r, "abc"), 0);
	other = r;
	other.shared = 1;
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	other = r;
	other.grid[2] = 2;
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	other = r;
	other.block[0] = 64;
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	other = r;
	other.image[0] = 'f';
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	other = r;
	other.device[0] = 'A';
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	assert_int_equal(fm_times_add(&t, &r, "abd"), 0);
	other = r;
	other.name = 2;
	assert_int_equal(fm_times_add(&t, &other, "abc"), 0);
	assert_int_equal(t.n, 8);
	assert_ptr_equal(fm_times_find(&t, &r, "abc", 3), t.timed);
	assert_int_equal(fm_times_add(&t, &r, "a\0c"), 1);
	assert_int_equal(t.n, 8);
	fm_times_free(&t);
}

static void no_sense(void **state)
{
	struct fm_record_timed r = record(132, 5);

#define NO(change)                                      \
	do {                                            \
		r = record(132, 5);                     \
		change;                                 \
		assert_false(fm_timed_makes_sense(&r)); \
	} while (0)
	NO(r.ns = 0);
	NO(r.ns = UINT64_MAX);
	NO(r.on = 0);
	NO(r.on = 133);
	NO(r.multiprocessors = 0);
	NO(r.multiprocessors = r.on = 1u << 20);
	NO(r.grid[1] = 0);
	NO(r.block[0] = 1025);
	NO(r.name = 0);
	NO(r.name = FM_PROFILE_NAME + 1);
	NO(r.per_multiprocessor = 5000);
	NO(r.image[3] = 'x');
	NO(memset(r.device, 'x', sizeof(r.device)));
	NO(r.device[1] = '\x1b');
}

/* As an agent writes them; cut short, it is no record. */
static void from_records(void **state)
{
	struct {
		struct fm_record head;
		struct fm_record_timed r;
		char name[8];
	} one[2] = {{{FM_RECORD_MAGIC, FM_RECORD_VERSION, FM_RECORD_TIMED, sizeof(one->r) + 8, 0},
		record(132, 7), "abc"}};
	struct fm_times t = {0};
	struct fm_profile p = {.times = &t};

	one[1] = one[0];
	one[1].r.on = 16;
	assert_int_equal(fm_profile_add(&p, one, sizeof(one), NULL, NULL), 0);
	assert_int_equal(p.broken, 0);
	assert_true(t.n == 1 && t.timed->n == 2);
	one[1].r.name = 9;
	assert_int_equal(fm_profile_add(&p, one, sizeof(one), NULL, NULL), 0);
	assert_int_equal(p.broken, 1);
	one[1].r.name = 3;
	one[1].name[1] = '\x1b';
	assert_int_equal(fm_profile_add(&p, one, sizeof(one), NULL, NULL), 0);
	assert_int_equal(p.broken, 2);
	one[1].name[1] = 'b';
	one[1].head.bytes = sizeof(one->r) - 8;
	assert_int_equal(fm_profile_add(&p, one, sizeof(one), NULL, NULL), 0);
	assert_int_equal(p.broken, 3);
	assert_int_equal(t.timed->room[0].n, 1);
	fm_times_free(&t);
	/* Who wants no times. */
	p = (struct fm_profile){0};
	one[1] = one[0];
	assert_int_equal(fm_profile_add(&p, one, sizeof(one), NULL, NULL), 0);
	assert_int_equal(p.broken, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians),
		cmocka_unit_test(apart),
		cmocka_unit_test(no_sense),
		cmocka_unit_test(from_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
