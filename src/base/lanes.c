/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "blake2b_round.h"
#include "util.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are taken as they stand");

/* A row has a word of each lane; so many rows make a block of each. */
#define ROW   (FM_LANES * sizeof(uint64_t))
#define BLOCK (16 * ROW)
#define ODD   UINT64_C(0x9e3779b97f4a7c15)

#define ROUND(v, m, r) FM_BLAKE2B_ROUND(v, m, fm_blake2b_sigma[r])
/* One by one, so that which word is taken is known. */
#define ROUNDS(v, m)             \
	do {                     \
		ROUND(v, m, 0);  \
		ROUND(v, m, 1);  \
		ROUND(v, m, 2);  \
		ROUND(v, m, 3);  \
		ROUND(v, m, 4);  \
		ROUND(v, m, 5);  \
		ROUND(v, m, 6);  \
		ROUND(v, m, 7);  \
		ROUND(v, m, 8);  \
		ROUND(v, m, 9);  \
		ROUND(v, m, 10); \
		ROUND(v, m, 11); \
	} while (0)

#define WORDS   2
#define NAME(x) x##_2
#define TARGET
#include "lanes_body.h"

#ifdef __x86_64__
#define WORDS   4
#define NAME(x) x##_4
#define TARGET  __attribute__((target("avx2")))
#include "lanes_body.h"

#define WORDS   8
#define NAME(x) x##_8
#define TARGET  __attribute__((target("avx512f")))
#include "lanes_body.h"
#endif

bool fm_lanes_way(unsigned i, struct fm_lanes_way *way)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && !i--) {
		*way = (struct fm_lanes_way){"avx512", hash_8, sum_8};
		return true;
	}
	if (__builtin_cpu_supports("avx2") && !i--) {
		*way = (struct fm_lanes_way){"avx2", hash_4, sum_4};
		return true;
	}
#endif
	*way = (struct fm_lanes_way){"any", hash_2, sum_2};
	return !i;
}

static void begin(uint64_t state[8][FM_LANES])
{
	for (unsigned i = 0; i < 8; i++)
		for (unsigned lane = 0; lane < FM_LANES; lane++)
			state[i][lane] = fm_blake2b_iv[i];
	for (unsigned lane = 0; lane < FM_LANES; lane++) {
		/* 64 bytes of digest, no key, fanout 8, depth 2; which lane; inner digests of 64
		 * bytes. */
		state[0][lane] ^= 64 | FM_LANES << 16 | 2 << 24;
		state[1][lane] ^= lane;
		state[2][lane] ^= 64 << 8;
	}
}

void fm_lanes_hash(const void *data, size_t size, uint8_t out[FM_HASH_BYTES])
{
	/* The last block is told so: what is left over, or the last whole one. */
	size_t whole = size ? (size - 1) / BLOCK : 0, rest = size - whole * BLOCK;
	uint64_t state[8][FM_LANES], digest[FM_LANES][8], n = size;
	uint8_t last[BLOCK] = {0};
	struct fm_lanes_way way;
	struct fm_hash root;

	fm_lanes_way(0, &way);
	begin(state);
	way.hash(state, data, whole, 0, false);
	if (rest)
		memcpy(last, (const uint8_t *)data + whole * BLOCK, rest);
	way.hash(state, last, 1, whole * (BLOCK / FM_LANES), true);
	for (unsigned lane = 0; lane < FM_LANES; lane++)
		for (unsigned i = 0; i < 8; i++)
			digest[lane][i] = state[i][lane];
	fm_hash_begin(&root);
	fm_hash_add(&root, &n, sizeof(n));
	fm_hash_add(&root, digest, sizeof(digest));
	fm_hash_end(&root, out);
}

/* Products of halves, which vectors can do, as XXH3 has it; each word counts by its place, and so
 * does the size. */
uint64_t fm_lanes_sum(uint64_t before, const void *data, size_t size)
{
	uint64_t lane[FM_LANES] = {1, 2, 3, 4, 5, 6, 7, 8}, sum = before ^ size;
	size_t whole = size / ROW, rest = size % ROW;
	uint8_t last[ROW] = {0};
	struct fm_lanes_way way;

	fm_lanes_way(0, &way);
	way.sum(lane, data, whole, ODD);
	if (rest) {
		memcpy(last, (const uint8_t *)data + whole * ROW, rest);
		way.sum(lane, last, 1, ODD + whole * ODD);
	}
	for (unsigned i = 0; i < FM_LANES; i++)
		sum = ((sum ^ lane[i]) * ODD) ^ (sum >> 31);
	return sum;
}
