/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forecasts against what the policies then do, in random worlds. Some are built twice from one
 * seed: one is asked for a forecast, the other never is, and both have to answer alike ever after.
 */
#include "policy_world.h"

#include "../rounds.h"
#include "policy/forecast.h"
#include <errno.h>
#include <inttypes.h>

#define TURNS   32
#define HORIZON (200 * FM_MS)
#ifdef __SANITIZE_ADDRESS__ /* each takes ten times as long */
#define WORLDS rounds(500, 2000)
#else
#define WORLDS rounds(2000, 10000)
#endif

static int fail_after = -1; /* so many allocations more succeed; -1: all */
static unsigned live;
void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static bool fails(void)
{
	return fail_after >= 0 && fail_after-- == 0;
}

static void *counted(void *p)
{
	live += p != NULL;
	return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	return p ? __real_realloc(p, size) : counted(__real_malloc(size));
}

void __wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}

/* What has to be as it was. */
struct image {
	unsigned char self[512], ent[MANY][256];
	struct fm_ent e[MANY];
};

static void look(const struct world *w, struct image *i)
{
	memset(i, 0, sizeof(*i));
	assert_true(w->ops->size <= sizeof(i->self) && w->ops->ent_size <= sizeof(i->ent[0]));
	memcpy(i->self, w->self, w->ops->size);
	for (unsigned k = 0; k < w->n; k++) {
		if (!w->at[k].joined)
			continue;
		i->e[k] = w->at[k].e;
		i->e[k].index = 0;
		memcpy(i->ent[k], w->at[k].e.priv, w->ops->ent_size);
	}
}

static uint64_t left_of(const void *ctx, const struct fm_ent *e)
{
	assert_true(e->ready);
	return fm_container(e, struct place, e)->left;
}

/* The lengths of jobs of a world: about half are known. */
static void random_lengths(struct world *w, bool known)
{
	for (unsigned i = 0; i < w->n; i++)
		w->at[i].left = !known || any(2) ? FM_NEVER : any(6) ? any(30 * FM_MS) : 0;
}

static struct fm_turn *turn_of(struct fm_turn *t, unsigned n, const struct fm_ent *e)
{
	while (n--)
		if (t[n].ent == e)
			return &t[n];
	return NULL;
}

struct course {
	struct fm_turn turn[TURNS];
	unsigned n;
	uint8_t sure;
	bool full;
};

static struct fm_turn *note_turn(struct course *c, struct fm_ent *e, uint64_t now)
{
	struct fm_turn *t = turn_of(c->turn, c->n, e);

	if (t && t->until == now)
		return t;
	if (c->n == TURNS) {
		c->full = true;
		return NULL;
	}
	t = &c->turn[c->n++];
	*t = (struct fm_turn){.ent = e, .from = now, .until = now, .sure = c->sure};
	return t;
}

static void job_ends(struct world *w, struct course *c, struct place *p)
{
	struct fm_turn *t = turn_of(c->turn, c->n, &p->e);

	c->sure = (uint8_t)(c->sure * 80 / 100);
	if (t && t->until == w->now)
		t->sure = c->sure;
	go_idle(w, p);
}

/* The order in which the policy chose them: that of run[], or for all that of the places. */
static bool note_choice(struct world *w, struct course *c, const struct fm_choice *choice)
{
	for (unsigned i = 0; choice->all && i < w->n; i++)
		if (w->at[i].e.running && !note_turn(c, &w->at[i].e, w->now))
			return false;
	for (unsigned i = 0; !choice->all && i < choice->n; i++)
		if (!note_turn(c, choice->run[i], w->now))
			return false;
	return true;
}

