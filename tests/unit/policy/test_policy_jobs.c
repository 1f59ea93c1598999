/* SPDX-License-Identifier: Apache-2.0 */
/* Policies by what jobs need: the K earliest deadlines, the shortest remaining time, the least
 * laxity, and by what they have used: feedback queues. */
#include "../sched/sched_model.h"

#define ALWAYS (20 * FM_MS)
#define POINTS 2.0

/* k-edf */

static void earliest_deadlines_run_at_once(void **state)
{
	struct model m;
	struct client *c[4], *none;

	model_init(&m, "k-edf", PARAMS("k=2"));
	m.at_once = 2;
	m.conserve_work = true;
	for (int i = 0; i < 4; i++) {
		c[i] = model_client(&m, 0, ALWAYS, FM_S);
		model_hint(&m, c[i], FM_HINT_DEADLINE, (40 - 10 * i) * (int64_t)FM_MS);
	}
	none = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, FM_MS);
	assert_true(!c[0]->open && !c[1]->open && c[2]->open && c[3]->open && !none->open);
	model_run(&m, 20 * FM_MS); /* the later two follow */
	assert_true(c[0]->open && c[1]->open && !none->open);
	model_hint(&m, c[0], FM_HINT_DEADLINE, 0);
	model_run(&m, 25 * FM_MS);
	assert_int_equal(c[1]->worst_response, 2 * ALWAYS);
	assert_true(none->open); /* places that are left */
	fm_sched_free(m.s);
}

static void one_place_is_edf(void **state)
{
	uint64_t served[2][4];
	struct model m;

	for (int i = 0; i < 2; i++) {
		model_init(&m, "edf", NULL, 0);
		if (i)
			model_policy(&m, "k-edf", PARAMS("k=1"));
		m.conserve_work = true;
		model_hint(
			&m, model_periodic(&m, 2 * FM_MS, 10 * FM_MS), FM_HINT_DEADLINE, 5 * FM_MS);
		model_hint(
			&m, model_periodic(&m, 9 * FM_MS, 40 * FM_MS), FM_HINT_PERIOD, 40 * FM_MS);
		model_client(&m, 0, ALWAYS, 0);
		model_client(&m, 0, ALWAYS, 0);
		model_run(&m, 5 * FM_S);
		for (int k = 0; k < 4; k++)
			served[i][k] = m.c[k].served;
		fm_sched_free(m.s);
	}
	assert_memory_equal(served[0], served[1], sizeof(served[0]));
	assert_true(served[0][3] > FM_S);
}

/* Three without a deadline take turns at the two places, and one with a deadline takes one. */
static void the_rest_takes_turns_at_the_places(void **state)
{
	struct model m;
	struct client *c[3], *due;

	model_init(&m, "k-edf", PARAMS("k=2", "slice=2"));
	m.at_once = 2;
	m.conserve_work = true;
	for (int i = 0; i < 3; i++)
		c[i] = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 3 * FM_S);
	for (int i = 0; i < 3; i++)
		assert_near(model_share(&m, c[i], FM_S, 0), 200.0 / 3, POINTS);
	due = model_client(&m, 0, 10 * FM_MS, 10 * FM_MS);
	model_hint(&m, due, FM_HINT_DEADLINE, 10 * FM_MS);
	model_mark(&m);
	model_run(&m, 3 * FM_S);
	assert_int_equal(due->worst_response, 10 * FM_MS);
	for (int i = 0; i < 3; i++)
		assert_near(model_share(&m, c[i], m.now - 3 * FM_S, 0), 50, POINTS);
	fm_sched_free(m.s);
}

