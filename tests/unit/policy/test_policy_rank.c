/* SPDX-License-Identifier: Apache-2.0 */
/* Policies by rank: priority with aging, over one device and over several, the foreground, and
 * turns that come sooner or later under fair. */
#include "../sched/sched_model.h"

#define ALWAYS (20 * FM_MS)
#define POINTS 2.0

static void priority_starves_but_for_aging(void **state)
{
	struct model m;
	struct client *high, *low;

	model_init(&m, "fixed-priority", NULL, 0);
	m.conserve_work = true;
	high = model_client(&m, 0, ALWAYS, 0);
	low = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, high, FM_HINT_PRIORITY, 10);
	model_run(&m, 2 * FM_S);
	assert_int_equal(low->served, 0);
	/* Ten steps of 10 ms, then a turn of 5 ms, over and over. */
	model_policy(&m, "fixed-priority", PARAMS("aging=10"));
	model_mark(&m);
	model_run(&m, 100 * FM_MS + FM_MS);
	assert_in_range(low->served, MODEL_STEP, FM_MS);
	model_mark(&m);
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, low, m.now - 10 * FM_S, 0), 100.0 * 5 / 105, 0.3);
	assert_in_range(low->worst_wait, 99 * FM_MS, 101 * FM_MS);
	fm_sched_free(m.s);
}

/* Who is two steps below waits for two steps, who is eight below for eight. */
static void aging_goes_by_steps(void **state)
{
	struct model m;
	struct client *high, *near, *far;

	model_init(&m, "fixed-priority", PARAMS("aging=20", "slice=1"));
	high = model_client(&m, 0, ALWAYS, 0);
	near = model_client(&m, 0, ALWAYS, 0);
	far = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, high, FM_HINT_PRIORITY, 8);
	model_hint(&m, near, FM_HINT_PRIORITY, 6);
	model_run(&m, 38 * FM_MS);
	assert_int_equal(near->served, 0);
	model_run(&m, 4 * FM_MS);
	assert_int_equal(near->served, FM_MS);
	model_run(&m, 116 * FM_MS);
	assert_int_equal(far->served, 0);
	model_run(&m, 4 * FM_MS);
	assert_int_equal(far->served, FM_MS);
	fm_sched_free(m.s);
}

/* One more urgent than age has made the other ends its turn, which goes on afterwards. */
static void aging_yields_to_the_urgent(void **state)
{
	struct model m;
	struct client *high, *low, *urgent;

	model_init(&m, "fixed-priority", PARAMS("aging=10", "slice=20"));
	high = model_client(&m, 0, ALWAYS, 0);
	low = model_client(&m, 0, ALWAYS, 0);
	urgent = model_client(&m, 0, 3 * FM_MS, 14 * FM_MS);
	model_hint(&m, high, FM_HINT_PRIORITY, 10);
	model_hint(&m, urgent, FM_HINT_PRIORITY, 100);
	model_run(&m, 10 * FM_S);
	assert_int_equal(urgent->worst_wait, 0);
	assert_true(low->served > 10 * FM_S / 130 * 20 * 9 / 10); /* about 20 of each 120 to 130 */
	assert_true(high->served > low->served);
	fm_sched_free(m.s);
}

/* However fast all of them age, whom the order names has half of the device. */
static void aging_takes_half_at_most(void **state)
{
	struct model m;
	struct client *high, *low[4];

	model_init(&m, "fixed-priority", PARAMS("aging=0.001"));
	m.conserve_work = true;
	high = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, high, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	for (int i = 0; i < 4; i++)
		low[i] = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, high, FM_S, 0), 50, 1);
	for (int i = 0; i < 4; i++)
		assert_near(model_share(&m, low[i], FM_S, 0), 12.5, 1);
	fm_sched_free(m.s);
}

/* A job's age is that of its wait: equals in turns do not hold back one below them for ever. */
static void aging_below_equals(void **state)
{
	struct model m;
	struct client *high[3], *low;

	model_init(&m, "fixed-priority", PARAMS("aging=10"));
	m.conserve_work = true;
	for (int i = 0; i < 3; i++) {
		high[i] = model_client(&m, 0, ALWAYS, 0);
		model_hint(&m, high[i], FM_HINT_PRIORITY, 10);
	}
	low = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 10 * FM_S);
	assert_in_range(low->worst_wait, 100 * FM_MS, 120 * FM_MS);
	assert_near(model_share(&m, high[0], FM_S, 0), model_share(&m, high[2], FM_S, 0), 1);
	fm_sched_free(m.s);
}

