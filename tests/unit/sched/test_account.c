/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of an entity went: what it adds up to, who was waited for, and why. */
#include "sched_fix.h"

#include "base/util.h"

static struct fm_account account(struct ent *e, uint64_t t)
{
	struct fm_account a;
	uint64_t spent, waited = 0, blamed;

	fm_sched_ent_account(e->e, t, &a);
	for (unsigned i = 0; i < FM_WAITS; i++)
		waited += a.wait_ns[i];
	spent = a.ran_ns + a.idle_ns + a.by_hand_ns + a.over_budget_ns + waited;
	assert_int_equal(spent, a.age_ns);
	blamed = a.others_ns;
	for (unsigned i = 0; i < a.n_culprits; i++) {
		blamed += a.culprit[i].ns;
		assert_true(a.culprit[i].ns);
		assert_true(!i || a.culprit[i].ns <= a.culprit[i - 1].ns);
	}
	assert_int_equal(blamed, waited);
	return a;
}

static void named(struct ent *e, const char *name)
{
	fm_sched_label(e->g, 1000, name);
}

static uint64_t blamed(const struct fm_account *a, const char *name)
{
	for (unsigned i = 0; i < a->n_culprits; i++)
		if (!strcmp(a->culprit[i].who->name, name))
			return a->culprit[i].ns;
	return 0;
}

static void start(struct fix *f, const char *name)
{
	setup(f, &host, name);
	fm_sched_linger(f->s, 0);
}

static void each_moment_counts_once(void **state)
{
	struct fm_account a;
	struct ent *e, *o;
	uint64_t upto[FM_WAIT_BOUNDS];
	struct fix f;

	start(&f, NULL);
	o = add(&f, 1);
	e = add(&f, 0);
	named(o, "urgent");
	named(e, "patient");
	ready(&f, e, T0 + 5 * FM_MS);
	ready(&f, o, T0 + 7 * FM_MS);
	idle(&f, o, T0 + 10 * FM_MS);
	idle(&f, e, T0 + 14 * FM_MS);
	a = account(e, T0 + 20 * FM_MS);
	assert_int_equal(a.age_ns, 20 * FM_MS);
	assert_int_equal(a.ran_ns, 6 * FM_MS);
	assert_int_equal(a.idle_ns, 11 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 3 * FM_MS);
	assert_int_equal(a.n_culprits, 1);
	assert_int_equal(blamed(&a, "urgent"), 3 * FM_MS);
	assert_int_equal(a.others_ns, 0);
	assert_int_equal(a.waits, 1);
	assert_int_equal(a.wait_max, 3 * FM_MS);
	assert_true(a.wait_p50 <= 3 * FM_MS && a.wait_p50 >= 2400 * FM_US);
	fm_sched_ent_waits(e->e, upto);
	for (unsigned i = 0; i < FM_WAIT_BOUNDS; i++)
		assert_int_equal(upto[i], fm_wait_bounds[i] > 3 * FM_MS);
	a = account(o, T0 + 20 * FM_MS);
	assert_int_equal(a.ran_ns, 3 * FM_MS);
	assert_int_equal(a.n_culprits, 0);
	assert_int_equal(a.waits, 0);
	fm_sched_free(f.s);
}

/* Asked in the midst of it, and as often as one likes. */
/* e has to wait for o for so long; both end. */
static void wait_once(struct fix *f, struct ent *e, struct ent *o, uint64_t at, uint64_t ns)
{
	ready(f, o, at);
	ready(f, e, at + FM_US);
	idle(f, o, at + FM_US + ns);
	idle(f, e, at + FM_US + ns + FM_MS);
}

