/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed-priority: the highest priority that is ready runs, and equals take turns of one slice. With
 * aging, a ready group that waits rises by one priority in each `aging` time. It has a turn of one
 * slice when it has risen to the highest priority that is ready (order.h, aging.h). O(log n).
 */
#include "order.h"

static const struct fm_policy_param prio_params[] = {
	FM_ORDER_SLICE("equal priorities"),
	FM_ORDER_AGING("time in which a group that waits rises by one priority"),
	{0},
};

/* Places given by an admission control are priorities above those of hints, up to 2^62 of them.
 * They cannot be used with aging, which computes with differences of keys. */
#define KEY_NORMAL (UINT64_C(1) << 62)

static uint64_t key_of(const struct fm_order *o, const struct fm_ent *e)
{
	int64_t below = FM_PRIORITY_MAX - fm_ent_hint(e, FM_HINT_PRIORITY);

	if (o->aging.step)
		return (uint64_t)FM_MAX(below, INT64_C(0));
	return (uint64_t)((int64_t)KEY_NORMAL + below);
}

static int prio_init(void *self, const int64_t *params)
{
	fm_order_init(self, params);
	return 0;
}

static void prio_fini(void *self)
{
	fm_order_fini(self);
}

static int prio_join(void *self, struct fm_ent *e, uint64_t now)
{
	return fm_order_join(self, e->priv, e);
}

static void prio_leave(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_leave(self);
}

static void prio_ready(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_ready(self, e->priv, key_of(self, e), now);
}

static void prio_idle(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_idle(self, e->priv, now);
}

static void prio_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	fm_order_charge(self, e->priv, ns);
}

static void prio_hint(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_move(self, e->priv, key_of(self, e));
}

static void prio_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	switch (fm_order_pick(self, FM_NEVER, now, choice)) {
	case FM_ORDER_FIRST:
		choice->reason = "highest priority";
		break;
	case FM_ORDER_TURN:
		choice->reason = "turn among equal priorities";
		break;
	case FM_ORDER_AGED:
		choice->reason = "waited long";
		break;
	case FM_ORDER_EMPTY:
	case FM_ORDER_HELD:
		break;
	}
}

static bool prio_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	return fm_order_beats(self, key_of(self, e));
}

static int64_t prio_rank(const void *self, const struct fm_ent *e)
{
	return fm_order_rank(self, key_of(self, e));
}

static const struct fm_policy_promise prio_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(PRIORITY) | FM_PROMISE(EQUAL), 1},
	{{"aging=2"}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_fixed_priority;
const struct fm_policy_ops fm_policy_fixed_priority = {
	.name = "fixed-priority",
	.summary = "the highest priority that is ready runs; equals take turns",
	.params = prio_params,
	.reads = FM_READS(FM_HINT_PRIORITY),
	.advice = FM_ADVICE_PRIORITY,
	.promises = prio_promises,
	.size = sizeof(struct fm_order),
	.ent_size = sizeof(struct fm_order_ent),
	.init = prio_init,
	.fini = prio_fini,
	.join = prio_join,
	.leave = prio_leave,
	.ready = prio_ready,
	.idle = prio_idle,
	.charge = prio_charge,
	.hint = prio_hint,
	.decide = prio_decide,
	.preempts = prio_preempts,
	.rank = prio_rank,
	.copy = fm_order_copy,
};