static void the_foreground_comes_first(void **state)
{
	struct model m;
	struct client *a, *b, *c;

	model_init(&m, "foreground", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	c = model_client(&m, 0, 5 * FM_MS, 15 * FM_MS);
	model_hint(&m, a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH); /* not its business */
	model_run(&m, FM_S); /* nobody is in the foreground: turns */
	assert_near(model_share(&m, a, FM_S, 0), model_share(&m, b, FM_S, 0), POINTS);
	model_hint(&m, c, FM_HINT_FOREGROUND, 1);
	model_mark(&m);
	model_run(&m, FM_S);
	assert_int_equal(c->worst_wait, 0);
	assert_near(model_share(&m, a, m.now - FM_S, 0), 37.5, POINTS);
	assert_near(model_share(&m, b, m.now - FM_S, 0), 37.5, POINTS);
	model_hint(&m, c, FM_HINT_FOREGROUND, 0);
	model_hint(&m, b, FM_HINT_FOREGROUND, 1);
	model_mark(&m);
	model_run(&m, FM_S);
	assert_near(model_share(&m, b, m.now - FM_S, 0), 100, 0.1);
	model_policy(&m, "foreground", PARAMS("aging=500"));
	model_mark(&m);
	model_run(&m, 2 * FM_S);
	assert_in_range(a->worst_wait, 500 * FM_MS, 511 * FM_MS);
	assert_true(c->served >= 3 * 5 * FM_MS);
	fm_sched_free(m.s);
}

/* Two devices: a foreground on one, work in the background on the other. */
static void two_devices(struct model *m, const char *policy, struct client **fg, struct client **bg)
{
	model_init(m, policy, NULL, 0);
	model_device(m);
	*fg = model_client_on(m, 0, 0, 10 * FM_MS, 10 * FM_MS);
	*bg = model_client_on(m, 1, 0, ALWAYS, 0);
	model_hint(m, *fg, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
}

/* How long both devices were at work at the same time. */
static uint64_t beside(struct model *m, struct client *a, struct client *b, uint64_t ns)
{
	uint64_t both = 0;

	for (uint64_t t = 0; t < ns; t += MODEL_STEP) {
		uint64_t sa = a->served, sb = b->served;

		model_step(m);
		both += a->served > sa && b->served > sb ? MODEL_STEP : 0;
	}
	return both;
}

static void one_order_over_all_devices(void **state)
{
	struct model m;
	struct client *fg, *bg;

	two_devices(&m, "fixed-priority", &fg, &bg);
	assert_int_equal(beside(&m, fg, bg, FM_S), FM_S / 2);
	assert_near(model_share(&m, bg, FM_S, 0), 100, 0.1);
	fm_sched_free(m.s);

	two_devices(&m, "heterogeneous-priority", &fg, &bg);
	assert_int_equal(beside(&m, fg, bg, FM_S), 0);
	assert_int_equal(fg->worst_wait, 0);
	assert_near(model_share(&m, bg, FM_S, 0), 50, 1); /* what the foreground leaves */
	model_hint(&m, bg, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	model_mark(&m);
	assert_int_equal(beside(&m, fg, bg, FM_S), FM_S / 2); /* equals run side by side */
	model_hint(&m, bg, FM_HINT_PRIORITY, FM_PRIORITY_REALTIME);
	model_mark(&m);
	model_run(&m, FM_S);
	assert_int_equal(fg->served, 0); /* and now the other way */
	assert_near(model_share(&m, bg, m.now - FM_S, 0), 100, 0.1);
	fm_sched_free(m.s);
}

/* The short pauses within the foreground's job do not let the other device in; what the core knows
 * of a group that is alone on its device, it knows early. */
static void a_lone_foreground_lingers(void **state)
{
	struct model m;
	struct client *fg, *bg;

	two_devices(&m, "heterogeneous-priority", &fg, &bg);
	assert_true(fg->bell_ready);
	fm_sched_linger(m.s, FM_MS);
	fg->job = FM_MS;
	fg->rest = 500 * FM_US;
	model_run(&m, FM_S);
	assert_int_equal(bg->served, 0);
	assert_true(fg->bell_ready || fg->bell_idle);
	model_policy(&m, "fixed-priority", NULL, 0);
	assert_false(fg->bell_ready || fg->bell_idle);
	fm_sched_free(m.s);
}

static void a_held_device_is_released(void **state)
{
	struct model m;
	struct client *fg, *bg;

	for (int how = 0; how < 4; how++) {
		two_devices(&m, "heterogeneous-priority", &fg, &bg);
		fg->job = ALWAYS;
		fg->rest = 0;
		model_run(&m, 10 * FM_MS);
		assert_int_equal(bg->served, 0);
		assert_false(bg->open);
		if (how == 0)
			fm_sched_suspend(m.s, fg->g, true, m.now);
		else if (how == 1)
			fm_sched_group_del(m.s, fg->g, m.now);
		else if (how == 2)
			model_policy(&m, "fair", NULL, 0);
		else
			model_hint(&m, fg, FM_HINT_PRIORITY, FM_PRIORITY_LOW);
		assert_true(bg->open); /* at once, in that call */
		fm_sched_free(m.s);
	}
}

/* A declared segment with a priority of its own quiets the other device, between commands too. */
static void a_segment_quiets_the_other_device(void **state)
{
	struct model m;
	struct client *fg, *bg;

	two_devices(&m, "heterogeneous-priority", &fg, &bg);
	fg->next_job = FM_NEVER;
	model_run(&m, 10 * FM_MS);
	assert_int_equal(bg->served, 10 * FM_MS);
	assert_int_equal(fm_sched_segment_begin(m.s, fg->g, FM_SEGMENT_KEEP, m.now), 0);
	assert_false(bg->open);
	assert_int_equal(fm_sched_segment_end(m.s, fg->g, m.now), 0);
	assert_true(bg->open);
	fm_sched_free(m.s);
}

static void aging_on_a_held_device(void **state)
{
	struct model m;
	struct client *fg, *bg;

	two_devices(&m, "heterogeneous-priority", &fg, &bg);
	fg->job = ALWAYS;
	fg->rest = 0;
	model_policy(&m, "heterogeneous-priority", PARAMS("aging=1"));
	model_run(&m, 10 * FM_S);
	/* 64 steps of 1 ms, then a turn of 5 ms beside the foreground, which loses nothing. */
	assert_near(model_share(&m, bg, FM_S, 0), 100.0 * 5 / 69, 0.3);
	assert_near(model_share(&m, fg, FM_S, 0), 100, 0.1);
	fm_sched_free(m.s);
}

/* Five always busy beside one that has 4 ms of work now and then. */
static struct client *crowd(struct model *m, int64_t nice)
{
	struct client *brief;

	model_init(m, "fair", NULL, 0);
	m->conserve_work = true;
	for (int i = 0; i < 5; i++)
		model_client(m, 0, ALWAYS, 0);
	brief = model_client(m, 3 * FM_MS, 4 * FM_MS, 20 * FM_MS);
	model_hint(m, brief, FM_HINT_LATENCY_NICE, nice);
	model_run(m, 10 * FM_S);
	return brief;
}

static void latency_nice_moves_the_turn(void **state)
{
	struct client *brief;
	uint64_t wait[3];
	struct model m;

	for (int i = 0; i < 3; i++) {
		brief = crowd(&m, (int64_t[]){-20, 0, 19}[i]);
		assert_true(brief->jobs > 50);
		wait[i] = brief->responses / brief->jobs - brief->job;
		fm_sched_free(m.s);
	}
	assert_true(wait[0] * 3 < wait[1] * 2);
	assert_true(wait[1] * 3 < wait[2] * 2);
}

static void latency_nice_keeps_the_shares(void **state)
{
	struct model m;
	struct client *c[4];

	model_init(&m, "fair", NULL, 0);
	m.conserve_work = true;
	for (int i = 0; i < 4; i++)
		c[i] = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, c[0], FM_HINT_LATENCY_NICE, -20);
	model_hint(&m, c[1], FM_HINT_LATENCY_NICE, 19);
	model_hint(&m, c[3], FM_HINT_WEIGHT, 200);
	model_hint(&m, c[3], FM_HINT_LATENCY_NICE, 5);
	model_run(&m, 10 * FM_S);
	for (int i = 0; i < 4; i++)
		assert_near(model_share(&m, c[i], FM_S, 0), i == 3 ? 40 : 20, POINTS);
	/* Short turns are many, long ones of 100 ms few. */
	assert_true(2 * c[0]->gates > 3 * c[2]->gates);
	assert_true(c[1]->gates * 5 < c[2]->gates);
	fm_sched_free(m.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(priority_starves_but_for_aging),
		cmocka_unit_test(aging_goes_by_steps),
		cmocka_unit_test(aging_yields_to_the_urgent),
		cmocka_unit_test(aging_takes_half_at_most),
		cmocka_unit_test(aging_below_equals),
		cmocka_unit_test(the_foreground_comes_first),
		cmocka_unit_test(one_order_over_all_devices),
		cmocka_unit_test(a_lone_foreground_lingers),
		cmocka_unit_test(a_held_device_is_released),
		cmocka_unit_test(a_segment_quiets_the_other_device),
		cmocka_unit_test(aging_on_a_held_device),
		cmocka_unit_test(latency_nice_moves_the_turn),
		cmocka_unit_test(latency_nice_keeps_the_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
