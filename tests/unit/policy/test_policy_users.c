/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level shares: first among users, then among the groups of each, in virtual time. */
#define CLIENTS 256
#include "../sched/sched_model.h"

#define ALWAYS (20 * FM_MS)
#define POINTS 2.0
#define MANY   200

static const char *const both[] = {"fair", "bandwidth"};

static void by(struct model *m, bool user, const char *policy, const char *const *params, size_t n)
{
	fm_sched_fair_by(m->s, user);
	model_policy(m, policy, params, n);
}

static void by_user(struct model *m, const char *policy, const char *const *params, size_t n)
{
	model_init(m, policy, params, n);
	by(m, true, policy, params, n);
	assert_true(fm_sched_fair_by_user(m->s));
}

/* That many groups of this user, which are always busy; the first of them. */
static struct client *busy(struct model *m, uint32_t uid, unsigned n)
{
	struct client *first = &m->c[m->n];

	m->uid = uid;
	for (unsigned i = 0; i < n; i++)
		model_client(m, 0, ALWAYS, 0);
	return first;
}

/* Percent of the time since the last mark that n groups had together. */
static double sum(const struct model *m, const struct client *first, unsigned n, uint64_t from)
{
	double all = 0;

	for (unsigned i = 0; i < n; i++)
		all += model_share(m, &first[i], from, 0);
	return all;
}

static void many_groups_gain_nothing(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	skip(); /* it takes long; others have crowds, too */
#endif
	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++)
		for (int user = 0; user < 2; user++) {
			struct client *one, *crowd;
			struct model m;

			model_init(&m, both[p], NULL, 0);
			by(&m, user, both[p], NULL, 0);
			m.conserve_work = true;
			crowd = busy(&m, 1000, MANY);
			one = busy(&m, 1001, 1);
			model_run(&m, 20 * FM_S);
			assert_near(model_share(&m, one, FM_S, 0), user ? 50 : 0.5,
				user ? POINTS : 0.2);
			for (unsigned i = 0; i < MANY && user; i++)
				assert_near(model_share(&m, &crowd[i], FM_S, 0), 0.25, 0.1);
			fm_sched_free(m.s);
		}
}

/* One policy in force tells users apart; one that cannot says so. */
static void others_do_not_care(void **state)
{
	struct model m;

	model_init(&m, "round-robin", NULL, 0);
	by(&m, true, "round-robin", NULL, 0);
	assert_false(fm_sched_fair_by_user(m.s));
	busy(&m, 1000, 3);
	busy(&m, 1001, 1);
	model_run(&m, 2 * FM_S);
	assert_near(model_share(&m, &m.c[3], FM_S, 0), 25, POINTS);
	fm_sched_free(m.s);
}

static void weights_count_within_a_user(void **state)
{
	struct client *a, *b;
	struct model m;

	by_user(&m, "fair", NULL, 0);
	a = busy(&m, 1000, 2);
	b = busy(&m, 1001, 1);
	model_hint(&m, &a[0], FM_HINT_WEIGHT, 300);
	model_hint(&m, b, FM_HINT_WEIGHT, 10000); /* against whom? */
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, &a[0], FM_S, 0), 37.5, POINTS);
	assert_near(model_share(&m, &a[1], FM_S, 0), 12.5, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 50, POINTS);
	fm_sched_free(m.s);
}

static void late_stalls_are_the_users(void **state)
{
	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++) {
		struct client *late, *prompt;
		struct model m;

		by_user(&m, both[p], NULL, 0);
		late = busy(&m, 1000, 3);
		prompt = busy(&m, 1001, 2);
		for (unsigned i = 0; i < 3; i++)
			late[i].late = 3 * FM_MS;
		model_run(&m, 10 * FM_S);
		assert_near(sum(&m, late, 3, FM_S), 50, POINTS);
		assert_near(sum(&m, prompt, 2, FM_S), 50, POINTS);
		fm_sched_free(m.s);
	}
}

