/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair: device time in proportion to weight. Each entity has a virtual time that grows with the
 * device time charged to it, more slowly the heavier it is. The one that is furthest behind runs
 * for a slice. Device time that an entity takes beyond its turn, because its last command ends
 * late, is charged as well, so it waits longer for the next turn.
 *
 * Users come first (fm_ent.user). Each user has a virtual time of its own, which grows with the
 * device time of all its entities, at the same speed for every user. The user furthest behind is
 * served, and of its entities the one furthest behind. If all entities are of one user, this level
 * decides nothing.
 *
 * An entity, or a user, that was away comes back at the least virtual time of those that stayed,
 * less a small bonus. So sleep earns a quick start, not a backlog of claims. After a short pause it
 * is as far behind them as before, so a turn that ends in such a pause is not lost.
 *
 * latency-nice, -20 to 19, asks for turns that come sooner and are shorter, or later and longer, as
 * in the patches for Linux's EEVDF (Zijlstra 2023, "sched/fair: Implement latency-nice"). A turn is
 * slice x 1.25^n, within TURN_MIN and TURN_MAX. The order is by virtual deadline, which is the
 * virtual time at which that turn would end. Here only the difference to n = 0 counts, up to one
 * slice either way, and there is no test for eligibility. An entity is ahead of its share or behind
 * it by that much, once; in the long run the shares are those of the weights. A user comes sooner
 * or later by as much as the first of its entities.
 *
 * O(log n) for an event and a decision.
 */
#include "base/heap.h"
#include "policy.h"
#include "users.h"

#define TURN_MIN (100 * FM_US) /* of a turn that latency-nice has made shorter, or longer */
#define TURN_MAX (100 * FM_MS)
#define KEY_BIAS (UINT64_C(1) << 60) /* keys of the heap stay positive */

/* A place in an order: of an entity among those of its user, or of a user. */
struct fair_node {
	struct fm_heap_node node;
	uint64_t vtime;   /* ns; of an entity at the default weight */
	uint64_t idle_at; /* when it went away */
	uint64_t behind;  /* by how much it was behind those that stayed when it went away */
	int64_t offset;   /* by latency-nice, in virtual time: below 0 it comes sooner */
};

struct fair_queue {
	struct fm_heap ready; /* by virtual time and latency-nice */
	uint64_t least;       /* least virtual time among the ready; never falls */
};

struct fair_user {
	struct fm_user user;
	struct fair_node node; /* among the users, while an entity of it is ready */
	struct fair_queue groups;
};

struct fair {
	struct fm_users known;
	struct fair_queue users;
	uint64_t slice, granularity;
	uint64_t turn;     /* device time of the current turn */
	struct fm_ent *on; /* the entity that has the turn, or NULL */
	bool woken;        /* an entity came back that is behind `on` by more than granularity */
};

struct fair_ent {
	struct fair_node node; /* among its user's entities, while it is ready */
	struct fm_ent *ent;
	struct fair_user *user;
	uint64_t rest;  /* remainder of the last division: small charges are not lost */
	uint64_t slice; /* of its turns */
	int64_t later;  /* by latency-nice, in device time */
};

static const struct fm_policy_param fair_params[] = {
	{"slice", "ms", "device time of a turn", 100 * FM_US, 10 * FM_S, 5 * FM_MS},
	{"granularity", "ms", "lead of the running group at which a waking group takes over", 0,
		10 * FM_S, FM_MS},
	{0},
};

static uint64_t weight_of(const struct fm_ent *e)
{
	int64_t w = fm_ent_hint(e, FM_HINT_WEIGHT);

	if (w <= 0)
		w = fm_ent_hint(e, FM_HINT_SHARE);
	return w > 0 ? (uint64_t)w : FM_WEIGHT_DEFAULT;
}

static struct fair_node *first_of(const struct fair_queue *q)
{
	struct fm_heap_node *n = fm_heap_min(&q->ready);

	return n ? fm_container(n, struct fair_node, node) : NULL;
}

static struct fair_ent *ent_at(struct fair_node *n)
{
	return fm_container(n, struct fair_ent, node);
}

