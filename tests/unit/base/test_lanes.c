/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes and sums in lanes: those of others, and the same in vectors of any width. */
#include "base/lanes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Made by Python's hashlib, whose blake2b() has the tree mode, of that many bytes, the i-th of them
 * 7 * i + i / 256: a digest of each lane (digest_size 64, fanout 8, depth 2, node_offset lane,
 * inner_size 64), then one of the size and those. */
static const struct {
	size_t size;
	const char *digest;
} known[] = {
	{0, "e95e24b49e1efa04ffbf994c925bd6172de40b6a29423d56880961f26650b92c"},
	{1, "99997b8486f43ff8a5b0dae6c3de4b2f66bdcded506874b75c75ccf9418cbddd"},
	{8, "0e3359d1bbd5a8cf51aa847c924cd4d6389a0060a03b4d8813a4fa05b6ed1d35"},
	{64, "9f052bf656a646bb214ab696fe3d2012d8afd654b60f90fec460dd7e9f5f15ef"},
	{1023, "22be72c02caacc8dbc7f7dca402100eeaefa1408acfb84603d218e06df7eb97c"},
	{1024, "d5ba856eee1e084bbfc96cb724ac4ba9c7635110d6016a4ceca9adfa5fcbfd2c"},
	{1025, "2a10215956c44e00a4bb1c97d78dee69d1bac3a6011c9c6dc73bd979cbb381d4"},
	{2048, "f1a6aecb6a43be09cb5291b02b7946ca19a3b443392f1be144e7c2d7f94fc909"},
	{5000, "6438b261b2249313762a4cee3bffacd91c016dbdaf86d9415b0e9ee5c4bdab46"},
};

static void digests(void **state)
{
	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
		/* As large as it is, and at an odd address: who reads more is found out. */
		uint8_t *data = malloc(known[k].size + 1), hash[FM_HASH_BYTES];
		char text[2 * FM_HASH_BYTES + 1];

		assert_non_null(data);
		for (size_t i = 0; i < known[k].size; i++)
			data[1 + i] = (uint8_t)(7 * i + i / 256);
		fm_lanes_hash(data + 1, known[k].size, hash);
		for (unsigned i = 0; i < FM_HASH_BYTES; i++)
			snprintf(text + 2 * i, 3, "%02x", hash[i]);
		assert_string_equal(text, known[k].digest);
		free(data);
	}
}

static void in_any_vectors(void **state)
{
	struct fm_lanes_way first, way;
	static uint8_t data[16 * 1024];
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	assert_true(fm_lanes_way(0, &first));
	while (fm_lanes_way(n, &way)) {
		uint64_t a[8][FM_LANES], b[8][FM_LANES];

		for (size_t blocks = 0; blocks < 16; blocks++) {
			memcpy(a, data + 77, sizeof(a));
			memcpy(b, data + 77, sizeof(b));
			first.hash(a, data + 1, blocks, 128 * blocks, blocks & 1);
			way.hash(b, data + 1, blocks, 128 * blocks, blocks & 1);
			assert_memory_equal(a, b, sizeof(a));
			first.sum(a[0], data + 3, 15 * blocks, blocks);
			way.sum(b[0], data + 3, 15 * blocks, blocks);
			assert_memory_equal(a, b, sizeof(a));
		}
		n++;
	}
	assert_in_range(n, 1, 3);
	assert_string_equal(way.name, "any");
}

/* Any byte changes the sum, and so does the order of words and the number of zeros. */
static void sums(void **state)
{
	uint8_t data[300] = {0};
	uint64_t sum = fm_lanes_sum(0, data, sizeof(data));

	assert_true(fm_lanes_sum(0, data, sizeof(data) - 1) != sum);
	assert_true(fm_lanes_sum(1, data, sizeof(data)) != sum);
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		assert_true(fm_lanes_sum(0, data, sizeof(data)) != sum);
		if (i >= 64)
			data[i - 64] = 1;
		data[i] = 0;
		if (i >= 64)
			assert_true(fm_lanes_sum(0, data, sizeof(data)) != sum);
		memset(data, 0, sizeof(data));
	}
}

/* One word is as good as another, whatever it was and becomes; and so is the order of parts. */
static void sums_of_words(void **state)
{
	static const uint64_t odd[] = {0, 1, UINT32_MAX, 1ull << 31, 1ull << 32, 1ull << 63,
		0xffffffff00000000, UINT64_MAX, 0x9e3779b97f4a7c15, 0x9e3779b900000000};
	enum { N = sizeof(odd) / sizeof(*odd) };
	uint64_t data[24] = {0};

	for (size_t at = 0; at < 24; at++)
		for (size_t a = 0; a < N; a++)
			for (size_t b = 0; b < a; b++) {
				uint64_t of[2];

				data[at] = odd[a];
				of[0] = fm_lanes_sum(0, data, sizeof(data));
				data[at] = odd[b];
				of[1] = fm_lanes_sum(0, data, sizeof(data));
				assert_true(of[0] != of[1]);
				data[at] = 0;
			}
	data[0] = 1;
	assert_true(fm_lanes_sum(fm_lanes_sum(0, data, 64), data + 8, 64) !=
		    fm_lanes_sum(fm_lanes_sum(0, data + 8, 64), data, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests),
		cmocka_unit_test(in_any_vectors),
		cmocka_unit_test(sums),
		cmocka_unit_test(sums_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
