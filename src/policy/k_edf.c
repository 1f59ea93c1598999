/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k-edf: the K earliest deadlines run at once, for devices that run several programs side by side;
 * K serves the same purpose as XSched's (Shen et al., OSDI 2025, section 8). K = 1 is edf. A job's
 * deadline is its arrival plus the group's deadline (its period, if it has no deadline). The
 * remaining places go in turns to groups with neither.
 *
 * O(log n) for an event; O(K^2) for a decision, K at most FM_RUN_MAX, however many are ready.
 */
#include "base/heap.h"
#include "base/list.h"
#include "policy.h"

struct kedf {
	struct fm_heap urgent; /* by absolute deadline */
	struct fm_list rest;   /* the first ones have the remaining places */
	size_t joined, n_rest;
	uint64_t slice;
	size_t k;
	uint64_t latest; /* an earlier deadline than this preempts; as of the last decision */
};

struct kedf_ent {
	struct fm_heap_node node;
	struct fm_list link;
	struct fm_ent *ent;
	uint64_t used; /* of the current turn */
};

static const struct fm_policy_param kedf_params[] = {
	{"k", "", "groups that run at once", 1, FM_RUN_MAX, 2},
	{"slice", "ms", "turn among groups without a deadline", 100 * FM_US, 10 * FM_S, 5 * FM_MS},
	{0},
};

/* Relative deadline; 0 for none. */
static uint64_t relative(const struct fm_ent *e)
{
	int64_t d = fm_ent_hint(e, FM_HINT_DEADLINE);

	return (uint64_t)(d > 0 ? d : fm_ent_hint(e, FM_HINT_PERIOD));
}

static int kedf_init(void *self, const int64_t *params)
{
	struct kedf *k = self;

	fm_list_init(&k->rest);
	k->k = (size_t)params[0];
	k->slice = (uint64_t)params[1];
	k->latest = FM_NEVER;
	return 0;
}

static void kedf_fini(void *self)
{
	fm_heap_fini(&((struct kedf *)self)->urgent);
}

static int kedf_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct kedf *k = self;
	struct kedf_ent *ke = e->priv;
	int rc = fm_heap_reserve(&k->urgent, k->joined + 1);

	if (rc)
		return rc;
	fm_list_init(&ke->link);
	ke->ent = e;
	k->joined++;
	return 0;
}

static void kedf_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct kedf *)self)->joined--;
}

static void kedf_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct kedf *k = self;
	struct kedf_ent *ke = e->priv;

	ke->used = 0;
	if (relative(e)) { /* cannot fail: join reserved the room */
		fm_heap_push(&k->urgent, &ke->node, fm_add_sat(e->ready_since, relative(e)));
	} else {
		fm_list_add_tail(&k->rest, &ke->link);
		k->n_rest++;
	}
}

static void kedf_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct kedf *k = self;
	struct kedf_ent *ke = e->priv;

	k->n_rest -= !fm_list_empty(&ke->link);
	fm_list_del(&ke->link);
	fm_heap_del(&k->urgent, &ke->node);
}

static void kedf_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct kedf_ent *ke = e->priv;

	if (e->running)
		ke->used = fm_add_sat(ke->used, ns);
}

static void kedf_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct kedf_ent *ke = e->priv;

	/* A group without a deadline before and after keeps its turn. */
	if (!e->ready || (!relative(e) && !fm_heap_has(&ke->node)))
		return;
	kedf_idle(self, e, now);
	kedf_ready(self, e, now);
}

/* Chooses the earliest k without taking them out of the heap: when one is chosen, its children
 * become candidates. */
