/* SPDX-License-Identifier: Apache-2.0 */
/*
 * least-laxity: the laxity of a job is the time until its deadline less the device time that it
 * still needs, which is how long it may wait. Two rules:
 *
 *   1. a job whose laxity is used up (to `margin`) runs before all others, the least first;
 *   2. else the highest priority runs; among equals the least laxity; without a deadline in turns.
 *
 * With equal priorities this is least laxity first (Dertouzos and Mok 1989). A job takes over only
 * if its laxity is less by more than `margin`, because jobs of equal laxity would otherwise hand
 * the device to and fro (the modified form of Oh and Yang 1998). With different priorities this is
 * fixed priority until zero laxity (Davis and Burns 2011). XSched (Shen et al., OSDI 2025, section
 * 8) wants that for a video conference: the foreground has the device for as long as the background
 * can still meet its deadline.
 *
 * The need of a job is its group's runtime hint, or the longest job of late (job.h), or half of its
 * deadline while nothing is known. A late job gets another such time, and then another, each with a
 * claim to what it needs, but to at most half of that time. So it ends, and a job that never ends
 * leaves half of the device. What exceeds the claim counts as without a deadline.
 *
 * The latest time to start does not change while a job waits, so heaps hold the waiting jobs. The
 * running job is in no heap, and its charge moves nothing. O(log n).
 */
#include "base/heap.h"
#include "job.h"

#define LATE_PER_DECISION 8            /* bounds one decision when many deadlines have passed */
#define LATE_MIN          (10 * FM_MS) /* least time given to a late job */
#define START_BITS        54
#define START_NONE        ((UINT64_C(1) << START_BITS) - 1)

struct lax {
	struct fm_heap order;  /* waiting entities by priority, then by latest start */
	struct fm_heap starts; /* those of them with a deadline ahead, by latest start */
	size_t joined;
	uint64_t slice, margin;
	struct lax_ent *on; /* the one that runs */
	uint64_t turn;      /* device time of on since it was chosen */
};

struct lax_ent {
	struct fm_heap_node order, start;
	struct fm_ent *ent;
	struct fm_job job;
	uint64_t since;    /* the time from which its deadline counts */
	uint64_t deadline; /* absolute; FM_NEVER: none */
	uint64_t before;   /* what the job had used by `since` */
	bool late;
};

static const struct fm_policy_param lax_params[] = {
	{"slice", "ms", "turn among groups of equal priority without a deadline", 100 * FM_US,
		10 * FM_S, 5 * FM_MS},
	{"margin", "ms", "laxity at which a job may wait no longer", 100 * FM_US, FM_S, 2 * FM_MS},
	{0},
};

/* Relative deadline; 0 for none. */
static uint64_t relative(const struct fm_ent *e)
{
	int64_t d = fm_ent_hint(e, FM_HINT_DEADLINE);

	return (uint64_t)(d > 0 ? d : fm_ent_hint(e, FM_HINT_PERIOD));
}

static uint64_t span(const struct lax_ent *le)
{
	return le->late ? FM_MAX(relative(le->ent), LATE_MIN) : relative(le->ent);
}

/* The device time that it is expected to need by its deadline. */
static uint64_t need(const struct lax_ent *le)
{
	uint64_t expected = (uint64_t)fm_ent_hint(le->ent, FM_HINT_RUNTIME);

	if (!expected)
		expected = le->job.longest ? le->job.longest : span(le) / 2;
	return le->late ? FM_MIN(expected, span(le) / 2) : expected;
}

static uint64_t used(const struct lax_ent *le)
{
	return fm_sub_sat(le->job.used, le->before);
}

static bool has_claim(const struct lax_ent *le)
{
	return le->deadline != FM_NEVER && (!le->late || used(le) < need(le));
}

/* When it must run at the latest. Without a claim this is not before its deadline has passed. */
static uint64_t latest_start(const struct lax *l, const struct lax_ent *le)
{
	if (has_claim(le))
		return fm_sub_sat(le->deadline, fm_job_remaining(used(le), need(le)));
	return fm_add_sat(le->deadline, l->margin);
}

static void count_from(struct lax_ent *le, uint64_t since, bool late)
{
	le->since = since;
	le->late = late;
	le->before = late ? le->job.used : 0;
	le->deadline = relative(le->ent) ? fm_add_sat(since, span(le)) : FM_NEVER;
}

static int64_t priority(const struct lax_ent *le)
{
	return fm_ent_hint(le->ent, FM_HINT_PRIORITY);
}

/* Priority first, then the latest start in units of 1024 ns. */
static uint64_t order_key(const struct lax *l, const struct lax_ent *le)
{
	uint64_t rank = (uint64_t)(FM_PRIORITY_MAX - priority(le));
	uint64_t start = has_claim(le) ? latest_start(l, le) >> 10 : START_NONE;

	return rank << START_BITS | FM_MIN(start, START_NONE);
}

