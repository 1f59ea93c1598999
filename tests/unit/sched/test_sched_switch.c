/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core with policies that misbehave or cannot start: a table of its own stands in for the
 * built-in one. Every instance and entity of a policy is counted, so that a switch undone half-way
 * shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/sched.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0   FM_S
#define ENTS 5

/* Counts, by way of the params: a policy knows nothing but what it is told. */
struct books {
	int instances, joined, ready;
	int fail_join_after, fail_init_after; /* -1: never */
};

/* What the instances of a policy share; they find it zeroed. */
struct common {
	int instances;
};

struct own {
	struct books *books;
	struct common *common;
	struct fm_ent *ent[16];
	unsigned n;
};

struct own_ent {
	void *self;
	bool joined, ready;
};

static int own_init(void *self, const int64_t *params)
{
	struct own *o = self;

	o->books = (struct books *)(uintptr_t)params[0];
	if (o->books->fail_init_after == 0)
		return -ENOSPC;
	o->books->fail_init_after -= o->books->fail_init_after > 0;
	if (o->common)
		assert_int_equal(o->common->instances++, o->books->instances);
	o->books->instances++;
	return 0;
}

static void own_share(void *self, void *shared)
{
	struct own *o = self;

	assert_null(o->books); /* before init */
	assert_non_null(shared);
	o->common = shared;
}

static void own_fini(void *self)
{
	struct own *o = self;

	assert_int_equal(o->n, 0);
	o->books->instances--;
	if (o->common)
		assert_int_equal(--o->common->instances, o->books->instances);
}

static int own_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct own *o = self;
	struct own_ent *oe = e->priv;

	assert_false(e->ready || e->running || oe->joined || oe->self);
	if (o->books->fail_join_after == 0)
		return -ENOMEM;
	o->books->fail_join_after -= o->books->fail_join_after > 0;
	o->books->joined++;
	oe->self = self;
	oe->joined = true;
	o->ent[o->n++] = e;
	return 0;
}

static void own_leave(void *self, struct fm_ent *e, uint64_t now)
{
	struct own *o = self;
	struct own_ent *oe = e->priv;

	assert_ptr_equal(oe->self, self);
	assert_true(oe->joined && !oe->ready && !e->ready);
	o->books->joined--;
	for (unsigned i = 0; i < o->n; i++)
		if (o->ent[i] == e)
			o->ent[i] = o->ent[--o->n];
}

static void own_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct own_ent *oe = e->priv;

	assert_ptr_equal(oe->self, self);
	assert_true(oe->joined && !oe->ready && e->ready);
	oe->ready = true;
	((struct own *)self)->books->ready++;
}

static void own_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct own_ent *oe = e->priv;

	assert_ptr_equal(oe->self, self);
	assert_true(oe->joined && oe->ready && !e->ready && !e->running);
	oe->ready = false;
	((struct own *)self)->books->ready--;
}

static void own_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	assert_ptr_equal(((struct own_ent *)e->priv)->self, self);
	assert_true(ns > 0);
}

/* Names everybody, ready or not, twice, and NULL too, and wishes for the past. */
static void rude_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct own *o = self;

	for (unsigned i = 0; choice->n < FM_RUN_MAX && o->n; i++)
		choice->run[choice->n++] = i % 3 ? o->ent[i / 2 % o->n] : NULL;
	choice->next = 0;
	choice->reason = "rude";
}

static void first_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct own *o = self;

	for (unsigned i = 0; i < o->n && !choice->n; i++)
		if (o->ent[i]->ready)
			choice->run[choice->n++] = o->ent[i];
	choice->reason = "first";
}

/* Bears on other devices whatever happens. */
static void loud_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	first_decide(self, now, choice);
	choice->others = true;
}

static void pair_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct own *o = self;

	for (unsigned i = 0; i < o->n && choice->n < 2; i++)
		if (o->ent[i]->ready)
			choice->run[choice->n++] = o->ent[i];
	choice->reason = "pair";
}

static const struct fm_policy_param own_params[] = {
	{"books", "", "address of the books", 0, INT64_MAX, 0}, {0}};

#define OWN(policy, decision, ...)                                                               \
	{                                                                                        \
		.name = policy, .summary = "", .params = own_params, .size = sizeof(struct own), \
		.ent_size = sizeof(struct own_ent), .init = own_init, .fini = own_fini,          \
		.join = own_join, .leave = own_leave, .ready = own_ready, .idle = own_idle,      \
		.charge = own_charge, .decide = decision, __VA_ARGS__                            \
	}

