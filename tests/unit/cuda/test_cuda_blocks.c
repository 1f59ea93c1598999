/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what a program has allocated, against a plain array of the same. */
#include "api/cuda/shim/memory/blocks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t drawn = 1;

static uint64_t draw(void)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return drawn;
}

static struct fm_cuda_block block(enum fm_cuda_space space, uint64_t key, int64_t bytes)
{
	return (struct fm_cuda_block){.key = key, .bytes = bytes, .space = (uint8_t)space};
}

static void nothing_is_there(void **state)
{
	struct fm_cuda_blocks t = {0};
	const struct fm_cuda_block none = {.bytes = 1};
	size_t at = 0;

	assert_null(fm_cuda_blocks_find(&t, FM_CUDA_ADDRESS, 4096));
	assert_null(fm_cuda_blocks_next(&t, &at));
	assert_null(fm_cuda_blocks_put(&t, &none));
	assert_int_equal(t.live, 0);
}

/* The same number is an address, a handle and an array at once. */
static void spaces_are_apart(void **state)
{
	struct fm_cuda_blocks t = {0};
	struct fm_cuda_block b;

	for (unsigned space = FM_CUDA_ADDRESS; space <= FM_CUDA_CONTEXT; space++) {
		b = block((enum fm_cuda_space)space, 4096, space + 1);
		assert_non_null(fm_cuda_blocks_put(&t, &b));
	}
	fm_cuda_blocks_erase(&t, fm_cuda_blocks_find(&t, FM_CUDA_HANDLE, 4096));
	for (unsigned space = FM_CUDA_ADDRESS; space <= FM_CUDA_CONTEXT; space++) {
		struct fm_cuda_block *found =
			fm_cuda_blocks_find(&t, (enum fm_cuda_space)space, 4096);

		if (space == FM_CUDA_HANDLE)
			assert_null(found);
		else
			assert_int_equal(found->bytes, space + 1);
	}
	free(t.slot);
}

#define KEYS 3000
#define OPS  1000000

static uint64_t key_of(unsigned i)
{
	return (UINT64_C(0x7f0000000000) + (uint64_t)i * 512);
}

static void check_all(const struct fm_cuda_blocks *t, const int64_t *model)
{
	size_t live = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		const struct fm_cuda_block *b = fm_cuda_blocks_find(t, FM_CUDA_ADDRESS, key_of(i));

		live += model[i] != 0;
		assert_int_equal(b ? b->bytes : 0, model[i]);
	}
	assert_int_equal(t->live, live);
}

/* A million blocks come and go; what is looked for is found, and nothing else. The table does not
 * grow by what has left it. */
static void comes_and_goes(void **state)
{
	static int64_t model[KEYS];
	struct fm_cuda_blocks t = {0};

	for (unsigned n = 0; n < OPS; n++) {
		unsigned i = (unsigned)(draw() % KEYS);
		struct fm_cuda_block b = block(FM_CUDA_ADDRESS, key_of(i), n + 1);
		struct fm_cuda_block *had = fm_cuda_blocks_find(&t, FM_CUDA_ADDRESS, b.key);

		assert_int_equal(had ? had->bytes : 0, model[i]);
		if (had && draw() % 8) {
			fm_cuda_blocks_erase(&t, had);
			model[i] = 0;
		} else {
			assert_non_null(fm_cuda_blocks_put(&t, &b));
			model[i] = b.bytes;
		}
		if (n % 50000 == 0)
			check_all(&t, model);
	}
	check_all(&t, model);
	assert_true(t.bits <= 13);
	free(t.slot);
}

/* A walk that erases half of what it meets meets all, and leaves the other half. */
static void walks(void **state)
{
	for (unsigned round = 0; round < 200; round++) {
		unsigned n = 1 + (unsigned)(draw() % 120), erased = 0, left = 0;
		struct fm_cuda_blocks t = {0};
		struct fm_cuda_block *b;
		size_t at = 0;

		for (unsigned i = 0; i < n; i++) {
			struct fm_cuda_block made =
				block(FM_CUDA_ADDRESS, draw() | 1, (int64_t)(i % 2));

			assert_non_null(fm_cuda_blocks_put(&t, &made));
		}
		while ((b = fm_cuda_blocks_next(&t, &at))) {
			if (!b->bytes) {
				at++;
				continue;
			}
			fm_cuda_blocks_erase(&t, b);
			erased++;
		}
		for (at = 0; (b = fm_cuda_blocks_next(&t, &at)); at++) {
			assert_int_equal(b->bytes, 0);
			left++;
		}
		assert_int_equal(erased, n / 2);
		assert_int_equal(left, n - n / 2);
		assert_int_equal(t.live, left);
		free(t.slot);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_there),
		cmocka_unit_test(spaces_are_apart),
		cmocka_unit_test(comes_and_goes),
		cmocka_unit_test(walks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
