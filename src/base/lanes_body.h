/* SPDX-License-Identifier: Apache-2.0 */
/* For lanes.c, once for each width: WORDS in a vector, NAME(), and TARGET, the processor's kind. */
#define vec   NAME(vec)
#define PARTS (FM_LANES / WORDS)

typedef uint64_t vec __attribute__((vector_size(WORDS * 8)));

static TARGET void NAME(hash)(
	uint64_t state[8][FM_LANES], const uint8_t *blocks, size_t n, uint64_t done, bool last)
{
	for (unsigned part = 0; part < FM_LANES; part += WORDS) {
		const uint8_t *p = blocks + part * sizeof(uint64_t);
		uint64_t total = done;
		vec h[8], v[16], m[16];

		for (unsigned i = 0; i < 8; i++)
			memcpy(&h[i], &state[i][part], sizeof(vec));
		for (size_t left = n; left; left--, p += BLOCK) {
			total += BLOCK / FM_LANES;
			for (unsigned i = 0; i < 16; i++)
				memcpy(&m[i], p + i * ROW, sizeof(vec));
			memcpy(v, h, sizeof(h));
			for (unsigned i = 0; i < 8; i++)
				v[8 + i] = (vec){0} + fm_blake2b_iv[i];
			v[12] ^= total;
			v[14] ^= last && left == 1 ? UINT64_MAX : 0;
			ROUNDS(v, m);
			for (unsigned i = 0; i < 8; i++)
				h[i] ^= v[i] ^ v[8 + i];
		}
		for (unsigned i = 0; i < 8; i++)
			memcpy(&state[i][part], &h[i], sizeof(vec));
	}
}

static TARGET void NAME(sum)(uint64_t lane[FM_LANES], const uint8_t *rows, size_t n, uint64_t place)
{
	vec sum[PARTS];

	memcpy(sum, lane, sizeof(sum));
	for (; n; n--, rows += ROW, place += ODD)
		for (unsigned i = 0; i < PARTS; i++) {
			vec x;

			memcpy(&x, rows + i * sizeof(vec), sizeof(vec));
			x ^= place;
			sum[i] += (x & UINT32_MAX) * (x >> 32) + x;
		}
	memcpy(lane, sum, sizeof(sum));
}

#undef vec
#undef PARTS
#undef WORDS
#undef NAME
#undef TARGET