static struct lax_ent *first_in_order(const struct lax *l)
{
	struct fm_heap_node *n = fm_heap_min(&l->order);

	return n ? fm_container(n, struct lax_ent, order) : NULL;
}

static struct lax_ent *first_to_start(const struct lax *l)
{
	struct fm_heap_node *n = fm_heap_min(&l->starts);

	return n ? fm_container(n, struct lax_ent, start) : NULL;
}

/* Cannot fail: join reserved the room. */
static void wait_in(struct lax *l, struct lax_ent *le)
{
	fm_heap_push(&l->order, &le->order, order_key(l, le));
	if (le->deadline != FM_NEVER)
		fm_heap_push(&l->starts, &le->start, latest_start(l, le));
}

static void wait_out(struct lax *l, struct lax_ent *le)
{
	fm_heap_del(&l->order, &le->order);
	fm_heap_del(&l->starts, &le->start);
}

static size_t n_ready(const struct lax *l)
{
	return l->order.n + (l->on != NULL);
}

static int lax_init(void *self, const int64_t *params)
{
	struct lax *l = self;

	l->slice = (uint64_t)params[0];
	l->margin = (uint64_t)params[1];
	return 0;
}

static void lax_fini(void *self)
{
	struct lax *l = self;

	fm_heap_fini(&l->order);
	fm_heap_fini(&l->starts);
}

static bool is_placed(const struct lax *l, const struct lax_ent *le)
{
	bool due = le->deadline != FM_NEVER;

	return le->order.key == order_key(l, le) && fm_heap_has(&le->start) == due &&
	       (!due || le->start.key == latest_start(l, le));
}

/* Put it into the heaps anew if its keys have changed. */
static void place(struct lax *l, struct lax_ent *le)
{
	if (l->on == le || is_placed(l, le))
		return;
	wait_out(l, le);
	wait_in(l, le);
}

static int lax_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct lax *l = self;
	struct lax_ent *le = e->priv, *lone;

	if (fm_heap_reserve(&l->order, l->joined + 1) || fm_heap_reserve(&l->starts, l->joined + 1))
		return -ENOMEM;
	le->ent = e;
	le->deadline = FM_NEVER;
	l->joined++;
	lone = l->on ? l->on : first_in_order(l);
	if (l->joined == 2 && lone) {
		fm_job_blur(&lone->job);
		count_from(lone, now, true);
		place(l, lone);
	}
	return 0;
}

static void lax_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct lax *)self)->joined--;
}

static void lax_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct lax *l = self;
	struct lax_ent *le = e->priv;

	fm_job_begin(&le->job, e, l->joined == 1);
	count_from(le, e->ready_since, false);
	wait_in(l, le);
}

static void lax_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct lax *l = self;
	struct lax_ent *le = e->priv;

	wait_out(l, le);
	if (l->on == le)
		l->on = NULL;
}

static void lax_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct lax *l = self;
	struct lax_ent *le = e->priv;

	fm_job_charge(&le->job, ns);
	if (l->on == le)
		l->turn = fm_add_sat(l->turn, ns);
	if (fm_heap_has(&le->start)) {
		fm_heap_rekey(&l->starts, &le->start, latest_start(l, le));
		fm_heap_rekey(&l->order, &le->order, order_key(l, le));
	}
}

static void lax_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct lax *l = self;
	struct lax_ent *le = e->priv;

	if (!e->ready)
		return;
	if (fm_job_is_new(&le->job, e)) {
		fm_job_begin(&le->job, e, l->joined == 1);
		count_from(le, e->ready_since, false);
	} else {
		le->deadline = relative(e) ? fm_add_sat(le->since, span(le)) : FM_NEVER;
	}
	place(l, le);
}

/* Give another deadline to jobs whose own has passed. They are at the head of a heap. Returns
 * whether more may be left for the next decision. */
static bool postpone_late(struct lax *l, uint64_t now)
{
	struct lax_ent *le;

	if (l->on && l->on->deadline <= now)
		count_from(l->on, now, true);
	for (unsigned i = 0; i < LATE_PER_DECISION; i++) {
		le = first_to_start(l);
		if (!le || le->deadline > now)
			le = first_in_order(l);
		if (!le || le->deadline > now)
			return false;
		count_from(le, now, true);
		wait_out(l, le);
		wait_in(l, le);
	}
	return true;
}

static bool critical(const struct lax *l, const struct lax_ent *le, uint64_t now)
{
	return fm_sub_sat(latest_start(l, le), l->margin) <= now;
}

static bool sooner(const struct lax *l, const struct lax_ent *a, const struct lax_ent *b)
{
	return fm_add_sat(latest_start(l, a), l->margin) < latest_start(l, b);
}

