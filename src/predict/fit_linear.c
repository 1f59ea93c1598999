/* SPDX-License-Identifier: Apache-2.0 */
/*
 * num * P / den + plus, with P a product of up to three scalars: the smallest product by which all
 * launches are exact. At least three different products are needed, for two points are always on a
 * line; and a number that is always the same needs three launches whose scalars differ.
 */
#include "base/util.h"
#include "fit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENT 3u
/* Larger denominators are none of a program's: with those, large numbers such as two words that
 * stand side by side fit anything, for what is left of them is rounded. */
#define PARTS 4096

/* --- scalars --- */

void fm_fit_scalars_free(struct fm_fit_scalars *s)
{
	for (unsigned i = 0; i < s->n; i++)
		free(s->value[i]);
	free(s->last);
	free(s->set);
	*s = (struct fm_fit_scalars){0};
}

static uint64_t scalar(const struct fm_fit_seen *o, struct fm_operand of)
{
	uint64_t wide;
	uint32_t word;

	switch (of.kind) {
	case FM_OPERAND_GRID:
		return o->grid[of.at];
	case FM_OPERAND_BLOCK:
		return o->block[of.at];
	case FM_OPERAND_U32:
		memcpy(&word, o->params + of.at, 4);
		return word;
	default:
		memcpy(&wide, o->params + of.at, 8);
		return wide;
	}
}

/* A column that is always the same, or the same as another, is none. */
static int add_column(struct fm_fit_scalars *s, const struct fm_fit_kernel *k, struct fm_operand of)
{
	bool varies = false;

	if (s->n == FM_FIT_COLUMNS)
		return 0;
	if (!s->last)
		s->last = malloc(s->rows * sizeof(*s->last) + 1);
	if (!s->last)
		return -ENOMEM;
	for (unsigned i = 0; i < s->rows; i++) {
		s->last[i] = scalar(k->seen[i], of);
		varies |= s->last[i] != s->last[0];
	}
	for (unsigned c = 0; c < s->n && varies; c++)
		varies = memcmp(s->value[c], s->last, s->rows * sizeof(*s->last)) != 0;
	if (!varies)
		return 0;
	s->of[s->n] = of;
	s->value[s->n++] = s->last;
	s->last = NULL;
	return 0;
}

static bool is_pointer(const struct fm_template *p, unsigned n, uint32_t at, uint32_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		if (at < p[i].at + fm_pointer_bytes(p[i].form) && p[i].at < at + bytes)
			return true;
	return false;
}

static int add_columns(struct fm_fit_scalars *s, const struct fm_fit_kernel *k,
	const struct fm_template *pointer, unsigned n)
{
	int rc = 0;

	for (uint16_t i = 0; i < 3 && !rc; i++)
		rc = add_column(s, k, (struct fm_operand){FM_OPERAND_GRID, i});
	for (uint16_t i = 0; i < 3 && !rc; i++)
		rc = add_column(s, k, (struct fm_operand){FM_OPERAND_BLOCK, i});
	for (uint32_t at = 0; at + 4 <= k->size && !rc; at += 4)
		if (!is_pointer(pointer, n, at, 4))
			rc = add_column(s, k, (struct fm_operand){FM_OPERAND_U32, (uint16_t)at});
	for (uint32_t at = 0; at + 8 <= k->size && !rc; at += 8)
		if (!is_pointer(pointer, n, at, 8))
			rc = add_column(s, k, (struct fm_operand){FM_OPERAND_U64, (uint16_t)at});
	return rc;
}

static bool same_scalars(const struct fm_fit_seen *a, const struct fm_fit_seen *b, uint32_t size)
{
	return !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
	       !memcmp(a->block, b->block, sizeof(a->block)) && !memcmp(a->params, b->params, size);
}

static int number_sets(struct fm_fit_scalars *s, const struct fm_fit_kernel *k)
{
	s->set = calloc(s->rows + 1, sizeof(*s->set));
	if (!s->set)
		return -ENOMEM;
	for (unsigned i = 0; i < s->rows; i++) {
		unsigned first = 0;

		while (!same_scalars(k->seen[first], k->seen[i], k->size))
			first++;
		s->set[i] = first == i ? s->sets++ : s->set[first];
	}
	return 0;
}

int fm_fit_scalars_init(struct fm_fit_scalars *s, const struct fm_fit_kernel *k,
	const struct fm_template *pointer, unsigned n)
{
	int rc;

	*s = (struct fm_fit_scalars){.rows = k->n};
	rc = add_columns(s, k, pointer, n);
	rc = rc ? rc : number_sets(s, k);
	if (rc)
		fm_fit_scalars_free(s);
	return rc;
}

