/* SPDX-License-Identifier: Apache-2.0 */
/* A round of BLAKE2b, of words or of vectors of them. */
#pragma once
#include <stdint.h>

#define FM_BLAKE2B_ROUNDS 12

static const uint64_t fm_blake2b_iv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b,
	0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
	0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static const uint8_t fm_blake2b_sigma[FM_BLAKE2B_ROUNDS][16] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

#define FM_BLAKE2B_TURN(x, by) ((x) >> (by) | (x) << (64 - (by)))

#define FM_BLAKE2B_MIX(a, b, c, d, x, y)              \
	do {                                          \
		(a) += (b) + (x);                     \
		(d) = FM_BLAKE2B_TURN((d) ^ (a), 32); \
		(c) += (d);                           \
		(b) = FM_BLAKE2B_TURN((b) ^ (c), 24); \
		(a) += (b) + (y);                     \
		(d) = FM_BLAKE2B_TURN((d) ^ (a), 16); \
		(c) += (d);                           \
		(b) = FM_BLAKE2B_TURN((b) ^ (c), 63); \
	} while (0)

/* Of the state and the block, 16 each, with the block in the order of `s`. */
#define FM_BLAKE2B_ROUND(v, m, s)                                                 \
	do {                                                                      \
		FM_BLAKE2B_MIX(v[0], v[4], v[8], v[12], m[(s)[0]], m[(s)[1]]);    \
		FM_BLAKE2B_MIX(v[1], v[5], v[9], v[13], m[(s)[2]], m[(s)[3]]);    \
		FM_BLAKE2B_MIX(v[2], v[6], v[10], v[14], m[(s)[4]], m[(s)[5]]);   \
		FM_BLAKE2B_MIX(v[3], v[7], v[11], v[15], m[(s)[6]], m[(s)[7]]);   \
		FM_BLAKE2B_MIX(v[0], v[5], v[10], v[15], m[(s)[8]], m[(s)[9]]);   \
		FM_BLAKE2B_MIX(v[1], v[6], v[11], v[12], m[(s)[10]], m[(s)[11]]); \
		FM_BLAKE2B_MIX(v[2], v[7], v[8], v[13], m[(s)[12]], m[(s)[13]]);  \
		FM_BLAKE2B_MIX(v[3], v[4], v[9], v[14], m[(s)[14]], m[(s)[15]]);  \
	} while (0)