/* The policy itself goes on, and nobody comes or goes. */
static void really(struct world *w, uint64_t until, struct course *c)
{
	struct fm_choice choice;

	*c = (struct course){.sure = 100};
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].joined && w->at[i].e.ready && !w->at[i].left)
			job_ends(w, c, &w->at[i]);
	while (w->now < until) {
		uint64_t to, from = w->now;

		decide(w, &choice);
		if (!note_choice(w, c, &choice))
			return;
		to = FM_MAX(choice.next, w->now + 10 * FM_US);
		for (unsigned i = 0; i < w->n && !choice.all; i++)
			if (w->at[i].e.running)
				to = FM_MIN(to, fm_add_sat(w->now, w->at[i].left));
		if (to == FM_NEVER)
			for (unsigned i = 0; i < w->n; i++)
				if (w->at[i].e.running)
					turn_of(c->turn, c->n, &w->at[i].e)->until = FM_NEVER;
		if (to == FM_NEVER)
			return;
		w->now = FM_MIN(to, until);
		for (unsigned i = 0; i < choice.n; i++) {
			struct place *p = fm_container(choice.run[i], struct place, e);

			turn_of(c->turn, c->n, &p->e)->until = w->now;
			charge(w, &p->e, w->now - from);
			p->left -= p->left == FM_NEVER ? 0 : w->now - from;
		}
		for (unsigned i = 0; i < choice.n; i++) {
			struct place *p = fm_container(choice.run[i], struct place, e);

			if (!p->left)
				job_ends(w, c, p);
		}
	}
}

static unsigned list(struct world *w, struct fm_ent **ent, bool idle)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].joined && (idle || w->at[i].e.ready))
			ent[n++] = &w->at[i].e;
	return n;
}

static bool same_turns(const struct fm_turn *a, unsigned n, const struct course *c)
{
	if (n != c->n)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (a[i].ent != c->turn[i].ent || a[i].from != c->turn[i].from ||
			a[i].until != c->turn[i].until || a[i].sure != c->turn[i].sure)
			return false;
	return true;
}

static void show(const char *what, const struct fm_turn *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		print_message("%s %u: %" PRIu64 " from %" PRIu64 " until %" PRIu64 ", %u%%\n", what,
			i, t[i].ent->id, t[i].from, t[i].until, t[i].sure);
}

/* Both have been through the same: they answer alike to whatever comes. */
static bool answer_alike(struct world *a, struct world *b, uint64_t from)
{
	struct fm_choice x, y;

	for (unsigned i = 0; i < 20; i++) {
		seed = from + i;
		live_on(a, 1);
		decide(a, &x);
		seed = from + i;
		live_on(b, 1);
		decide(b, &y);
		if (a->now != b->now || x.n != y.n || x.all != y.all || x.next != y.next)
			return false;
		for (unsigned k = 0; k < x.n; k++)
			if (x.run[k]->id != y.run[k]->id)
				return false;
	}
	return true;
}

static unsigned foretell(struct world *w, bool known, struct fm_turn *out, unsigned cap)
{
	struct fm_foresight f = {.now = w->now, .until = w->now + HORIZON};
	struct fm_ent *ent[MANY];
	unsigned n = list(w, ent, any(2));
	bool turned = strcmp(w->ops->name, "fifo") != 0 && any(2);
	int rc;

	for (unsigned i = 0; turned && i < n / 2; i++) { /* their order is of no matter */
		struct fm_ent *e = ent[i];

		ent[i] = ent[n - 1 - i];
		ent[n - 1 - i] = e;
	}

	if (known)
		f.left = left_of;
	rc = fm_policy_forecast(w->ops, w->self, ent, n, &f, out, cap);
	assert_in_range(rc, 0, cap);
	return (unsigned)rc;
}

/* One that was never asked has gone the same way, up to the same time. */
static void as_if_never_asked(struct world *w, const struct subject *s, uint64_t from, bool known)
{
	struct world other;
	struct course c;

	begin(&other, s, from);
	any(2);
	random_lengths(&other, known);
	really(&other, other.now + HORIZON, &c);
	if (!answer_alike(w, &other, from))
		fail_msg("%s, world %" PRIu64 ": it answers otherwise now", s->policy, from);
	end(&other);
}

