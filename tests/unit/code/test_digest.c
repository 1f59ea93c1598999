/* SPDX-License-Identifier: Apache-2.0 */
/* The digest by which memory is known not to have changed. */
#include "device/digest.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE  (4 * FM_DIGEST_TILE)
#define WORDS (SIZE / 4)

static struct fm_digest_key key;
static uint32_t *memory;

static struct fm_digest of(const void *p, size_t size)
{
	struct fm_digest d = {0};

	fm_digest_add(&d, &key, p, size);
	return d;
}

static int setup(void **state)
{
	uint64_t random[2] = {1, 2}, x = 7;

	fm_digest_key(&key, random);
	memory = aligned_alloc(16, SIZE);
	for (size_t i = 0; memory && i < WORDS; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		memory[i] = (uint32_t)(x >> 32);
	}
	return !memory;
}

static int teardown(void **state)
{
	free(memory);
	return 0;
}

static void every_bit_counts(void **state)
{
	struct fm_digest before = of(memory, SIZE);

	for (size_t i = 0; i < WORDS; i += 37) {
		uint32_t bit = UINT32_C(1) << i % 32;

		memory[i] ^= bit;
		struct fm_digest after = of(memory, SIZE);
		memory[i] ^= bit;
		for (int l = 0; l < FM_DIGEST_LANES; l++)
			assert_true(before.lane[l] != after.lane[l]);
		assert_false(fm_digest_equal(&before, &after));
	}
}

/* What sums alone would not see: words, strips and tiles that change places. */
static void places_count(void **state)
{
	static const size_t far[] = {1, 2, 4, 4 * FM_DIGEST_THREADS, FM_DIGEST_TILE / 4};
	struct fm_digest before = of(memory, SIZE);

	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
		size_t n = far[i] < 4 ? 1 : far[i] < FM_DIGEST_TILE / 4 ? 4 : FM_DIGEST_TILE / 4;
		uint32_t *kept = malloc(n * 4);

		assert_non_null(kept);
		memcpy(kept, memory, n * 4);
		memcpy(memory, memory + far[i], n * 4);
		memcpy(memory + far[i], kept, n * 4);

		struct fm_digest after = of(memory, SIZE);

		memcpy(memory + far[i], memory, n * 4);
		memcpy(memory, kept, n * 4);
		free(kept);
		assert_false(fm_digest_equal(&before, &after));
	}
	struct fm_digest again = of(memory, SIZE);
	assert_true(fm_digest_equal(&before, &again));
}

static void zeros_are_seen(void **state)
{
	uint32_t *zeros = aligned_alloc(16, SIZE);

	assert_non_null(zeros);
	memset(zeros, 0, SIZE);

	struct fm_digest none = of(zeros, SIZE), half = of(zeros, SIZE / 2);

	assert_false(none.ones);
	assert_false(fm_digest_equal(&none, &half)); /* how much there is of them counts */
	zeros[WORDS - 1] = 1u << 31;
	assert_true(of(zeros, SIZE).ones);
	free(zeros);
}

static void keys_make_digests(void **state)
{
	struct fm_digest one = of(memory, SIZE);
	uint64_t random[2] = {1, 3};

	fm_digest_key(&key, random);
	struct fm_digest other = of(memory, SIZE);

	for (int l = 0; l < FM_DIGEST_LANES; l++)
		assert_true(one.lane[l] != other.lane[l]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_bit_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(places_count, setup, teardown),
		cmocka_unit_test_setup_teardown(zeros_are_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_make_digests, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
