/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bandwidth: a group's share hint reserves that percentage of the device. If users are told apart
 * (fm_ent.user), it is a percentage of its user's part, which is the device divided by the number
 * of users that have a group on it, working or not. Each reservation is a constant bandwidth
 * server: it has a budget of share x period, spent by the device time charged, and a deadline by
 * which the next budget is due. There are three classes, and the first with a ready group runs:
 *
 *   1. reservations with budget left, earliest deadline first;
 *   2. groups without a reservation, in turns: they share the rest;
 *   3. reservations whose budget is spent, in proportion to share (never with capped=1).
 *
 * A late end of the last command is charged, too: it makes the budget negative, and the debt is
 * paid before the next turn. Time in class 3 costs no budget, because no other group was deprived
 * of it. Reservations (of a user) that add up to more than 100 % are scaled down.
 *
 * Class 1 is one order over all users, because its groups together have at most all of the device.
 * In the classes below, users come first. Each user has a virtual time, which grows with all device
 * time of its groups, including class 1. The user furthest behind is served: first its groups of
 * class 2, then those of class 3. A user that was away comes back at the least virtual time of
 * those that stayed. If all groups are of one user, this level decides nothing.
 *
 * O(log n) for an event and a decision.
 */
#include "base/heap.h"
#include "policy.h"
#include "users.h"

#define REFILLS_PER_DECISION 8 /* bounds one decision when many budgets are due at once */
#define RUN_MIN              (100 * FM_US) /* a remnant of budget is not worth a shorter timer */
#define DEBT_MAX             1000 /* periods: one endless command must not ban a group for ever */
#define TURN                 (5 * FM_MS)

enum bw_class { BW_NONE, BW_RESERVED, BW_FREE, BW_SPENT };

struct bw_user {
	struct fm_user user;
	struct fm_heap_node there;    /* in bw.there */
	struct fm_heap_node waits;    /* in bw.waiting */
	struct fm_heap free;          /* class 2, by virtual time */
	struct fm_heap spent;         /* class 3, by virtual time */
	uint64_t least[BW_SPENT + 1]; /* least virtual time of the ready groups, classes 2 and 3 */
	unsigned ready[BW_SPENT + 1]; /* groups in each class */
	int64_t reserved_sum;         /* percent */
};

struct bw {
	struct fm_heap reserved; /* class 1, by deadline */
	struct fm_heap refills;  /* class 3, by time of refill */
	/* Users by virtual time. there: users with a group that may run. waiting: those of them
	 * with a group in class 2 or, unless capped, 3. */
	struct fm_heap there, waiting;
	struct fm_users known;
	size_t joined, ready;
	uint64_t period, turn;
	uint64_t least;    /* least virtual time of the users there; never falls */
	struct fm_ent *on; /* the entity that has the turn in class 2 or 3 */
	bool capped;
};

struct bw_ent {
	struct fm_heap_node node;   /* in the heap of its class, while ready */
	struct fm_heap_node refill; /* in refills, while ready and spent */
	struct fm_ent *ent;
	struct bw_user *user;
	enum bw_class class; /* BW_NONE while idle */
	enum bw_class
		billed; /* class as which it last ran, charged for a late end; BW_NONE: none */
	int64_t share;  /* as counted in reserved_sum */
	int64_t budget; /* ns; negative: debt */
	uint64_t deadline;
	uint64_t vtime;
};

static const struct fm_policy_param bw_params[] = {
	{"period", "ms", "time over which a share is kept", FM_MS, 10 * FM_S, 50 * FM_MS},
	{"capped", "", "1: a share is a limit too; 0: spare time is given away", 0, 1, 0},
	{0},
};

static int64_t quota(const struct bw *bw, const struct bw_ent *be)
{
	int64_t q = (int64_t)bw->period * be->share / FM_MAX(be->user->reserved_sum, (int64_t)100) /
		    (int64_t)bw->known.n;

	return FM_MAX(q, (int64_t)1);
}

/* When the budget will be positive again: at the deadline, or later by as many periods as the debt
 * takes. */
static uint64_t refill_at(const struct bw *bw, const struct bw_ent *be)
{
	int64_t debt = be->budget < 0 ? -be->budget / quota(bw, be) : 0;

	return be->deadline + (uint64_t)FM_MIN(debt, (int64_t)DEBT_MAX) * bw->period;
}