static const struct fm_policy_ops first = OWN("first", first_decide, );
static const struct fm_policy_ops pair = OWN("pair", pair_decide, );
static const struct fm_policy_ops rude = OWN("rude", rude_decide, );
static const struct fm_policy_ops loud =
	OWN("loud", loud_decide, .shared_size = sizeof(struct common), .share = own_share);
static const struct fm_policy_ops loud_alone = OWN("loud-alone", loud_decide, );

/* The least that a policy can be. The core begins with this name. */
static void none_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	choice->all = true;
}
static const struct fm_policy_ops none = {
	.name = "fixed-priority", .summary = "", .decide = none_decide};

const struct fm_policy_ops *const fm_policies[] = {
	&none, &first, &pair, &rude, &loud, &loud_alone, NULL};

const struct fm_policy_ops *fm_policy_find(const char *name)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}

struct fix {
	struct fm_sched *s;
	struct fm_sched_dev *d[2];
	struct fm_sched_group *g[ENTS];
	struct fm_sched_ent *e[ENTS];
	bool open[ENTS];
	unsigned stores;
};

static void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	*(bool *)data = open;
	((struct fix *)ctx)->stores++;
}

static const struct fm_sched_host host = {.gate = on_gate};

static int use(struct fix *f, const char *name, struct books *b, struct fm_err *err)
{
	char kv[40];
	const char *params = kv;

	snprintf(kv, sizeof(kv), "books=%llu", (unsigned long long)(uintptr_t)b);
	return fm_sched_policy(f->s, name, &params, 1, T0, err);
}

static void setup(struct fix *f)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(fm_sched_new(&f->s, &host, f), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fm_sched_device_add(f->s, &f->d[i], "d"), 0);
	for (int i = 0; i < ENTS; i++) {
		assert_int_equal(fm_sched_group_add(f->s, &f->g[i]), 0);
		assert_int_equal(
			fm_sched_ent_add(f->s, &f->e[i], f->g[i], f->d[i % 2], &f->open[i], T0), 0);
		if (i != 2)
			fm_sched_ready(f->s, f->e[i], T0, T0);
	}
}

static void books_balance(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	struct books c = b;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	assert_int_equal(b.instances, 2);
	assert_int_equal(b.joined, ENTS);
	assert_int_equal(b.ready, ENTS - 1);
	assert_int_equal(use(&f, "first", &c, NULL), 0); /* the same with other settings */
	assert_int_equal(b.instances + b.joined + b.ready, 0);
	fm_sched_group_del(f.s, f.g[0], T0);
	assert_int_equal(c.joined, ENTS - 1);
	fm_sched_free(f.s);
	assert_int_equal(c.instances + c.joined + c.ready, 0);
}

static void failed_switch_changes_nothing(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	struct fm_err err;
	unsigned stores;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	stores = f.stores;
	for (int at = 0; at < ENTS + 2; at++) {
		struct books bad = {.fail_init_after = at < 2 ? at : -1,
			.fail_join_after = at < 2 ? -1 : at - 2};

		err.code = 0;
		assert_int_equal(use(&f, "rude", &bad, &err), at < 2 ? -ENOSPC : -ENOMEM);
		assert_int_equal(err.code, at < 2 ? -ENOSPC : -ENOMEM);
		assert_non_null(strstr(err.hint, "first"));
		assert_int_equal(bad.instances + bad.joined + bad.ready, 0);
		assert_int_equal(b.instances, 2);
		assert_int_equal(b.joined, ENTS);
		assert_int_equal(b.ready, ENTS - 1);
		assert_string_equal(fm_sched_policy_ops(f.s)->name, "first");
	}
	assert_int_equal(f.stores, stores);
	fm_sched_idle(f.s, f.e[0], T0 + FM_S, T0 + 2 * FM_S);
	assert_true(f.open[4]); /* the old one still rules */
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

/* The instances of a policy share one object, from before the first to after the last; when a
 * switch fails, the old ones keep theirs. */
static void instances_share(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1}, c = b;
	struct fm_sched_dev *d;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "loud", &b, NULL), 0);
	for (int at = 0; at < ENTS + 2; at++) {
		struct books bad = {.fail_init_after = at < 2 ? at : -1,
			.fail_join_after = at < 2 ? -1 : at - 2};

		assert_int_equal(use(&f, "loud", &bad, NULL), at < 2 ? -ENOSPC : -ENOMEM);
		assert_int_equal(bad.instances + bad.joined + bad.ready, 0);
	}
	assert_int_equal(fm_sched_device_add(f.s, &d, "x"), 0);
	assert_int_equal(b.instances, 3);
	assert_int_equal(use(&f, "loud", &c, NULL), 0);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	assert_int_equal(use(&f, "loud", &c, NULL), 0);
	assert_int_equal(c.instances, 3);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + c.instances, 0);
}