/* Returns how many turns were foretold. */
static unsigned in_a_world(const struct subject *s, uint64_t from, bool twice)
{
	static struct image before, after;
	struct fm_turn out[TURNS];
	struct course c;
	struct world w;
	bool known;
	unsigned n;

	begin(&w, s, from);
	known = any(2);
	random_lengths(&w, known);
	look(&w, &before);
	n = foretell(&w, known, out, TURNS);
	look(&w, &after);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		fail_msg("%s, world %" PRIu64 ": a forecast changed it", s->policy, from);
	really(&w, w.now + HORIZON, &c);
	if (!same_turns(out, n, &c)) {
		show("foretold", out, n);
		show("really", c.turn, c.n);
		fail_msg("%s, world %" PRIu64 ": it came otherwise", s->policy, from);
	}
	if (twice)
		as_if_never_asked(&w, s, from, known);
	end(&w);
	return n;
}

static const struct subject subjects[] = {
	{"fifo", {NULL}, false},
	{"fixed-priority", {NULL}, false},
	{"fixed-priority", {"aging=2"}, false},
	{"foreground", {NULL}, false},
	{"foreground", {"aging=20", "slice=3"}, false},
	{"round-robin", {NULL}, false},
	{"fair", {NULL}, false},
	{"fair", {"granularity=0"}, true},
	{"bandwidth", {NULL}, false},
	{"bandwidth", {"capped=1"}, false},
	{"bandwidth", {"period=5"}, true},
	{"bandwidth", {"period=20", "capped=1"}, true},
	{"edf", {NULL}, false},
	{"k-edf", {"k=1"}, false},
	{"k-edf", {"k=3"}, false},
	{"k-edf", {"k=8"}, false},
	{"least-laxity", {NULL}, false},
	{"srtf", {NULL}, false},
	{"srtf", {"aging=10"}, false},
	{"mlfq", {NULL}, false},
	{"mlfq", {"boost=30", "levels=3"}, false},
};

static void what_is_foretold_happens(void **state)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(subjects); i++) {
		const struct subject *s = &subjects[i];
		unsigned turns = 0, was = live;

		for (uint64_t k = 0; k < WORLDS; k++)
			turns += in_a_world(s, i << 40 | k << 8, k % 4 == 0);
		assert_int_equal(live, was);
		print_message("%s %s%s: %u turns foretold in %u worlds, 0 wrong\n", s->policy,
			s->setting[0] ? s->setting[0] : "", s->users ? " by user" : "", turns,
			WORLDS);
		assert_true(turns > WORLDS);
	}
}

/* Each policy can be copied, but for the one that reckons with other devices. */
static void all_but_one_can(void **state)
{
	struct fm_foresight f = {.now = FM_S, .until = 2 * FM_S};
	struct fm_turn out[1];

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		bool tested = false;

		for (size_t i = 0; i < FM_ARRAY_LEN(subjects); i++)
			tested |= !strcmp(subjects[i].policy, (*p)->name);
		assert_true(tested == ((*p)->copy != NULL));
		assert_true(!(*p)->copy == ((*p)->shared_size != 0));
		if (!tested)
			assert_int_equal(
				fm_policy_forecast(*p, NULL, NULL, 0, &f, out, 1), -ENOTSUP);
	}
}

