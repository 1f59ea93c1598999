// SPDX-License-Identifier: Apache-2.0
/*
 * The keys of sets (gpusched/keys.h) against the policies of groups (src/policy): on the same
 * random events both choose the same, each time. Sets break ties by number, and policies by what
 * came first. So what policies see has no ties: times are multiples of UNIT and a little more for a
 * larger number, and priorities are all different.
 */
#include "../rounds.h"
#include "base/clock.h"
#include "base/util.h"
#include "gpu_world.h"
#include "gpusched/keys.h"
#include "policy/policy.h"
#include <stdio.h>

#define MANY   8
#define APART  UINT64_C(2048) /* more than policies round to, 1024 */
#define UNIT   (2 * MANY * APART)
#define TRACES rounds(10000, 100000)
#define STEPS  24

struct side {
	struct fm_ent e;
	struct fm_hints hints;
	struct fm_gs_job job;
	bool ready;
};

struct both {
	const struct fm_policy_ops *ops;
	enum fm_gs_policy policy;
	void *self;
	uint64_t now;
	unsigned n, slots;
	struct side at[MANY];
};

/* Lower numbers first: what a policy knows of is the priority, and then the number. */
static int64_t own_priority(int32_t priority, unsigned number)
{
	return 50 + (int64_t)priority * MANY - number;
}

static void begin(struct both *b, unsigned i, bool equal)
{
	struct side *s = &b->at[i];

	memset(s, 0, sizeof(*s));
	s->job.priority = equal ? 0 : (int32_t)any(4);
	s->hints.value[FM_HINT_PRIORITY] = b->policy == FM_GS_LEAST_LAXITY
						   ? s->job.priority
						   : own_priority(s->job.priority, i);
	s->hints.value[FM_HINT_DEADLINE] = (int64_t)((1 + any(64)) * UNIT);
	s->hints.value[FM_HINT_RUNTIME] = (int64_t)((1 + any(16)) * UNIT);
	s->e.id = s->e.index = i;
	s->e.hints = &s->hints;
	s->e.priv = calloc(1, b->ops->ent_size);
	if (b->ops->join)
		assert_int_equal(b->ops->join(b->self, &s->e, b->now), 0);
}

static void release(struct both *b, unsigned i)
{
	struct side *s = &b->at[i];

	s->job.release = s->e.ready_since = b->now + i * APART;
	s->job.deadline = s->job.release + (uint64_t)s->hints.value[FM_HINT_DEADLINE];
	s->job.need = (uint64_t)s->hints.value[FM_HINT_RUNTIME];
	s->job.used = 0;
	s->e.ready = s->ready = true;
	b->ops->ready(b->self, &s->e, b->now);
}

static void end(struct both *b, unsigned i)
{
	struct side *s = &b->at[i];

	s->e.ready = s->e.running = s->ready = false;
	b->ops->idle(b->self, &s->e, b->now);
}

static bool late(const struct both *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->at[i].ready && b->at[i].job.deadline <= b->now)
			return true;
	return false;
}

static unsigned pick(const struct both *b, unsigned taken)
{
	struct fm_gs_key best = {0, 0};
	unsigned at = MANY;

	for (unsigned i = 0; i < b->n; i++) {
		struct fm_gs_key key = fm_gs_key(b->policy, &b->at[i].job, b->now);

		if (!b->at[i].ready || taken >> i & 1)
			continue;
		if (at == MANY || fm_gs_before(&key, i, &best, at)) {
			at = i;
			best = key;
		}
	}
	return at;
}

/* Both decide. The policy may choose more, where tasks have no deadline: there are none. */
static void compare(struct both *b)
{
	struct fm_choice c = {.next = FM_NEVER};
	unsigned mine = 0, its = 0;

	b->ops->decide(b->self, b->now, &c);
	for (unsigned k = 0; k < b->slots; k++) {
		unsigned i = pick(b, mine);

		if (i < MANY)
			mine |= 1u << i;
	}
	for (unsigned k = 0; k < c.n; k++)
		its |= 1u << c.run[k]->index;
	if (mine != its)
		fail_msg("%s at %llu: the set chooses %#x, the policy %#x", b->ops->name,
			(unsigned long long)b->now, mine, its);
	for (unsigned i = 0; i < b->n; i++)
		b->at[i].e.running = its >> i & 1;
}

static void run_on(struct both *b)
{
	uint64_t ns = any(6) * UNIT;

	b->now += ns;
	for (unsigned i = 0; i < b->n; i++) {
		struct side *s = &b->at[i];

		if (!s->e.running || !ns)
			continue;
		s->job.used += ns;
		s->e.served_ns += ns;
		if (b->ops->charge)
			b->ops->charge(b->self, &s->e, ns, b->now);
	}
}

/* Jobs that are late have rules of their own in least-laxity, and in a set they stay what they are;
 * a trace of it ends there. Returns how many choices there were. */