static struct fm_heap *heap_of(struct bw *bw, struct bw_user *u, enum bw_class class)
{
	return class == BW_RESERVED ? &bw->reserved : class == BW_FREE ? &u->free : &u->spent;
}

static struct bw_ent *first_in(const struct fm_heap *h)
{
	struct fm_heap_node *n = fm_heap_min(h);

	return n ? fm_container(n, struct bw_ent, node) : NULL;
}

static void advance_least(struct bw *bw, struct bw_user *u, enum bw_class class)
{
	const struct bw_ent *first;

	if (class == BW_RESERVED)
		return;
	first = first_in(heap_of(bw, u, class));
	if (first)
		u->least[class] = FM_MAX(u->least[class], first->vtime);
}

static void advance_users(struct bw *bw)
{
	const struct fm_heap_node *first = fm_heap_min(&bw->there);

	if (first)
		bw->least = FM_MAX(bw->least, first->key);
}

static void set_place(struct fm_heap *h, struct fm_heap_node *n, uint64_t key, bool in)
{
	if (!in)
		fm_heap_del(h, n);
	else if (fm_heap_has(n))
		fm_heap_rekey(h, n, key);
	else
		fm_heap_push(h, n, key);
}

/* Call this after a change of the user's virtual time or of its groups' classes. */
static void place_user(struct bw *bw, struct bw_user *u)
{
	bool waits = u->ready[BW_FREE] || (!bw->capped && u->ready[BW_SPENT]);
	bool there = waits || u->ready[BW_RESERVED];

	if (there && !fm_heap_has(&u->there))
		u->user.vtime = FM_MAX(u->user.vtime, bw->least);
	set_place(&bw->there, &u->there, u->user.vtime, there);
	set_place(&bw->waiting, &u->waits, u->user.vtime, waits);
	advance_users(bw);
}

/* Pushes cannot fail: join reserved the room in every heap. */
static void enter(struct bw *bw, struct bw_ent *be, enum bw_class class)
{
	struct bw_user *u = be->user;

	be->class = class;
	if (class != BW_RESERVED)
		be->vtime = FM_MAX(be->vtime, u->least[class]);
	fm_heap_push(
		heap_of(bw, u, class), &be->node, class == BW_RESERVED ? be->deadline : be->vtime);
	if (class == BW_SPENT)
		fm_heap_push(&bw->refills, &be->refill, refill_at(bw, be));
	u->ready[class]++;
	bw->ready++;
	place_user(bw, u);
}

static void take_out(struct bw *bw, struct bw_ent *be)
{
	enum bw_class class = be->class;

	if (class == BW_NONE)
		return;
	fm_heap_del(heap_of(bw, be->user, class), &be->node);
	fm_heap_del(&bw->refills, &be->refill);
	be->class = BW_NONE;
	if (bw->on == be->ent)
		bw->on = NULL;
	be->user->ready[class]--;
	bw->ready--;
	advance_least(bw, be->user, class);
}

static void leave_class(struct bw *bw, struct bw_ent *be)
{
	take_out(bw, be);
	place_user(bw, be->user);
}

/* The user stays there all the while, so it does not count as coming back. */
static void change_class(struct bw *bw, struct bw_ent *be, enum bw_class class)
{
	take_out(bw, be);
	enter(bw, be, class);
}

/* A reservation that wakes keeps its budget and deadline only if spending the budget before the
 * deadline stays within its share. This is the rule of constant bandwidth servers, by which sleep
 * earns no burst. */
static bool renews(const struct bw *bw, const struct bw_ent *be, uint64_t now)
{
	int64_t q = quota(bw, be);

	if (be->budget <= 0)
		return now >= refill_at(bw, be);
	return now >= be->deadline ||
	       (double)be->budget * (double)bw->period >= (double)q * (double)(be->deadline - now);
}

static bool has_budget(const struct bw *bw, const struct bw_ent *be, uint64_t now)
{
	return be->share > 0 && (be->budget > 0 || renews(bw, be, now));
}

static int bw_init(void *self, const int64_t *params)
{
	struct bw *bw = self;

	bw->period = (uint64_t)params[0];
	bw->capped = params[1] != 0;
	fm_list_init(&bw->known.list);
	return 0;
}

static void release(struct bw_user *u)
{
	fm_heap_fini(&u->free);
	fm_heap_fini(&u->spent);
}