static void choose_urgent(struct kedf *k, struct fm_choice *choice)
{
	const struct fm_heap *h = &k->urgent;
	size_t candidate[FM_RUN_MAX + 1] = {0}, n = h->n > 0;

	while (n && choice->n < k->k) {
		size_t best = 0, at;

		for (size_t i = 1; i < n; i++)
			if (fm_heap_less(h->at[candidate[i]], h->at[candidate[best]]))
				best = i;
		at = candidate[best];
		candidate[best] = candidate[--n];
		choice->run[choice->n++] = fm_container(h->at[at], struct kedf_ent, node)->ent;
		k->latest = h->at[at]->key;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < h->n; child++)
			candidate[n++] = child;
	}
	if (choice->n < k->k)
		k->latest = FM_NEVER; /* there is a place for any deadline */
}

/* Of the first `places` entities, those that have had their turn go to the end. */
static void change_turns(struct kedf *k, size_t places)
{
	struct fm_list *next = k->rest.next;

	for (size_t i = 0; i < places; i++) {
		struct kedf_ent *ke = fm_list_entry(next, struct kedf_ent, link);

		next = next->next;
		if (ke->used < k->slice)
			continue;
		ke->used = 0;
		fm_list_del(&ke->link);
		fm_list_add_tail(&k->rest, &ke->link);
	}
}

static void choose_rest(struct kedf *k, uint64_t now, struct fm_choice *choice)
{
	size_t places = k->k - choice->n;
	struct kedf_ent *ke;

	if (k->n_rest > places)
		change_turns(k, places);
	fm_list_each (ke, &k->rest, link) {
		if (choice->n == k->k)
			break;
		choice->run[choice->n++] = ke->ent;
		if (k->n_rest > places)
			choice->next = FM_MIN(choice->next, now + fm_sub_sat(k->slice, ke->used));
	}
}

static void kedf_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct kedf *k = self;

	choose_urgent(k, choice);
	choice->reason = choice->n ? "earliest deadlines" : "no deadline is pending";
	if (choice->n < k->k)
		choose_rest(k, now, choice);
}

static struct kedf_ent *kedf_copy_ent(const struct kedf_ent *ke, struct fm_ent *twin)
{
	struct fm_ent *e = &twin[ke->ent->index];
	struct kedf_ent *te = e->priv;

	te->ent = e;
	te->used = ke->used;
	fm_list_init(&te->link);
	return te;
}

static int kedf_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct kedf *k = self;
	const struct kedf_ent *ke;
	struct kedf *t = to;

	*t = *k;
	fm_list_init(&t->rest);
	if (fm_heap_copy(&t->urgent, &k->urgent))
		return -ENOMEM;
	for (size_t i = 0; i < k->urgent.n; i++) {
		ke = fm_container(k->urgent.at[i], struct kedf_ent, node);
		fm_heap_copy_node(&t->urgent, &kedf_copy_ent(ke, twin)->node, &ke->node);
	}
	fm_list_each (ke, &k->rest, link)
		fm_list_add_tail(&t->rest, &kedf_copy_ent(ke, twin)->link);
	return 0;
}

static bool kedf_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct kedf *k = self;

	if (k->urgent.n + k->n_rest < k->k)
		return true;
	return relative(e) && fm_add_sat(now, relative(e)) < k->latest;
}

static const struct fm_policy_promise kedf_promises[] = {
	{{"k=1"}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(DEADLINE), 1},
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(EQUAL), 2},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_k_edf;
const struct fm_policy_ops fm_policy_k_edf = {
	.name = "k-edf",
	.summary = "the K earliest deadlines run at once; groups without one share the rest",
	.params = kedf_params,
	.reads = FM_READS(FM_HINT_DEADLINE) | FM_READS(FM_HINT_PERIOD),
	.advice = FM_ADVICE_DEADLINE,
	.promises = kedf_promises,
	.size = sizeof(struct kedf),
	.ent_size = sizeof(struct kedf_ent),
	.exact_jobs = true,
	.init = kedf_init,
	.fini = kedf_fini,
	.join = kedf_join,
	.leave = kedf_leave,
	.ready = kedf_ready,
	.idle = kedf_idle,
	.charge = kedf_charge,
	.hint = kedf_hint,
	.decide = kedf_decide,
	.preempts = kedf_preempts,
	.copy = kedf_copy,
};