static unsigned trace(struct both *b, const int64_t *params, bool equal)
{
	unsigned choices = 0;

	b->self = calloc(1, b->ops->size);
	assert_int_equal(b->ops->init(b->self, params), 0);
	b->now = (100 + any(100)) * UNIT;
	b->n = 2 + (unsigned)any(MANY - 1);
	for (unsigned i = 0; i < b->n; i++)
		begin(b, i, equal);
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < b->n; i++) {
			if (!b->at[i].ready && !any(3))
				release(b, i);
			else if (b->at[i].ready && (b->at[i].e.running ? !any(3) : !any(12)))
				end(b, i);
		}
		if (b->policy == FM_GS_LEAST_LAXITY && late(b))
			break;
		compare(b);
		choices++;
		run_on(b);
	}
	for (unsigned i = 0; i < b->n; i++) {
		if (b->at[i].ready)
			end(b, i);
		if (b->ops->leave)
			b->ops->leave(b->self, &b->at[i].e, b->now);
		free(b->at[i].e.priv);
	}
	if (b->ops->fini)
		b->ops->fini(b->self);
	free(b->self);
	return choices;
}

static void many(const char *name, enum fm_gs_policy policy, unsigned slots, const int64_t *params,
	bool equal, unsigned traces)
{
	struct both b = {.ops = fm_policy_find(name), .policy = policy, .slots = slots};
	unsigned choices = 0;

	assert_non_null(b.ops);
	for (unsigned i = 0; i < traces; i++) {
		seed = i;
		choices += trace(&b, params, equal);
	}
	assert_true(choices > 4 * traces); /* traces that end at once would show nothing */
}

static void fixed_priority_is_the_same(void **state)
{
	const int64_t params[FM_POLICY_PARAMS] = {5 * FM_MS, 0};

	many("fixed-priority", FM_GS_FIXED_PRIORITY, 1, params, false, TRACES);
}

static void edf_is_the_same(void **state)
{
	const int64_t params[FM_POLICY_PARAMS] = {5 * FM_MS};

	many("edf", FM_GS_EDF, 1, params, false, TRACES);
}

static void k_edf_is_the_same(void **state)
{
	for (unsigned k = 1; k <= 4; k++) {
		const int64_t params[FM_POLICY_PARAMS] = {k, 5 * FM_MS};

		many("k-edf", FM_GS_EDF, k, params, false, TRACES / 4);
	}
}

static void least_laxity_is_the_same(void **state)
{
	const int64_t params[FM_POLICY_PARAMS] = {
		5 * FM_MS, 0}; /* without a margin, as sets have it */

	many("least-laxity", FM_GS_LEAST_LAXITY, 1, params, true, TRACES / 2);
	many("least-laxity", FM_GS_LEAST_LAXITY, 1, params, false, TRACES / 2);
}

/* --- by hand --- */

static void the_order_of_ties_is_that_of_numbers(void **state)
{
	for (enum fm_gs_policy p = 0; p < FM_GS_POLICIES; p++) {
		struct fm_gs_job j = {.release = 5, .deadline = 9, .need = 2, .vtime = 7};
		struct fm_gs_key a = fm_gs_key(p, &j, 0), b = fm_gs_key(p, &j, 0);

		assert_true(fm_gs_before(&a, 3, &b, 4));
		assert_false(fm_gs_before(&a, 4, &b, 3));
	}
}

static bool first(enum fm_gs_policy p, struct fm_gs_job a, struct fm_gs_job b, uint64_t now)
{
	struct fm_gs_key ka = fm_gs_key(p, &a, now), kb = fm_gs_key(p, &b, now);

	return fm_gs_before(&ka, 1, &kb, 0) && !fm_gs_before(&kb, 0, &ka, 1);
}

static void extremes_have_their_places(void **state)
{
	struct fm_gs_job low = {
		.priority = INT32_MIN, .deadline = FM_GS_NEVER, .release = 9, .vtime = 9};
	struct fm_gs_job high = {.priority = INT32_MAX, .deadline = 1, .release = 8, .vtime = 8};

	for (enum fm_gs_policy p = 0; p < FM_GS_POLICIES; p++)
		assert_true(first(p, high, low, 0));
	/* A job that may wait no longer, before any priority; one without a deadline may always. */
	low.deadline = 100;
	low.need = 40;
	high.deadline = FM_GS_NEVER;
	assert_true(first(FM_GS_LEAST_LAXITY, high, low, 59));
	assert_true(first(FM_GS_LEAST_LAXITY, low, high, 60));
	/* It has outlived its need: as much again. */
	low.used = 50;
	assert_true(first(FM_GS_LEAST_LAXITY, high, low, 49));
	assert_true(first(FM_GS_LEAST_LAXITY, low, high, 50));
}

static void virtual_time_goes_by_weight(void **state)
{
	assert_int_equal(fm_gs_virtual(1000, FM_GS_WEIGHT), 1000);
	assert_int_equal(fm_gs_virtual(1000, 2 * FM_GS_WEIGHT), 500);
	assert_int_equal(fm_gs_virtual(1000, 1), 1000 * FM_GS_WEIGHT);
	assert_int_equal(fm_gs_virtual(UINT64_MAX, 1), UINT64_C(1) << 63);
	assert_int_equal(fm_gs_virtual(UINT64_MAX, 1 << 20), UINT64_C(1) << 43);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_priority_is_the_same),
		cmocka_unit_test(edf_is_the_same),
		cmocka_unit_test(k_edf_is_the_same),
		cmocka_unit_test(least_laxity_is_the_same),
		cmocka_unit_test(the_order_of_ties_is_that_of_numbers),
		cmocka_unit_test(extremes_have_their_places),
		cmocka_unit_test(virtual_time_goes_by_weight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