/* Whichever allocation fails, it says so, nothing is left behind, and nothing has changed. */
static void memory_may_run_out(void **state)
{
	static struct image before, after;

	for (size_t i = 0; i < FM_ARRAY_LEN(subjects); i++) {
		struct fm_ent *ent[MANY];
		struct fm_turn out[TURNS];
		struct fm_foresight f;
		struct world w;
		int rc = -ENOMEM, fails = 0;
		unsigned n, was;

		begin(&w, &subjects[i], 77);
		n = list(&w, ent, true);
		assert_true(n > 0);
		f = (struct fm_foresight){.now = w.now, .until = w.now + HORIZON};
		look(&w, &before);
		was = live;
		for (int k = 0; rc == -ENOMEM; k++) {
			fail_after = k;
			rc = fm_policy_forecast(w.ops, w.self, ent, n, &f, out, TURNS);
			fails += rc == -ENOMEM;
			assert_int_equal(live, was);
		}
		fail_after = -1;
		assert_in_range(rc, 0, TURNS);
		assert_in_range(fails, 5, 5 + 4 + 3 * 3); /* its heaps, and those of three users */
		look(&w, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		end(&w);
	}
}

/* A smaller array holds the first turns of a larger one. */
static void turns_that_have_no_room(void **state)
{
	static const struct subject one_runs[] = {{"round-robin", {NULL}, false},
		{"fair", {NULL}, true}, {"fixed-priority", {NULL}, false}, {"mlfq", {NULL}, false}};

	for (size_t i = 0; i < FM_ARRAY_LEN(one_runs); i++) {
		struct fm_turn all[TURNS], some[TURNS];
		struct world w;
		unsigned n = 0;

		for (uint64_t from = 0; n <= 4; from++) {
			if (from)
				end(&w);
			begin(&w, &one_runs[i], from);
			n = foretell(&w, false, all, TURNS);
		}
		for (unsigned cap = 0; cap < n; cap++) {
			assert_int_equal(foretell(&w, false, some, cap), cap);
			for (unsigned k = 0; k < cap; k++) {
				assert_ptr_equal(some[k].ent, all[k].ent);
				assert_int_equal(some[k].from, all[k].from);
				assert_int_equal(some[k].until, all[k].until);
			}
		}
		end(&w);
	}
}

static void nobody_and_no_time(void **state)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(subjects); i++) {
		struct fm_foresight f;
		struct fm_turn out[TURNS];
		struct fm_ent *ent[MANY];
		struct world w;
		unsigned n;

		begin(&w, &subjects[i], 9);
		n = list(&w, ent, true);
		f = (struct fm_foresight){.now = w.now, .until = w.now};
		assert_int_equal(fm_policy_forecast(w.ops, w.self, ent, n, &f, out, TURNS), 0);
		for (unsigned k = 0; k < w.n; k++)
			if (w.at[k].joined && w.at[k].e.ready)
				go_idle(&w, &w.at[k]);
		assert_int_equal(foretell(&w, false, out, TURNS), 0);
		for (unsigned k = 0; k < w.n; k++)
			if (w.at[k].joined)
				leave(&w, &w.at[k]);
		f.until = FM_NEVER;
		assert_int_equal(fm_policy_forecast(w.ops, w.self, NULL, 0, &f, out, TURNS), 0);
		end(&w);
	}
}

/* As many calls of the policy as there are turns, and one for each job that ends: for ten entities
 * and for ten thousand. */
static const struct fm_policy_ops *counted_ops;
static unsigned asked, told;

static void count_decide(void *self, uint64_t now, struct fm_choice *c)
{
	asked++;
	counted_ops->decide(self, now, c);
}

static void count_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	told++;
	counted_ops->charge(self, e, ns, now);
}

static void count_idle(void *self, struct fm_ent *e, uint64_t now)
{
	told++;
	counted_ops->idle(self, e, now);
}

static uint64_t two_ms(const void *ctx, const struct fm_ent *e)
{
	return 2 * FM_MS;
}

static struct fm_ent *crowd(const struct fm_policy_ops *ops, void *self, unsigned n,
	const struct fm_hints *h, struct fm_ent **ent)
{
	struct fm_ent *e = calloc(n, sizeof(*e));

	for (unsigned i = 0; i < n; i++) {
		e[i] = (struct fm_ent){.id = i, .hints = h, .ready_since = FM_S};
		e[i].priv = calloc(1, ops->ent_size);
		assert_int_equal(ops->join(self, &e[i], FM_S), 0);
		e[i].ready = true;
		ops->ready(self, &e[i], FM_S);
		ent[i] = &e[i];
	}
	return e;
}