static uint64_t key_at(uint64_t vtime, int64_t offset)
{
	return fm_add_sat(vtime, KEY_BIAS + (uint64_t)offset);
}

/* Pushes cannot fail: join reserved the room. */
static void place(struct fair_queue *q, struct fair_node *n)
{
	uint64_t key = key_at(n->vtime, n->offset);

	if (fm_heap_has(&n->node))
		fm_heap_rekey(&q->ready, &n->node, key);
	else
		fm_heap_push(&q->ready, &n->node, key);
}

/* It stays at or below the virtual time of every entity that latency-nice does not put off. */
static void advance_least(struct fair_queue *q)
{
	const struct fair_node *first = first_of(q);

	if (!first)
		return;
	q->least = FM_MAX(q->least, first->offset < 0
					    ? fm_sub_sat(first->vtime, (uint64_t)-first->offset)
					    : first->vtime);
}

static void read_latency(const struct fair *f, struct fair_ent *fe)
{
	int64_t n = fm_ent_hint(fe->ent, FM_HINT_LATENCY_NICE);
	uint64_t slice = f->slice;

	for (int64_t i = n; i < 0; i++)
		slice = slice * 4 / 5;
	for (int64_t i = 0; i < n; i++)
		slice = slice * 5 / 4;
	if (n < 0)
		slice = FM_MAX(slice, FM_MIN(f->slice, TURN_MIN));
	else
		slice = FM_MIN(slice, FM_MAX(f->slice, TURN_MAX));
	fe->slice = slice;
	fe->later = (int64_t)FM_MIN(slice, 2 * f->slice) - (int64_t)f->slice;
	fe->node.offset = fe->later * FM_WEIGHT_DEFAULT / (int64_t)weight_of(fe->ent);
}

static void goes(const struct fair_queue *q, struct fair_node *n, uint64_t now)
{
	n->idle_at = now;
	n->behind = fm_sub_sat(q->least, n->vtime);
}

/* Where an entity or user that comes back starts. After a pause of at most a slice it is as far
 * behind those that stayed as it was. */
static uint64_t wake_vtime(
	const struct fair *f, const struct fair_queue *q, const struct fair_node *n, uint64_t now)
{
	uint64_t behind = fm_sub_sat(now, n->idle_at) <= f->slice ? n->behind : 0;

	behind = FM_MAX(behind, 2 * f->granularity);
	return FM_MAX(n->vtime, fm_sub_sat(q->least, behind));
}

/* Sets a user's place, after a change of its virtual time or of its first entity. */
static void place_user(struct fair *f, struct fair_user *u)
{
	struct fair_node *first = first_of(&u->groups);

	if (first) {
		u->node.offset = ent_at(first)->later;
		place(&f->users, &u->node);
	} else {
		fm_heap_del(&f->users.ready, &u->node.node);
	}
	advance_least(&f->users);
}

static int fair_init(void *self, const int64_t *params)
{
	struct fair *f = self;

	f->slice = (uint64_t)params[0];
	f->granularity = (uint64_t)params[1];
	fm_list_init(&f->known.list);
	return 0;
}

static void fair_fini(void *self)
{
	struct fair *f = self;
	struct fair_user *u;

	fm_list_each (u, &f->known.list, user.link)
		fm_heap_fini(&u->groups.ready);
	fm_heap_fini(&f->users.ready);
	fm_users_fini(&f->known);
}

static int fair_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	struct fair_user *u = fm_users_find(&f->known, e->user, sizeof(*u), f->users.least);

	if (!u)
		return -ENOMEM;
	if (fm_heap_reserve(&f->users.ready, f->known.n + 1) ||
		fm_heap_reserve(&u->groups.ready, u->user.joined + 1)) {
		fm_users_unfind(&f->known, &u->user);
		return -ENOMEM;
	}
	fm_users_join(&f->known, &u->user);
	fe->ent = e;
	fe->user = u;
	read_latency(f, fe);
	return 0;
}

static void fair_leave(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair_user *u = ((struct fair_ent *)e->priv)->user;
	struct fair *f = self;

	u->user.vtime = u->node.vtime;
	if (fm_users_is_last(&u->user))
		fm_heap_fini(&u->groups.ready);
	fm_users_leave(&f->known, &u->user, f->users.least);
}

