/* SPDX-License-Identifier: Apache-2.0 */
/* round-robin: each ready group takes a turn of one slice of device time. O(1). */
#include "base/list.h"
#include "policy.h"

#define TURN_MIN (100 * FM_US) /* also for a group's own slice, because each change costs all */

struct rr {
	struct fm_list ready; /* the head has the turn */
	uint64_t slice;
};

struct rr_ent {
	struct fm_list node;
	struct fm_ent *ent;
	uint64_t used; /* of the current turn */
};

static const struct fm_policy_param rr_params[] = {
	{"slice", "ms", "turn of a group that has no slice of its own", TURN_MIN, 10 * FM_S,
		5 * FM_MS},
	{0},
};

static int rr_init(void *self, const int64_t *params)
{
	struct rr *rr = self;

	fm_list_init(&rr->ready);
	rr->slice = (uint64_t)params[0];
	return 0;
}

static int rr_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct rr_ent *re = e->priv;

	fm_list_init(&re->node);
	re->ent = e;
	return 0;
}

static void rr_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct rr *rr = self;
	struct rr_ent *re = e->priv;

	re->used = 0;
	fm_list_add_tail(&rr->ready, &re->node);
}

static void rr_idle(void *self, struct fm_ent *e, uint64_t now)
{
	fm_list_del(&((struct rr_ent *)e->priv)->node);
}

static void rr_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	if (e->running)
		((struct rr_ent *)e->priv)->used += ns;
}

static int rr_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct rr *rr = self;
	const struct rr_ent *re;
	struct rr *t = to;

	t->slice = rr->slice;
	fm_list_init(&t->ready);
	fm_list_each (re, &rr->ready, node) {
		struct fm_ent *e = &twin[re->ent->index];
		struct rr_ent *te = e->priv;

		te->ent = e;
		te->used = re->used;
		fm_list_add_tail(&t->ready, &te->node);
	}
	return 0;
}

static uint64_t slice_of(const struct rr *rr, const struct fm_ent *e)
{
	int64_t own = fm_ent_hint(e, FM_HINT_SLICE);

	return own > 0 ? FM_MAX((uint64_t)own, TURN_MIN) : rr->slice;
}

static void rr_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct rr *rr = self;
	struct rr_ent *re;

	if (fm_list_empty(&rr->ready))
		return;
	re = fm_list_first(&rr->ready, struct rr_ent, node);
	if (re->node.next != &rr->ready && re->used >= slice_of(rr, re->ent)) {
		fm_list_del(&re->node);
		rr_ready(rr, re->ent, now);
		re = fm_list_first(&rr->ready, struct rr_ent, node);
	}
	choice->run[choice->n++] = re->ent;
	choice->reason = "its turn";
	if (re->node.next != &rr->ready)
		choice->next = now + fm_sub_sat(slice_of(rr, re->ent), re->used);
}

static const struct fm_policy_promise rr_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_round_robin;
const struct fm_policy_ops fm_policy_round_robin = {
	.name = "round-robin",
	.summary = "all groups that are ready take turns of equal device time",
	.params = rr_params,
	.reads = FM_READS(FM_HINT_SLICE),
	.advice = FM_ADVICE_SLICE,
	.promises = rr_promises,
	.size = sizeof(struct rr),
	.ent_size = sizeof(struct rr_ent),
	.init = rr_init,
	.join = rr_join,
	.ready = rr_ready,
	.idle = rr_idle,
	.charge = rr_charge,
	.decide = rr_decide,
	.copy = rr_copy,
};