/* Who was away has its share from then on, and no claim to more; who leaves, leaves all of it. */
static void users_come_and_go(void **state)
{
	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++) {
		struct client *a, *b;
		struct model m;
		uint64_t from;

		by_user(&m, both[p], NULL, 0);
		m.conserve_work = true;
		a = busy(&m, 1000, 20);
		model_run(&m, 5 * FM_S);
		from = m.now;
		model_mark(&m);
		b = busy(&m, 1001, 2);
		model_run(&m, 100 * FM_MS);
		assert_true(sum(&m, b, 2, from) < 60); /* no claim to the 5 s before it came */
		model_run(&m, 5 * FM_S);
		assert_near(sum(&m, b, 2, from), 50, POINTS);
		from = m.now;
		model_mark(&m);
		for (unsigned i = 0; i < 20; i++) {
			a[i].rest = FM_NEVER / 2; /* after its job it goes */
			a[i].todo = FM_MIN(a[i].todo, MODEL_STEP);
		}
		model_run(&m, 5 * FM_S);
		assert_near(sum(&m, b, 2, from), 100, POINTS);
		fm_sched_free(m.s);
	}
}

static void whoever_wakes_runs_soon(void **state)
{
	struct client *crowd, *brief;
	struct fm_ent_info info;
	struct model m;

	by_user(&m, "fair", PARAMS("slice=50"));
	crowd = busy(&m, 1000, MANY);
	m.uid = 1001;
	brief = model_client(&m, 10 * FM_MS, FM_MS, 19 * FM_MS);
	model_run(&m, 5 * FM_S);
	fm_sched_ent_info(brief->e, m.now, &info);
	/* 250 wake-ups: it does not wait for the end of slices of 50 ms. */
	assert_true(info.ready_wait_ns < 50 * FM_MS);
	assert_near(model_share(&m, brief, FM_S, 0), 5, 0.1);
	assert_near(sum(&m, crowd, MANY, FM_S), 95, 0.5);
	fm_sched_free(m.s);
}

/* A share is of the user's part. */
static void a_share_is_of_the_users_part(void **state)
{
	struct client *a, *b;
	struct model m;

	by_user(&m, "bandwidth", NULL, 0);
	m.conserve_work = true;
	a = busy(&m, 1000, 11);
	b = busy(&m, 1001, 1);
	model_hint(&m, a, FM_HINT_SHARE, 40); /* 20 % of the device */
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 20, POINTS);
	assert_near(sum(&m, a, 11, FM_S), 50, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 50, POINTS);
	fm_sched_free(m.s);
}

/* Reservations of one user, however many, take nothing from another's. */
static void shares_of_a_crowd_stay_in_its_part(void **state)
{
	struct client *crowd, *one;
	struct model m;

	by_user(&m, "bandwidth", NULL, 0);
	crowd = busy(&m, 1000, MANY);
	one = busy(&m, 1001, 2);
	for (unsigned i = 0; i < MANY; i++)
		model_hint(&m, &crowd[i], FM_HINT_SHARE, 50);
	model_hint(&m, one, FM_HINT_SHARE, 50);
	model_run(&m, 10 * FM_S);
	assert_near(sum(&m, one, 2, FM_S), 50, POINTS);
	assert_true(model_share(&m, one, FM_S, 0) > 25 - POINTS);
	fm_sched_free(m.s);
}

/* Time that a limit withholds from one user is no debt of the others to it. */
static void a_capped_user_holds_nobody_back(void **state)
{
	struct client *capped, *b, *c;
	struct model m;
	uint64_t from;

	by_user(&m, "bandwidth", PARAMS("capped=1"));
	capped = busy(&m, 1000, 1);
	b = busy(&m, 1001, 1);
	model_hint(&m, capped, FM_HINT_SHARE, 20); /* 10 % of the device */
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, capped, FM_S, 0), 10, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 90, POINTS);
	from = m.now;
	model_mark(&m);
	c = busy(&m, 1002, 5);
	model_run(&m, FM_S);
	assert_near(model_share(&m, b, from, 0), sum(&m, c, 5, from), 2 * POINTS);
	fm_sched_free(m.s);
}