/* Is fe, which has just come back, far enough behind `on`, which has the turn? If they are of
 * different users, the users are compared. */
static bool takes_over(const struct fair *f, const struct fair_ent *fe, const struct fair_ent *on)
{
	const struct fair_user *u = fe->user;
	const struct fair_node *mine = u == on->user ? &fe->node : &u->node;
	const struct fair_node *its = u == on->user ? &on->node : &on->user->node;

	/* Then another user would have the turn, or another entity of its user. */
	if (u == on->user ? first_of(&f->users) != &u->node : first_of(&u->groups) != &fe->node)
		return false;
	return fm_add_sat(mine->node.key, f->granularity) < its->node.key;
}

static void fair_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	struct fair_user *u = fe->user;

	if (!u->groups.ready.n)
		u->node.vtime = wake_vtime(f, &f->users, &u->node, now);
	fe->node.vtime = wake_vtime(f, &fe->user->groups, &fe->node, now);
	place(&u->groups, &fe->node);
	place_user(f, u);
	if (f->on && takes_over(f, fe, f->on->priv))
		f->woken = true;
}

static void fair_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	struct fair_user *u = fe->user;

	fm_heap_del(&u->groups.ready, &fe->node.node);
	if (f->on == e)
		f->on = NULL;
	advance_least(&u->groups);
	goes(&u->groups, &fe->node, now);
	place_user(f, u);
	if (!u->groups.ready.n)
		goes(&f->users, &u->node, now);
}

/* Another entity runs instead (policy.h, running). This one stays first, but its claim does not
 * grow: it is never more than a turn behind the next. */
static void forgo(const struct fair *f, struct fair_queue *q, struct fair_node *n)
{
	uint64_t next = UINT64_MAX, least;

	for (size_t i = 0; i < q->ready.n && i <= 2; i++)
		if (q->ready.at[i] != &n->node)
			next = FM_MIN(next, q->ready.at[i]->key);
	least = fm_sub_sat(next, f->slice);
	if (next == UINT64_MAX || least <= n->node.key)
		return;
	n->vtime = fm_add_sat(n->vtime, least - n->node.key);
	fm_heap_rekey(&q->ready, &n->node, least);
}

/* The entity that has the turn does not run, and `instead` does. */
static void forgo_turn(struct fair *f, struct fair_ent *on, const struct fair_ent *instead)
{
	if (on->user == instead->user)
		forgo(f, &on->user->groups, &on->node);
	else
		forgo(f, &f->users, &on->user->node);
}

static void fair_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	struct fair_user *u = fe->user;
	uint64_t weight = weight_of(e), more;

	if (__builtin_mul_overflow(ns, (uint64_t)FM_WEIGHT_DEFAULT, &more))
		more = UINT64_MAX;
	more = fm_add_sat(more, fe->rest);
	fe->rest = more % weight;
	fe->node.vtime = fm_add_sat(fe->node.vtime, more / weight);
	u->node.vtime = fm_add_sat(u->node.vtime, ns);
	if (fm_heap_has(&fe->node.node))
		place(&u->groups, &fe->node);
	place_user(f, u);
	if (f->on == e)
		f->turn = fm_add_sat(f->turn, ns);
	else if (f->on && e->running)
		forgo_turn(f, f->on->priv, fe);
	advance_least(&u->groups);
	advance_least(&f->users);
}

static void fair_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;

	fe->rest = 0; /* it belongs to the old weight */
	read_latency(f, fe);
	if (fm_heap_has(&fe->node.node))
		place(&fe->user->groups, &fe->node);
	place_user(f, fe->user);
}

static void fair_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct fair *f = self;
	struct fair_ent *on = f->on ? f->on->priv : NULL;
	bool users = f->users.ready.n > 1;

	if (!f->users.ready.n)
		return;
	if (!on || f->woken || f->turn >= on->slice) {
		struct fair_user *u = fm_container(first_of(&f->users), struct fair_user, node);

		on = ent_at(first_of(&u->groups));
		f->on = on->ent;
		f->turn = 0;
	}
	f->woken = false;
	choice->run[choice->n++] = f->on;
	choice->reason = users ? "its user is furthest behind" : "furthest behind its share";
	if (users || on->user->groups.ready.n > 1)
		choice->next = now + on->slice - f->turn;
}

