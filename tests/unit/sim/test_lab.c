/* SPDX-License-Identifier: Apache-2.0 */
/* The laboratory: every policy keeps its promises in it, and a copy of each that is broken in one
 * way does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../rounds.h"
#include "base/list.h"
#include "sim/lab_internal.h"
#include <stdio.h>
#include <string.h>

#define NAP  (10 * FM_MS)
#define FLAP (400 * FM_US)

enum fault {
	IDLES,    /* now and then it lets nobody run */
	STICKS,   /* who runs goes on until it is idle */
	CROWDS,   /* one more than it should */
	STARVES,  /* the newest never runs beside others */
	NAPS,     /* half of the time it lets nobody run, 10 ms each */
	FLAPS,    /* the same, 400 us each */
	THRASHES, /* another one every 500 us */
	DEAF,     /* hints are as if nobody had given any */
	FAULTS
};

static const char *const fault_name[FAULTS] = {
	"idles", "sticks", "crowds", "starves", "naps", "flaps", "thrashes", "is deaf"};

/* A copy of a policy that does what the policy does, but for its fault. */
struct copy {
	const struct fm_policy_ops *of;
	enum fault fault;
	struct fm_hints none;
};

struct broken {
	const struct copy *copy;
	struct fm_list ready;
	struct fm_ent *last;
	uint64_t decisions;
	_Alignas(16) char inner[];
};

/* Behind what the policy keeps itself. */
struct member {
	struct fm_list node;
	struct fm_ent *ent;
};

static void *inner(void *self)
{
	return ((struct broken *)self)->inner;
}

static size_t member_at(const struct fm_policy_ops *of)
{
	return (of->ent_size + 15) / 16 * 16;
}

static struct member *member_of(const struct broken *b, const struct fm_ent *e)
{
	return (struct member *)((char *)e->priv + member_at(b->copy->of));
}

static void on_bind(void *self, void *data)
{
	struct broken *b = self;

	b->copy = data;
	fm_list_init(&b->ready);
}

static void on_share(void *self, void *shared)
{
	((struct broken *)self)->copy->of->share(inner(self), shared);
}

static int on_init(void *self, const int64_t *params)
{
	const struct fm_policy_ops *of = ((struct broken *)self)->copy->of;

	return of->init ? of->init(inner(self), params) : 0;
}

static void on_fini(void *self)
{
	const struct fm_policy_ops *of = ((struct broken *)self)->copy->of;

	if (of->fini)
		of->fini(inner(self));
}

static int on_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct broken *b = self;
	struct member *m = member_of(b, e);

	fm_list_init(&m->node);
	m->ent = e;
	if (b->copy->fault == DEAF)
		e->hints = &b->copy->none;
	return b->copy->of->join ? b->copy->of->join(inner(self), e, now) : 0;
}

static void on_leave(void *self, struct fm_ent *e, uint64_t now)
{
	struct broken *b = self;

	if (b->last == e)
		b->last = NULL;
	if (b->copy->of->leave)
		b->copy->of->leave(inner(self), e, now);
}

static void on_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct broken *b = self;

	fm_list_add_tail(&b->ready, &member_of(b, e)->node);
	if (b->copy->of->ready)
		b->copy->of->ready(inner(self), e, now);
}

static void on_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct broken *b = self;

	fm_list_del(&member_of(b, e)->node);
	if (b->copy->of->idle)
		b->copy->of->idle(inner(self), e, now);
}

static void on_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	const struct fm_policy_ops *of = ((struct broken *)self)->copy->of;

	if (of->charge)
		of->charge(inner(self), e, ns, now);
}

static void on_hint(void *self, struct fm_ent *e, uint64_t now)
{
	const struct fm_policy_ops *of = ((struct broken *)self)->copy->of;

	if (of->hint)
		of->hint(inner(self), e, now);
}

static bool chosen(const struct fm_choice *c, const struct fm_ent *e)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->run[i] == e)
			return true;
	return false;
}

/* Somebody who is ready and not chosen, but for one; NULL: there is nobody. */
static struct fm_ent *another(struct broken *b, const struct fm_choice *c, const struct fm_ent *but)
{
	struct member *m;

