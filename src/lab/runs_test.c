/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a quantile differs, by the bootstrap (Efron, Tibshirani: An Introduction to the
 * Bootstrap, 1993, chapters 13 and 16). Jobs are not resampled one by one: the r-th smallest of n
 * draws from n jobs is the job of rank ceil(U n). U, the r-th smallest of n uniform numbers, has
 * the distribution Beta(r, n - r + 1). With many tests at once, some would find a difference by
 * chance; the correction is Holm's (Scand. J. Statistics 6, 1979).
 */
#include "base/cleanup.h"
#include "base/util.h"
#include "runs.h"
#include <fermata/rta.h>
#include <math.h>
#include <stdlib.h>

#define ALPHA         0.05
#define RESAMPLES_MAX 40000

/* In (0, 1). */
static double uniform(struct fm_rta_random *r)
{
	return ((double)(fm_rta_next(r) >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller. */
static double normal(struct fm_rta_random *r)
{
	double length = sqrt(-2 * log(uniform(r)));

	return length * cos(6.283185307179586 * uniform(r));
}

/* Shape 1 or more: Marsaglia, Tsang (ACM TOMS 26, 2000). */
static double gamma_of(struct fm_rta_random *r, double shape)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d), x, v;

	for (;;) {
		x = normal(r);
		v = 1 + c * x;
		if (v <= 0)
			continue;
		v = v * v * v;
		if (log(uniform(r)) < x * x / 2 + d - d * v + d * log(v))
			return d * v;
	}
}

static double beta_of(struct fm_rta_random *r, double a, double b)
{
	double x = gamma_of(r, a), y = gamma_of(r, b);

	return x / (x + y);
}

/* The input for drawing a quantile: its rank, and the number of jobs up to each sample. */
struct source {
	const struct run_group *g;
	uint64_t rank, *upto;
};

static bool source_of(struct source *s, const struct run_group *g, double q)
{
	uint64_t sum = 0;

	*s = (struct source){.g = g};
	s->rank = FM_MAX((uint64_t)(q * (double)g->jobs + 0.5), UINT64_C(1));
	s->upto = calloc(g->samples + 1, sizeof(*s->upto));
	for (size_t i = 0; s->upto && i < g->samples; i++)
		s->upto[i] = sum += g->sample[i].jobs;
	return s->upto;
}

static uint64_t draw(const struct source *s, struct fm_rta_random *r)
{
	double n = (double)s->g->jobs, rank = (double)s->rank;
	uint64_t at = (uint64_t)ceil(beta_of(r, rank, n - rank + 1) * n);
	size_t lo = 0, hi = s->g->samples - 1;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->upto[mid] < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return s->g->sample[lo].ns;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static bool is_enough(const struct run_group *g, double q)
{
	return g->sampled && (double)g->jobs * (1 - q) >= RUN_BEYOND &&
	       (double)g->jobs * q >= RUN_BEYOND;
}

/* Counts how often resampling sees no difference, or one in the other direction. Doubled, because
 * the test is two-sided. */
static double p_of(const double *d, unsigned n)
{
	unsigned below = 0, above = 0;

	for (unsigned i = 0; i < n; i++) {
		below += d[i] <= 0;
		above += d[i] >= 0;
	}
	return fmin(1, 2 * (FM_MIN(below, above) + 1.0) / (n + 1.0));
}

static void test_one(struct run_test *t, struct fm_rta_random *r, double *d, unsigned n)
{
	struct source a = {0}, b = {0};

	t->at[0] = run_quantile(t->a, t->q);
	t->at[1] = run_quantile(t->b, t->q);
	t->p = 1;
	t->verdict = RUN_TOO_FEW;
	if (!is_enough(t->a, t->q) || !is_enough(t->b, t->q))
		return;
	if (source_of(&a, t->a, t->q) && source_of(&b, t->b, t->q)) {
		for (unsigned i = 0; i < n; i++) {
			double x = (double)draw(&a, r);

			d[i] = (double)draw(&b, r) - x;
		}
		qsort(d, n, sizeof(*d), by_size);
		t->low = d[(unsigned)(ALPHA / 2 * n)];
		t->high = d[n - 1 - (unsigned)(ALPHA / 2 * n)];
		t->p = p_of(d, n);
		t->verdict = RUN_SAME;
	}
	free(a.upto);
	free(b.upto);
}

static int by_p(const void *a, const void *b)
{
	const struct run_test *x = *(struct run_test *const *)a, *y = *(struct run_test *const *)b;

	return x->p < y->p ? -1 : x->p > y->p;
}

/* The least p is multiplied by the number of tests, the next one by one less, and so on up to the
 * first that fails. */
static void correct(struct run_test **order, size_t n)
{
	double least = 0;

	qsort(order, n, sizeof(*order), by_p);
	for (size_t i = 0; i < n; i++) {
		struct run_test *t = order[i];

		least = fmax(least, fmin(1, t->p * (double)(n - i)));
		t->p = least;
		if (t->p < ALPHA)
			t->verdict = t->low + t->high > 0 ? RUN_SLOWER : RUN_FASTER;
	}
}

unsigned run_tests(struct run_test *t, size_t n, uint64_t seed)
{
	FM_CLEAN_FREE struct run_test **order = calloc(n + 1, sizeof(*order));
	unsigned resamples =
		(unsigned)FM_MIN(FM_MAX((size_t)RUN_RESAMPLES, 80 * n), (size_t)RESAMPLES_MAX);
	FM_CLEAN_FREE double *d = calloc(resamples, sizeof(*d));
	struct fm_rta_random r;
	size_t tested = 0;

	if (!order || !d)
		return 0;
	for (size_t i = 0; i < n; i++) {
		fm_rta_seed(&r, seed, i);
		test_one(&t[i], &r, d, resamples);
		if (t[i].verdict != RUN_TOO_FEW)
			order[tested++] = &t[i];
	}
	correct(order, tested);
	return resamples;
}
