/* SPDX-License-Identifier: Apache-2.0 */
/* Global EDF with implicit deadlines: what is common, and the tests by utilisation, GFB and BAK. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

/* On-CPU scheduling of a GPU: so much for each 2 ms (Bakita and Anderson). */
#define CHARGE_EACH INT64_C(2000000)
#define CHARGE_COST INT64_C(165000)

/* Intervals of up to two periods are looked at. */
#define LONGEST (INT64_MAX / 4)

const char *fm_gedf_test_name(enum fm_gedf_test test)
{
	static const char *const names[FM_GEDF_TESTS] = {"BAK", "GFB", "RTA", "BAR"};

	return (unsigned)test < FM_GEDF_TESTS ? names[test] : NULL;
}

const char *fm_gedf_charge_name(enum fm_gedf_charge charge)
{
	static const char *const names[FM_GEDF_CHARGES] = {"none", "dedicated", "ceil", "floor"};

	return (unsigned)charge < FM_GEDF_CHARGES ? names[charge] : NULL;
}

static struct fraction of(int64_t num, int64_t den)
{
	return (struct fraction){(unsigned __int128)num, (unsigned __int128)den};
}

static size_t densest(const struct gedf *g)
{
	size_t best = 0;

	for (size_t k = 1; k < g->n; k++)
		if ((__int128)g->task[k].cpu_time * g->task[best].period >
			(__int128)g->task[best].cpu_time * g->task[k].period)
			best = k;
	return best;
}

/* sum u + (m - 1) max u <= m */
static int gedf_gfb(const struct gedf *g, bool *passes)
{
	const struct fm_gedf_task *d = &g->task[densest(g)];

	for (size_t k = 0; k < g->n; k++)
		g->scratch[k] = of(g->task[k].cpu_time, g->task[k].period);
	g->scratch[g->n] = of(d->cpu_time, d->period);
	g->scratch[g->n].num *= (unsigned)(g->m - 1);
	*passes = fraction_sum_sign(g->scratch, g->n + 1, g->m) <= 0;
	return 0;
}

/* min(1, u_i + max(0, (C_i - u_k T_i) / T_k)), as two fractions. */
static void bak_share(
	const struct fm_gedf_task *i, const struct fm_gedf_task *k, struct fraction out[2])
{
	__int128 carry = (__int128)i->cpu_time * k->period - (__int128)k->cpu_time * i->period;
	struct fraction f[2] = {of(i->cpu_time, i->period), of(0, 1)};

	if (carry > 0) {
		f[1].num = (unsigned __int128)carry;
		f[1].den = (unsigned __int128)k->period * (unsigned __int128)k->period;
	}
	out[0] = f[0];
	out[1] = f[1];
	if (fraction_sum_sign(f, 2, 1) > 0) {
		out[0] = of(1, 1);
		out[1] = of(0, 1);
	}
}

/* For every k: sum of the shares + (m - 1) u_k <= m. */
static int gedf_bak(const struct gedf *g, bool *passes)
{
	*passes = true;
	for (size_t k = 0; *passes && k < g->n; k++) {
		struct fraction *f = g->scratch;

		for (size_t i = 0; i < g->n; i++)
			bak_share(&g->task[i], &g->task[k], &f[2 * i]);
		f[2 * g->n] = of(g->task[k].cpu_time, g->task[k].period);
		f[2 * g->n].num *= (unsigned)(g->m - 1);
		*passes = fraction_sum_sign(f, 2 * g->n + 1, g->m) <= 0;
	}
	return 0;
}

static int charged(int64_t cpu_time, enum fm_gedf_charge charge, int64_t *out)
{
	int64_t parts = cpu_time / CHARGE_EACH, cost;

	*out = cpu_time;
	if (charge != FM_GEDF_CEIL && charge != FM_GEDF_FLOOR)
		return 0;
	parts += charge == FM_GEDF_CEIL && cpu_time % CHARGE_EACH;
	if (__builtin_mul_overflow(parts, CHARGE_COST, &cost) ||
		__builtin_add_overflow(cpu_time, cost, out))
		return -EOVERFLOW;
	return 0;
}