static void count_calls(const char *policy, unsigned n, bool ends)
{
	static struct fm_turn out[512];
	struct fm_foresight f = {.now = FM_S, .until = FM_NEVER, .left = ends ? two_ms : NULL};
	struct fm_hints h = {.value = {[FM_HINT_WEIGHT] = 1024}};
	struct fm_ent **ent = calloc(n, sizeof(struct fm_ent *)), *e;
	struct fm_policy_ops ops;
	int64_t params[FM_POLICY_PARAMS];
	void *self;
	int turns;

	counted_ops = fm_policy_find(policy);
	ops = *counted_ops;
	ops.decide = count_decide;
	ops.charge = count_charge;
	ops.idle = count_idle;
	self = calloc(1, ops.size);
	assert_int_equal(fm_policy_parse(&ops, NULL, 0, params, NULL), 0);
	assert_int_equal(ops.init(self, params), 0);
	e = crowd(&ops, self, n, &h, ent);
	asked = told = 0;
	turns = fm_policy_forecast(&ops, self, ent, n, &f, out, FM_ARRAY_LEN(out));
	assert_int_equal(turns, ends ? FM_MIN(n, (unsigned)FM_ARRAY_LEN(out)) : FM_ARRAY_LEN(out));
	/* A turn may take two looks: the slice may be over before the device time of it is. */
	assert_in_range(asked, turns, 2 * turns + 1);
	assert_in_range(told, turns, 3 * turns);
	for (unsigned i = 0; i < n; i++) {
		e[i].ready = false;
		counted_ops->idle(self, &e[i], FM_S);
		if (ops.leave)
			ops.leave(self, &e[i], FM_S);
		free(e[i].priv);
	}
	if (ops.fini)
		ops.fini(self);
	free(self);
	free(e);
	free(ent);
}

static void calls_grow_with_turns_alone(void **state)
{
	static const char *const policies[] = {
		"round-robin", "fixed-priority", "fair", "edf", "srtf", "mlfq"};

	for (size_t i = 0; i < FM_ARRAY_LEN(policies); i++)
		for (unsigned n = 10; n <= 10000; n *= 10) {
			count_calls(policies[i], n, false);
			count_calls(policies[i], n, true);
		}
}

/* What a turn says where it ends with a job, and where nothing ends it. */
static void lengths_make_less_sure(void **state)
{
	static const struct subject s = {"fixed-priority", {NULL}, false};
	struct fm_foresight f = {.left = left_of};
	struct fm_turn out[TURNS];
	struct fm_ent *ent[MANY];
	struct world w;
	unsigned n;

	begin(&w, &s, 3);
	for (unsigned i = 0; i < w.n; i++) {
		w.at[i].left = 3 * FM_MS;
		if (!w.at[i].joined)
			join(&w, &w.at[i]);
		w.at[i].hints.value[FM_HINT_PRIORITY] = -(int64_t)i;
		w.ops->hint(w.self, &w.at[i].e, w.now);
		if (!w.at[i].e.ready) {
			w.at[i].e.ready = true;
			w.ops->ready(w.self, &w.at[i].e, w.now);
		}
	}
	assert_true(w.n >= 3);
	w.at[2].left = FM_NEVER;
	n = list(&w, ent, false);
	f.now = w.now;
	f.until = w.now + 20 * FM_MS;
	assert_int_equal(fm_policy_forecast(w.ops, w.self, ent, n, &f, out, TURNS), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_equal(out[i].ent, ent[i]);
		assert_int_equal(out[i].from, w.now + i * 3 * FM_MS);
		assert_int_equal(out[i].until, i == 2 ? FM_NEVER : out[i].from + 3 * FM_MS);
	}
	assert_int_equal(out[0].sure, FM_SURE_JOB);
	assert_int_equal(out[1].sure, FM_SURE_JOB * FM_SURE_JOB / 100);
	assert_int_equal(out[2].sure, out[1].sure);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_foretold_happens),
		cmocka_unit_test(all_but_one_can),
		cmocka_unit_test(memory_may_run_out),
		cmocka_unit_test(turns_that_have_no_room),
		cmocka_unit_test(nobody_and_no_time),
		cmocka_unit_test(calls_grow_with_turns_alone),
		cmocka_unit_test(lengths_make_less_sure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