	fm_list_each (m, &b->ready, node)
		if (m->ent != but && !chosen(c, m->ent))
			return m->ent;
	return NULL;
}

static struct fm_ent *newest(struct broken *b)
{
	struct fm_ent *e = NULL;
	struct member *m;

	fm_list_each (m, &b->ready, node)
		if (!e || m->ent->id > e->id)
			e = m->ent;
	return e;
}

static void one_alone(struct fm_choice *c, struct fm_ent *e)
{
	c->all = false;
	c->run[0] = e;
	c->n = 1;
}

static void starve(struct broken *b, struct fm_choice *c)
{
	struct fm_ent *e = newest(b), *other;

	if (b->ready.next == b->ready.prev) /* none, or one */
		return;
	other = another(b, c, e);
	if (c->all)
		one_alone(c, other);
	for (unsigned i = 0; i < c->n; i++)
		if (c->run[i] == e)
			c->run[i] = other ? other : c->run[--c->n];
}

static void nap(struct fm_choice *c, uint64_t length, uint64_t now)
{
	c->next = FM_MIN(c->next, (now / length + 1) * length);
	if (now / length % 2)
		return;
	c->all = false;
	c->n = 0;
}

static void spoil(struct broken *b, uint64_t now, struct fm_choice *c)
{
	struct fm_ent *other;

	switch (b->copy->fault) {
	case IDLES:
		if (b->decisions % 8)
			return;
		c->all = false;
		c->n = 0;
		c->next = now + 5 * FM_MS;
		return;
	case STICKS:
		if (b->last && b->last->ready)
			one_alone(c, b->last);
		else if (!fm_list_empty(&b->ready))
			one_alone(c, c->n ? c->run[0]
					  : fm_list_first(&b->ready, struct member, node)->ent);
		b->last = c->n ? c->run[0] : NULL;
		return;
	case CROWDS:
		other = another(b, c, NULL);
		if (!c->all && other && c->n < FM_RUN_MAX)
			c->run[c->n++] = other;
		return;
	case THRASHES:
		other = b->decisions % 2 ? another(b, c, NULL) : NULL;
		if (other)
			one_alone(c, other);
		c->next = now + 500 * FM_US;
		return;
	case STARVES:
		starve(b, c);
		return;
	case NAPS:
	case FLAPS:
		nap(c, b->copy->fault == NAPS ? NAP : FLAP, now);
		return;
	default:
		return;
	}
}

static void on_decide(void *self, uint64_t now, struct fm_choice *c)
{
	struct broken *b = self;

	b->copy->of->decide(inner(self), now, c);
	b->decisions++;
	spoil(b, now, c);
}

static bool on_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct fm_policy_ops *of = ((struct broken *)self)->copy->of;

	return of->preempts && of->preempts(inner(self), e, now);
}

static bool on_binds(const void *self)
{
	const struct broken *b = self;

	return b->copy->of->binds_alone && b->copy->of->binds_alone(b->inner);
}

static void make_copy(struct fm_policy_ops *ops, struct copy *copy, const struct fm_policy_ops *of,
	enum fault fault)
{
	*copy = (struct copy){.of = of, .fault = fault};
#define DEFAULTS(id, name, min, max, def, unit) copy->none.value[id] = def;
	FM_HINT_MAP(DEFAULTS)
#undef DEFAULTS
	*ops = (struct fm_policy_ops){
		.name = of->name,
		.summary = of->summary,
		.params = of->params,
		.size = sizeof(struct broken) + of->size,
		.ent_size = member_at(of) + sizeof(struct member),
		.exact_jobs = of->exact_jobs,
		.shared_size = of->shared_size,
		.share = of->share ? on_share : NULL,
		.data = copy,
		.bind = on_bind,
		.init = on_init,
		.fini = on_fini,
		.join = on_join,
		.leave = on_leave,
		.ready = on_ready,
		.idle = on_idle,
		.charge = on_charge,
		.hint = on_hint,
		.decide = on_decide,
		.preempts = on_preempts,
		.binds_alone = on_binds,
	};
}

struct seen {
	bool promise_broken, first_only;
	unsigned findings;
	char text[200];
};