static int copy_user(struct fair *t, const struct fair_user *u, struct fm_ent *twin)
{
	struct fair_user *tu = fm_users_copy(&t->known, &u->user, sizeof(*u));

	if (!tu || fm_heap_copy(&tu->groups.ready, &u->groups.ready))
		return -ENOMEM;
	fm_heap_copy_node(&t->users.ready, &tu->node.node, &u->node.node);
	for (size_t i = 0; i < u->groups.ready.n; i++) {
		const struct fm_heap_node *n = u->groups.ready.at[i];
		const struct fair_ent *fe = fm_container(n, struct fair_ent, node.node);
		struct fm_ent *e = &twin[fe->ent->index];
		struct fair_ent *te = e->priv;

		*te = *fe;
		te->ent = e;
		te->user = tu;
		fm_heap_copy_node(&tu->groups.ready, &te->node.node, n);
	}
	return 0;
}

static int fair_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct fair *f = self;
	const struct fair_user *u;
	struct fair *t = to;
	int rc;

	*t = *f;
	t->on = f->on ? &twin[f->on->index] : NULL;
	fm_list_init(&t->known.list);
	rc = fm_heap_copy(&t->users.ready, &f->users.ready);
	fm_list_each (u, &f->known.list, user.link)
		rc = rc ? rc : copy_user(t, u, twin);
	return rc;
}

/* Would fe come before `on`, which has the turn and is of the same user? The user must stay the
 * first of all. */
static bool precedes_own(
	const struct fair *f, const struct fair_ent *fe, const struct fair_ent *on, uint64_t key)
{
	const struct fair_user *u = fe->user;

	return fm_add_sat(key, f->granularity) < on->node.node.key &&
	       first_of(&f->users) == &u->node &&
	       (f->users.ready.n == 1 || fe->later <= u->node.offset);
}

static bool precedes_other(
	const struct fair *f, const struct fair_ent *fe, const struct fair_ent *on, uint64_t now)
{
	const struct fair_user *u = fe->user;
	const struct fair_node *first = first_of(&f->users);
	uint64_t vtime = fm_heap_has(&u->node.node) ? u->node.vtime
						    : wake_vtime(f, &f->users, &u->node, now);
	uint64_t key = key_at(vtime, fe->later);

	return fm_add_sat(key, f->granularity) < on->user->node.node.key &&
	       (first == &u->node ? fe->later <= u->node.offset : key < first->node.key);
}

static bool fair_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	const struct fair_ent *fe = e->priv, *on = f->on ? f->on->priv : NULL;
	const struct fair_node *first = first_of(&fe->user->groups);
	uint64_t key = key_at(wake_vtime(f, &fe->user->groups, &fe->node, now), fe->node.offset);

	if (!on)
		return true;
	if (first && key >= first->node.key)
		return false;
	return fe->user == on->user ? precedes_own(f, fe, on, key) : precedes_other(f, fe, on, now);
}

static const struct fm_policy_promise fair_promises[] = {
	{{NULL},
		FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES) | FM_PROMISE(WEIGHT) |
			FM_PROMISE(WAKES),
		1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_fair;
const struct fm_policy_ops fm_policy_fair = {
	.name = "fair",
	.summary = "device time in proportion to weight",
	.params = fair_params,
	.reads =
		FM_READS(FM_HINT_WEIGHT) | FM_READS(FM_HINT_SHARE) | FM_READS(FM_HINT_LATENCY_NICE),
	.advice = FM_ADVICE_WEIGHT,
	.promises = fair_promises,
	.size = sizeof(struct fair),
	.ent_size = sizeof(struct fair_ent),
	.by_user = true,
	.init = fair_init,
	.fini = fair_fini,
	.join = fair_join,
	.leave = fair_leave,
	.ready = fair_ready,
	.idle = fair_idle,
	.charge = fair_charge,
	.hint = fair_hint,
	.decide = fair_decide,
	.preempts = fair_preempts,
	.copy = fair_copy,
};