/* Hints that change nothing for the policy cost nobody a turn. */
static void other_hints_keep_the_turn(void **state)
{
	static const char *const policies[] = {
		"k-edf", "least-laxity", "fixed-priority", "foreground", "heterogeneous-priority"};
	struct client *fidget, *calm;
	struct model m;

	for (unsigned p = 0; p < FM_ARRAY_LEN(policies); p++) {
		model_init(&m, policies[p], NULL, 0);
		if (!p)
			model_policy(&m, policies[p], PARAMS("k=1"));
		fidget = model_client(&m, 0, ALWAYS, 0);
		calm = model_client(&m, 0, ALWAYS, 0);
		for (int i = 0; i < 1000; i++) {
			model_hint(&m, fidget, FM_HINT_WEIGHT, i % 2);
			model_run(&m, FM_MS);
		}
		assert_near(model_share(&m, fidget, FM_S, 0), 50, POINTS);
		assert_near(model_share(&m, calm, FM_S, 0), 50, POINTS);
		fm_sched_free(m.s);
	}
}

/* srtf */

static void short_jobs_come_first(void **state)
{
	struct model m;
	struct client *brief, *medium, *endless;

	for (int hinted = 0; hinted < 2; hinted++) {
		model_init(&m, "srtf", NULL, 0);
		m.conserve_work = true;
		endless = model_client(&m, 0, ALWAYS, 0);
		medium = model_client(&m, 0, 30 * FM_MS, 30 * FM_MS);
		brief = model_client(&m, 0, 2 * FM_MS, 7 * FM_MS);
		if (hinted) {
			model_hint(&m, brief, FM_HINT_RUNTIME, 2 * FM_MS);
			model_hint(&m, medium, FM_HINT_RUNTIME, 30 * FM_MS);
			model_hint(&m, endless, FM_HINT_RUNTIME, FM_S);
		} else {
			model_run(&m, FM_S); /* learn */
		}
		model_mark(&m);
		model_run(&m, 5 * FM_S);
		/* Only the end of a medium job, shorter than the brief one, comes before it. */
		assert_true(brief->worst_wait <= 2 * FM_MS);
		assert_true(medium->responses / medium->jobs <= 40 * FM_MS);
		assert_true(endless->served > FM_S);
		fm_sched_free(m.s);
	}
}

static double mean_response(const char *policy)
{
	static const uint64_t job[] = {40, 20, 10, 5, 2};
	uint64_t jobs = 0, responses = 0;
	struct model m;

	model_init(&m, policy, NULL, 0);
	for (unsigned i = 0; i < 5; i++)
		model_hint(&m, model_periodic(&m, job[i] * FM_MS, 80 * FM_MS), FM_HINT_RUNTIME,
			(int64_t)(job[i] * FM_MS));
	model_run(&m, 8 * FM_S);
	for (unsigned i = 0; i < 5; i++) {
		jobs += m.c[i].jobs;
		responses += m.c[i].responses;
	}
	fm_sched_free(m.s);
	return (double)responses / (double)jobs;
}

static void no_order_responds_sooner(void **state)
{
	double srtf = mean_response("srtf");

	/* 2, 7, 17, 37 and 77 ms */
	assert_near(srtf, 28 * (double)FM_MS, 0.2 * (double)FM_MS);
	assert_true(srtf < mean_response("round-robin"));
	assert_true(srtf < mean_response("fair"));
	assert_true(srtf < mean_response("fixed-priority"));
}

/* A job that says it is short and is not has what it said, and as much again now and then. */
static void a_false_runtime_gains_little(void **state)
{
	struct model m;
	struct client *liar, *honest;

	model_init(&m, "srtf", NULL, 0);
	m.conserve_work = true;
	liar = model_client(&m, 0, ALWAYS, 0);
	honest = model_client(&m, 0, 5 * FM_MS, 10 * FM_MS);
	model_hint(&m, liar, FM_HINT_RUNTIME, 100 * FM_US);
	model_hint(&m, honest, FM_HINT_RUNTIME, 5 * FM_MS);
	model_run(&m, FM_S);
	assert_true(honest->worst_wait <= 5 * FM_MS + MODEL_STEP);
	assert_true(honest->responses / honest->jobs < 6 * FM_MS);
	fm_sched_free(m.s);
}