static bool on_finding(void *ctx, const struct fm_lab_finding *f)
{
	struct seen *s = ctx;

	s->findings++;
	assert_true(f->scenario && f->property && *f->text);
	if (!f->holds && !s->promise_broken) {
		s->promise_broken = true;
		snprintf(s->text, sizeof(s->text), "%s: %s: %s", f->scenario, f->property, f->text);
	}
	return f->holds || !s->first_only;
}

/* Each policy with each of the settings that it promises something for. */
#define each_promise(p, s)                                                \
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) \
		for (const struct fm_policy_promise *s = fm_lab_promises(*p); s->bits; s++)

static unsigned try(
	const struct fm_policy_ops *ops, const struct fm_policy_promise *promise, struct seen *s)
{
	const struct fm_lab_report report = {.finding = on_finding, .ctx = s};
	struct fm_err err = {0};
	unsigned failed = 0;

	*s = (struct seen){.first_only = ops->bind != NULL};
	if (fm_lab_run(ops, promise, &report, &failed, &err))
		fail_msg("%s: %s", ops->name, err.text);
	assert_int_equal(failed > 0, s->promise_broken);
	return failed;
}

static void policies_keep_their_promises(void **state)
{
	each_promise (p, s) {
		struct seen seen;

		if (try(*p, s, &seen))
			fail_msg("%s %s: %s", (*p)->name, s->setting[0] ? s->setting[0] : "",
				seen.text);
		assert_true(seen.findings >= 10);
	}
}

static void every_policy_is_tried(void **state)
{
	uint32_t promised = 0;

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		if (!(*p)->promises || !(*p)->promises->bits)
			fail_msg("%s promises nothing of its own", (*p)->name);
	each_promise (p, s)
		promised |= s->bits;
	assert_int_equal(promised, FM_PROMISE_BIT(FM_PROMISE_COUNT) - 1);
	for (unsigned p = 0; p < FM_PROMISE_COUNT; p++)
		assert_non_null(fm_lab_promise_text((enum fm_promise)p));
	assert_null(fm_lab_promise_name(FM_PROMISE_COUNT));
}

/* A copy without a fault is as good: what the broken ones fail by is their fault. */
static void copies_keep_them_too(void **state)
{
	each_promise (p, s) {
		struct fm_policy_ops ops;
		struct copy copy;
		struct seen seen;

		make_copy(&ops, &copy, *p, FAULTS);
		if (try(&ops, s, &seen))
			fail_msg("%s: %s", (*p)->name, seen.text);
	}
}

/* Is the fault one for this policy, as it is promised? */
static bool matters(const struct fm_policy_promise *s, enum fault fault)
{
	uint32_t hinted = FM_PROMISE(PRIORITY) | FM_PROMISE(FOREGROUND) | FM_PROMISE(WEIGHT) |
			  FM_PROMISE(SHARE) | FM_PROMISE(DEADLINE);

	if (fault == CROWDS) /* where everybody runs there is no crowd */
		return s->bits & FM_PROMISE(ALONE);
	if (fault == DEAF)
		return s->bits & hinted;
	return true;
}

static void broken_copies_do_not(void **state)
{
	each_promise (p, s) {
		for (unsigned f = 0; f < FAULTS; f++) {
			struct fm_policy_ops ops;
			struct copy copy;
			struct seen seen;

			if (!matters(s, (enum fault)f))
				continue;
			make_copy(&ops, &copy, *p, (enum fault)f);
			if (!try(&ops, s, &seen))
				fail_msg("%s that %s passes", (*p)->name, fault_name[f]);
		}
	}
}

/* What is looked at: properties of scenarios, and which of them some broken copy has failed. */
#define CHECKS 200
struct checks {
	unsigned n;
	struct {
		const char *scenario, *property;
		bool failed;
	} check[CHECKS];
};

static bool may_fail(const struct checks *c, unsigned i)
{
	return !c->check[i].failed && strcmp(c->check[i].property, "gang");
}

/* Those where there is something left to fail. */
static bool wants_scenario(void *ctx, const char *scenario)
{
	const struct checks *c = ctx;
	bool wanted = false;

	for (unsigned i = 0; i < c->n; i++)
		wanted |= may_fail(c, i) && !strcmp(c->check[i].scenario, scenario);
	return wanted;
}

