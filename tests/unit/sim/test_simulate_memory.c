/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of simulated devices: what fits, what moves, what it costs, and what never happens. */
#include "../rounds.h"
#include "simulate_world.h"

#define GB  UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)

#ifdef __SANITIZE_ADDRESS__ /* each takes ten times as long */
#define SEEDS 60
#else
#define SEEDS rounds(60, 300)
#endif

static void memory(struct world *w, const char *memory_policy, struct fm_sim_device d)
{
	w->plan.memory = (struct fm_sim_memory){.policy = fm_mem_policy_find(memory_policy)};
	d.host = d.host ? d.host : UINT64_MAX;
	d.link = d.link.in ? d.link : (struct fm_mem_link){10 * GB, 10 * GB, 20 * GB, 0};
	device(w, d);
}

/* Groups of 1 GiB in turns of 100 ms; it takes 107 ms to bring one in. */
static void decoders(
	struct world *w, const char *memory_policy, unsigned n, uint64_t size, uint32_t dirty)
{
	static const char *const slice[] = {"slice=100"};

	plan(w, "round-robin", 20 * FM_S);
	w->plan.params = slice;
	w->plan.n_params = 1;
	w->plan.warmup = 5 * FM_S;
	memory(w, memory_policy, DEVICE(.memory = size));
	add(w, GROUP(.count = n, .memory = 1024 * MIB, .gap = FM_MS, .dirty = dirty,
		       COMMANDS(1, FM_MS)));
}

static double busy(const struct world *w)
{
	return (double)w->r.device[0].served / (double)w->r.device[0].time;
}

/* Turns that there were, by device time. */
static uint64_t turns(const struct world *w)
{
	return w->r.device[0].served / (100 * FM_MS);
}

static void what_fits_stays(void **state)
{
	struct world w, plain;

	for (const struct fm_mem_policy *const *p = fm_mem_policies; *p; p++) {
		decoders(&w, (*p)->name, 3, 3072 * MIB, 100);
		if ((*p)->victims == FM_VICTIMS_ALL && (*p)->moves)
			continue;
		run(&w);
		assert_int_equal(w.r.device[0].moved.in + w.r.device[0].moved.out, 0);
		decoders(&plain, (*p)->name, 3, 3072 * MIB, 100);
		plain.plan.memory.policy = NULL;
		run(&plain);
		assert_int_equal(w.r.group[0].served, plain.r.group[0].served);
		assert_int_equal(w.r.group[0].jobs, plain.r.group[0].jobs);
		assert_int_equal(plain.r.device[0].moved.exposed, 0);
		end(&w);
		end(&plain);
	}
}

/* Three of 1 GiB on 2 GiB: at the switch half of one comes in each time; ahead of time a whole one,
 * and nobody waits longer than the link is slower than the turn. */
static void as_the_closed_forms_say(void **state)
{
	struct world w;
	uint64_t each;

	decoders(&w, "opt", 3, 2048 * MIB, 100);
	run(&w);
	each = w.r.device[0].moved.in / turns(&w);
	assert_in_range(each, 512 * MIB * 95 / 100, 512 * MIB * 105 / 100);
	assert_int_equal(w.r.device[0].moved.residue, w.r.device[0].moved.in);
	assert_int_equal(w.r.device[0].moved.hidden, 0);
	assert_true(busy(&w) > 0.62 && busy(&w) < 0.66); /* 100 / (100 + 54 + what is in a row) */
	end(&w);
	decoders(&w, "jit", 3, 2048 * MIB, 100);
	run(&w);
	each = w.r.device[0].moved.in / turns(&w);
	assert_in_range(each, 1024 * MIB * 97 / 100, 1024 * MIB * 101 / 100);
	assert_true(busy(&w) > 0.9);
	assert_true(w.r.device[0].moved.hidden > 10 * w.r.device[0].moved.exposed);
	assert_int_equal(w.r.group[0].moved.missed, 0);
	end(&w);
	decoders(&w, "whole", 3, 2048 * MIB, 100);
	run(&w);
	assert_true(busy(&w) < 0.5);
	end(&w);
	decoders(&w, "none", 3, 2048 * MIB, 100);
	run(&w);
	assert_int_equal(w.r.device[0].moved.in, 0);
	assert_true(w.r.group[0].moved.missed > 0);
	assert_true(busy(&w) < 0.7); /* two of them have theirs */
	end(&w);
}

