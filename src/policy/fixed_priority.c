/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed-priority: the highest priority that is ready runs; equals take turns of one slice. The
 * heap's tie-break by order of insertion is the round robin: an entity that has had its turn is
 * pushed anew.
 */
#include "base/heap.h"
#include "policy.h"

struct prio {
	struct fm_heap ready;
	size_t joined;
	uint64_t slice;
};

struct prio_ent {
	struct fm_heap_node node;
	struct fm_ent *ent;
	uint64_t used; /* of the current turn */
};

static const struct fm_policy_param prio_params[] = {
	{"slice", "ms", "turn among equal priorities", 100 * FM_US, 10 * FM_S, 5 * FM_MS},
	{0},
};

static uint64_t key_of(const struct fm_ent *e)
{
	return (uint64_t)(FM_PRIORITY_MAX - fm_ent_hint(e, FM_HINT_PRIORITY));
}

static int prio_init(void *self, const int64_t *params)
{
	((struct prio *)self)->slice = (uint64_t)params[0];
	return 0;
}

static void prio_fini(void *self)
{
	fm_heap_fini(&((struct prio *)self)->ready);
}

static int prio_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct prio *p = self;
	struct prio_ent *pe = e->priv;
	int rc = fm_heap_reserve(&p->ready, p->joined + 1);

	if (rc)
		return rc;
	pe->ent = e;
	p->joined++;
	return 0;
}

static void prio_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct prio *)self)->joined--;
}

/* Cannot fail: join reserved the room. */
static void enqueue(struct prio *p, struct prio_ent *pe)
{
	pe->used = 0;
	fm_heap_push(&p->ready, &pe->node, key_of(pe->ent));
}

static void prio_ready(void *self, struct fm_ent *e, uint64_t now)
{
	enqueue(self, e->priv);
}

static void prio_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct prio *p = self;
	struct prio_ent *pe = e->priv;

	fm_heap_del(&p->ready, &pe->node);
}

static void prio_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	if (e->running)
		((struct prio_ent *)e->priv)->used += ns;
}

static void prio_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct prio *p = self;
	struct prio_ent *pe = e->priv;

	if (!e->ready || pe->node.key == key_of(e))
		return;
	fm_heap_del(&p->ready, &pe->node);
	enqueue(p, pe);
}

/* An equal of the minimum, if there is one, has a parent no larger than itself: look at depth one.
 */
static bool has_peer(const struct fm_heap *h)
{
	for (size_t i = 1; i < h->n && i <= 2; i++)
		if (h->at[i]->key == h->at[0]->key)
			return true;
	return false;
}

static void prio_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct prio *p = self;
	struct fm_heap_node *top = fm_heap_min(&p->ready);
	struct prio_ent *pe;
	bool peer;

	if (!top)
		return;
	peer = has_peer(&p->ready);
	pe = fm_container(top, struct prio_ent, node);
	if (peer && pe->used >= p->slice) {
		fm_heap_del(&p->ready, &pe->node);
		enqueue(p, pe);
		pe = fm_container(fm_heap_min(&p->ready), struct prio_ent, node);
	}
	choice->run[choice->n++] = pe->ent;
	choice->reason = peer ? "turn among equal priorities" : "highest priority";
	if (peer)
		choice->next = now + fm_sub_sat(p->slice, pe->used);
}

static bool prio_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct fm_heap_node *top = fm_heap_min(&((struct prio *)self)->ready);

	return !top || key_of(e) < top->key;
}

static int64_t prio_rank(const void *self, const struct fm_ent *e)
{
	return fm_ent_hint(e, FM_HINT_PRIORITY);
}

extern const struct fm_policy_ops fm_policy_fixed_priority;
const struct fm_policy_ops fm_policy_fixed_priority = {
	.name = "fixed-priority",
	.summary = "the highest priority that is ready runs; equals take turns",
	.params = prio_params,
	.size = sizeof(struct prio),
	.ent_size = sizeof(struct prio_ent),
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
};