static void waits_of_late_are_told_apart(void **state)
{
	uint64_t later = T0 + 10 * FM_RECENT, upto[FM_WAIT_BOUNDS];
	struct fm_account a;
	struct ent *e, *o;
	struct fix f;

	start(&f, NULL);
	o = add(&f, 1);
	e = add(&f, 0);
	for (unsigned i = 0; i < 3; i++)
		wait_once(&f, e, o, T0 + i * 10 * FM_MS, 3 * FM_MS);
	a = account(e, T0 + FM_S);
	assert_int_equal(a.recent, 3);
	assert_int_equal(a.recent_p99, a.wait_p99);
	assert_int_equal(account(e, T0 + FM_RECENT).recent, 3);
	a = account(e, later - FM_S); /* nobody has waited meanwhile */
	assert_int_equal(a.recent, 0);
	assert_int_equal(a.recent_p50, 0);
	assert_int_equal(a.waits, 3);
	wait_once(&f, e, o, later, 40 * FM_MS);
	wait_once(&f, e, o, later + FM_RECENT, 80 * FM_MS);
	a = account(e, later + FM_RECENT + FM_S);
	assert_int_equal(a.recent, 2);
	assert_true(a.recent_p50 >= 32 * FM_MS && a.recent_p99 >= 64 * FM_MS);
	assert_int_equal(a.waits, 5);
	assert_true(a.wait_p50 <= 4 * FM_MS);
	assert_int_equal(account(e, later + 2 * FM_RECENT + FM_S).recent, 1);
	fm_sched_ent_waits(e->e, upto);
	assert_int_equal(upto[FM_WAIT_BOUNDS - 1], 5);
	fm_sched_free(f.s);
}

static void a_wait_that_lasts_is_told(void **state)
{
	struct ent *e, *first, *second;
	struct fm_account a;
	struct fix f;

	start(&f, NULL);
	first = add(&f, 2);
	second = add(&f, 1);
	e = add(&f, 0);
	named(first, "first");
	named(second, "second");
	ready(&f, first, T0);
	ready(&f, second, T0);
	ready(&f, e, T0);
	for (unsigned i = 1; i <= 4; i++) {
		a = account(e, T0 + i * FM_MS);
		assert_int_equal(blamed(&a, "first"), i * FM_MS);
		assert_int_equal(a.waits, 0);
	}
	idle(&f, first, T0 + 4 * FM_MS);
	a = account(e, T0 + 10 * FM_MS);
	assert_int_equal(blamed(&a, "first"), 4 * FM_MS);
	assert_int_equal(blamed(&a, "second"), 6 * FM_MS);
	assert_string_equal(a.culprit[0].who->name, "second");
	a = account(second, T0 + 10 * FM_MS);
	assert_int_equal(blamed(&a, "first"), 4 * FM_MS);
	assert_int_equal(a.ran_ns, 6 * FM_MS);
	fm_sched_free(f.s);
}

static void suspended_is_not_waiting(void **state)
{
	struct fm_account a;
	struct ent *e, *o;
	struct fix f;

	start(&f, NULL);
	o = add(&f, 1);
	e = add(&f, 0);
	named(o, "urgent");
	ready(&f, o, T0);
	ready(&f, e, T0);
	fm_sched_suspend(f.s, e->g, true, T0 + 2 * FM_MS);
	idle(&f, e, T0 + 3 * FM_MS);
	fm_sched_suspend(f.s, e->g, false, T0 + 6 * FM_MS);
	ready(&f, e, T0 + 7 * FM_MS);
	fm_sched_grant(f.s, e->g, FM_GRANT_STOPPED, 0, T0 + 9 * FM_MS);
	fm_sched_grant(f.s, e->g, FM_GRANT_DEMOTED, 0, T0 + 14 * FM_MS);
	a = account(e, T0 + 15 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 4 * FM_MS);
	assert_int_equal(a.by_hand_ns, 4 * FM_MS);
	assert_int_equal(a.idle_ns, FM_MS);
	assert_int_equal(a.over_budget_ns, 5 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_DEMOTED], FM_MS);
	assert_int_equal(blamed(&a, "urgent"), 5 * FM_MS);
	fm_sched_free(f.s);
}

