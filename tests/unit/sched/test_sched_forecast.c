/* SPDX-License-Identifier: Apache-2.0 */
/* Forecasts of a device, of the core's entities. */
#include "sched_fix.h"

static void start(struct fix *f, const char *name)
{
	setup(f, &host, name);
	fm_sched_linger(f->s, 0);
}

static int foretell(struct fix *f, uint64_t now, struct fm_sturn *t, unsigned cap)
{
	const struct fm_sforesight far = {.now = now, .until = FM_NEVER};

	return fm_sched_dev_forecast(f->d, &far, t, cap);
}

static void is(const struct fm_sturn *t, const struct ent *e, uint64_t from, uint64_t until)
{
	assert_ptr_equal(t->data, e);
	assert_int_equal(t->from, from);
	assert_int_equal(t->until, until);
}

/* The rest of this turn, the others in order, and this one again; and so it comes. */
static void turns_in_order(void **state)
{
	struct fm_sturn t[4];
	struct ent *e[3];
	struct fix f;
	uint64_t now;

	start(&f, "round-robin");
	for (int i = 0; i < 3; i++) {
		e[i] = add(&f, 0);
		ready(&f, e[i], T0);
	}
	add(&f, 0); /* asleep */
	assert_int_equal(foretell(&f, T0 + 2 * FM_MS, t, 4), 4);
	is(&t[0], e[0], T0 + 2 * FM_MS, T0 + 5 * FM_MS);
	is(&t[1], e[1], T0 + 5 * FM_MS, T0 + 10 * FM_MS);
	is(&t[2], e[2], T0 + 10 * FM_MS, T0 + 15 * FM_MS);
	is(&t[3], e[0], T0 + 15 * FM_MS, T0 + 20 * FM_MS);
	for (int i = 1; i < 4; i++) {
		now = fm_sched_next(f.s);
		assert_int_equal(now, t[i].from);
		fm_sched_tick(f.s, now);
		assert_true(e[i % 3]->open);
		assert_int_equal(t[i].sure, FM_SURE);
	}
	fm_sched_free(f.s);
}

static uint64_t three_ms(const void *ctx, const void *data)
{
	assert_non_null(ctx);
	return ((const struct ent *)data)->usage ? 3 * FM_MS : FM_NEVER;
}

static void jobs_that_end(void **state)
{
	const struct fm_sforesight far = {T0, FM_NEVER, three_ms, state};
	struct ent *high, *low;
	struct fm_sturn t[4];
	struct fix f;

	start(&f, "fixed-priority");
	low = add(&f, 0);
	high = add(&f, 1);
	high->usage = 1;
	ready(&f, low, T0);
	ready(&f, high, T0);
	assert_int_equal(fm_sched_dev_forecast(f.d, &far, t, 4), 2);
	is(&t[0], high, T0, T0 + 3 * FM_MS);
	is(&t[1], low, T0 + 3 * FM_MS, FM_NEVER);
	assert_int_equal(t[1].sure, FM_SURE_JOB);
	fm_sched_free(f.s);
}

/* What lingers will be idle, and what awaits a resource is foretold as if it did not. */
static void claims_and_resources(void **state)
{
	struct ent *high, *low;
	struct fm_sturn t[4];
	struct fix f;

	start(&f, "fixed-priority");
	fm_sched_linger(f.s, 500 * FM_US);
	low = add(&f, 0);
	high = add(&f, 1);
	ready(&f, low, T0);
	ready(&f, high, T0);
	idle(&f, high, T0 + FM_MS);
	assert_true(high->open);
	assert_int_equal(foretell(&f, T0 + FM_MS, t, 4), 2);
	is(&t[0], high, T0 + FM_MS, T0 + 1500 * FM_US);
	is(&t[1], low, T0 + 1500 * FM_US, FM_NEVER);
	ready(&f, high, T0 + 2 * FM_MS);
	assert_int_equal(fm_sched_ready_at(f.s, high->e, FM_NEVER, T0 + 2 * FM_MS), 0);
	assert_true(low->open);
	assert_int_equal(foretell(&f, T0 + 2 * FM_MS, t, 4), 1);
	is(&t[0], high, T0 + 2 * FM_MS, FM_NEVER);
	fm_sched_free(f.s);
}

static void none_of_gangs_and_of_one_order(void **state)
{
	struct ent *near, *far;
	struct fm_sturn t[2];
	struct fm_sched_dev *d;
	struct fix f;

	start(&f, "fair");
	assert_int_equal(fm_sched_device_add(f.s, &d, "other"), 0);
	near = add(&f, 0);
	far = &f.ent[f.n++];
	far->stalled = true;
	far->g = near->g;
	assert_int_equal(fm_sched_ent_add(f.s, &far->e, near->g, d, far, T0), 0);
	assert_int_equal(foretell(&f, T0, t, 2), 0);
	ready(&f, near, T0);
	assert_int_equal(foretell(&f, T0, t, 2), 1);
	ready(&f, far, T0);
	assert_int_equal(foretell(&f, T0, t, 2), -ENOTSUP);
	policy(&f, "heterogeneous-priority", T0);
	idle(&f, far, T0);
	assert_int_equal(foretell(&f, T0, t, 2), -ENOTSUP);
	fm_sched_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_in_order),
		cmocka_unit_test(jobs_that_end),
		cmocka_unit_test(claims_and_resources),
		cmocka_unit_test(none_of_gangs_and_of_one_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