static uint64_t decisions(struct fix *f)
{
	struct fm_sched_stats st;

	fm_sched_get_stats(f->s, &st);
	return st.decisions;
}

/* What bears on other devices has them asked, once each; where nothing is shared nobody is. */
static void others_are_asked_once(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1}, c = b;
	uint64_t before;
	struct fix f;

	setup(&f);
	for (int shared = 0; shared < 2; shared++) {
		if (shared)
			assert_int_equal(use(&f, "loud", &c, NULL), 0);
		else
			assert_int_equal(use(&f, "loud-alone", &b, NULL), 0);
		before = decisions(&f);
		fm_sched_idle(f.s, f.e[0], T0 + FM_S, T0 + 2 * FM_S);
		assert_int_equal(decisions(&f) - before, shared ? 2 : 1);
		fm_sched_ready(f.s, f.e[0], T0 + 2 * FM_S, T0 + 2 * FM_S);
	}
	fm_sched_free(f.s);
}

static void failed_join_leaves_no_trace(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = ENTS};
	struct fm_sched_ent *e;
	bool open = false;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &e, f.g[0], f.d[1], &open, T0), -ENOMEM);
	assert_int_equal(b.joined, ENTS);
	b.fail_init_after = 0;
	assert_int_equal(fm_sched_device_add(f.s, &f.d[0], "x"), -ENOSPC);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

/* g[0] on both devices: each has a deputy as well, until g[0] is on one again. */
static void deputies_come_and_go(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	struct fm_sched_ent *e;
	bool open = false;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &e, f.g[0], f.d[1], &open, T0), 0);
	assert_int_equal(b.instances, 4);
	assert_int_equal(b.joined, 2 * (ENTS + 1));
	fm_sched_ready(f.s, e, T0, T0);
	assert_int_equal(b.ready, 2 * ENTS - 2); /* the deputies do not see the gang */
	fm_sched_hint(f.s, f.g[0], FM_HINT_GANG, 0, T0);
	assert_int_equal(b.ready, 2 * ENTS);
	fm_sched_hint(f.s, f.g[0], FM_HINT_GANG, 1, T0);
	fm_sched_ent_del(f.s, e, T0);
	assert_int_equal(b.instances, 2);
	assert_int_equal(b.joined, ENTS);
	assert_int_equal(b.ready, ENTS - 1);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

/* While one awaits a resource its device has a deputy, which does not see it. Without memory for
 * that it is not held. Afterwards all is as before: one instance to ask. */
static void one_that_awaits_takes_a_deputy(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	uint64_t before;
	unsigned stores;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	stores = f.stores;
	for (b.fail_join_after = 0; b.fail_join_after < (ENTS + 1) / 2; b.fail_join_after++) {
		int after = b.fail_join_after;

		assert_int_equal(fm_sched_ready_at(f.s, f.e[0], FM_NEVER, T0), -ENOMEM);
		assert_int_equal(b.instances, 2);
		assert_int_equal(b.joined, ENTS);
		assert_int_equal(b.ready, ENTS - 1);
		b.fail_join_after = after;
	}
	assert_int_equal(f.stores, stores);
	b.fail_join_after = -1;
	assert_int_equal(fm_sched_ready_at(f.s, f.e[0], FM_NEVER, T0), 0);
	assert_int_equal(b.instances, 3);
	assert_int_equal(b.ready, ENTS - 1 + 1); /* on its device are three, of which one sleeps */
	assert_true(!f.open[0] && f.open[4]);
	assert_int_equal(f.stores, stores + 2);
	assert_int_equal(fm_sched_ready_at(f.s, f.e[0], 0, T0), 0);
	assert_int_equal(b.instances, 2);
	assert_int_equal(b.joined, ENTS);
	assert_int_equal(b.ready, ENTS - 1);
	assert_int_equal(f.stores, stores + 4);
	before = decisions(&f);
	fm_sched_idle(f.s, f.e[0], T0 + FM_S, T0 + 2 * FM_S);
	assert_int_equal(decisions(&f) - before, 1);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

/* Whichever of the joins of the deputies and of the newcomer fails. */
static void failed_deputy_leaves_no_trace(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	struct fm_sched_ent *e;
	bool open = false;
	int failures = 0;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	for (;; failures++) {
		b.fail_join_after = failures;
		if (!fm_sched_ent_add(f.s, &e, f.g[0], f.d[1], &open, T0))
			break;
		assert_int_equal(b.instances, 2);
		assert_int_equal(b.joined, ENTS);
		assert_int_equal(b.ready, ENTS - 1);
	}
	assert_int_equal(failures, ENTS + 2);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

static void failed_switch_keeps_the_deputies(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	struct fm_sched_ent *e;
	bool open = false;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "first", &b, NULL), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &e, f.g[0], f.d[1], &open, T0), 0);
	fm_sched_ready(f.s, e, T0, T0);
	for (int at = 0; at < 4 + 2 * (ENTS + 1); at++) {
		struct books bad = {.fail_init_after = at < 4 ? at : -1,
			.fail_join_after = at < 4 ? -1 : at - 4};

		assert_int_equal(use(&f, "rude", &bad, NULL), at < 4 ? -ENOSPC : -ENOMEM);
		assert_int_equal(bad.instances + bad.joined + bad.ready, 0);
		assert_int_equal(b.instances, 4);
		assert_int_equal(b.joined, 2 * (ENTS + 1));
		assert_int_equal(b.ready, 2 * ENTS - 2);
	}
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

