/* SPDX-License-Identifier: Apache-2.0 */
/* Machines in virtual time: nothing but the plan and its seed decides what happens, with every kind
 * of thing at once.
 */
#include "simulate_world.h"

/* Every kind of thing at once. */
static void everything(struct world *w, const char *policy)
{
	plan(w, policy, 3 * FM_S);
	w->plan.warmup = 100 * FM_MS;
	w->plan.linger = 100 * FM_US;
	device(w, DEVICE(.count = 2, .launch = FM_US, .swtch = 20 * FM_US, .gate = FM_US));
	device(w, DEVICE(.level = 3, .flush = 30 * FM_US, .slots = 2));
	device(w, DEVICE(.level = 1, .window = FM_MS));
	add(w, GROUP(.count = 4, .place = {0}, .arrival = FM_SIM_PERIODIC, .random_phase = true,
		       .time = {FM_SIM_EXP, 20 * FM_MS, 0}, .steps = 2,
		       .step = {{.times = 5, .time = {FM_SIM_EXP, 300 * FM_US, 0}},
			       {.pause = true, .times = 1, .time = {FM_SIM_UNIFORM, 0, FM_MS}}}));
	add(w, GROUP(.count = 3, .place = {0, 1, 2}, .places = 3, COMMANDS(3, 700 * FM_US),
		       .time = {FM_SIM_NORMAL, 4 * FM_MS, 2 * FM_MS}));
	add(w, GROUP(.everywhere = true, .place = {0, 1}, .places = 2, .deadline = 30 * FM_MS,
		       .arrival = FM_SIM_BURSTS, .burst = 2, .time.a = 90 * FM_MS,
		       .jitter = 10 * FM_MS, COMMANDS(8, 400 * FM_US)));
	add(w, GROUP(.count = 2, .place = {1}, .arrival = FM_SIM_AFTER, .before = {0}, .befores = 1,
		       .steps = 1, .step = {{.times = 1, .time = {FM_SIM_PARETO, FM_MS, 1500}}}));
	add(w, GROUP(.count = 2, .place = {2}, COMMANDS(2, 900 * FM_US), .start = FM_S,
		       .stop = 2 * FM_S));
	w->group[0].hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	w->group[0].hints.value[FM_HINT_SHARE] = 30;
	w->group[2].hints.value[FM_HINT_DEADLINE] = 30 * FM_MS;
}

static uint64_t total(const struct fm_sim_result *r)
{
	struct world w = {.digest = 1};

	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_group_result *g = &r->group[i];

		mix(&w, g->jobs);
		mix(&w, g->served);
		mix(&w, g->waits);
		mix(&w, g->response.sum);
		mix(&w, g->share_max);
		mix(&w, g->left);
	}
	for (uint32_t i = 0; i < r->devices; i++)
		mix(&w, r->device[i].served ^ r->device[i].overhead << 20 ^ r->device[i].stop.sum);
	mix(&w, r->events);
	mix(&w, r->core.decisions);
	return w.digest;
}

static void same_seed_same_bytes(void **state)
{
	struct world a, b;

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		uint64_t served = 0;

		everything(&a, (*p)->name);
		run(&a);
		everything(&b, (*p)->name);
		run(&b);
		assert_int_equal(a.digest, b.digest);
		assert_int_equal(total(&a.r), total(&b.r));
		end(&b);
		everything(&b, (*p)->name);
		b.plan.seed = 2;
		run(&b);
		assert_int_not_equal(a.digest, b.digest);
		for (uint32_t i = 0; i < a.r.groups; i++) {
			served += a.r.group[i].served;
			assert_true(a.r.group[i].jobs > 0);
		}
		for (uint32_t i = 0; i < a.r.devices; i++) {
			const struct fm_sim_device_result *d = &a.r.device[i];

			assert_true(d->served + d->overhead <= d->time);
			served -= d->served;
		}
		assert_int_equal(served, 0);
		end(&a);
		end(&b);
	}
}

/* What programs do is the same under every policy: the same jobs arrive, and are as long. */
static void programs_do_not_depend_on_the_policy(void **state)
{
	struct world a, b;

	everything(&a, "fair");
	everything(&b, "fixed-priority");
	a.plan.warmup = b.plan.warmup = 0;
	run(&a);
	run(&b);
	assert_int_equal(a.r.group[0].arrivals, b.r.group[0].arrivals);
	assert_int_equal(a.r.group[2].arrivals, b.r.group[2].arrivals);
	assert_int_not_equal(a.digest, b.digest);
	end(&a);
	end(&b);
}

static void threads_change_nothing(void **state)
{
	uint64_t first = 0;

	for (unsigned threads = 1; threads <= 4; threads++) {
		struct world w;
		struct fm_err err = {0};

		everything(&w, "fair");
		w.plan.machines = 5;
		w.plan.duration = FM_S;
		assert_int_equal(fm_sim_result_init(&w.r, &w.plan), 0);
		assert_int_equal(fm_sim_run(&w.plan, threads, NULL, NULL, &w.r, &err), 0);
		assert_int_equal(w.r.machines, 5);
		assert_true(!first || first == total(&w.r));
		first = total(&w.r);
		end(&w);
	}
}

/* Devices of a machine that have nothing to do with each other may be simulated one by one: all but
 * the number of events is the same, for one tick serves several devices. */
static void islands_are_as_the_whole(void **state)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		struct world whole, parts;
		struct fm_err err = {0};

		everything(&whole, (*p)->name);
		everything(&parts, (*p)->name);
		for (int i = 2; i < 4; i++) {
			whole.group[i].everywhere = parts.group[i].everywhere = false;
			whole.group[i].arrival = parts.group[i].arrival = FM_SIM_PERIODIC;
			whole.group[i].time.a = parts.group[i].time.a = 7 * FM_MS;
			whole.group[i].count = parts.group[i].count = 5;
		}
		run(&whole);
		assert_int_equal(fm_sim_result_init(&parts.r, &parts.plan), 0);
		assert_int_equal(fm_sim_run(&parts.plan, 2, NULL, NULL, &parts.r, &err), 0);
		parts.r.events = whole.r.events;
		assert_int_equal(total(&whole.r), total(&parts.r));
		end(&whole);
		end(&parts);
	}
}

static void it_stops_when_told(void **state)
{
	struct fm_sim_control control = {.stop = true};
	struct fm_err err = {0};
	struct world w;

	everything(&w, "fair");
	w.plan.duration = 3600 * FM_S;
	assert_int_equal(fm_sim_result_init(&w.r, &w.plan), 0);
	assert_int_equal(fm_sim_run(&w.plan, 1, NULL, &control, &w.r, &err), -EINTR);
	end(&w);
}

static void a_bad_parameter_is_told(void **state)
{
	static const char *const params[] = {"slice=never"};
	struct fm_err err = {0};
	struct world w;

	everything(&w, "fair");
	w.plan.params = params;
	w.plan.n_params = 1;
	assert_int_equal(fm_sim_result_init(&w.r, &w.plan), 0);
	assert_int_equal(fm_sim_run(&w.plan, 1, NULL, NULL, &w.r, &err), -EINVAL);
	assert_non_null(strstr(err.text, "never"));
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed_same_bytes),
		cmocka_unit_test(programs_do_not_depend_on_the_policy),
		cmocka_unit_test(threads_change_nothing),
		cmocka_unit_test(islands_are_as_the_whole),
		cmocka_unit_test(it_stops_when_told),
		cmocka_unit_test(a_bad_parameter_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
