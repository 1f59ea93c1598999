/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of memory: the best victims, closed forms, ties, and what never moves. */
#include "../rounds.h"
#include "mem_world.h"

#define SIZE   6 /* extents of a group */
#define LENGTH 6 /* of a sequence */
#define ALL    729
#ifdef __SANITIZE_ADDRESS__ /* each takes ten times as long */
#define EVERY rounds(32, 8)
#else
#define EVERY rounds(4, 1)
#endif

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* The fewest loads of a sequence, over all choices of victims: extents of a group are alike, so
 * only their numbers count. */
static unsigned fewest(const unsigned char *seq, unsigned n, unsigned r[3], unsigned capacity)
{
	unsigned best = UINT32_MAX, g, load, a, b;

	if (!n)
		return 0;
	g = seq[0];
	a = (g + 1) % 3;
	b = (g + 2) % 3;
	load = SIZE - r[g];
	for (unsigned x = 0; x <= r[a]; x++)
		for (unsigned y = 0; y <= r[b]; y++) {
			unsigned next[3];

			if (SIZE + x + y > capacity)
				continue;
			if (x < r[a] && y < r[b] && SIZE + x + y + 2 < capacity)
				continue; /* it leaves room for no reason */
			next[g] = SIZE;
			next[a] = x;
			next[b] = y;
			best = least(best, load + fewest(seq + 1, n - 1, next, capacity));
		}
	return best;
}

static void sequence(unsigned char *seq, unsigned number)
{
	for (unsigned i = 0; i < LENGTH; i++, number /= 3)
		seq[i] = (unsigned char)(number % 3);
}

static void test_best(void **state)
{
	static const unsigned capacities[] = {6, 8, 11, 13, 16};
	unsigned char seq[LENGTH];

	for (unsigned c = 0; c < FM_ARRAY_LEN(capacities); c++)
		for (unsigned number = 0; number < ALL; number += EVERY) {
			unsigned none[3] = {0};
			struct small s;

			sequence(seq, number);
			small_init(&s, "opt", 3, SIZE, capacities[c]);
			small_play(&s, seq, LENGTH, 2, 0, LENGTH);
			assert_int_equal(s.came, fewest(seq, LENGTH, none, capacities[c]));
			assert_int_equal(s.stood, s.came);
			fm_mem_plan_free(&s.plan);
		}
}

/* The least time for which nobody runs, where memory may come in beside the group that runs too,
 * one extent a tick. */
struct best {
	unsigned stood[SIZE + 1][SIZE + 1]; /* by what the next two groups have; from a turn on */
};

static unsigned look(const struct best *b, unsigned g, const unsigned r[3])
{
	return b->stood[r[(g + 1) % 3]][r[(g + 2) % 3]];
}

/* At the switch to g, from what there is. */
static unsigned switch_to(
	const struct best *later, unsigned g, const unsigned r[3], unsigned capacity)
{
	unsigned best = UINT32_MAX, a = (g + 1) % 3, b = (g + 2) % 3, next[3];

	next[g] = SIZE;
	for (next[a] = 0; next[a] <= r[a]; next[a]++)
		for (next[b] = 0; next[b] <= r[b]; next[b]++)
			if (next[a] + next[b] + SIZE <= capacity)
				best = least(best, look(later, g, next));
	return best == UINT32_MAX ? best : best + SIZE - r[g];
}