/* The device is the victim's until it has come to rest, and it says so later than it was. */
static void who_stalls_late_is_waited_for(void **state)
{
	struct fm_account a;
	struct ent *e, *o;
	struct fix f;

	start(&f, NULL);
	o = add(&f, 0);
	e = add(&f, 1);
	named(o, "slow");
	ready(&f, o, T0);
	o->stalled = false;
	ready(&f, e, T0 + FM_MS);
	assert_true(e->open && !o->open);
	a = account(e, T0 + 2 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_DRAINING], FM_MS);
	o->stalled = true;
	o->since = T0 + 5 * FM_MS;
	fm_sched_tick(f.s, T0 + 6 * FM_MS);
	a = account(e, T0 + 8 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_DRAINING], 4 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 0);
	assert_int_equal(a.ran_ns, 3 * FM_MS);
	assert_int_equal(blamed(&a, "slow"), 4 * FM_MS);
	a = account(o, T0 + 8 * FM_MS);
	assert_int_equal(a.ran_ns, 5 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 3 * FM_MS);
	assert_int_equal(a.culprit[0].ns, 3 * FM_MS);
	fm_sched_free(f.s);
}

/* Edges are reported some time after they were: sums stay exact, and nobody is blamed who was not
 * there. */
static void late_reports_change_no_sum(void **state)
{
	struct fm_account a;
	struct ent *e, *o;
	struct fix f;

	start(&f, NULL);
	o = add(&f, 1);
	e = add(&f, 0);
	named(o, "urgent");
	fm_sched_ready(f.s, o->e, T0, T0 + 50 * FM_US);
	fm_sched_ready(f.s, e->e, T0 + 20 * FM_US, T0 + 70 * FM_US);
	fm_sched_idle(f.s, o->e, T0 + 5 * FM_MS, T0 + 5 * FM_MS + 90 * FM_US);
	fm_sched_idle(f.s, e->e, T0 + 8 * FM_MS, T0 + 9 * FM_MS);
	a = account(e, T0 + 10 * FM_MS);
	assert_int_equal(a.age_ns, 10 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 5 * FM_MS + 70 * FM_US);
	assert_int_equal(a.ran_ns, 8 * FM_MS - 5 * FM_MS - 90 * FM_US);
	assert_int_equal(blamed(&a, "urgent"), 5 * FM_MS + 70 * FM_US);
	assert_int_equal(a.others_ns, 0);
	fm_sched_free(f.s);
}

static void several_at_once_share_the_blame(void **state)
{
	struct ent *e, *o[2];
	struct fm_account a;
	struct fix f;

	start(&f, "k-edf");
	o[0] = add(&f, 0);
	o[1] = add(&f, 0);
	e = add(&f, 0);
	named(o[0], "x");
	named(o[1], "y");
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fm_sched_hint(f.s, o[i]->g, FM_HINT_DEADLINE, FM_MS, T0), 0);
		ready(&f, o[i], T0);
	}
	ready(&f, e, T0);
	a = account(e, T0 + 4 * FM_MS);
	assert_int_equal(blamed(&a, "x"), 2 * FM_MS);
	assert_int_equal(blamed(&a, "y"), 2 * FM_MS);
	fm_sched_free(f.s);
}

static void nobody_is_a_cause_too(void **state)
{
	const char *capped[] = {"capped=1", "period=10ms"};
	struct fm_account a;
	struct ent *e;
	struct fix f;

	start(&f, NULL);
	assert_int_equal(fm_sched_policy(f.s, "bandwidth", capped, 2, T0, NULL), 0);
	e = add(&f, 0);
	assert_int_equal(fm_sched_hint(f.s, e->g, FM_HINT_SHARE, 10, T0), 0);
	ready(&f, e, T0);
	for (uint64_t t = T0; t < T0 + 100 * FM_MS; t = FM_MAX(t + 1, fm_sched_next(f.s)))
		fm_sched_tick(f.s, t);
	a = account(e, T0 + 100 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 0);
	assert_true(a.wait_ns[FM_WAIT_NOBODY] > 80 * FM_MS);
	assert_int_equal(a.n_culprits, 0);
	fm_sched_free(f.s);
}