/* Does w, which waits, take the device from the entity that has it? */
static bool takes_over(
	const struct lax *l, const struct lax_ent *w, const struct lax_ent *on, uint64_t now)
{
	bool wc = critical(l, w, now), oc = critical(l, on, now);

	if (wc || oc)
		return wc && (!oc || sooner(l, w, on));
	if (priority(w) != priority(on))
		return priority(w) > priority(on);
	if (!has_claim(w))
		return !has_claim(on) && l->turn >= l->slice;
	return !has_claim(on) || sooner(l, w, on);
}

static void run(struct lax *l, struct lax_ent *le)
{
	if (l->on)
		wait_in(l, l->on);
	wait_out(l, le);
	l->on = le;
	l->turn = 0;
}

/* When w may take over from on, which has the same standing. While on runs, its latest start moves
 * on with time. */
static uint64_t next_turn(
	const struct lax *l, const struct lax_ent *w, const struct lax_ent *on, uint64_t now)
{
	uint64_t start = fm_add_sat(latest_start(l, w), l->margin);

	if (!has_claim(w))
		return has_claim(on) ? FM_NEVER : now + fm_sub_sat(l->slice, l->turn);
	return fm_add_sat(now, fm_sub_sat(start, latest_start(l, on)) + 1);
}

/* When a job that waits may take over, if nothing else happens. */
static uint64_t next_change(const struct lax *l, uint64_t now)
{
	const struct lax_ent *on = l->on, *w = first_in_order(l), *s = first_to_start(l);
	bool oc = critical(l, on, now), wc = s && critical(l, s, now);
	uint64_t next = on->deadline;

	if (wc)
		w = s;
	else if (s)
		next = FM_MIN(next, fm_sub_sat(latest_start(l, s), l->margin));
	if (has_claim(on) && on->late)
		next = FM_MIN(next, now + need(on) - used(on));
	if (wc == oc && (wc || priority(w) == priority(on)))
		next = FM_MIN(next, next_turn(l, w, on, now));
	return next;
}

static void lax_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct lax *l = self;
	struct lax_ent *best;
	bool more;

	if (!n_ready(l))
		return;
	more = postpone_late(l, now);
	best = first_to_start(l);
	if (!best || !critical(l, best, now))
		best = first_in_order(l);
	if (best && (!l->on || takes_over(l, best, l->on, now)))
		run(l, best);
	choice->run[choice->n++] = l->on->ent;
	choice->reason = critical(l, l->on, now) ? "its laxity is used up"
			 : !has_claim(l->on)     ? "no deadline is in danger"
						 : "least laxity of the highest priority";
	if (l->order.n)
		choice->next = more ? now : next_change(l, now);
}

static void lax_copy_ent(
	const struct lax *l, struct lax *t, const struct lax_ent *le, struct fm_ent *twin)
{
	struct fm_ent *e = &twin[le->ent->index];
	struct lax_ent *te = e->priv;

	*te = *le;
	te->ent = e;
	fm_heap_copy_node(&t->order, &te->order, &le->order);
	fm_heap_copy_node(&t->starts, &te->start, &le->start);
	if (l->on == le)
		t->on = te;
}

static int lax_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct lax *l = self;
	struct lax *t = to;

	*t = *l;
	if (fm_heap_copy(&t->order, &l->order) | fm_heap_copy(&t->starts, &l->starts))
		return -ENOMEM;
	for (size_t i = 0; i < l->order.n; i++)
		lax_copy_ent(l, t, fm_container(l->order.at[i], struct lax_ent, order), twin);
	if (l->on)
		lax_copy_ent(l, t, l->on, twin);
	return 0;
}

static bool lax_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct lax *l = self;
	struct lax_ent next;

	if (!l->on)
		return true;
	next = *(const struct lax_ent *)e->priv;
	fm_job_learn(&next.job);
	next.job.used = 0;
	count_from(&next, now, false);
	if (!has_claim(&next) && priority(&next) == priority(l->on))
		return false;
	return takes_over(l, &next, l->on, now);
}

static const struct fm_policy_promise lax_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(PRIORITY) | FM_PROMISE(EQUAL) | FM_PROMISE(DEADLINE),
		1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_least_laxity;
const struct fm_policy_ops fm_policy_least_laxity = {
	.name = "least-laxity",
	.summary = "by priority, until a job with a deadline may wait no longer",
	.params = lax_params,
	.reads = FM_READS(FM_HINT_PRIORITY) | FM_READS(FM_HINT_DEADLINE) |
		 FM_READS(FM_HINT_PERIOD) | FM_READS(FM_HINT_RUNTIME),
	.advice = FM_ADVICE_PRIORITY,
	.promises = lax_promises,
	.size = sizeof(struct lax),
	.ent_size = sizeof(struct lax_ent),
	.exact_jobs = true,
	.init = lax_init,
	.fini = lax_fini,
	.join = lax_join,
	.leave = lax_leave,
	.ready = lax_ready,
	.idle = lax_idle,
	.charge = lax_charge,
	.hint = lax_hint,
	.decide = lax_decide,
	.preempts = lax_preempts,
	.copy = lax_copy,
};