static void fill_best(
	const unsigned char *seq, unsigned n, unsigned ticks, unsigned capacity, struct best *out)
{
	unsigned g = seq[0], a = (g + 1) % 3, b = (g + 2) % 3, r[3], to[3];
	struct best later = {{{0}}};

	memset(out, 0, sizeof(*out));
	if (n < 2)
		return;
	fill_best(seq + 1, n - 1, ticks, capacity, &later);
	r[g] = to[g] = SIZE;
	for (r[a] = 0; r[a] <= SIZE; r[a]++)
		for (r[b] = 0; r[b] <= SIZE; r[b]++) {
			unsigned best = UINT32_MAX;

			for (to[a] = 0; to[a] <= SIZE; to[a]++)
				for (to[b] = 0; to[b] <= SIZE; to[b]++) {
					unsigned load = (to[a] > r[a] ? to[a] - r[a] : 0) +
							(to[b] > r[b] ? to[b] - r[b] : 0);

					if (load > ticks || SIZE + to[a] + to[b] > capacity)
						continue;
					best = least(best, switch_to(&later, seq[1], to, capacity));
				}
			out->stood[r[a]][r[b]] = best;
		}
}

static void test_ahead(void **state)
{
	static const unsigned capacities[] = {8, 11, 16}, ticks[] = {2, 6};
	unsigned sum = 0, best_sum = 0, at_switch = 0, worse = 0;
	unsigned char seq[LENGTH];

	for (unsigned c = 0; c < FM_ARRAY_LEN(capacities); c++)
		for (unsigned t = 0; t < FM_ARRAY_LEN(ticks); t++)
			for (unsigned number = 0; number < ALL; number += EVERY) {
				unsigned none[3] = {0};
				struct best best;
				struct small s, o;
				unsigned stood;

				sequence(seq, number);
				small_init(&s, "jit", 3, SIZE, capacities[c]);
				small_play(&s, seq, LENGTH, ticks[t], 0, LENGTH);
				small_init(&o, "opt", 3, SIZE, capacities[c]);
				small_play(&o, seq, LENGTH, ticks[t], 0, LENGTH);
				fill_best(seq, LENGTH, ticks[t], capacities[c], &best);
				stood = SIZE + look(&best, seq[0], none);
				assert_true(s.stood >= stood);
				worse += s.stood > stood;
				sum += s.stood;
				best_sum += stood;
				at_switch += o.stood;
				assert_true(s.stood <= o.stood);
				fm_mem_plan_free(&s.plan);
				fm_mem_plan_free(&o.plan);
			}
	/* Within a part in fifty of what can be done, and far better than at the switch. */
	assert_true(sum <= best_sum + best_sum / 50);
	assert_true(worse * 8 < FM_ARRAY_LEN(capacities) * FM_ARRAY_LEN(ticks) * ALL / EVERY);
	assert_true(sum * 5 < at_switch * 4);
}

/* n groups of w in turns of equal length: at the switch (T - C) / (n - 1) come in each time. Ahead
 * of time (T - C) / (n - 2), w at most, and nobody waits if the turn is long enough and 2 w fit;
 * else max(0, 2 w - C) wait. */
static void test_closed_forms(void **state)
{
	enum { W = 60, ROUNDS = 20, WARM = 8 };
	unsigned char seq[ROUNDS * GROUPS];

	for (unsigned n = 3; n <= 6; n++)
		for (unsigned c = W + 10; c < n * W; c += 17 * EVERY) {
			unsigned all = n * W - c, from = WARM * n, turns;
			struct small s;

			for (unsigned i = 0; i < ROUNDS * n; i++)
				seq[i] = (unsigned char)(i % n);
			/* What moves repeats after so many turns. */
			turns = n * (n - 1);
			small_init(&s, "opt", n, W, c);
			small_play(&s, seq, ROUNDS * n, 1, from, from + turns);
			assert_int_equal(s.came * (n - 1), all * turns);
			assert_int_equal(s.stood, s.came);
			fm_mem_plan_free(&s.plan);

			turns = n * (n - 2);
			small_init(&s, "jit", n, W, c);
			small_play(&s, seq, ROUNDS * n, 2 * W, from, from + turns);
			assert_int_equal(s.came, least(all * turns / (n - 2), W * turns));
			assert_int_equal(s.stood, 2 * W > c ? (2 * W - c) * turns : 0);
			fm_mem_plan_free(&s.plan);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_best),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_closed_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