static void bw_fini(void *self)
{
	struct bw *bw = self;
	struct bw_user *u;

	fm_list_each (u, &bw->known.list, user.link)
		release(u);
	fm_heap_fini(&bw->reserved);
	fm_heap_fini(&bw->refills);
	fm_heap_fini(&bw->there);
	fm_heap_fini(&bw->waiting);
	fm_users_fini(&bw->known);
}

/* Reserves room in every heap, so that no push can fail. */
static int reserve(struct bw *bw, struct bw_user *u)
{
	size_t n = bw->joined + 1, own = u->user.joined + 1, users = bw->known.n + 1;

	if (fm_heap_reserve(&bw->reserved, n) || fm_heap_reserve(&bw->refills, n) ||
		fm_heap_reserve(&bw->there, users) || fm_heap_reserve(&bw->waiting, users) ||
		fm_heap_reserve(&u->free, own) || fm_heap_reserve(&u->spent, own))
		return -ENOMEM;
	return 0;
}

static int bw_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct bw *bw = self;
	struct bw_ent *be = e->priv;
	struct bw_user *u = fm_users_find(&bw->known, e->user, sizeof(*u), bw->least);

	if (!u)
		return -ENOMEM;
	if (reserve(bw, u)) {
		if (!u->user.joined)
			release(u);
		fm_users_unfind(&bw->known, &u->user);
		return -ENOMEM;
	}
	bw->joined++;
	fm_users_join(&bw->known, &u->user);
	be->ent = e;
	be->user = u;
	be->share = fm_ent_hint(e, FM_HINT_SHARE);
	u->reserved_sum += be->share;
	return 0;
}

static void bw_leave(void *self, struct fm_ent *e, uint64_t now)
{
	struct bw *bw = self;
	struct bw_ent *be = e->priv;
	struct bw_user *u = be->user;

	bw->joined--;
	u->reserved_sum -= be->share;
	if (fm_users_is_last(&u->user))
		release(u);
	fm_users_leave(&bw->known, &u->user, bw->least);
}

static void place(struct bw *bw, struct bw_ent *be, uint64_t now)
{
	if (be->share > 0 && renews(bw, be, now)) {
		be->budget = quota(bw, be);
		be->deadline = now + bw->period;
	}
	enter(bw, be, be->share <= 0 ? BW_FREE : be->budget > 0 ? BW_RESERVED : BW_SPENT);
}

static void bw_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct bw_ent *be = e->priv;

	/* What a reservation used while it was alone, and not seen, deprived no other group. */
	be->billed = be->share > 0 ? BW_NONE : BW_FREE;
	place(self, be, now);
}

static void bw_idle(void *self, struct fm_ent *e, uint64_t now)
{
	leave_class(self, e->priv);
}

/* Another entity runs instead (policy.h, running). This one stays first, but its claim does not
 * grow: it is never more than a turn behind the next. Returns its virtual time, which is also its
 * key there. */
static uint64_t forgo(struct fm_heap *h, struct fm_heap_node *n)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < h->n && i <= 2; i++)
		if (h->at[i] != n)
			next = FM_MIN(next, h->at[i]->key);
	if (next == UINT64_MAX || fm_sub_sat(next, TURN) <= n->key)
		return n->key;
	fm_heap_rekey(h, n, next - TURN);
	return n->key;
}

/* The entity that has the turn does not run, and `instead` does. */
static void forgo_turn(struct bw *bw, struct bw_ent *on, const struct bw_ent *instead)
{
	struct bw_user *u = on->user;

	if (u != instead->user) {
		u->user.vtime = forgo(&bw->waiting, &u->waits);
		place_user(bw, u);
	} else if (on->class == instead->class) {
		on->vtime = forgo(heap_of(bw, u, on->class), &on->node);
	}
}

static void charge_vtime(struct bw *bw, struct bw_ent *be, uint64_t ns)
{
	struct bw_ent *on;

	be->vtime = fm_add_sat(be->vtime, ns * 100 / (uint64_t)(be->share > 0 ? be->share : 100));
	if (bw->on == be->ent)
		bw->turn = fm_add_sat(bw->turn, ns);
	if (be->class != BW_FREE && be->class != BW_SPENT)
		return;
	fm_heap_rekey(heap_of(bw, be->user, be->class), &be->node, be->vtime);
	on = bw->on ? bw->on->priv : NULL;
	if (on && on != be && be->ent->running)
		forgo_turn(bw, on, be);
	advance_least(bw, be->user, be->class);
}