static void kept_copies_need_no_copy(void **state)
{
	struct world w, kept;

	decoders(&w, "jit", 3, 2048 * MIB, 100);
	w.device[0].link.both = 12 * GB;
	w.plan.memory.keep = true;
	run(&w);
	assert_int_equal(w.r.device[0].moved.kept, 0);
	decoders(&kept, "jit", 3, 2048 * MIB, 0);
	kept.device[0].link.both = 12 * GB;
	kept.plan.memory.keep = true;
	run(&kept);
	assert_int_equal(kept.r.device[0].moved.out, 0);
	assert_true(kept.r.device[0].moved.kept > GB);
	assert_true(busy(&kept) > 1.3 * busy(&w));
	end(&kept);
	/* A host without room for copies: they are dropped, and memory moves all the same. */
	decoders(&kept, "jit", 3, 2048 * MIB, 0);
	kept.plan.memory.keep = true;
	kept.device[0].host = 1400 * MIB;
	run(&kept);
	assert_true(kept.r.device[0].moved.out > GB);
	assert_true(busy(&kept) > 0.5);
	end(&kept);
	end(&w);
}

static void copies_cost_commands(void **state)
{
	struct world w, costs;

	decoders(&w, "jit", 3, 2048 * MIB, 100);
	run(&w);
	decoders(&costs, "jit", 3, 2048 * MIB, 100);
	costs.device[0].copy_cost = 20;
	run(&costs);
	assert_true(busy(&costs) < 0.86 * busy(&w));
	assert_true(busy(&costs) > 0.78 * busy(&w));
	end(&w);
	end(&costs);
	decoders(&costs, "jit", 3, 2048 * MIB, 100);
	costs.device[0].link.flip = 5 * FM_MS;
	run(&costs);
	assert_true(costs.r.device[0].moved.exposed > 0);
	end(&costs);
}

static void overtime_fills_the_wait(void **state)
{
	struct world w, over;

	decoders(&w, "jit", 4, 2048 * MIB, 100);
	w.device[0].link = (struct fm_mem_link){5 * GB, 5 * GB, 10 * GB, 0};
	run(&w);
	decoders(&over, "jit", 4, 2048 * MIB, 100);
	over.device[0].link = w.device[0].link;
	over.plan.memory.overtime = true;
	run(&over);
	assert_true(busy(&w) < 0.6);
	assert_true(busy(&over) > 0.9);
	assert_int_equal(over.r.group[0].moved.missed, 0);
	end(&w);
	end(&over);
}

/* An urgent group whose memory is requested never waits for it. */
static void a_request_is_never_held(void **state)
{
	struct world w;

	for (unsigned requests = 0; requests < 2; requests++) {
		plan(&w, "fixed-priority", 10 * FM_S);
		w.plan.warmup = FM_S;
		memory(&w, "jit", DEVICE(.memory = 2048 * MIB));
		add(&w, GROUP(.memory = 768 * MIB, .arrival = FM_SIM_PERIODIC, .time.a = 50 * FM_MS,
				.phase = 10 * FM_MS, .request = requests * 768 * MIB, .gap = FM_MS,
				.dirty = 100, COMMANDS(5, FM_MS)));
		add(&w, GROUP(.memory = 1664 * MIB, .gap = 10 * FM_MS, .dirty = 100,
				COMMANDS(10, FM_MS)));
		w.group[0].hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
		run(&w);
		if (requests) {
			assert_int_equal(w.r.group[0].moved.held, 0);
			assert_int_equal(w.r.group[0].moved.in, 0);
			/* One command of the other, which reads from the host, and its own. */
			assert_true(w.r.group[0].response.max < 12 * FM_MS);
			assert_true(w.r.group[1].moved.missed > 0); /* of what has no room */
			assert_true(w.r.group[1].jobs > 100);
		} else {
			assert_true(w.r.group[0].moved.held > 0);
			assert_true(w.r.group[1].jobs > 0); /* it is not starved by waits */
		}
		end(&w);
	}
}