/* What was waited for is remembered by name when it has gone, and by its new name when it lives. */
static void the_departed_keep_their_names(void **state)
{
	struct fm_account a;
	struct ent *e, *o;
	struct fix f;

	start(&f, NULL);
	e = add(&f, 0);
	for (unsigned i = 0; i < 20; i++) {
		char name[] = {'g', (char)('a' + i), '\0'};
		uint64_t t = T0 + 10 * i * FM_MS;

		o = &f.ent[25];
		o->told = false;
		o->stalled = true;
		assert_int_equal(fm_sched_group_add(f.s, &o->g), 0);
		assert_int_equal(fm_sched_hint(f.s, o->g, FM_HINT_PRIORITY, 1, t), 0);
		assert_int_equal(fm_sched_ent_add(f.s, &o->e, o->g, f.d, o, t), 0);
		named(o, "early");
		ready(&f, o, t);
		ready(&f, e, t);
		named(o, name);
		fm_sched_group_del(f.s, o->g, t + (i + 1) * 100 * FM_US);
		idle(&f, e, t + 5 * FM_MS);
	}
	a = account(e, T0 + 200 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 210 * 100 * FM_US);
	assert_int_equal(blamed(&a, "early"), 0);
	assert_int_equal(a.n_culprits, FM_CULPRITS);
	for (unsigned i = 0; i < a.n_culprits; i++) {
		assert_true(a.culprit[i].who->gone);
		assert_int_equal(a.culprit[i].ns,
			(uint64_t)(a.culprit[i].who->name[1] - 'a' + 1) * 100 * FM_US);
	}
	fm_sched_free(f.s);
}

/* Twenty take short turns while one holds the device for most of the time: it is named first,
 * though it came when there was no place left for it. */
static void the_heavy_is_found_among_many(void **state)
{
	struct ent *heavy, *e;
	struct fm_account a;
	uint64_t t = T0;
	struct fix f;

	start(&f, NULL);
	e = add(&f, 0);
	for (unsigned i = 0; i < 20; i++)
		named(add(&f, 1), "light");
	heavy = add(&f, 1);
	named(heavy, "heavy");
	ready(&f, e, T0);
	for (unsigned round = 0; round < 1000; round++) {
		struct ent *light = &f.ent[1 + round % 20];

		ready(&f, light, t);
		idle(&f, light, t + FM_MS);
		ready(&f, heavy, t + FM_MS);
		idle(&f, heavy, t + 4 * FM_MS);
		t += 4 * FM_MS;
	}
	a = account(e, t);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], t - T0);
	assert_string_equal(a.culprit[0].who->name, "heavy");
	assert_true(a.culprit[0].ns > 2 * FM_S); /* of 3 s */
	assert_true(a.culprit[0].ns <= 3 * FM_S);
	fm_sched_free(f.s);
}

/* It waits everywhere for the device that refused it. */
static void a_gang_waits_for_its_other_device(void **state)
{
	struct ent *far, *near, *o;
	struct fm_account a;
	struct fm_sched_dev *d;
	struct fix f;

	start(&f, NULL);
	assert_int_equal(fm_sched_device_add(f.s, &d, "other"), 0);
	near = add(&f, 0);
	o = add(&f, 1);
	named(o, "urgent");
	far = &f.ent[f.n++];
	far->stalled = true;
	far->g = near->g;
	assert_int_equal(fm_sched_ent_add(f.s, &far->e, near->g, d, far, T0), 0);
	ready(&f, near, T0);
	ready(&f, far, T0);
	ready(&f, o, T0 + FM_MS);
	a = account(near, T0 + 5 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], 4 * FM_MS);
	assert_int_equal(blamed(&a, "urgent"), 4 * FM_MS);
	a = account(far, T0 + 5 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_GANG], 4 * FM_MS);
	assert_int_equal(a.ran_ns, FM_MS);
	fm_sched_free(f.s);
}

