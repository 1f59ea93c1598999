// SPDX-License-Identifier: Apache-2.0
/* Versions of a kernel: which are kept, and which one is launched where. */
#include "base/util.h"
#include "versions/versions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SMS 132u

static const struct fm_cuda_version usual = {.time_ns = 100000,
	.block_ns = 50000,
	.registers = 64,
	.shared = 8192,
	.threads = 128,
	.blocks = 500,
	.per_multiprocessor = 4};

static void each_number_counts(void **state)
{
	struct fm_cuda_version v[2] = {usual, usual};
	uint64_t *wide[] = {&v[1].time_ns, &v[1].block_ns};
	uint32_t *narrow[] = {&v[1].registers, &v[1].shared, &v[1].threads, &v[1].blocks};

	for (size_t i = 0; i < FM_ARRAY_LEN(wide) + FM_ARRAY_LEN(narrow); i++) {
		bool kept[2];

		v[1] = usual;
		if (i < FM_ARRAY_LEN(wide))
			--*wide[i];
		else
			--*narrow[i - FM_ARRAY_LEN(wide)];
		assert_true(fm_version_dominates(&v[1], &v[0]));
		assert_false(fm_version_dominates(&v[0], &v[1]));
		assert_int_equal(fm_versions_prune(v, 2, kept), 1);
		assert_true(!kept[0] && kept[1]);
		/* Better in one, worse in another: both are kept. */
		if (i)
			v[1].time_ns++;
		else
			v[1].blocks++;
		assert_int_equal(fm_versions_prune(v, 2, kept), 2);
		assert_true(kept[0] && kept[1]);
	}
}

static void equal_ones(void **state)
{
	struct fm_cuda_version v[] = {usual, usual, usual};
	bool kept[3];

	/* How many fit on a multiprocessor follows from the others, and is none of the six. */
	v[2].per_multiprocessor = 9;
	assert_int_equal(fm_versions_prune(v, 3, kept), 1);
	assert_true(kept[0] && !kept[1] && !kept[2]);
	assert_int_equal(fm_versions_prune(v, 0, kept), 0);
	assert_int_equal(fm_versions_prune(v, 1, kept), 1);
}

static void time_there(void **state)
{
	struct fm_cuda_version v = usual;

	assert_int_equal(fm_version_time(&v, SMS, SMS), 100000);
	/* 500 blocks, 64 at a time: 8 waves. 63 at a time would be 8, too, and 62: 9. */
	assert_int_equal(fm_version_time(&v, 16, SMS), 8 * 50000);
	assert_int_equal(fm_version_time(&v, 15, SMS), 9 * 50000);
	/* Never shorter than on the whole device. */
	v.block_ns = 100;
	assert_int_equal(fm_version_time(&v, 131, SMS), 100000);
	assert_true(fm_version_time(&v, 0, SMS) == UINT64_MAX);
	v.per_multiprocessor = 0;
	assert_true(fm_version_time(&v, 16, SMS) == UINT64_MAX);
	v = usual;
	v.block_ns = UINT64_MAX / 2;
	assert_true(fm_version_time(&v, 1, SMS) == UINT64_MAX);
}

/* As in the paper's Figure 14: the fastest kernel has long blocks, and few of them fit. */
static void the_one_that_fits(void **state)
{
	static const struct fm_cuda_version v[] = {
		{54000, 31000, 128, 32768, 256, 260, 1, 0}, /* the fastest */
		{60000, 18000, 64, 8192, 128, 1040, 4, 0},
		{80000, 9000, 32, 4096, 64, 4160, 8, 0},
	};

	assert_int_equal(fm_versions_fit(v, 3, SMS, SMS, 0), 0);
	/* Where all may have it, blocks that are too long are left out all the same. */
	assert_int_equal(fm_versions_fit(v, 3, SMS, SMS, 20000), 1);
	/* On 16: 17 waves of 31, 17 of 18, 33 of 9 us. */
	assert_int_equal(fm_versions_fit(v, 3, 16, SMS, 0), 2);
	assert_int_equal(fm_versions_fit(v, 2, 16, SMS, 0), 1);
	assert_int_equal(fm_versions_fit(v, 3, 16, SMS, 18000), 2);
	assert_int_equal(fm_versions_fit(v, 3, 16, SMS, 9000), 2);
	assert_int_equal(fm_versions_fit(v, 3, 16, SMS, 8999), -1);
	assert_int_equal(fm_versions_fit(v, 3, 0, SMS, 0), -1);
	assert_int_equal(fm_versions_fit(v, 0, 16, SMS, 0), -1);
	/* The first of equal ones. */
	assert_int_equal(
		fm_versions_fit((struct fm_cuda_version[]){usual, usual}, 2, 16, SMS, 0), 0);
}

static uint64_t random_state = 1;

static unsigned up_to(unsigned n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % n + 1;
}

/* How many fit follows from what a block needs. */
static struct fm_cuda_version any(unsigned n)
{
	struct fm_cuda_version v = {.time_ns = up_to(n),
		.block_ns = up_to(n),
		.registers = up_to(n),
		.shared = up_to(n),
		.threads = up_to(n),
		.blocks = up_to(n)};

	v.per_multiprocessor = FM_MIN(65536 / (v.registers * v.threads), 1000 / v.shared);
	return v;
}

/* What is left after pruning has in every room a version as good as the best of all. */
static void pruning_loses_nothing(void **state)
{
	enum { MOST = 12 };

	for (unsigned round = 0; round < 20000; round++) {
		unsigned n = up_to(MOST), range = up_to(100), on = up_to(SMS), left = 0;
		struct fm_cuda_version all[MOST], few[MOST];
		uint64_t limit = round % 2 ? up_to(range) : 0;
		bool kept[MOST];
		int a, b;

		for (unsigned i = 0; i < n; i++)
			all[i] = any(range);
		assert_true(fm_versions_prune(all, n, kept) >= 1);
		for (unsigned i = 0; i < n; i++) {
			bool must = true;

			if (kept[i])
				few[left++] = all[i];
			for (unsigned k = 0; k < n; k++)
				must &= k == i || !fm_version_dominates(&all[k], &all[i]) ||
					(k > i && fm_version_dominates(&all[i], &all[k]));
			assert_int_equal(kept[i], must);
		}
		a = fm_versions_fit(all, n, on, SMS, limit);
		b = fm_versions_fit(few, left, on, SMS, limit);
		assert_int_equal(a < 0, b < 0);
		if (a >= 0)
			assert_true(fm_version_time(&all[a], on, SMS) ==
				    fm_version_time(&few[b], on, SMS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_number_counts),
		cmocka_unit_test(equal_ones),
		cmocka_unit_test(time_there),
		cmocka_unit_test(the_one_that_fits),
		cmocka_unit_test(pruning_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
