/* SPDX-License-Identifier: Apache-2.0 */
#include "blake2b.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are taken as they stand");

static const uint64_t iv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
	0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b,
	0x5be0cd19137e2179};

static const uint8_t sigma[12][16] = {
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

static uint64_t turn(uint64_t x, unsigned by)
{
	return x >> by | x << (64 - by);
}

#define MIX(a, b, c, d, x, y)              \
	do {                               \
		(a) += (b) + (x);          \
		(d) = turn((d) ^ (a), 32); \
		(c) += (d);                \
		(b) = turn((b) ^ (c), 24); \
		(a) += (b) + (y);          \
		(d) = turn((d) ^ (a), 16); \
		(c) += (d);                \
		(b) = turn((b) ^ (c), 63); \
	} while (0)

static void compress(struct fm_hash *s, const uint8_t *block, uint64_t total, uint64_t last)
{
	uint64_t v[16], m[16];

	memcpy(m, block, sizeof(m));
	memcpy(v, s->h, sizeof(s->h));
	memcpy(v + 8, iv, sizeof(iv));
	v[12] ^= total;
	v[14] ^= last;
	for (unsigned r = 0; r < 12; r++) {
		const uint8_t *p = sigma[r];

		MIX(v[0], v[4], v[8], v[12], m[p[0]], m[p[1]]);
		MIX(v[1], v[5], v[9], v[13], m[p[2]], m[p[3]]);
		MIX(v[2], v[6], v[10], v[14], m[p[4]], m[p[5]]);
		MIX(v[3], v[7], v[11], v[15], m[p[6]], m[p[7]]);
		MIX(v[0], v[5], v[10], v[15], m[p[8]], m[p[9]]);
		MIX(v[1], v[6], v[11], v[12], m[p[10]], m[p[11]]);
		MIX(v[2], v[7], v[8], v[13], m[p[12]], m[p[13]]);
		MIX(v[3], v[4], v[9], v[14], m[p[14]], m[p[15]]);
	}
	for (unsigned i = 0; i < 8; i++)
		s->h[i] ^= v[i] ^ v[i + 8];
}

void fm_hash_begin(struct fm_hash *s)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->h, iv, sizeof(iv));
	s->h[0] ^= 0x01010000 ^ FM_HASH_BYTES;
}

void fm_hash_add(struct fm_hash *s, const void *data, size_t size)
{
	const uint8_t *p = data;

	/* The last block waits for the end, even if it is full. */
	while (size) {
		size_t part = sizeof(s->block) - s->in_block;

		if (!part) {
			s->total += sizeof(s->block);
			compress(s, s->block, s->total, 0);
			s->in_block = 0;
			continue;
		}
		if (!s->in_block && size > sizeof(s->block)) {
			s->total += sizeof(s->block);
			compress(s, p, s->total, 0);
			part = sizeof(s->block);
		} else {
			part = part < size ? part : size;
			memcpy(s->block + s->in_block, p, part);
			s->in_block += part;
		}
		p += part;
		size -= part;
	}
}

void fm_hash_end(struct fm_hash *s, uint8_t out[FM_HASH_BYTES])
{
	memset(s->block + s->in_block, 0, sizeof(s->block) - s->in_block);
	compress(s, s->block, s->total + s->in_block, UINT64_MAX);
	memcpy(out, s->h, FM_HASH_BYTES);
}
