/* SPDX-License-Identifier: Apache-2.0 */
#include "blake2b.h"
#include "blake2b_round.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are taken as they stand");

static void compress(struct fm_hash *s, const uint8_t *block, uint64_t total, uint64_t last)
{
	uint64_t v[16], m[16];

	memcpy(m, block, sizeof(m));
	memcpy(v, s->h, sizeof(s->h));
	memcpy(v + 8, fm_blake2b_iv, sizeof(fm_blake2b_iv));
	v[12] ^= total;
	v[14] ^= last;
	for (unsigned r = 0; r < FM_BLAKE2B_ROUNDS; r++)
		FM_BLAKE2B_ROUND(v, m, fm_blake2b_sigma[r]);
	for (unsigned i = 0; i < 8; i++)
		s->h[i] ^= v[i] ^ v[i + 8];
}

void fm_hash_begin(struct fm_hash *s)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->h, fm_blake2b_iv, sizeof(fm_blake2b_iv));
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
