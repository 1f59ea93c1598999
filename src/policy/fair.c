/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair: device time in proportion to weight. Each entity has a virtual time that grows with the
 * device time charged to it, slower the heavier it is; who is furthest behind runs for a slice.
 * Device time that an entity takes beyond its turn, because its last command ends late, is charged
 * as well, so that it waits longer for the next.
 *
 * Whoever was away comes back at the least virtual time of those who stayed, less a small bonus:
 * sleep earns a quick start, not a backlog of claims.
 *
 * latency-nice, -20 to 19, asks for turns that come sooner and are shorter, or later and longer, as
 * in the patches for Linux's EEVDF (Zijlstra 2023, "sched/fair: Implement latency-nice"): a turn is
 * slice x 1.25^n, kept to what a turn can sensibly be, and the order is by virtual deadline, the
 * virtual time at which that turn would end. Here only the difference to n = 0 counts, to one slice
 * either way, and there is no test for eligibility: by so much one is ahead of its share or behind
 * it, once, and the shares in the long run are those of the weights.
 *
 * O(log n) for an event and a decision.
 */
#include "base/heap.h"
#include "policy.h"

#define TURN_MIN (100 * FM_US) /* of a turn that latency-nice has made shorter, or longer */
#define TURN_MAX (100 * FM_MS)
#define KEY_BIAS (UINT64_C(1) << 60) /* keys of the heap stay positive */

struct fair {
	struct fm_heap ready; /* by virtual time and latency-nice */
	size_t joined;
	uint64_t slice, granularity;
	uint64_t least;    /* least virtual time among the ready; never falls */
	uint64_t turn;     /* device time of the current turn */
	struct fm_ent *on; /* whose turn it is, or NULL */
	bool woken; /* someone came back who is behind the current one by more than granularity */
};

struct fair_ent {
	struct fm_heap_node node;
	struct fm_ent *ent;
	uint64_t vtime; /* ns at the default weight */
	uint64_t rest;  /* remainder of the last division: small charges are not lost */
	uint64_t slice; /* of its turns */
	int64_t offset; /* by latency-nice, in virtual time: below 0 it comes sooner */
};

static const struct fm_policy_param fair_params[] = {
	{"slice", "ms", "device time of a turn", 100 * FM_US, 10 * FM_S, 5 * FM_MS},
	{"granularity", "ms", "lead of the running group at which one that wakes takes over", 0,
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

static struct fair_ent *behind_most(const struct fair *f)
{
	return fm_container(fm_heap_min(&f->ready), struct fair_ent, node);
}

static uint64_t key_of(const struct fair_ent *fe, uint64_t vtime)
{
	return fm_add_sat(vtime, KEY_BIAS + (uint64_t)fe->offset);
}

/* Not above the virtual time of anybody whom latency-nice does not put off. */
static void advance_least(struct fair *f)
{
	const struct fair_ent *first;

	if (!f->ready.n)
		return;
	first = behind_most(f);
	f->least = FM_MAX(f->least, first->offset < 0
					    ? fm_sub_sat(first->vtime, (uint64_t)-first->offset)
					    : first->vtime);
}

static void read_latency(const struct fair *f, struct fair_ent *fe)
{
	int64_t n = fm_ent_hint(fe->ent, FM_HINT_LATENCY_NICE);
	uint64_t slice = f->slice;
	int64_t later;

	for (int64_t i = n; i < 0; i++)
		slice = slice * 4 / 5;
	for (int64_t i = 0; i < n; i++)
		slice = slice * 5 / 4;
	if (n < 0)
		slice = FM_MAX(slice, FM_MIN(f->slice, TURN_MIN));
	else
		slice = FM_MIN(slice, FM_MAX(f->slice, TURN_MAX));
	fe->slice = slice;
	later = (int64_t)FM_MIN(slice, 2 * f->slice) - (int64_t)f->slice;
	fe->offset = later * FM_WEIGHT_DEFAULT / (int64_t)weight_of(fe->ent);
}

/* Where an entity that comes back starts. */
static uint64_t wake_vtime(const struct fair *f, const struct fair_ent *fe)
{
	return FM_MAX(fe->vtime, fm_sub_sat(f->least, 2 * f->granularity));
}

static int fair_init(void *self, const int64_t *params)
{
	struct fair *f = self;

	f->slice = (uint64_t)params[0];
	f->granularity = (uint64_t)params[1];
	return 0;
}

static void fair_fini(void *self)
{
	fm_heap_fini(&((struct fair *)self)->ready);
}

static int fair_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	int rc = fm_heap_reserve(&f->ready, f->joined + 1);

	if (rc)
		return rc;
	fe->ent = e;
	read_latency(f, fe);
	f->joined++;
	return 0;
}

static void fair_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct fair *)self)->joined--;
}