/* Each within its period, all within the CPUs. */
static bool feasible(const struct gedf *g)
{
	for (size_t k = 0; k < g->n; k++) {
		if (g->task[k].cpu_time > g->task[k].period)
			return false;
		g->scratch[k] = of(g->task[k].cpu_time, g->task[k].period);
	}
	return fraction_sum_sign(g->scratch, g->n, g->m) <= 0;
}

static int run_tests(const struct gedf *g, bool all, bool passes[FM_GEDF_TESTS])
{
	/* The quick ones first. */
	static const enum fm_gedf_test order[] = {
		FM_GEDF_GFB, FM_GEDF_BAK, FM_GEDF_RTA, FM_GEDF_BAR};
	static int (*const tests[FM_GEDF_TESTS])(const struct gedf *, bool *) = {
		[FM_GEDF_BAK] = gedf_bak,
		[FM_GEDF_GFB] = gedf_gfb,
		[FM_GEDF_RTA] = gedf_rta,
		[FM_GEDF_BAR] = gedf_bar};
	int rc = 0;

	for (size_t k = 0; !rc && k < FM_GEDF_TESTS; k++) {
		rc = tests[order[k]](g, &passes[order[k]]);
		if (passes[order[k]] && !all)
			break;
	}
	return rc;
}

static int prepare(const struct fm_gedf_task *from, struct fm_gedf_task *to, size_t n,
	enum fm_gedf_charge charge)
{
	int rc = 0;

	for (size_t k = 0; !rc && k < n; k++) {
		if (from[k].period <= 0 || from[k].cpu_time < 0)
			return -EINVAL;
		if (from[k].period > LONGEST)
			return -EOVERFLOW;
		to[k].period = from[k].period;
		rc = charged(from[k].cpu_time, charge, &to[k].cpu_time);
	}
	return rc;
}

static int analyze(const struct fm_gedf_task *task, size_t n, uint32_t cpus,
	enum fm_gedf_charge charge, bool all, bool passes[FM_GEDF_TESTS])
{
	struct fm_gedf_task *own = calloc(n + 1, sizeof(*own));
	struct gedf g = {.task = own,
		.n = n,
		.m = (int64_t)cpus - (charge == FM_GEDF_DEDICATED),
		.scratch = calloc(2 * n + 2, sizeof(*g.scratch)),
		.slack = calloc(n + 1, sizeof(*g.slack)),
		.more = calloc(n + 1, sizeof(*g.more))};
	int rc = own && g.scratch && g.slack && g.more ? 0 : -ENOMEM;

	for (int t = 0; t < FM_GEDF_TESTS; t++)
		passes[t] = n == 0;
	if (!rc && n)
		rc = prepare(task, own, n, charge);
	if (!rc && n && g.m > 0 && feasible(&g))
		rc = run_tests(&g, all, passes);
	free(own);
	free(g.scratch);
	free(g.slack);
	free(g.more);
	return rc;
}

static bool valid(size_t n, uint32_t cpus, enum fm_gedf_charge charge)
{
	return cpus && cpus <= FM_GEDF_CPUS && n < SIZE_MAX / sizeof(struct fraction) / 4 &&
	       (unsigned)charge < FM_GEDF_CHARGES;
}

int fm_gedf_analyze(const struct fm_gedf_task *task, size_t tasks, uint32_t cpus,
	enum fm_gedf_charge charge, bool passes[FM_GEDF_TESTS])
{
	if (!valid(tasks, cpus, charge))
		return -EINVAL;
	return analyze(task, tasks, cpus, charge, true, passes);
}

int fm_gedf_schedulable(const struct fm_gedf_task *task, size_t tasks, uint32_t cpus,
	enum fm_gedf_charge charge, bool *schedulable)
{
	bool passes[FM_GEDF_TESTS];
	int rc;

	if (!valid(tasks, cpus, charge))
		return -EINVAL;
	rc = analyze(task, tasks, cpus, charge, false, passes);
	*schedulable = false;
	for (int t = 0; t < FM_GEDF_TESTS; t++)
		*schedulable |= passes[t];
	return rc;
}
