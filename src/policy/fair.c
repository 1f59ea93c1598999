/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair: device time in proportion to weight. Each entity has a virtual time that grows with the
 * device time charged to it, slower the heavier it is; who is furthest behind runs for a slice.
 * Device time that an entity takes beyond its turn, because its last command ends late, is charged
 * as well, so that it waits longer for the next.
 *
 * Whoever was away comes back at the least virtual time of those who stayed, less a small bonus:
 * sleep earns a quick start, not a backlog of claims.
 */
#include "base/heap.h"
#include "policy.h"

#define WEIGHT_DEFAULT 100

struct fair {
	struct fm_heap ready; /* by virtual time */
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
	return w > 0 ? (uint64_t)w : WEIGHT_DEFAULT;
}

static struct fair_ent *behind_most(const struct fair *f)
{
	return fm_container(fm_heap_min(&f->ready), struct fair_ent, node);
}

static void advance_least(struct fair *f)
{
	if (f->ready.n)
		f->least = FM_MAX(f->least, behind_most(f)->vtime);
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
	fm_heap_push(&f->ready, &fe->node, fe->vtime);
	if (on && fm_add_sat(fe->vtime, f->granularity) < on->vtime)
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

static void fair_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct fair *f = self;
	struct fair_ent *fe = e->priv;
	uint64_t weight = weight_of(e), scaled;

	if (__builtin_mul_overflow(ns, (uint64_t)WEIGHT_DEFAULT, &scaled))
		scaled = UINT64_MAX;
	scaled = fm_add_sat(scaled, fe->rest);
	fe->rest = scaled % weight;
	fe->vtime = fm_add_sat(fe->vtime, scaled / weight);
	if (fm_heap_has(&fe->node))
		fm_heap_rekey(&f->ready, &fe->node, fe->vtime);
	if (f->on == e)
		f->turn = fm_add_sat(f->turn, ns);
	advance_least(f);
}

static void fair_hint(void *self, struct fm_ent *e, uint64_t now)
{
	/* The remainder belongs to the old weight. */
	((struct fair_ent *)e->priv)->rest = 0;
}

static void fair_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct fair *f = self;
	struct fair_ent *best;

	if (!f->ready.n)
		return;
	best = behind_most(f);
	if (!f->on || f->woken || f->turn >= f->slice) {
		f->on = best->ent;
		f->turn = 0;
	}
	f->woken = false;
	choice->run[choice->n++] = f->on;
	choice->reason = "furthest behind its share";
	if (f->ready.n > 1)
		choice->next = now + f->slice - f->turn;
}

static bool fair_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	struct fair *f = self;
	const struct fair_ent *on = f->on ? f->on->priv : NULL;

	return !on || fm_add_sat(wake_vtime(f, e->priv), f->granularity) < on->vtime;
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