static bool note_check(void *ctx, const struct fm_lab_finding *f)
{
	struct checks *c = ctx;
	unsigned i = 0;

	while (i < c->n && (strcmp(c->check[i].scenario, f->scenario) ||
				   strcmp(c->check[i].property, f->property)))
		i++;
	assert_true(i < CHECKS);
	if (i == c->n) {
		c->check[i].scenario = f->scenario;
		c->check[i].property = f->property;
		c->n++;
	}
	c->check[i].failed |= !f->holds;
	return true;
}

/* A check that nothing fails is none. Whether a gang is whole is the core's business, which no
 * policy can spoil: see the next. */
static void every_check_can_fail(void **state)
{
	static struct checks c;
	struct fm_lab_report report = {.finding = note_check, .ctx = &c};
	struct fm_err err = {0};
	unsigned never = 0, failed;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* a minute, of what the others run too */
#endif
	if (brief())
		skip();
	each_promise (p, s)
		assert_int_equal(fm_lab_run(*p, s, &report, &failed, &err), 0);
	report.wants = wants_scenario;
	for (unsigned f = 0; f < FAULTS; f++) {
		each_promise (p, s) {
			struct fm_policy_ops ops;
			struct copy copy;

			make_copy(&ops, &copy, *p, (enum fault)f);
			assert_int_equal(fm_lab_run(&ops, s, &report, &failed, &err), 0);
		}
	}
	for (unsigned i = 0; i < c.n; i++) {
		if (!may_fail(&c, i))
			continue;
		print_error("nothing fails %s: %s\n", c.check[i].scenario, c.check[i].property);
		never++;
	}
	assert_int_equal(never, 0);
	assert_true(c.n >= 60);
}

#define GANG 2 /* of lab_make_gang() */

static void tell(struct lab *l, enum fm_sim_what what, uint64_t at, uint32_t device)
{
	lab_watch(
		l, &(struct fm_sim_event){.what = what, .at = at, .group = GANG, .device = device});
}

static bool take_finding(void *ctx, const struct fm_lab_finding *f)
{
	if (!strcmp(f->property, "gang"))
		*(bool *)ctx = f->holds;
	return true;
}

/* Whole, as a core would say it that lets a gang onto its second device after so long. */
static bool is_whole(uint64_t late)
{
	static struct lab l;
	bool whole = false;
	const struct fm_lab_report report = {.finding = take_finding, .ctx = &whole};

	l = (struct lab){
		.promise = fm_lab_promises(*fm_policies), .report = &report, .scenario = "a gang"};
	l.plan.group = l.group;
	l.plan.device = l.device;
	l.plan.duration = FM_S;
	lab_make_gang(&l);
	assert_int_equal(l.plan.groups, GANG + 1);
	lab_watch_begin(&l);
	for (uint32_t i = 0; i < 2; i++)
		tell(&l, FM_SIM_READY, FM_MS, i);
	for (uint32_t i = 0; i < 2; i++)
		tell(&l, FM_SIM_OPENS, 2 * FM_MS + i * late, i);
	for (uint32_t i = 0; i < 2; i++)
		tell(&l, FM_SIM_RUNS, 2 * FM_MS + late, i);
	/* Alone on a device on which it has no more work it is whole. */
	tell(&l, FM_SIM_IDLE, 5 * FM_MS, 1);
	tell(&l, FM_SIM_CLOSES, 6 * FM_MS, 1);
	tell(&l, FM_SIM_LEAVES, 9 * FM_MS, FM_SIM_NO_DEVICE);
	lab_watch_end(&l);
	assert_int_equal(l.apart, late);
	lab_check_gang(&l);
	return whole;
}

static void a_gang_that_is_torn_shows(void **state)
{
	assert_true(is_whole(0));
	assert_false(is_whole(50 * FM_US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_keep_their_promises),
		cmocka_unit_test(every_policy_is_tried),
		cmocka_unit_test(copies_keep_them_too),
		cmocka_unit_test(broken_copies_do_not),
		cmocka_unit_test(every_check_can_fail),
		cmocka_unit_test(a_gang_that_is_torn_shows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