#define MANY 6

/* What the accounts should say: kept by looking at everybody after each event. */
struct books {
	bool work[MANY];
	uint64_t spent[MANY][2]; /* ran, waited */
	uint64_t waited_for[MANY][MANY], nobody[MANY];
};

static void keep(struct books *b, const struct fix *f, uint64_t ns)
{
	unsigned holder = MANY;

	for (unsigned i = 0; i < MANY; i++)
		if (f->ent[i].open && b->work[i])
			holder = i;
	for (unsigned i = 0; i < MANY; i++) {
		if (!b->work[i])
			continue;
		b->spent[i][!f->ent[i].open] += ns;
		if (!f->ent[i].open && holder < MANY)
			b->waited_for[i][holder] += ns;
		else if (!f->ent[i].open)
			b->nobody[i] += ns;
	}
}

static void compare(const struct books *b, struct fix *f, uint64_t t)
{
	for (unsigned i = 0; i < MANY; i++) {
		struct fm_account a = account(&f->ent[i], t);

		assert_int_equal(a.ran_ns, b->spent[i][0]);
		assert_int_equal(a.wait_ns[FM_WAIT_POLICY], b->spent[i][1] - b->nobody[i]);
		assert_int_equal(a.wait_ns[FM_WAIT_NOBODY], b->nobody[i]);
		for (unsigned k = 0; k < MANY; k++) {
			const char name[] = {(char)('a' + k), '\0'};

			assert_int_equal(blamed(&a, name), b->waited_for[i][k]);
		}
		assert_int_equal(a.others_ns, b->nobody[i]);
	}
}

/* Where each has a place and reports come at once, the accounts are what a look at everybody gives,
 * under each policy that lets one run at a time. */
static void random_events_are_booked_right(void **state)
{
	static const char *const names[] = {"fixed-priority", "round-robin", "fair", "bandwidth",
		"edf", "least-laxity", "srtf", "mlfq", "foreground"};
	uint64_t rnd = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t p = 0; p < FM_ARRAY_LEN(names); p++) {
		struct books b = {0};
		uint64_t t = T0, to;
		struct fix f;

		start(&f, names[p]);
		for (unsigned i = 0; i < MANY; i++)
			named(add(&f, i / 2), (char[]){(char)('a' + i), '\0'});
		for (unsigned n = 0; n < 5000; n++) {
			struct ent *e;

			rnd = rnd * UINT64_C(6364136223846793005) + 1;
			e = &f.ent[(rnd >> 40) % MANY];
			to = t + (rnd >> 33) % (2 * FM_MS);
			while (fm_sched_next(f.s) <= to) {
				uint64_t at = FM_MAX(fm_sched_next(f.s), t);

				keep(&b, &f, at - t);
				t = at;
				f.log[0] = '\0';
				fm_sched_tick(f.s, t);
			}
			keep(&b, &f, to - t);
			t = to;
			f.log[0] = '\0';
			if (b.work[e - f.ent])
				idle(&f, e, t);
			else
				ready(&f, e, t);
			b.work[e - f.ent] = !b.work[e - f.ent];
			if (n % 100 == 0)
				compare(&b, &f, t);
		}
		fm_sched_free(f.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_moment_counts_once),
		cmocka_unit_test(waits_of_late_are_told_apart),
		cmocka_unit_test(a_wait_that_lasts_is_told),
		cmocka_unit_test(suspended_is_not_waiting),
		cmocka_unit_test(who_stalls_late_is_waited_for),
		cmocka_unit_test(late_reports_change_no_sum),
		cmocka_unit_test(several_at_once_share_the_blame),
		cmocka_unit_test(nobody_is_a_cause_too),
		cmocka_unit_test(the_departed_keep_their_names),
		cmocka_unit_test(the_heavy_is_found_among_many),
		cmocka_unit_test(a_gang_waits_for_its_other_device),
		cmocka_unit_test(random_events_are_booked_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