static void charge_budget(struct bw *bw, struct bw_ent *be, uint64_t ns)
{
	int64_t floor = -quota(bw, be) * DEBT_MAX;

	be->budget = ns > (uint64_t)INT64_MAX / 2 ? floor : FM_MAX(be->budget - (int64_t)ns, floor);
	if (be->class == BW_SPENT)
		fm_heap_rekey(&bw->refills, &be->refill, refill_at(bw, be));
}

static void bw_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct bw_ent *be = e->priv;

	be->user->user.vtime = fm_add_sat(be->user->user.vtime, ns);
	place_user(self, be->user);
	if (be->share > 0 && (be->billed == BW_RESERVED || ((struct bw *)self)->capped))
		charge_budget(self, be, ns);
	else if (be->billed != BW_NONE)
		charge_vtime(self, be, ns);
}

static void bw_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct bw *bw = self;
	struct bw_ent *be = e->priv;
	int64_t share = fm_ent_hint(e, FM_HINT_SHARE);

	if (share == be->share)
		return;
	leave_class(bw, be);
	be->user->reserved_sum += share - be->share;
	be->share = share;
	be->vtime = 0; /* it was in another unit; enter() lifts it */
	/* Budget and deadline stay, so that changing the hint to and fro gains nothing. */
	be->budget = FM_MIN(be->budget, quota(bw, be));
	if (e->ready)
		place(bw, be, now);
}

static void refill(struct bw *bw, struct bw_ent *be, uint64_t at, uint64_t now)
{
	int64_t q = quota(bw, be);

	be->budget += (be->budget < 0 ? -be->budget / q + 1 : 1) * q;
	/* If it is behind by more than a period, the device cannot keep what was promised. Do not
	 * let the lag grow, or a group that wakes would wait for it. */
	be->deadline = FM_MAX(at, fm_sub_sat(now, bw->period)) + bw->period;
	change_class(bw, be, BW_RESERVED);
}

/* Move groups whose budget ran out, and groups whose refill is due. */
static void update_classes(struct bw *bw, uint64_t now)
{
	struct fm_heap_node *n;
	struct bw_ent *be;

	while ((be = first_in(&bw->reserved)) && be->budget <= 0)
		change_class(bw, be, BW_SPENT);
	for (int i = 0; i < REFILLS_PER_DECISION; i++) {
		n = fm_heap_min(&bw->refills);
		if (!n || n->key > now)
			break;
		refill(bw, fm_container(n, struct bw_ent, refill), n->key, now);
	}
}

static enum bw_class class_below(const struct bw_user *u)
{
	return u->ready[BW_FREE] ? BW_FREE : BW_SPENT;
}

/* A turn among the groups of class 2 and, unless capped, 3. NULL: there is none. Spare time is
 * dealt out anew with each decision, because a group that enters class 3 starts at the least
 * virtual time there, so a long lead of one would be lost to the others. */
static struct bw_ent *take_turn(struct bw *bw)
{
	struct bw_ent *on = bw->on ? bw->on->priv : NULL;
	struct bw_user *u;

	if (!bw->waiting.n)
		return NULL;
	if (!on || on->class != BW_FREE || bw->turn >= TURN) {
		u = fm_container(fm_heap_min(&bw->waiting), struct bw_user, waits);
		on = first_in(heap_of(bw, u, class_below(u)));
		bw->turn = 0;
	}
	bw->on = on->ent;
	return on;
}

static void choose(struct bw *bw, struct bw_ent *be, struct fm_choice *choice, const char *reason)
{
	be->billed = be->class;
	choice->run[choice->n++] = be->ent;
	choice->reason = reason;
}

static const char *reason_below(const struct bw *bw, const struct bw_ent *be)
{
	if (bw->waiting.n > 1)
		return "its user is furthest behind";
	return be->class == BW_FREE ? "shares what is not reserved" : "spare time beyond its share";
}