/* Jobs of which nobody knows the end take turns, and do not hand the device to and fro. */
static void endless_jobs_take_turns(void **state)
{
	struct model m;
	struct client *a, *b;

	model_init(&m, "srtf", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	for (int i = 0; i < 5; i++) {
		model_mark(&m);
		model_run(&m, 10 * FM_S);
		assert_near(model_share(&m, a, m.now - 10 * FM_S, 0), 50, 1);
		assert_in_range(a->gates + b->gates, 20, 4010); /* slices of 5 ms */
	}
	fm_sched_free(m.s);
}

/* What lasted for seconds comes after whatever has an end. */
static void endless_jobs_come_last(void **state)
{
	struct model m;
	struct client *a, *b, *longest;

	model_init(&m, "srtf", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 20 * FM_S); /* alone: of no account */
	b = model_client(&m, 0, ALWAYS, 0);
	model_mark(&m);
	model_run(&m, 4 * FM_S);
	assert_near(model_share(&m, a, m.now - 4 * FM_S, 0), 50, POINTS);
	model_run(&m, 20 * FM_S);
	longest = model_client(&m, 0, 60 * FM_S, FM_S);
	model_hint(&m, longest, FM_HINT_RUNTIME, 60 * (int64_t)FM_S);
	model_mark(&m);
	model_run(&m, 30 * FM_S);
	assert_int_equal(a->served + b->served, 0);
	fm_sched_free(m.s);
}

static void long_jobs_starve_but_for_aging(void **state)
{
	struct client *brief[2], *big;
	struct model m;

	for (int aging = 0; aging < 2; aging++) {
		if (aging)
			model_init(&m, "srtf", PARAMS("aging=200"));
		else
			model_init(&m, "srtf", NULL, 0);
		m.conserve_work = true;
		for (int i = 0; i < 2; i++) {
			brief[i] = model_client(&m, 0, 5 * FM_MS, 4 * FM_MS);
			model_hint(&m, brief[i], FM_HINT_RUNTIME, 5 * FM_MS);
		}
		big = model_client(&m, 0, ALWAYS, 0);
		model_hint(&m, big, FM_HINT_RUNTIME, FM_S);
		model_run(&m, 10 * FM_S);
		if (aging)
			assert_in_range(big->worst_wait, 190 * FM_MS, 215 * FM_MS);
		else
			assert_true(big->worst_wait > 9 * FM_S);
		fm_sched_free(m.s);
	}
}

/* What one did while it was alone on its device, whose ends are not reported, teaches nothing. */
static void alone_nothing_is_learnt(void **state)
{
	struct model m;
	struct client *a, *b;

	/* The other comes within the job, or after it. */
	for (int ended = 0; ended < 2; ended++) {
		model_init(&m, "srtf", PARAMS("initial=1"));
		a = model_client(&m, 0, 300 * FM_MS, 8 * FM_MS);
		model_run(&m, (ended ? 302 : 100) * FM_MS);
		a->job = 2 * FM_MS;
		b = model_client(&m, 0, 6 * FM_MS, FM_MS);
		model_hint(&m, b, FM_HINT_RUNTIME, 6 * FM_MS);
		while (!a->jobs)
			model_step(&m);
		model_mark(&m);
		model_run(&m, 50 * FM_MS);
		assert_true(a->jobs >= 4 && b->jobs >= 4);
		assert_true(a->worst_wait <= 2 * FM_MS); /* it is not taken to be long */
		fm_sched_free(m.s);
	}
}

/* least-laxity */

/* XSched's video conference: 25 frames a second of 30 ms each; speech of 0.8 s in each 3 s, due by
 * the next. Together they ask for a little more than there is. */
static void video_conference(
	struct model *m, const char *policy, struct client **video, struct client **speech)
{
	model_init(m, policy, NULL, 0);
	m->conserve_work = true;
	*video = model_periodic(m, 30 * FM_MS, 40 * FM_MS);
	*speech = model_periodic(m, 800 * FM_MS, 3 * FM_S);
	model_hint(m, *video, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	model_hint(m, *speech, FM_HINT_DEADLINE, 3 * (int64_t)FM_S);
	model_run(m, 12 * FM_S);
	model_mark(m);
	model_run(m, 60 * FM_S);
}

static void the_video_conference(void **state)
{
	struct client *video, *speech;
	struct model m;

	video_conference(&m, "fixed-priority", &video, &speech);
	assert_int_equal(video->worst_response, 30 * FM_MS);
	assert_true(speech->worst_response > 3 * FM_S); /* text is lost */
	fm_sched_free(m.s);

	video_conference(&m, "fair", &video, &speech);
	assert_true(video->worst_response > 50 * FM_MS);
	assert_true(video->responses / video->jobs > 34 * FM_MS); /* it jerks all the time */
	fm_sched_free(m.s);

	video_conference(&m, "least-laxity", &video, &speech);
	assert_true(speech->worst_response <= 3 * FM_S);
	assert_true(video->responses / video->jobs < 32 * FM_MS);
	assert_true(video->worst_response < 120 * FM_MS);
	assert_true(video->jobs >= 60 * 25 * 97 / 100);
	fm_sched_free(m.s);
}

/* With the runtime hint the first job is safe too; one that asks for nothing else is not in the way
 * while it may wait. */
static void the_first_deadline_is_kept(void **state)
{
	struct model m;
	struct client *video, *speech;

	for (int hinted = 0; hinted < 2; hinted++) {
		model_init(&m, "least-laxity", NULL, 0);
		m.conserve_work = true;
		video = model_client(&m, 0, ALWAYS, 0);
		speech = model_client(&m, 0, 800 * FM_MS, 2200 * FM_MS);
		model_hint(&m, video, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
		model_hint(&m, speech, FM_HINT_PERIOD, 3 * (int64_t)FM_S);
		if (hinted)
			model_hint(&m, speech, FM_HINT_RUNTIME, 800 * FM_MS);
		model_run(&m, hinted ? 2190 * FM_MS : 1490 * FM_MS); /* or half of its deadline */
		assert_int_equal(speech->served, 0);
		model_run(&m, 810 * FM_MS);
		assert_int_equal(speech->jobs, 1);
		assert_true(speech->worst_response <= 3 * FM_S);
		fm_sched_free(m.s);
	}
}

/* Equal priorities: least laxity first keeps every deadline of any set that can be kept. */
static void a_full_device_keeps_all_deadlines(void **state)
{
	static const struct {
		uint64_t job, period;
	} task[] = {{2, 5}, {3, 10}, {5, 20}, {1, 50}};
	struct model m;

	model_init(&m, "least-laxity", PARAMS("margin=0.1"));
	m.conserve_work = true;
	for (unsigned i = 0; i < 4; i++) { /* 97 % of the device */
		struct client *c = model_periodic(&m, task[i].job * FM_MS, task[i].period * FM_MS);

		model_hint(&m, c, FM_HINT_PERIOD, (int64_t)(task[i].period * FM_MS));
		model_hint(&m, c, FM_HINT_RUNTIME, (int64_t)(task[i].job * FM_MS));
	}
	model_run(&m, 10 * FM_S);
	for (unsigned i = 0; i < 4; i++) {
		if (m.c[i].worst_response > task[i].period * FM_MS)
			fail_msg("task %u: %lu us", i, m.c[i].worst_response / FM_US);
	}
	fm_sched_free(m.s);
}

/* The one that runs keeps its laxity while another's falls: that one takes over before it is lost.
 */
static void laxity_falls_while_it_waits(void **state)
{
	struct model m;
	struct client *first, *second;

	model_init(&m, "least-laxity", NULL, 0);
	first = model_client(&m, 0, 50 * FM_MS, FM_S);
	second = model_client(&m, 0, 5 * FM_MS, FM_S);
	model_hint(&m, first, FM_HINT_DEADLINE, 100 * FM_MS); /* to start by 50 */
	model_hint(&m, first, FM_HINT_RUNTIME, 50 * FM_MS);
	model_hint(&m, second, FM_HINT_DEADLINE, 60 * FM_MS); /* by 55 */
	model_hint(&m, second, FM_HINT_RUNTIME, 5 * FM_MS);
	model_run(&m, 6 * FM_MS);
	assert_true(first->open && !second->open);
	model_run(&m, 2 * FM_MS);
	assert_true(!first->open && second->open);
	model_run(&m, 60 * FM_MS);
	assert_int_equal(first->worst_response, 55 * FM_MS);
	fm_sched_free(m.s);
}

/* Where one that was alone is in its job, nobody knows: its deadline counts from when another
 * joins. */
static void a_deadline_begun_alone(void **state)
{
	struct model m;
	struct client *fg, *bg;

	model_init(&m, "least-laxity", NULL, 0);
	bg = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, bg, FM_HINT_DEADLINE, 3 * (int64_t)FM_S);
	model_run(&m, 2900 * FM_MS);
	fg = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, fg, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	model_mark(&m);
	model_run(&m, 1490 * FM_MS);
	assert_int_equal(bg->served, 0);
	model_run(&m, 1510 * FM_MS);
	assert_near((double)bg->served, 1.5 * (double)FM_S, 0.02 * (double)FM_S);
	fm_sched_free(m.s);
}

/* Laxities that draw level do not make two jobs alternate at each step. */
static void equal_laxities_do_not_thrash(void **state)
{
	struct model m;
	struct client *a, *b;

	model_init(&m, "least-laxity", NULL, 0);
	m.conserve_work = true;
	a = model_periodic(&m, 40 * FM_MS, 100 * FM_MS);
	b = model_periodic(&m, 40 * FM_MS, 100 * FM_MS);
	model_hint(&m, a, FM_HINT_PERIOD, 100 * FM_MS);
	model_hint(&m, b, FM_HINT_PERIOD, 100 * FM_MS);
	model_run(&m, FM_S);
	model_mark(&m);
	model_run(&m, FM_S); /* ten of each, in stretches of 4 ms at the shortest */
	assert_true(a->gates + b->gates < 2 * 800 / 4 + 40);
	assert_true(a->worst_response <= 100 * FM_MS && b->worst_response <= 100 * FM_MS);
	fm_sched_free(m.s);
}

/* Who is late is given another such time, and half of it: one that never ends does not have the
 * device for itself, and one that was late once does not starve. */
static void who_is_late_has_half(void **state)
{
	struct model m;
	struct client *fg, *endless, *idler;

	model_init(&m, "least-laxity", NULL, 0);
	m.conserve_work = true;
	fg = model_client(&m, 0, ALWAYS, 0);
	endless = model_client(&m, 0, ALWAYS, 0);
	idler = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, fg, FM_HINT_PRIORITY, 1);
	model_hint(&m, endless, FM_HINT_DEADLINE, 200 * FM_MS);
	model_run(&m, 2 * FM_S);
	assert_near(model_share(&m, endless, FM_S, 0), 50, POINTS);
	assert_near(model_share(&m, fg, FM_S, 0), 50, POINTS);
	model_hint(&m, fg, FM_HINT_PRIORITY, 0); /* among equals it has turns besides */
	model_mark(&m);
	model_run(&m, 3 * FM_S);
	assert_near(model_share(&m, endless, m.now - 3 * FM_S, 0), 50 + 50.0 / 3, 2 * POINTS);
	assert_near(model_share(&m, idler, m.now - 3 * FM_S, 0), 50.0 / 3, POINTS);
	model_hint(&m, fg, FM_HINT_PRIORITY, 1);
	model_hint(&m, endless, FM_HINT_RUNTIME, 190 * FM_MS);
	model_mark(&m);
	model_run(&m, 2 * FM_S);
	assert_near(model_share(&m, endless, m.now - 2 * FM_S, 0), 50, POINTS);
	model_hint(&m, endless, FM_HINT_RUNTIME, 20 * FM_MS);
	model_mark(&m);
	model_run(&m, 2 * FM_S);
	assert_near(model_share(&m, endless, m.now - 2 * FM_S, 0), 10, POINTS);
	fm_sched_free(m.s);
}

/* mlfq */

static void who_used_little_comes_first(void **state)
{
	struct model m;
	struct client *brief, *hog1, *hog2;

	model_init(&m, "mlfq", NULL, 0);
	m.conserve_work = true;
	hog1 = model_client(&m, 0, ALWAYS, 0);
	hog2 = model_client(&m, 0, ALWAYS, 0);
	brief = model_client(&m, 50 * FM_MS, FM_MS, 599 * FM_MS);
	model_run(&m, 6 * FM_S);
	assert_true(brief->jobs >= 9);
	assert_true(brief->worst_wait <= 4 * FM_MS); /* both have just been boosted, at worst */
	assert_near(model_share(&m, hog1, FM_S, 0), model_share(&m, hog2, FM_S, 0), POINTS);
	/* Quanta of 16 ms at the bottom: few turns. */
	assert_true(hog1->gates < 6000 / 16 + 100);
	fm_sched_free(m.s);
}

/* Leaving just before the quantum ends is no way to stay on top (rule 4). */
static void the_quantum_counts_in_pieces(void **state)
{
	struct model m;
	struct client *gamer, *hog;

	model_init(&m, "mlfq", PARAMS("boost=10s"));
	m.conserve_work = true;
	hog = model_client(&m, 0, ALWAYS, 0);
	gamer = model_client(&m, 0, 1900 * FM_US, 100 * FM_US);
	model_run(&m, FM_S);
	model_mark(&m);
	model_run(&m, 5 * FM_S);
	assert_true(model_share(&m, hog, m.now - 5 * FM_S, 0) > 45);
	assert_true(gamer->jobs > 100);
	fm_sched_free(m.s);
}

/* One that changed its ways is well served after the next boost (rule 5). */
static void a_boost_forgets(void **state)
{
	struct model m;
	struct client *c, *hog;

	model_init(&m, "mlfq", NULL, 0);
	hog = model_client(&m, 0, ALWAYS, 0);
	c = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 500 * FM_MS);
	c->job = FM_MS;
	c->rest = 99 * FM_MS;
	model_run(&m, 200 * FM_MS);
	model_mark(&m);
	model_run(&m, 200 * FM_MS);
	assert_true(
		c->worst_wait > 5 * FM_MS); /* at the bottom it waits for the turn of the other */
	model_run(&m, 200 * FM_MS);
	model_mark(&m);
	model_run(&m, 700 * FM_MS);
	assert_true(c->worst_wait <= 4 * FM_MS);
	assert_true(hog->served > 600 * FM_MS);
	fm_sched_free(m.s);
}