/* Nobody foresees the turns of the urgent group, each of which uses an eighth of its memory. It is
 * held for all of that; with early start it waits for that eighth alone, or reads it from the
 * host. */
static void early_start_waits_for_what_is_used(void **state)
{
	struct fm_sim_group_result held, early;
	struct world w;

	for (unsigned is_early = 0; is_early < 2; is_early++) {
		plan(&w, "fixed-priority", 20 * FM_S);
		memory(&w, "jit", DEVICE(.memory = 2048 * MIB));
		w.plan.memory.early = is_early;
		add(&w, GROUP(.memory = 1024 * MIB, .arrival = FM_SIM_PERIODIC,
				.time = {FM_SIM_EXP, FM_S, 0}, .gap = 80 * FM_MS, .dirty = 100,
				COMMANDS(1, 10 * FM_MS)));
		add(&w, GROUP(.memory = 1664 * MIB, .gap = 10 * FM_MS, .dirty = 100,
				COMMANDS(10, FM_MS)));
		w.group[0].hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
		run(&w);
		*(is_early ? &early : &held) = w.r.group[0];
		assert_true(w.r.group[1].jobs > 100);
		assert_true(w.r.device[0].moved.in > GB);
		end(&w);
	}
	assert_true(early.jobs > 10 && early.moved.held < held.moved.held / 4);
	assert_true(early.response.max < held.response.max / 2);
	/* 13 ms for the eighth, also if it is read from the host, 10 of its own, 1 of the other. */
	assert_true(early.response.max < 60 * FM_MS);
}

/* A program that is larger than the device: what found no room is read from the host. */
static void early_start_of_what_never_fits(void **state)
{
	struct world w;

	for (unsigned is_early = 0; is_early < 2; is_early++) {
		plan(&w, "round-robin", 10 * FM_S);
		memory(&w, "jit", DEVICE(.memory = 1024 * MIB));
		w.plan.memory.early = is_early;
		add(&w, GROUP(.memory = 1536 * MIB, .gap = 120 * FM_MS, COMMANDS(1, 10 * FM_MS)));
		run(&w);
		assert_int_equal(w.r.device[0].moved.in + w.r.device[0].moved.out, 0);
		assert_true(w.r.group[0].moved.missed > GB);
		/* A third of its commands wait for 13 ms of the link. */
		assert_true(busy(&w) > 0.6 && busy(&w) < 0.8);
		end(&w);
	}
}

static void groups_come_and_go(void **state)
{
	struct world w;

	plan(&w, "fair", 6 * FM_S);
	memory(&w, "jit", DEVICE(.memory = 2048 * MIB, .context = 64 * MIB));
	add(&w, GROUP(.count = 2, .memory = 900 * MIB, .gap = FM_MS, COMMANDS(4, FM_MS)));
	add(&w, GROUP(.memory = 900 * MIB, .gap = FM_MS, .start = FM_S, .stop = 3 * FM_S,
			COMMANDS(4, FM_MS)));
	run(&w);
	assert_true(w.r.device[0].moved.in > 0);
	assert_true(w.r.group[1].jobs > 10);
	/* When it has gone all fits again: the last three seconds are without waits. */
	assert_true(w.r.group[0].served > 3 * FM_S);
	end(&w);
}

/* Anything with anything: the device is never over its size, time adds up, and the same plan gives
 * the same events. */
static uint64_t rnd(uint64_t *s, uint64_t n)
{
	*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*s >> 33) % n;
}

