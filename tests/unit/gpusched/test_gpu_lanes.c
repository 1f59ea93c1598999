// SPDX-License-Identifier: Apache-2.0
/*
 * The core's text as a warp runs it: several lanes, each with its part of the tasks, which meet
 * where they exchange values. On the same random events it does what the processor's does, to the
 * last word. Lanes are contexts of one thread, and between two meetings each runs alone.
 */
#include "base/util.h"
#include "gpu_world.h"
#include "gpusched/host.h"
#include <ucontext.h>

#define LANES 4
#define STACK 65536

static struct {
	ucontext_t main, lane[LANES];
	char stack[LANES][STACK] __attribute__((aligned(64)));
	bool live[LANES];
	unsigned at, meetings[LANES];
	/* What lanes have brought to a meeting, and to the one before. */
	uint64_t value[2][LANES];
	struct fm_gs_key key[2][LANES];
} warp;

static uint64_t clock_ns;

/* Returns which values are those of this meeting, when all lanes have brought theirs. */
static unsigned meet(uint64_t value, struct fm_gs_key key)
{
	unsigned side = warp.meetings[warp.at]++ & 1;

	warp.value[side][warp.at] = value;
	warp.key[side][warp.at] = key;
	swapcontext(&warp.lane[warp.at], &warp.main);
	return side;
}

static const struct fm_gs_key no_key;

static uint64_t same(uint64_t x)
{
	return warp.value[meet(x, no_key)][0];
}

static uint64_t sum(uint64_t x)
{
	unsigned side = meet(x, no_key);
	uint64_t all = 0;

	for (unsigned i = 0; i < LANES; i++)
		all += warp.value[side][i];
	return all;
}

static uint64_t least(uint64_t x)
{
	unsigned side = meet(x, no_key);
	uint64_t all = UINT64_MAX;

	for (unsigned i = 0; i < LANES; i++)
		all = FM_MIN(all, warp.value[side][i]);
	return all;
}

static uint32_t first_of(uint32_t n, struct fm_gs_key key, uint32_t task)
{
	unsigned side = meet(task, key);
	uint32_t best = n;
	struct fm_gs_key of = {0, 0};

	for (unsigned i = 0; i < LANES; i++) {
		uint32_t its = (uint32_t)warp.value[side][i];

		if (its == n)
			continue;
		if (best == n || fm_gs_before(&warp.key[side][i], its, &of, best)) {
			best = its;
			of = warp.key[side][i];
		}
	}
	return best;
}

static uint64_t add_once(uint64_t *p, uint64_t v)
{
	uint64_t old = *p;

	if (!warp.at)
		*p += v;
	return same(old);
}

static uint64_t swap_once(uint64_t *p, uint64_t v)
{
	uint64_t old = *p;

	if (!warp.at)
		*p = v;
	return same(old);
}

#define FM_GS_LANE             warp.at
#define FM_GS_LANES            LANES
#define FM_GS_SYNC             same(0)
#define FM_GS_LOAD(p)          (*(p))
#define FM_GS_STORE(p, v)      (*(p) = (v))
#define FM_GS_ADD(p, v)        add_once(p, v)
#define FM_GS_SWAP(p, v)       swap_once(p, v)
#define FM_GS_SAME(x)          same(x)
#define FM_GS_FIRST(n, key, i) first_of(n, key, i)
#define FM_GS_SUM(x)           sum(x)
#define FM_GS_LEAST(x)         least(x)
#define FM_GS_NOW              clock_ns
#define FM_GS_CLZ(x)           __builtin_clzll(x)
#include "gpusched/core.h"

static struct fm_gs *kicked;

static void run_lane(void)
{
	fm_gs_kick(kicked);
	warp.live[warp.at] = false;
}

static void begin_lane(unsigned i)
{
	assert_int_equal(getcontext(&warp.lane[i]), 0);
	warp.lane[i].uc_stack.ss_sp = warp.stack[i];
	warp.lane[i].uc_stack.ss_size = STACK;
	warp.lane[i].uc_link = &warp.main;
	makecontext(&warp.lane[i], run_lane, 0);
	warp.live[i] = true;
	warp.meetings[i] = 0;
}