/* Those of the lowest level have their time however much the upper ones want. */
static void nobody_starves(void **state)
{
	struct model m;
	struct client *low;

	model_init(&m, "mlfq", PARAMS("levels=16", "boost=200"));
	m.conserve_work = true;
	low = model_client(&m, 0, ALWAYS, 0);
	model_run(&m, 10 * FM_MS);
	for (int i = 0; i < 6; i++)
		model_client(&m, 0, 200 * FM_MS, 50 * FM_MS);
	model_run(&m, 10 * FM_S);
	assert_true(low->worst_wait <= 400 * FM_MS);
	fm_sched_free(m.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(earliest_deadlines_run_at_once),
		cmocka_unit_test(one_place_is_edf),
		cmocka_unit_test(the_rest_takes_turns_at_the_places),
		cmocka_unit_test(other_hints_keep_the_turn),
		cmocka_unit_test(short_jobs_come_first),
		cmocka_unit_test(no_order_responds_sooner),
		cmocka_unit_test(a_false_runtime_gains_little),
		cmocka_unit_test(endless_jobs_take_turns),
		cmocka_unit_test(endless_jobs_come_last),
		cmocka_unit_test(long_jobs_starve_but_for_aging),
		cmocka_unit_test(alone_nothing_is_learnt),
		cmocka_unit_test(the_video_conference),
		cmocka_unit_test(the_first_deadline_is_kept),
		cmocka_unit_test(a_full_device_keeps_all_deadlines),
		cmocka_unit_test(laxity_falls_while_it_waits),
		cmocka_unit_test(a_deadline_begun_alone),
		cmocka_unit_test(equal_laxities_do_not_thrash),
		cmocka_unit_test(who_is_late_has_half),
		cmocka_unit_test(who_used_little_comes_first),
		cmocka_unit_test(the_quantum_counts_in_pieces),
		cmocka_unit_test(a_boost_forgets),
		cmocka_unit_test(nobody_starves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
