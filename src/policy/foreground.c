/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreground: the group that the user works with comes first. Its foreground hint tells which one
 * that is; a program, an operator or contrib/fermata-active-window sets the hint. The other groups
 * take turns in the time that it leaves. XSched (Shen et al., OSDI 2025) has such a policy, by the
 * active window. With aging, a background group that has waited that long has a turn of one slice
 * (order.h, aging.h). O(log n).
 */
#include "order.h"

static const struct fm_policy_param fg_params[] = {
	FM_ORDER_SLICE("groups that are alike"),
	FM_ORDER_AGING("wait after which a group in the background has a turn"),
	{0},
};

static uint64_t key_of(const struct fm_ent *e)
{
	return fm_ent_hint(e, FM_HINT_FOREGROUND) ? 0 : 1;
}

static int fg_init(void *self, const int64_t *params)
{
	fm_order_init(self, params);
	return 0;
}

static void fg_fini(void *self)
{
	fm_order_fini(self);
}

static int fg_join(void *self, struct fm_ent *e, uint64_t now)
{
	return fm_order_join(self, e->priv, e);
}

static void fg_leave(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_leave(self);
}

static void fg_ready(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_ready(self, e->priv, key_of(e), now);
}

static void fg_idle(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_idle(self, e->priv, now);
}

static void fg_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	fm_order_charge(self, e->priv, ns);
}

static void fg_hint(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_move(self, e->priv, key_of(e));
}

static void fg_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	enum fm_order_why why = fm_order_pick(self, FM_NEVER, now, choice);

	if (why == FM_ORDER_AGED)
		choice->reason = "waited long in the background";
	else if (why != FM_ORDER_EMPTY)
		choice->reason = key_of(choice->run[0]) ? "the foreground is idle" : "foreground";
}

static bool fg_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	return fm_order_beats(self, key_of(e));
}

static int64_t fg_rank(const void *self, const struct fm_ent *e)
{
	return fm_order_rank(self, key_of(e));
}

static const struct fm_policy_promise fg_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(FOREGROUND) | FM_PROMISE(EQUAL), 1},
	{{"aging=100"}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_foreground;
const struct fm_policy_ops fm_policy_foreground = {
	.name = "foreground",
	.summary = "the group that the user works with comes first; the others take turns",
	.params = fg_params,
	.reads = FM_READS(FM_HINT_FOREGROUND),
	.advice = FM_ADVICE_FOREGROUND,
	.promises = fg_promises,
	.size = sizeof(struct fm_order),
	.ent_size = sizeof(struct fm_order_ent),
	.init = fg_init,
	.fini = fg_fini,
	.join = fg_join,
	.leave = fg_leave,
	.ready = fg_ready,
	.idle = fg_idle,
	.charge = fg_charge,
	.hint = fg_hint,
	.decide = fg_decide,
	.preempts = fg_preempts,
	.rank = fg_rank,
	.copy = fm_order_copy,
};
