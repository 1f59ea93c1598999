/* SPDX-License-Identifier: Apache-2.0 */
/* Entities that await a resource: held until a time or until told, and shown as such. */
#include "sched_fix.h"

static void start(struct fix *f, const char *name)
{
	setup(f, &host, name);
	fm_sched_linger(f->s, 0);
}

static void ready_at(struct fix *f, struct ent *e, uint64_t at, uint64_t now)
{
	assert_int_equal(fm_sched_ready_at(f->s, e->e, at, now), 0);
}

static struct fm_account account(struct ent *e, uint64_t now)
{
	struct fm_account a;

	fm_sched_ent_account(e->e, now, &a);
	return a;
}

static void waits_why(struct ent *e, enum fm_wait why, uint64_t now)
{
	struct fm_account a = account(e, now);

	assert_true(a.waiting);
	assert_int_equal(a.why, why);
}

/* It keeps its place: another runs meanwhile, and from the time on it does. */
static void until_a_time(void **state)
{
	struct fm_account a;
	struct ent *x, *y;
	struct fix f;

	start(&f, "round-robin");
	x = add(&f, 0);
	y = add(&f, 0);
	ready(&f, x, T0);
	ready(&f, y, T0);
	assert_true(x->open && !y->open);
	ready_at(&f, x, T0 + 7 * FM_MS, T0);
	assert_true(!x->open && y->open);
	assert_string_equal(info(x, T0).reason, "held: it waits for a resource");
	waits_why(x, FM_WAIT_RESOURCE, T0 + FM_MS);
	assert_int_equal(account(x, T0 + FM_MS).holder->id, fm_sched_group_id(y->g));
	while (fm_sched_next(f.s) < T0 + 7 * FM_MS)
		fm_sched_tick(f.s, fm_sched_next(f.s));
	assert_true(!x->open && y->open);
	assert_int_equal(fm_sched_next(f.s), T0 + 7 * FM_MS);
	fm_sched_tick(f.s, T0 + 7 * FM_MS);
	assert_true(x->open && !y->open);
	a = account(x, T0 + 8 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_RESOURCE], 7 * FM_MS);
	assert_int_equal(a.ran_ns, FM_MS);
	assert_int_equal(info(x, T0 + 8 * FM_MS).served_ns, FM_MS); /* it was not charged before */
	waits_why(y, FM_WAIT_POLICY, T0 + 8 * FM_MS);
	fm_sched_free(f.s);
}

static void until_told(void **state)
{
	static const char *const policies[] = {"fifo", "fixed-priority", "foreground",
		"round-robin", "fair", "edf", "k-edf", "srtf", "mlfq", "least-laxity",
		"heterogeneous-priority"};

	for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
		struct ent *x, *y;
		struct fix f;

		start(&f, policies[i]);
		x = add(&f, 0);
		y = add(&f, 0);
		ready(&f, x, T0);
		ready_at(&f, x, FM_NEVER, T0);
		assert_false(x->open);
		ready(&f, y, T0 + FM_MS);
		assert_true(!x->open && y->open);
		fm_sched_tick(f.s, T0 + FM_S);
		assert_true(!x->open && y->open);
		ready_at(&f, x, T0 + 2 * FM_S, T0 + FM_S); /* another time, and then at once */
		assert_false(x->open);
		ready_at(&f, x, T0 + FM_S, T0 + FM_S);
		assert_true(x->open);
		assert_int_equal(account(x, T0 + FM_S).wait_ns[FM_WAIT_RESOURCE], FM_S);
		idle(&f, x, T0 + FM_S);
		assert_true(y->open);
		fm_sched_free(f.s);
	}
}

/* What the policy does not choose waits for the policy, whatever else it lacks. */
static void not_its_turn(void **state)
{
	struct ent *low, *high;
	struct fm_account a;
	struct fix f;

	start(&f, "fixed-priority");
	low = add(&f, 0);
	high = add(&f, 1);
	ready(&f, low, T0);
	ready(&f, high, T0);
	ready_at(&f, low, T0 + 3 * FM_MS, T0);
	waits_why(low, FM_WAIT_POLICY, T0 + FM_MS);
	idle(&f, high, T0 + FM_MS);
	waits_why(low, FM_WAIT_RESOURCE, T0 + 2 * FM_MS);
	assert_false(low->open);
	fm_sched_tick(f.s, T0 + 3 * FM_MS);
	assert_true(low->open);
	a = account(low, T0 + 3 * FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_POLICY], FM_MS);
	assert_int_equal(a.wait_ns[FM_WAIT_RESOURCE], 2 * FM_MS);
	fm_sched_free(f.s);
}

/* Alone and idle its gate stands open, but not while it awaits something; and its edges are told.
 */
