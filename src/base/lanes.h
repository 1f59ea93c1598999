/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many bytes at the speed of memory: eight lanes, of every eighth word each, in vectors as wide as
 * the processor has them. What comes out is the same on any.
 */
#pragma once
#include "blake2b.h"
#include <stdbool.h>

#define FM_LANES 8

/* A cryptographic hash: BLAKE2b of the size and of the lanes' own digests. Those are BLAKE2b's tree
 * mode (fanout 8, depth 2, node offset: the lane), of lanes filled up with zeros to whole blocks of
 * 128 bytes, one at least. */
void fm_lanes_hash(const void *data, size_t size, uint8_t out[FM_HASH_BYTES]);

/* Against accidents, not against people: any changed half of a word changes it. Goes on from the
 * sum of what is in front (0: nothing is). */
uint64_t fm_lanes_sum(uint64_t before, const void *data, size_t size);

/* In which vectors, for tests: those that this processor has, the widest first; false beyond. What
 * is passed are the lanes: a row of eight for each word of the state. */
struct fm_lanes_way {
	const char *name;
	void (*hash)(uint64_t state[8][FM_LANES], const uint8_t *blocks, size_t n, uint64_t done,
		bool last);
	void (*sum)(uint64_t lane[FM_LANES], const uint8_t *rows, size_t n, uint64_t place);
};
bool fm_lanes_way(unsigned i, struct fm_lanes_way *way);
