/* SPDX-License-Identifier: Apache-2.0 */
/* Times at random, in integers: the C library's logarithms differ from one version to the next. */
#include "base/util.h"
#include "sim.h"

#define ONE      (UINT64_C(1) << 32)
#define LN2      UINT64_C(0xb17217f8) /* in parts of 2^32 */
#define LOG_BITS 12
#define EXP_BITS 16

/* Bit by bit, by squaring; of what remains, the parabola through both ends. The error is less than
 * 3e-6. */
uint64_t fm_sim_log2(uint64_t v)
{
	unsigned shift = (unsigned)__builtin_clzll(v);
	uint64_t log = 63 - shift, m = v << shift; /* 1 to 2, as parts of 2^63 */
	uint64_t rest;

	for (int k = 0; k < LOG_BITS; k++) {
		m = (uint64_t)((unsigned __int128)m * m >> 64); /* 1 to 4, of 2^62 */
		log = log << 1 | m >> 63;
		m <<= !(m >> 63);
	}
	rest = m << 1 >> 32; /* of 2^32 */
	rest += (rest * (ONE - rest) >> 32) * 352 >> 10;
	return (log << (32 - LOG_BITS)) + (rest >> LOG_BITS);
}

uint64_t fm_sim_exp2(uint32_t fraction)
{
	/* 2^(1/2), 2^(1/4) and so on, in parts of 2^62 */
	static const uint64_t root[EXP_BITS] = {0x5a827999fcef3242, 0x4c1bf828c6dc54b7,
		0x45cae0f1f545eb73, 0x42d561b3e6243d8a, 0x4166c34c5615d0eb, 0x40b268f9de0183b9,
		0x4058f6a7ecccd5b6, 0x402c6be96af2fb58, 0x4016321b687027a8, 0x400b18178ba33b14,
		0x40058bce410147e8, 0x4002c5d7bff71dae, 0x400162e807ee7e5b, 0x4000b1730df6a524,
		0x400058b9497b8151, 0x40002c5c955dd701};
	unsigned __int128 v = (unsigned __int128)1 << 62;
	uint64_t rest = fraction & ((1u << (32 - EXP_BITS)) - 1);

	for (int k = 0; k < EXP_BITS; k++)
		if (fraction >> (31 - k) & 1)
			v = v * root[k] >> 62;
	v += v * (rest * LN2 >> 32) >> 32;
	return (uint64_t)(v >> 30);
}

/* -log2 of a uniform number in (0, 1]. */
static uint64_t minus_log2(struct fm_rta_random *r)
{
	return 64 * ONE - fm_sim_log2(fm_rta_next(r) | 1);
}

static uint64_t saturate(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (uint64_t)v;
}

static uint64_t draw_exp(uint64_t mean, struct fm_rta_random *r)
{
	uint64_t ln = (uint64_t)((unsigned __int128)minus_log2(r) * LN2 >> 32);

	return saturate((unsigned __int128)mean * ln >> 32);
}

static uint64_t draw_normal(uint64_t mean, uint64_t deviation, struct fm_rta_random *r)
{
	int64_t sum = -6 * (int64_t)ONE;
	__int128 v;

	for (int k = 0; k < 6; k++) {
		uint64_t two = fm_rta_next(r);

		sum += (int64_t)(two >> 32) + (int64_t)(two & UINT32_MAX);
	}
	v = (__int128)mean + ((__int128)sum * (__int128)deviation) / (__int128)ONE;
	return v < 0 ? 0 : saturate((unsigned __int128)v);
}

/* least / u^(1 / exponent) */
static uint64_t draw_pareto(uint64_t least, uint64_t thousandths, struct fm_rta_random *r)
{
	unsigned __int128 log = (unsigned __int128)minus_log2(r) * 1000 / thousandths;
	unsigned whole = (unsigned)(log >> 32);

	if (whole >= 20) /* 2^20 is about a million */
		return saturate((unsigned __int128)least << 20);
	return saturate((unsigned __int128)least * fm_sim_exp2((uint32_t)log) >> (32 - whole));
}

static uint64_t draw_measured(const struct fm_sim_points *p, struct fm_rta_random *r)
{
	uint64_t part = fm_rta_next(r) >> 32, from, to;
	uint32_t i = 1;

	while (i < p->n - 1 && p->point[i].part <= part)
		i++;
	from = p->point[i - 1].part;
	to = p->point[i].part;
	return p->point[i - 1].ns +
	       (uint64_t)((unsigned __int128)(p->point[i].ns - p->point[i - 1].ns) * (part - from) /
			  (to - from));
}

uint64_t fm_sim_draw(const struct fm_sim_dist *d, struct fm_rta_random *r)
{
	switch (d->shape) {
	case FM_SIM_FIXED:
		return d->a;
	case FM_SIM_UNIFORM:
		return (uint64_t)fm_rta_uniform(r, (int64_t)d->a, (int64_t)d->b);
	case FM_SIM_EXP:
		return draw_exp(d->a, r);
	case FM_SIM_NORMAL:
		return draw_normal(d->a, d->b, r);
	case FM_SIM_PARETO:
		return draw_pareto(d->a, d->b, r);
	case FM_SIM_MEASURED:
		return draw_measured(d->points, r);
	}
	return d->a;
}
