/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a device with ticks, as Linux gives them. */
#include "simulate_world.h"

#define TICKS .slice.a = 1400 * FM_US, .tick = 4 * FM_MS, .fair = true

/* Two who always want it change at ticks, at each. */
static void turns_end_at_ticks(void **state)
{
	struct world w;

	plan(&w, "fifo", 100 * FM_MS);
	device(&w, DEVICE(TICKS));
	add(&w, GROUP(.count = 2, COMMANDS(1000, 300 * FM_US)));
	run(&w);
	assert_in_range(w.stopped, 24, 25);
	for (unsigned i = 1; i < w.stopped; i++)
		assert_int_equal(w.stops_at[i] - w.stops_at[i - 1], 4 * FM_MS);
	assert_in_range(w.r.group[0].share_min, 460000, 500000);
	assert_int_equal(w.r.device[0].served, 100 * FM_MS);
	end(&w);
}

/* Who comes has the device at once if the slice of who is there is used up, and at the tick else.
 */
static void who_comes_waits_for_a_slice(void **state)
{
	uint64_t at, waits, tick = 0;
	unsigned at_once = 0;
	struct world w;

	for (unsigned k = 0; k < 8; k++) {
		at = 20 * FM_MS + k * 500 * FM_US + 1;
		plan(&w, "fifo", 100 * FM_MS);
		device(&w, DEVICE(TICKS));
		add(&w, GROUP(COMMANDS(1000, 300 * FM_US)));
		add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE, .phase = at,
				COMMANDS(1, FM_MS)));
		run(&w);
		waits = w.r.group[1].response.max - FM_MS;
		end(&w);
		at_once += !waits;
		if (!waits)
			continue;
		assert_in_range(waits, 2600 * FM_US, 4 * FM_MS);
		if (tick)
			assert_int_equal((at + waits) % (4 * FM_MS), tick);
		tick = (at + waits) % (4 * FM_MS);
	}
	assert_in_range(at_once, 5, 6);
}

/* Who had to wait for a tick has had less than his share when he leaves. When he comes again he has
 * the device at once, however new the slice is of who is there: that one has had more than the
 * average then. */
static void a_slice_is_kept_by_who_may_have_it(void **state)
{
	unsigned waited = 0;
	struct world w;

	for (unsigned k = 0; k < 8; k++) {
		plan(&w, "fifo", 40 * FM_MS);
		device(&w, DEVICE(TICKS));
		add(&w, GROUP(COMMANDS(1000, 100 * FM_MS)));
		add(&w, GROUP(.time.a = 300 * FM_US, .start = 20 * FM_MS + k * 500 * FM_US + 1,
				COMMANDS(1, 500 * FM_US)));
		run(&w);
		assert_true(w.ended >= 2);
		if (w.ends[0] > w.group[1].start + 500 * FM_US) {
			assert_int_equal(w.ends[1], w.ends[0] + 800 * FM_US);
			waited++;
		}
		end(&w);
	}
	assert_in_range(waited, 2, 3);
}

/* The device's first tick from then on. */
static uint64_t tick_from(uint64_t when)
{
	uint64_t past;
	struct world w;

	plan(&w, "fifo", 100 * FM_MS);
	device(&w, DEVICE(TICKS));
	add(&w, GROUP(.count = 2, COMMANDS(1000, 300 * FM_US)));
	run(&w);
	past = (when - w.stops_at[1] % (4 * FM_MS)) % (4 * FM_MS);
	end(&w);
	return past ? when + 4 * FM_MS - past : when;
}

/* One works always. A second comes half a millisecond behind a tick, waits for the next, and leaves
 * with 0.3 ms less than his share, which lets him in at once when he comes again. Not so if a third
 * has left meanwhile who had more than his: he counts until the others have had as much, so who is
 * there has not. */
static void who_had_more_counts_as_there(void **state)
{
	uint64_t tick = tick_from(20 * FM_MS);
	struct world w;

	for (unsigned third = 0; third < 2; third++) {
		plan(&w, "fifo", 60 * FM_MS);
		device(&w, DEVICE(TICKS));
		add(&w, GROUP(COMMANDS(1000, 100 * FM_MS)));
		add(&w, GROUP(.time.a = 2700 * FM_US, .start = tick + 500 * FM_US,
				COMMANDS(1, 2900 * FM_US)));
		add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE,
				.phase = third ? tick + 8400 * FM_US : FM_S, COMMANDS(1, FM_MS)));
		run(&w);
		assert_int_equal(w.ends[0], tick + 6900 * FM_US);
		if (third)
			assert_int_equal(w.ends[1], tick + 9400 * FM_US);
		/* From 9.6 ms on, until a tick in its midst; or from that tick on. */
		assert_int_equal(w.ends[1 + third], tick + (third ? 14900 : 16500) * FM_US);
		end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_end_at_ticks),
		cmocka_unit_test(who_comes_waits_for_a_slice),
		cmocka_unit_test(a_slice_is_kept_by_who_may_have_it),
		cmocka_unit_test(who_had_more_counts_as_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