static void random_plan(struct world *w, uint64_t seed)
{
	static const char *const policies[] = {"round-robin", "fixed-priority", "fair", "fifo",
		"edf", "bandwidth", "heterogeneous-priority", "mlfq"};
	uint64_t s = seed;
	const char *memories = fm_mem_policies[rnd(&s, 5)]->name;

	plan(w, policies[rnd(&s, FM_ARRAY_LEN(policies))], 2 * FM_S);
	w->plan.react = rnd(&s, 3) * 10 * FM_US;
	memory(w, memories,
		DEVICE(.memory = 512 * MIB + rnd(&s, 2048) * MIB, .context = rnd(&s, 3) * 16 * MIB,
			.level = 1 + (uint32_t)rnd(&s, 3), .copy_cost = (uint32_t)rnd(&s, 3) * 10,
			.slots = 1 + (uint32_t)rnd(&s, 2),
			.link = {5 * GB, 4 * GB, 8 * GB, rnd(&s, 2) * FM_MS}));
	w->plan.memory.keep = rnd(&s, 2);
	w->plan.memory.overtime = rnd(&s, 2);
	w->plan.memory.early = seed % 3 == 0;
	device(w, DEVICE(.memory = rnd(&s, 2) * 1024 * MIB, .host = UINT64_MAX,
			  .link = {5 * GB, 4 * GB, 8 * GB, 0}));
	for (unsigned n = 2 + (unsigned)rnd(&s, 4); n--;) {
		struct fm_sim_group g = GROUP(.count = 1 + (uint32_t)rnd(&s, 3),
			.memory = rnd(&s, 4) * 200 * MIB, .gap = rnd(&s, 3) * 4 * FM_MS,
			.dirty = (uint32_t)rnd(&s, 3) * 50, .time.a = rnd(&s, 3) * 7 * FM_MS,
			.steps = 2, .place = {0, 1}, .places = 1 + (uint32_t)rnd(&s, 2),
			.everywhere = !rnd(&s, 4), .start = rnd(&s, 3) ? 0 : 300 * FM_MS,
			.stop = rnd(&s, 3) ? FM_NEVER : 900 * FM_MS,
			.step = {{.times = 4, .time = {FM_SIM_EXP, FM_MS, 0}},
				{.pause = true, .times = 1, .time = {FM_SIM_EXP, FM_MS, 0}}});

		g.set = rnd(&s, 2) ? g.memory / 2 : 0;
		g.request = rnd(&s, 4) ? 0 : 50 * MIB;
		g.hints.value[FM_HINT_PRIORITY] = (int64_t)rnd(&s, 5);
		g.hints.value[FM_HINT_PERIOD] = (int64_t)rnd(&s, 2) * 20 * (int64_t)FM_MS;
		add(w, g);
	}
}

static void anything(void **state)
{
	uint64_t moved = 0, exposed = 0, kept = 0, jobs = 0;
	struct world w, again;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		random_plan(&w, seed);
		run(&w);
		for (unsigned i = 0; i < 2; i++) {
			const struct fm_sim_device_result *d = &w.r.device[i];

			assert_true(d->served + d->overhead <= d->time);
			assert_true(d->moved.exposed + d->moved.hidden <= d->time);
			assert_true(d->moved.residue <= d->moved.in);
			assert_true(d->moved.peak <= w.device[i].memory);
			moved += d->moved.in + d->moved.out;
			exposed += d->moved.exposed;
			kept += d->moved.kept;
		}
		for (unsigned i = 0; i < w.r.groups; i++)
			jobs += w.r.group[i].jobs;
		if (seed % 10 == 0) {
			random_plan(&again, seed);
			run(&again);
			assert_true(again.digest == w.digest);
			end(&again);
		}
		end(&w);
	}
	assert_true(moved > SEEDS * 5 / 3 * GB && exposed > SEEDS * FM_S / 60 &&
		    kept > SEEDS * GB / 60);
	assert_true(jobs > SEEDS * 100 / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_stays),
		cmocka_unit_test(as_the_closed_forms_say),
		cmocka_unit_test(kept_copies_need_no_copy),
		cmocka_unit_test(copies_cost_commands),
		cmocka_unit_test(overtime_fills_the_wait),
		cmocka_unit_test(early_start_waits_for_what_is_used),
		cmocka_unit_test(early_start_of_what_never_fits),
		cmocka_unit_test(a_request_is_never_held),
		cmocka_unit_test(groups_come_and_go),
		cmocka_unit_test(anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