static void bw_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct bw *bw = self;
	struct bw_ent *be;
	struct fm_heap_node *due;

	update_classes(bw, now);
	be = first_in(&bw->reserved);
	if (be) {
		choose(bw, be, choice, "reserved share");
		if (bw->ready == 1 && !bw->capped)
			be->billed = BW_NONE; /* alone it deprives no other group */
		else
			choice->next = now + FM_MAX((uint64_t)be->budget, RUN_MIN);
	} else if ((be = take_turn(bw))) {
		choose(bw, be, choice, reason_below(bw, be));
		if (bw->waiting.n > 1 || heap_of(bw, be->user, be->class)->n > 1)
			choice->next = now + fm_sub_sat(TURN, bw->turn);
	} else {
		choice->reason = "share used up";
	}
	due = fm_heap_min(&bw->refills);
	if (due && (bw->ready > 1 || bw->capped))
		choice->next = FM_MIN(choice->next, FM_MAX(due->key, now));
}

/* Copies the heap of a class. u: the user that the heap belongs to, or NULL for the class of all
 * users. Each user with a group in that one is `there`. */
static void copy_class(struct bw *t, struct fm_heap *to, struct bw_user *u,
	const struct fm_heap *from, struct fm_ent *twin)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct bw_ent *be = fm_container(from->at[i], struct bw_ent, node);
		size_t there = be->user->there.pos - 1;
		struct fm_ent *e = &twin[be->ent->index];
		struct bw_ent *te = e->priv;

		*te = *be;
		te->ent = e;
		te->user = u ? u : fm_container(t->there.at[there], struct bw_user, there);
		fm_heap_copy_node(to, &te->node, &be->node);
		fm_heap_copy_node(&t->refills, &te->refill, &be->refill);
	}
}

static int copy_user(struct bw *t, const struct bw_user *u, struct fm_ent *twin)
{
	struct bw_user *tu = fm_users_copy(&t->known, &u->user, sizeof(*u));

	if (!tu || fm_heap_copy(&tu->free, &u->free) | fm_heap_copy(&tu->spent, &u->spent))
		return -ENOMEM;
	fm_heap_copy_node(&t->there, &tu->there, &u->there);
	fm_heap_copy_node(&t->waiting, &tu->waits, &u->waits);
	copy_class(t, &tu->free, tu, &u->free, twin);
	copy_class(t, &tu->spent, tu, &u->spent, twin);
	return 0;
}

static int bw_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct bw *bw = self;
	const struct bw_user *u;
	struct bw *t = to;
	int rc;

	*t = *bw;
	t->on = bw->on ? &twin[bw->on->index] : NULL;
	fm_list_init(&t->known.list);
	rc = fm_heap_copy(&t->reserved, &bw->reserved) | fm_heap_copy(&t->refills, &bw->refills) |
	     fm_heap_copy(&t->there, &bw->there) | fm_heap_copy(&t->waiting, &bw->waiting);
	fm_list_each (u, &bw->known.list, user.link)
		rc = rc ? rc : copy_user(t, u, twin);
	if (!rc)
		copy_class(t, &t->reserved, NULL, &bw->reserved, twin);
	return rc;
}

static bool bw_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	struct bw *bw = self;
	const struct bw_ent *be = e->priv, *top = first_in(&bw->reserved);
	uint64_t deadline;

	if (!has_budget(bw, be, now))
		return false;
	deadline = renews(bw, be, now) ? now + bw->period : be->deadline;
	return !top || deadline < top->deadline;
}

static bool bw_binds_alone(const void *self)
{
	return ((const struct bw *)self)->capped;
}

static const struct fm_policy_promise bw_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES) | FM_PROMISE(SHARE), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_bandwidth;
const struct fm_policy_ops fm_policy_bandwidth = {
	.name = "bandwidth",
	.summary = "reserved percentages of the device; the rest is shared",
	.params = bw_params,
	.reads = FM_READS(FM_HINT_SHARE),
	.advice = FM_ADVICE_SHARE | FM_ADVICE_LIMIT,
	.promises = bw_promises,
	.size = sizeof(struct bw),
	.ent_size = sizeof(struct bw_ent),
	.by_user = true,
	.init = bw_init,
	.fini = bw_fini,
	.join = bw_join,
	.leave = bw_leave,
	.ready = bw_ready,
	.idle = bw_idle,
	.charge = bw_charge,
	.hint = bw_hint,
	.decide = bw_decide,
	.preempts = bw_preempts,
	.binds_alone = bw_binds_alone,
	.copy = bw_copy,
};
