/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"
#include <string.h>

#define STRIPS FM_DIGEST_THREADS

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
	return x ^ (x >> 32);
}

/* The next of a sequence (Steele, Lea, Flood, SplitMix, OOPSLA 2014). */
static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void fm_digest_key(struct fm_digest_key *key, uint64_t random[2])
{
	uint32_t *nh = &key->nh[0][0][0];

	for (int i = 0; i < FM_DIGEST_LANES; i++)
		key->seed[i] = draw(&random[0]);
	for (size_t i = 0; i < sizeof(key->nh) / sizeof(*nh); i++)
		nh[i] = (uint32_t)(draw(&random[0]) ^ draw(&random[1]));
}

static uint64_t nh(const uint32_t w[4][4], const uint32_t k[4][4])
{
	uint64_t sum = 0;

	for (int j = 0; j < 4; j++)
		sum += (uint64_t)(w[j][0] + k[j][0]) * (w[j][1] + k[j][1]) +
		       (uint64_t)(w[j][2] + k[j][2]) * (w[j][3] + k[j][3]);
	return sum;
}

void fm_digest_add(struct fm_digest *d, const struct fm_digest_key *key, const void *p, size_t size)
{
	const unsigned char *at = p;
	uint64_t ones = 0;

	for (size_t strip = 0; strip < size / FM_DIGEST_TILE * STRIPS; strip++) {
		uint32_t w[4][4];

		for (int j = 0; j < 4; j++) {
			memcpy(w[j],
				at + (strip / STRIPS * 4 * STRIPS + j * STRIPS + strip % STRIPS) *
						16,
				sizeof(w[j]));
			ones |= w[j][0] | w[j][1] | w[j][2] | w[j][3];
		}
		for (int l = 0; l < FM_DIGEST_LANES; l++)
			d->lane[l] +=
				mix(nh(w, key->nh[l]) + strip * 0x9e3779b97f4a7c15u + key->seed[l]);
	}
	d->ones |= !!ones;
}
