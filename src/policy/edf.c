/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edf: the earliest absolute deadline runs. A job's deadline is its arrival plus the group's
 * deadline (its period, if it has no deadline). Groups with neither take turns in the remaining
 * time. (Liu and Layland 1973.) O(log n) for an event and a decision.
 */
#include "base/heap.h"
#include "base/list.h"
#include "policy.h"

struct edf {
	struct fm_heap urgent; /* by absolute deadline */
	struct fm_list rest;   /* the head has the turn */
	size_t joined;
	uint64_t slice;
};

struct edf_ent {
	struct fm_heap_node node;
	struct fm_list link;
	struct fm_ent *ent;
	uint64_t used; /* of the current turn */
};

static const struct fm_policy_param edf_params[] = {
	{"slice", "ms", "turn among groups without a deadline", 100 * FM_US, 10 * FM_S, 5 * FM_MS},
	{0},
};

/* Relative deadline; 0 for none. */
static uint64_t relative(const struct fm_ent *e)
{
	int64_t d = fm_ent_hint(e, FM_HINT_DEADLINE);

	return (uint64_t)(d > 0 ? d : fm_ent_hint(e, FM_HINT_PERIOD));
}

static int edf_init(void *self, const int64_t *params)
{
	struct edf *edf = self;

	fm_list_init(&edf->rest);
	edf->slice = (uint64_t)params[0];
	return 0;
}

static void edf_fini(void *self)
{
	fm_heap_fini(&((struct edf *)self)->urgent);
}

static int edf_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct edf *edf = self;
	struct edf_ent *ee = e->priv;
	int rc = fm_heap_reserve(&edf->urgent, edf->joined + 1);

	if (rc)
		return rc;
	fm_list_init(&ee->link);
	ee->ent = e;
	edf->joined++;
	return 0;
}

static void edf_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct edf *)self)->joined--;
}

static void edf_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct edf *edf = self;
	struct edf_ent *ee = e->priv;

	ee->used = 0;
	if (relative(e)) /* cannot fail: join reserved the room */
		fm_heap_push(&edf->urgent, &ee->node, fm_add_sat(e->ready_since, relative(e)));
	else
		fm_list_add_tail(&edf->rest, &ee->link);
}

static void edf_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct edf *edf = self;
	struct edf_ent *ee = e->priv;

	fm_heap_del(&edf->urgent, &ee->node);
	fm_list_del(&ee->link);
}

static void edf_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	if (e->running)
		((struct edf_ent *)e->priv)->used += ns;
}

static void edf_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct edf_ent *ee = e->priv;

	/* A group without a deadline before and after keeps its turn. */
	if (!e->ready || (!relative(e) && !fm_heap_has(&ee->node)))
		return;
	edf_idle(self, e, now);
	edf_ready(self, e, now);
}

static void decide_rest(struct edf *edf, uint64_t now, struct fm_choice *choice)
{
	struct edf_ent *ee = fm_list_first(&edf->rest, struct edf_ent, link);

	if (ee->link.next != &edf->rest && ee->used >= edf->slice) {
		edf_idle(edf, ee->ent, now);
		edf_ready(edf, ee->ent, now);
		ee = fm_list_first(&edf->rest, struct edf_ent, link);
	}
	choice->run[choice->n++] = ee->ent;
	choice->reason = "no deadline is pending";
	if (ee->link.next != &edf->rest)
		choice->next = now + fm_sub_sat(edf->slice, ee->used);
}

static void edf_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct edf *edf = self;
	struct fm_heap_node *top = fm_heap_min(&edf->urgent);

	if (top) {
		choice->run[choice->n++] = fm_container(top, struct edf_ent, node)->ent;
		choice->reason = "earliest deadline";
	} else if (!fm_list_empty(&edf->rest)) {
		decide_rest(edf, now, choice);
	}
}

static struct edf_ent *edf_copy_ent(const struct edf_ent *ee, struct fm_ent *twin)
{
	struct fm_ent *e = &twin[ee->ent->index];
	struct edf_ent *te = e->priv;

	te->ent = e;
	te->used = ee->used;
	fm_list_init(&te->link);
	return te;
}

static int edf_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct edf *edf = self;
	const struct edf_ent *ee;
	struct edf *t = to;

	*t = *edf;
	fm_list_init(&t->rest);
	if (fm_heap_copy(&t->urgent, &edf->urgent))
		return -ENOMEM;
	for (size_t i = 0; i < edf->urgent.n; i++) {
		ee = fm_container(edf->urgent.at[i], struct edf_ent, node);
		fm_heap_copy_node(&t->urgent, &edf_copy_ent(ee, twin)->node, &ee->node);
	}
	fm_list_each (ee, &edf->rest, link)
		fm_list_add_tail(&t->rest, &edf_copy_ent(ee, twin)->link);
	return 0;
}

static bool edf_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct fm_heap_node *top = fm_heap_min(&((struct edf *)self)->urgent);

	return relative(e) && (!top || fm_add_sat(now, relative(e)) < top->key);
}

static const struct fm_policy_promise edf_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(DEADLINE), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_edf;
const struct fm_policy_ops fm_policy_edf = {
	.name = "edf",
	.summary = "the earliest deadline runs; groups without one share the rest",
	.params = edf_params,
	.reads = FM_READS(FM_HINT_DEADLINE) | FM_READS(FM_HINT_PERIOD),
	.advice = FM_ADVICE_DEADLINE,
	.promises = edf_promises,
	.size = sizeof(struct edf),
	.ent_size = sizeof(struct edf_ent),
	.exact_jobs = true,
	.init = edf_init,
	.fini = edf_fini,
	.join = edf_join,
	.leave = edf_leave,
	.ready = edf_ready,
	.idle = edf_idle,
	.charge = edf_charge,
	.hint = edf_hint,
	.decide = edf_decide,
	.preempts = edf_preempts,
	.copy = edf_copy,
};