static void fair_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv, *on = f->on ? f->on->priv : NULL;

	fe->vtime = wake_vtime(f, fe);
	fm_heap_push(&f->ready, &fe->node, key_of(fe, fe->vtime));
	if (on && fm_add_sat(fe->node.key, f->granularity) < on->node.key)
		f->woken = true;
}

static void fair_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;

	fm_heap_del(&f->ready, &fe->node);
	if (f->on == e)
		f->on = NULL;
	advance_least(f);
}

/* Another runs in its stead (policy.h, running). It stays first, but its claim does not grow: it is
 * never more than a turn behind the next. */
static void forgo(struct fair *f, struct fair_ent *fe)
{
	uint64_t next = UINT64_MAX, least;

	for (size_t i = 0; i < f->ready.n && i <= 2; i++)
		if (f->ready.at[i] != &fe->node)
			next = FM_MIN(next, f->ready.at[i]->key);
	least = fm_sub_sat(next, f->slice);
	if (next == UINT64_MAX || least <= fe->node.key)
		return;
	fe->vtime = fm_add_sat(fe->vtime, least - fe->node.key);
	fm_heap_rekey(&f->ready, &fe->node, least);
}

static void fair_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	uint64_t weight = weight_of(e), scaled;

	if (__builtin_mul_overflow(ns, (uint64_t)FM_WEIGHT_DEFAULT, &scaled))
		scaled = UINT64_MAX;
	scaled = fm_add_sat(scaled, fe->rest);
	fe->rest = scaled % weight;
	fe->vtime = fm_add_sat(fe->vtime, scaled / weight);
	if (fm_heap_has(&fe->node))
		fm_heap_rekey(&f->ready, &fe->node, key_of(fe, fe->vtime));
	if (f->on == e)
		f->turn = fm_add_sat(f->turn, ns);
	else if (f->on && e->running)
		forgo(f, f->on->priv);
	advance_least(f);
}

static void fair_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;

	fe->rest = 0; /* it belongs to the old weight */
	read_latency(f, fe);
	if (fm_heap_has(&fe->node))
		fm_heap_rekey(&f->ready, &fe->node, key_of(fe, fe->vtime));
}

static void fair_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct fair *f = self;
	const struct fair_ent *on = f->on ? f->on->priv : NULL;

	if (!f->ready.n)
		return;
	if (!on || f->woken || f->turn >= on->slice) {
		on = behind_most(f);
		f->on = on->ent;
		f->turn = 0;
	}
	f->woken = false;
	choice->run[choice->n++] = f->on;
	choice->reason = "furthest behind its share";
	if (f->ready.n > 1)
		choice->next = now + on->slice - f->turn;
}

static bool fair_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	const struct fair_ent *fe = e->priv, *on = f->on ? f->on->priv : NULL;
	uint64_t key = key_of(fe, wake_vtime(f, fe));

	return !on ||
	       (fm_add_sat(key, f->granularity) < on->node.key && key < behind_most(f)->node.key);
}

extern const struct fm_policy_ops fm_policy_fair;
const struct fm_policy_ops fm_policy_fair = {
	.name = "fair",
	.summary = "device time in proportion to weight",
	.params = fair_params,
	.size = sizeof(struct fair),
	.ent_size = sizeof(struct fair_ent),
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
};