static void kick_by_warp(struct fm_gs *g)
{
	bool any_lives = true;

	kicked = g;
	for (unsigned i = 0; i < LANES; i++)
		begin_lane(i);
	while (any_lives) {
		any_lives = false;
		for (warp.at = 0; warp.at < LANES; warp.at++)
			if (warp.live[warp.at])
				swapcontext(&warp.main, &warp.lane[warp.at]);
		for (unsigned i = 0; i < LANES; i++)
			any_lives |= warp.live[i];
	}
	for (unsigned i = 1; i < LANES; i++)
		assert_int_equal(warp.meetings[i], warp.meetings[0]);
}

/* --- the same set twice --- */

#define MANY 11

static struct fm_gs_task by_host[MANY], by_warp[MANY];
static uint32_t after[MANY];
static struct fm_gs_host host;
static struct fm_gs set;

static void make_both(void)
{
	memset(by_host, 0, sizeof(by_host));
	host = (struct fm_gs_host){.is_virtual = true};
	host.g.n = 1 + (uint32_t)any(MANY);
	host.g.slots = 1 + (uint32_t)any(3);
	host.g.policy = (enum fm_gs_policy)any(FM_GS_POLICIES);
	host.g.task = by_host;
	host.g.after = after;
	for (uint32_t i = 0; i < host.g.n; i++) {
		struct fm_gs_task *t = &by_host[i];

		t->chunks = 1 + (uint32_t)any(3);
		t->weight = 1 + (uint32_t)any(4096);
		t->deadline = any(3) ? any(10000) : 0;
		t->wcet = any(2) ? any(500) : 0;
		t->priority = (int32_t)any(5) - 2;
		t->period = any(3) ? 0 : 1 + any(2000);
		t->next = t->period ? any(1000) : FM_GS_NEVER;
		t->first_after = i;
		t->n_after = i && !any(3);
		after[i] = i ? (uint32_t)any(i) : 0;
	}
	clock_ns = 0;
	memcpy(by_warp, by_host, sizeof(by_warp));
	set = host.g;
	set.task = by_warp;
}

/* One thing that happens, to a set; which, is drawn before. */
static void happen(struct fm_gs *g, unsigned what, uint32_t task, uint64_t count)
{
	struct fm_gs_task *t = &g->task[task];

	if (what < 4)
		t->rung += count;
	else if (what < 8)
		t->queued += count;
	else if (what < 16 && t->gate != t->ended)
		t->ended++;
	else if (what == 17)
		g->park = !g->park;
	else if (what == 18 && count > 50)
		t->off = 1;
	else if (what == 19 && count > 50)
		g->drain = !g->drain;
	else if (what == 19 && count == 3)
		g->leave = !g->leave;
}

static void lanes_decide_as_one_does(void **state)
{
	uint64_t opened = 0, done = 0, missed = 0, stopped = 0;

	for (unsigned run = 0; run < 100; run++) {
		seed = run;
		make_both();
		for (unsigned step = 0; step < 150; step++) {
			unsigned what = (unsigned)any(20);
			uint32_t task = (uint32_t)any(host.g.n);
			uint64_t count = 1 + any(any(30) ? 3 : 100);

			clock_ns += any(200);
			fm_gs_write(&host.now, clock_ns);
			happen(&host.g, what, task, count);
			happen(&set, what, task, count);
			fm_gs_host_kick(&host);
			kick_by_warp(&set);
			assert_memory_equal(by_host, by_warp, sizeof(by_host));
			set.task = by_host; /* the only word that may differ */
			assert_memory_equal(&host.g, &set, sizeof(set));
			set.task = by_warp;
		}
		opened += set.opened;
		for (uint32_t i = 0; i < set.n; i++) {
			done += by_warp[i].done;
			missed += by_warp[i].stats.missed;
			stopped += by_warp[i].stats.missed_stopped;
		}
	}
	/* Else nothing was shown. */
	assert_true(opened > 1000 && done > 500);
	assert_true(stopped > 20 && missed > 2 * stopped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_decide_as_one_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