/* Two at a time: the gang g[0] waits, who runs by right goes on, and one stands in, though the
 * deputy, who does not see the gang g[2], names two. */
static void one_of_several_is_held(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	bool open[3] = {false};
	struct fm_sched_ent *more[3];
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "pair", &b, NULL), 0);
	assert_true(f.open[0] && !f.open[2] && f.open[4] && f.open[1] && f.open[3]);
	fm_sched_ready(f.s, f.e[2], T0, T0);
	assert_true(f.open[0] && f.open[2] && !f.open[4]);
	fm_sched_ent_del(f.s, f.e[3], T0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fm_sched_ent_add(f.s, &more[i], i < 2 ? f.g[2 - 2 * i] : f.g[3],
					 f.d[i < 2], &open[i], T0),
			0);
	fm_sched_ready(f.s, more[2], T0, T0);
	fm_sched_ready(f.s, more[0], T0, T0);
	fm_sched_ready(f.s, more[1], T0, T0);
	assert_true(f.open[1] && open[0] && !open[1]);
	assert_true(!f.open[0] && f.open[2] && f.open[4] && !open[2]);
	fm_sched_ent_del(f.s, f.e[1], T0);
	assert_true(open[0] && open[1]);
	assert_true(f.open[0] && f.open[2] && !f.open[4] && !open[2]);
	fm_sched_free(f.s);
	assert_int_equal(b.instances + b.joined + b.ready, 0);
}

static void rude_policy_is_contained(void **state)
{
	struct books b = {.fail_init_after = -1, .fail_join_after = -1};
	uint64_t now = T0;
	struct fix f;

	setup(&f);
	assert_int_equal(use(&f, "rude", &b, NULL), 0);
	assert_false(f.open[2]); /* idle, whatever the policy says */
	assert_true(f.open[0]);
	for (int i = 0; i < 100; i++) { /* a wish for the past is no endless loop */
		assert_true(fm_sched_next(f.s) > now);
		now = fm_sched_next(f.s);
		fm_sched_tick(f.s, now);
	}
	fm_sched_free(f.s);
}

static void minimal_policy_will_do(void **state)
{
	struct fix f;

	setup(&f);
	for (int i = 0; i < ENTS; i++)
		assert_true(f.open[i]);
	fm_sched_idle(f.s, f.e[0], T0 + FM_S, T0 + FM_S);
	fm_sched_hint(f.s, f.g[0], FM_HINT_PRIORITY, 5, T0 + FM_S);
	fm_sched_ent_del(f.s, f.e[1], T0 + FM_S);
	fm_sched_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(books_balance),
		cmocka_unit_test(failed_switch_changes_nothing),
		cmocka_unit_test(instances_share),
		cmocka_unit_test(others_are_asked_once),
		cmocka_unit_test(failed_join_leaves_no_trace),
		cmocka_unit_test(deputies_come_and_go),
		cmocka_unit_test(one_that_awaits_takes_a_deputy),
		cmocka_unit_test(failed_deputy_leaves_no_trace),
		cmocka_unit_test(failed_switch_keeps_the_deputies),
		cmocka_unit_test(one_of_several_is_held),
		cmocka_unit_test(rude_policy_is_contained),
		cmocka_unit_test(minimal_policy_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
