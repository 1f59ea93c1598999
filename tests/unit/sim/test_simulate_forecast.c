/* SPDX-License-Identifier: Apache-2.0 */
/* How often forecasts come true in simulations. */
#include "simulate_world.h"

/* Programs that are always busy, on a device that stops at once and loses nothing. */
static void busy_world(struct world *w, const char *name)
{
	plan(w, name, 2 * FM_S);
	w->plan.forecast = true;
	device(w, DEVICE(.level = 3));
	for (int i = 0; i < 3; i++)
		add(w, GROUP(.arrival = FM_SIM_CLOSED, COMMANDS(1, 10 * FM_S),
			       .hints.value[FM_HINT_WEIGHT] = 512 << i,
			       .hints.value[FM_HINT_SHARE] = 10 * i));
}

static void all_comes_true(void **state)
{
	static const char *const policies[] = {"round-robin", "fair", "bandwidth", "fixed-priority",
		"foreground", "edf", "mlfq", "srtf"};

	for (size_t i = 0; i < FM_ARRAY_LEN(policies); i++) {
		const struct fm_sim_foretold *f;
		struct world w;

		busy_world(&w, policies[i]);
		run(&w);
		f = &w.r.device[0].foretold;
		assert_int_equal(f->wrong, 0);
		assert_true(f->right > 50);
		/* The first ones, before all have come, and the last ones are not due. */
		assert_true(f->turns - f->right <= 5 * 7);
		if (f->off > f->right * 20 * FM_US)
			fail_msg("%s: %llu ns off on average", policies[i],
				(unsigned long long)(f->off / f->right));
		end(&w);
	}
}

/* Groups come and go all the time: less comes true, and nothing else. */
static void events_end_a_forecast(void **state)
{
	const struct fm_sim_foretold *f;
	struct world w;

	busy_world(&w, "round-robin");
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time = {FM_SIM_EXP, 20 * FM_MS, 0},
			COMMANDS(1, FM_MS)));
	run(&w);
	f = &w.r.device[0].foretold;
	assert_int_equal(f->wrong, 0);
	assert_true(f->right > 50 && f->turns > 2 * f->right);
	end(&w);
}

static void nothing_changes_by_it(void **state)
{
	static const char *const policies[] = {"fair", "bandwidth", "srtf", "fifo", "k-edf"};

	for (size_t i = 0; i < FM_ARRAY_LEN(policies); i++) {
		uint64_t digest[2];

		for (int with = 0; with < 2; with++) {
			struct world w;

			busy_world(&w, policies[i]);
			add(&w, GROUP(.arrival = FM_SIM_PERIODIC,
					.time = {FM_SIM_EXP, 20 * FM_MS, 0},
					COMMANDS(3, 2 * FM_MS)));
			w.plan.forecast = with;
			run(&w);
			digest[with] = w.digest;
			if (!with || i >= 3) /* several at once have no turns */
				assert_int_equal(w.r.device[0].foretold.turns, 0);
			end(&w);
		}
		assert_true(digest[0] == digest[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_comes_true),
		cmocka_unit_test(events_end_a_forecast),
		cmocka_unit_test(nothing_changes_by_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