/* --- fits --- */

static bool is_constant(
	const struct fm_fit_scalars *s, const struct fm_fit_goal *g, struct fm_linear *out)
{
	uint32_t set[DIFFERENT];
	unsigned sets = 0;

	for (unsigned i = 0; i < g->n; i++) {
		bool known = sets == DIFFERENT;

		if (g->y[i] != g->y[0])
			return false;
		for (unsigned k = 0; k < sets; k++)
			known |= set[k] == s->set[g->row[i]];
		if (!known)
			set[sets++] = s->set[g->row[i]];
	}
	*out = (struct fm_linear){.den = 1, .plus = g->n ? g->y[0] : 0};
	return sets == DIFFERENT;
}

static bool product_at(const struct fm_fit_scalars *s, const unsigned *factor, unsigned n,
	uint32_t row, uint64_t *product)
{
	*product = 1;
	for (unsigned i = 0; i < n; i++)
		if (__builtin_mul_overflow(*product, s->value[factor[i]][row], product))
			return false;
	return *product <= INT64_MAX;
}

static unsigned __int128 common_factor(unsigned __int128 a, unsigned __int128 b)
{
	while (b) {
		unsigned __int128 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The line through two points. */
static bool line(const int64_t y[2], const uint64_t product[2], struct fm_linear *l)
{
	__int128 dy = (__int128)y[1] - y[0], dp = (__int128)product[1] - (__int128)product[0], by;
	__int128 plus;
	int64_t value;

	if (dp < 0) {
		dp = -dp;
		dy = -dy;
	}
	by = (__int128)common_factor(
		dy < 0 ? (unsigned __int128)-dy : (unsigned __int128)dy, (unsigned __int128)dp);
	l->num = (int64_t)(dy / by);
	l->den = (int64_t)(dp / by);
	if (l->num != dy / by || l->den != dp / by || l->den > PARTS)
		return false;
	l->plus = 0;
	if (!fm_linear_at(l, product[0], &value))
		return false;
	plus = (__int128)y[0] - value;
	l->plus = (int64_t)plus;
	return l->plus == plus;
}

/* Are all launches on the line, and at least three different products among them? */
static bool all_on(const struct fm_fit_scalars *s, const struct fm_fit_goal *g,
	const unsigned *factor, const struct fm_linear *l)
{
	uint64_t product, known[DIFFERENT];
	unsigned different = 0;
	int64_t value;

	for (unsigned i = 0; i < g->n; i++) {
		bool is_known = different == DIFFERENT;

		if (!product_at(s, factor, l->n, g->row[i], &product) ||
			!fm_linear_at(l, product, &value) || value != g->y[i])
			return false;
		for (unsigned k = 0; k < different; k++)
			is_known |= known[k] == product;
		if (!is_known)
			known[different++] = product;
	}
	return different == DIFFERENT;
}

static bool fits(const struct fm_fit_scalars *s, const struct fm_fit_goal *g,
	const unsigned *factor, unsigned n, struct fm_linear *out)
{
	struct fm_linear l = {.n = n};
	uint64_t product[2] = {0};
	int64_t y[2] = {g->y[0], 0};
	unsigned second = 1;

	if (!product_at(s, factor, n, g->row[0], &product[0]))
		return false;
	for (; second < g->n; second++) {
		if (!product_at(s, factor, n, g->row[second], &product[1]))
			return false;
		if (product[1] != product[0])
			break;
		if (g->y[second] != y[0])
			return false;
	}
	if (second == g->n)
		return false;
	y[1] = g->y[second];
	if (!line(y, product, &l) || !all_on(s, g, factor, &l))
		return false;
	for (unsigned i = 0; i < n; i++)
		l.of[i] = s->of[factor[i]];
	*out = l;
	return true;
}

bool fm_fit_linear(
	const struct fm_fit_scalars *s, const struct fm_fit_goal *g, struct fm_linear *out)
{
	unsigned f[FM_FACTORS];

	if (!g->n || is_constant(s, g, out))
		return g->n != 0;
	for (f[0] = 0; f[0] < s->n; f[0]++)
		if (fits(s, g, f, 1, out))
			return true;
	for (f[0] = 0; f[0] < s->n; f[0]++)
		for (f[1] = f[0]; f[1] < s->n; f[1]++)
			if (fits(s, g, f, 2, out))
				return true;
	for (f[0] = 0; f[0] < s->n; f[0]++)
		for (f[1] = f[0]; f[1] < s->n; f[1]++)
			for (f[2] = f[1]; f[2] < s->n; f[2]++)
				if (fits(s, g, f, 3, out))
					return true;
	return false;
}