static void alone(void **state)
{
	static const char *const policies[] = {"fixed-priority", "fifo"};

	for (size_t i = 0; i < 2; i++) {
		struct fix f;
		struct ent *x;

		start(&f, policies[i]);
		x = add(&f, 0);
		assert_true(x->open && !x->bell_ready);
		ready_at(&f, x, FM_NEVER, T0);
		assert_true(!x->open && x->bell_ready);
		ready(&f, x, T0 + FM_MS);
		assert_false(x->open);
		waits_why(x, FM_WAIT_RESOURCE, T0 + 2 * FM_MS);
		ready_at(&f, x, 0, T0 + 3 * FM_MS);
		assert_true(x->open);
		idle(&f, x, T0 + 4 * FM_MS);
		assert_true(x->open && !x->bell_ready && !x->bell_idle);
		assert_int_equal(fm_sched_next(f.s), FM_NEVER);
		fm_sched_free(f.s);
	}
}

/* An idle one whose turn it would be does not start at once. */
static void asleep(void **state)
{
	struct ent *low, *high;
	struct fix f;

	start(&f, "fixed-priority");
	low = add(&f, 0);
	high = add(&f, 1);
	ready(&f, low, T0);
	assert_true(low->open && high->open); /* it would run at once */
	ready_at(&f, high, T0 + 5 * FM_MS, T0);
	assert_true(low->open && !high->open);
	ready(&f, high, T0 + FM_MS);
	assert_true(low->open && !high->open);
	idle(&f, high, T0 + 2 * FM_MS);
	fm_sched_tick(f.s, T0 + 5 * FM_MS);
	assert_true(low->open && high->open);
	fm_sched_free(f.s);
}

static void its_gang_waits_with_it(void **state)
{
	static const char *const policies[] = {"fixed-priority", "fifo"};

	for (size_t i = 0; i < 2; i++) {
		struct ent *near, *far, *o;
		struct fm_sched_dev *d;
		struct fix f;

		start(&f, policies[i]);
		assert_int_equal(fm_sched_device_add(f.s, &d, "other"), 0);
		near = add(&f, 0);
		o = add(&f, 0);
		far = &f.ent[f.n++];
		far->stalled = true;
		far->g = near->g;
		assert_int_equal(fm_sched_ent_add(f.s, &far->e, near->g, d, far, T0), 0);
		ready(&f, near, T0);
		ready(&f, far, T0);
		ready(&f, o, T0);
		assert_true(near->open && far->open);
		ready_at(&f, far, T0 + 4 * FM_MS, T0);
		assert_true(!near->open && !far->open && o->open);
		waits_why(far, FM_WAIT_RESOURCE, T0 + FM_MS);
		waits_why(near, FM_WAIT_GANG, T0 + FM_MS);
		assert_string_equal(info(near, T0).reason, "held: its gang waits on device other");
		while (fm_sched_next(f.s) < T0 + 4 * FM_MS)
			fm_sched_tick(f.s, fm_sched_next(f.s));
		assert_true(!near->open && !far->open && o->open);
		fm_sched_tick(f.s, T0 + 4 * FM_MS);
		assert_true(near->open && far->open);
		assert_int_equal(account(near, T0 + 4 * FM_MS).wait_ns[FM_WAIT_GANG], 4 * FM_MS);
		fm_sched_free(f.s);
	}
}

/* Suspended, resumed, gone: what it awaits is forgotten with it and not before. */
static void comes_and_goes(void **state)
{
	struct ent *x, *y;
	struct fix f;

	start(&f, "fair");
	x = add(&f, 0);
	y = add(&f, 0);
	ready(&f, x, T0);
	ready_at(&f, x, T0 + FM_S, T0);
	fm_sched_suspend(f.s, x->g, true, T0 + FM_MS);
	fm_sched_suspend(f.s, x->g, false, T0 + 2 * FM_MS);
	assert_false(x->open);
	policy(&f, "edf", T0 + 3 * FM_MS);
	assert_false(x->open);
	policy(&f, "fifo", T0 + 4 * FM_MS);
	assert_true(!x->open && y->open);
	policy(&f, "fair", T0 + 5 * FM_MS);
	assert_false(x->open);
	assert_int_equal(fm_sched_next(f.s), T0 + FM_S);
	fm_sched_ent_del(f.s, x->e, T0 + 6 * FM_MS);
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	ready(&f, y, T0 + 7 * FM_MS);
	assert_true(y->open);
	fm_sched_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(until_a_time),
		cmocka_unit_test(until_told),
		cmocka_unit_test(not_its_turn),
		cmocka_unit_test(alone),
		cmocka_unit_test(asleep),
		cmocka_unit_test(its_gang_waits_with_it),
		cmocka_unit_test(comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