/* To end a program that has had too much, and to start it again, is no way out. */
static void a_debt_outlives_the_programs(void **state)
{
	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++) {
		struct client *cheat, *other;
		struct model m;
		uint64_t served = 0;

		by_user(&m, both[p], NULL, 0);
		other = busy(&m, 1001, 1);
		cheat = busy(&m, 1000, 1);
		cheat->late = 50 * FM_MS; /* it has ten times a turn */
		for (int i = 0; i < 400000; i++) {
			model_step(&m);
			if (cheat->served <= served || cheat->on)
				continue;
			served = cheat->served;
			fm_sched_group_del(m.s, cheat->g, m.now);
			assert_int_equal(fm_sched_group_add(m.s, &cheat->g), 0);
			fm_sched_label(cheat->g, 1000, "again");
			cheat->bell_ready = cheat->bell_idle = false;
			assert_int_equal(
				fm_sched_ent_add(m.s, &cheat->e, cheat->g, m.d[0], cheat, m.now),
				0);
			fm_sched_ready(m.s, cheat->e, m.now, m.now);
		}
		assert_near(model_share(&m, other, FM_S, 0), 50, POINTS);
		assert_near(model_share(&m, cheat, FM_S, 0), 50, POINTS);
		fm_sched_free(m.s);
	}
}

/* As a reload of the settings does it. */
static void it_changes_while_they_run(void **state)
{
	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++) {
		struct client *one;
		struct model m;

		model_init(&m, both[p], NULL, 0);
		busy(&m, 1000, 9);
		one = busy(&m, 1001, 1);
		for (int i = 0; i < 4; i++) {
			uint64_t from = m.now;

			model_mark(&m);
			by(&m, i % 2, both[p], NULL, 0);
			model_run(&m, 5 * FM_S);
			assert_near(model_share(&m, one, from, 0), i % 2 ? 50 : 10, POINTS);
		}
		fm_sched_free(m.s);
	}
}

/* Which of several users, and when, makes no difference in the long run. */
static void shares_of_busy_users_are_equal(void **state)
{
#ifdef __SANITIZE_ADDRESS__ /* it takes ten times as long */
	static const unsigned crowd[] = {1, 10, 3, 20, 1};
#else
	static const unsigned crowd[] = {1, 50, 3, 100, 1};
#endif

	for (size_t p = 0; p < FM_ARRAY_LEN(both); p++) {
		struct client *first[5];
		struct model m;
		uint64_t from;

		by_user(&m, both[p], NULL, 0);
		m.conserve_work = true;
		for (unsigned u = 0; u < 5; u++) {
			first[u] = busy(&m, 1000 + u, crowd[u]);
			for (unsigned i = 0; i < crowd[u]; i++)
				model_hint(&m, &first[u][i], FM_HINT_LATENCY_NICE,
					(int)(i * 7 + u * 11) % 40 - 20);
			model_run(&m, 100 * FM_MS);
		}
		/* Some who come and go beside them. */
		m.uid = 2000;
		model_client(&m, 0, 3 * FM_MS, 40 * FM_MS);
		m.uid = 1001;
		model_client(&m, 0, 2 * FM_MS, FM_MS);
		from = m.now;
		model_mark(&m);
		model_run(&m, 20 * FM_S);
		for (unsigned u = 0; u < 5; u++) {
			double extra = u == 1 ? model_share(&m, &m.c[m.n - 1], from, 0) : 0;
			double rest = model_share(&m, &m.c[m.n - 2], from, 0);

			assert_near(sum(&m, first[u], crowd[u], from) + extra, (100 - rest) / 5,
				POINTS);
		}
		fm_sched_free(m.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_groups_gain_nothing),
		cmocka_unit_test(others_do_not_care),
		cmocka_unit_test(weights_count_within_a_user),
		cmocka_unit_test(late_stalls_are_the_users),
		cmocka_unit_test(users_come_and_go),
		cmocka_unit_test(whoever_wakes_runs_soon),
		cmocka_unit_test(a_share_is_of_the_users_part),
		cmocka_unit_test(shares_of_a_crowd_stay_in_its_part),
		cmocka_unit_test(a_capped_user_holds_nobody_back),
		cmocka_unit_test(a_debt_outlives_the_programs),
		cmocka_unit_test(it_changes_while_they_run),
		cmocka_unit_test(shares_of_busy_users_are_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
