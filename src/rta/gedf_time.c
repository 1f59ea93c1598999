/* SPDX-License-Identifier: Apache-2.0 */
/* Global EDF, tests by what is asked for in an interval: RTA and BAR. No sum leaves 64 bits unseen:
 * what is asked for in an interval by tasks that fit their periods is no longer than the interval,
 * and sums over tasks are made of 128 bits. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A share of k's response time, at a point r, and how it goes on: by 1 for each 1 until `steady`
 * further on, or not at all. What comes after that is no less. */
struct share {
	int64_t value, steady;
	bool grows;
};

/* What may have a deadline no later than that of a job of k's. */
static int64_t before_deadline(
	const struct fm_gedf_task *i, int64_t slack, const struct fm_gedf_task *k)
{
	return k->period / i->period * i->cpu_time +
	       least(i->cpu_time, most(0, k->period % i->period - slack));
}

/* min(E_i, W_i(r), r - C_k + 1), its jobs ending `slack` early. */
static struct share share_of(
	const struct fm_gedf_task *i, int64_t slack, const struct fm_gedf_task *k, int64_t r)
{
	int64_t x = r + (i->period - i->cpu_time - slack), rest = x % i->period;
	int64_t ends = before_deadline(i, slack, k), gap = r - k->cpu_time + 1;
	int64_t work = x / i->period * i->cpu_time + least(i->cpu_time, rest);

	if (ends <= work && ends <= gap)
		return (struct share){.value = ends};
	if (gap < work)
		return (struct share){gap, least(work, ends) - gap, true};
	if (rest >= i->cpu_time)
		return (struct share){.value = work};
	return (struct share){work, least(i->cpu_time - rest, ends - work), true};
}

/* The response time is the least r with r - C_k = floor(shares(r) / m). r: not beyond it. 0, or how
 * far it is away at least: going on by what the equation says would be by nanoseconds where m
 * shares grow, so this goes to the point where they add up, or to the first that stops growing. */
static __int128 distance(const struct gedf *g, size_t k, int64_t r)
{
	int64_t gap = r - g->task[k].cpu_time, steady = INT64_MAX - 1, growing = 0;
	__int128 lacking = -(__int128)g->m * gap - g->m + 1, need;

	for (size_t i = 0; i < g->n; i++) {
		struct share s;

		if (i == k)
			continue;
		s = share_of(&g->task[i], g->slack[i], &g->task[k], r);
		lacking += s.value;
		growing += s.grows;
		steady = s.grows ? least(steady, s.steady) : steady;
	}
	if (lacking <= 0)
		return 0;
	if (growing >= g->m)
		return (__int128)steady + 1;
	need = (lacking + g->m - growing - 1) / (g->m - growing);
	return need <= steady ? need : (__int128)steady + 1;
}

/* Beyond the period: none. */
static int64_t response(const struct gedf *g, size_t k, uint64_t *steps)
{
	int64_t r = g->task[k].cpu_time;

	for (; *steps; --*steps) {
		__int128 by = distance(g, k, r);

		if (!by)
			return r;
		if (by > g->task[k].period - r)
			break;
		r += (int64_t)by;
	}
	return INT64_MAX;
}

int gedf_rta(const struct gedf *g, bool *passes)
{
	uint64_t steps = steps_for(g->n);
	bool changed = true;

	for (size_t k = 0; k < g->n; k++)
		g->slack[k] = 0;
	*passes = false;
	while (changed && !*passes && steps) {
		changed = false;
		*passes = true;
		steps--;
		for (size_t k = 0; k < g->n; k++) {
			int64_t r = response(g, k, &steps), slack = g->task[k].period - r;

			if (r > g->task[k].period) {
				*passes = false;
				continue;
			}
			changed |= slack != g->slack[k];
			g->slack[k] = slack;
		}
	}
	return 0;
}

static int descending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The sum of the m - 1 largest; sorts them. */
static __int128 largest(int64_t *v, size_t n, int64_t m)
{
	__int128 sum = 0;

	qsort(v, n, sizeof(*v), descending);
	for (size_t k = 0; k < n && (int64_t)k < m - 1; k++)
		sum += v[k];
	return sum;
}

/* Is length * (m - U) <= limit? */
static bool within(const struct gedf *g, int64_t length, __int128 limit)
{
	for (size_t k = 0; k < g->n; k++)
		g->scratch[k] = (struct fraction){
			(unsigned __int128)g->task[k].cpu_time * (unsigned __int128)length,
			(unsigned __int128)g->task[k].period};
	return fraction_sum_sign(g->scratch, g->n, (__int128)g->m * length - limit) >= 0;
}

/* The longest interval in which k's deadline could be missed: floor(limit / (m - U)). Beyond what
 * can be looked at: -1. */
static int64_t longest_interval(const struct gedf *g, __int128 limit)
{
	int64_t low = 0, high = INT64_MAX / 4;

	if (within(g, high, limit))
		return -1;
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;

		if (within(g, middle, limit))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Baruah's condition for one interval, from the last time a CPU was idle to k's deadline. */
static bool bar_holds(const struct gedf *g, size_t k, int64_t length)
{
	int64_t cost = g->task[k].cpu_time, ahead = length - g->task[k].period;
	__int128 sum = 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct fm_gedf_task *t = &g->task[i];
		int64_t whole = length / t->period * t->cpu_time;
		int64_t carried = whole + least(t->cpu_time, length % t->period);
		int64_t in, with;

		if (i == k) {
			in = least(whole - cost, ahead);
			with = least(carried - cost, ahead);
		} else {
			in = least(whole, length - cost + 1);
			with = least(carried, length - cost + 1);
		}
		sum += in;
		g->more[i] = with - in;
	}
	sum += largest(g->more, g->n, g->m);
	return sum <= (__int128)g->m * (length - cost);
}

/* All intervals that end with a job of i's, from k's period up. */
static bool bar_task(const struct gedf *g, size_t k, size_t i, int64_t longest, uint64_t *points)
{
	int64_t step = g->task[i].period, period = g->task[k].period;
	int64_t length = (period / step + (period % step != 0)) * step;

	for (; length <= longest; length += step) {
		if (!*points || !bar_holds(g, k, length))
			return false;
		--*points;
	}
	return true;
}

int gedf_bar(const struct gedf *g, bool *passes)
{
	uint64_t points = steps_for(g->n);
	__int128 sum;

	for (size_t k = 0; k < g->n; k++)
		g->more[k] = g->task[k].cpu_time;
	sum = largest(g->more, g->n, g->m);
	*passes = true;
	for (size_t k = 0; *passes && k < g->n; k++) {
		int64_t longest = longest_interval(g, sum + (__int128)g->m * g->task[k].cpu_time);

		*passes = longest >= 0;
		for (size_t i = 0; *passes && i < g->n; i++)
			*passes = bar_task(g, k, i, longest, &points);
	}
	return 0;
}
