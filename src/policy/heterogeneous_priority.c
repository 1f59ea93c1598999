/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heterogeneous-priority: one order of priority over all devices. While a group of the highest
 * priority is ready on any device, lower ones wait on all of them. The reason is that devices of
 * one machine share memory and power, so background work on the GPU slows the foreground down on
 * the NPU (XSched, Shen et al., OSDI 2025, section 7.2). Equals run side by side on different
 * devices and take turns on one.
 *
 * The devices share the number of ready entities of each priority. Each device ages by itself: an
 * entity that has waited long has a turn on its device beside what runs elsewhere (order.h,
 * aging.h).
 *
 * It cannot be copied for a forecast, because an instance's answers depend on other devices, and a
 * copy of one instance cannot play those.
 *
 * O(log n) for an event and a decision, and one decision for each device when the highest priority
 * that is ready anywhere changes.
 */
#include "order.h"

#define KEYS (FM_PRIORITY_MAX - FM_PRIORITY_MIN + 1)
#define WORD 64

/* Shared by all devices. */
struct machine {
	uint32_t ready[KEYS];
	uint64_t some[(KEYS + WORD - 1) / WORD]; /* bit k: an entity of key k is ready */
	bool changed; /* the first key has changed, and not all devices know yet */
};

struct hetero {
	struct fm_order order;
	struct machine *all;
};

struct hetero_ent {
	struct fm_order_ent oe;
	uint64_t key; /* as counted while ready */
};

static const struct fm_policy_param hetero_params[] = {
	FM_ORDER_SLICE("equal priorities of one device"),
	FM_ORDER_AGING("time in which a group that waits rises by one priority"),
	{0},
};

static uint64_t key_of(const struct fm_ent *e)
{
	return (uint64_t)(FM_PRIORITY_MAX - fm_ent_hint(e, FM_HINT_PRIORITY));
}

/* The most urgent key that is ready anywhere; KEYS: none. */
static uint64_t first(const struct machine *m)
{
	for (unsigned i = 0; i < sizeof(m->some) / sizeof(m->some[0]); i++)
		if (m->some[i])
			return (uint64_t)i * WORD + (unsigned)__builtin_ctzll(m->some[i]);
	return KEYS;
}

/* One more of key `in`, one less of key `out`; KEYS: no key. */
static void count(struct machine *m, uint64_t in, uint64_t out)
{
	uint64_t before = first(m);

	if (in < KEYS && m->ready[in]++ == 0)
		m->some[in / WORD] |= UINT64_C(1) << in % WORD;
	if (out < KEYS && --m->ready[out] == 0)
		m->some[out / WORD] &= ~(UINT64_C(1) << out % WORD);
	m->changed |= first(m) != before;
}

static void hetero_share(void *self, void *shared)
{
	((struct hetero *)self)->all = shared;
}

static int hetero_init(void *self, const int64_t *params)
{
	fm_order_init(&((struct hetero *)self)->order, params);
	return 0;
}

static void hetero_fini(void *self)
{
	fm_order_fini(&((struct hetero *)self)->order);
}

static int hetero_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct hetero_ent *he = e->priv;

	return fm_order_join(&((struct hetero *)self)->order, &he->oe, e);
}

static void hetero_leave(void *self, struct fm_ent *e, uint64_t now)
{
	fm_order_leave(&((struct hetero *)self)->order);
}

static void hetero_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct hetero *h = self;
	struct hetero_ent *he = e->priv;

	he->key = key_of(e);
	fm_order_ready(&h->order, &he->oe, he->key, now);
	count(h->all, he->key, KEYS);
}

static void hetero_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct hetero *h = self;
	struct hetero_ent *he = e->priv;

	fm_order_idle(&h->order, &he->oe, now);
	count(h->all, KEYS, he->key);
}

static void hetero_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct hetero_ent *he = e->priv;

	fm_order_charge(&((struct hetero *)self)->order, &he->oe, ns);
}

static void hetero_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct hetero *h = self;
	struct hetero_ent *he = e->priv;

	if (!e->ready || he->key == key_of(e))
		return;
	count(h->all, key_of(e), he->key);
	he->key = key_of(e);
	fm_order_move(&h->order, &he->oe, he->key);
}

static void hetero_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	static const char *const reasons[] = {
		[FM_ORDER_EMPTY] = "no group is ready here",
		[FM_ORDER_HELD] = "a higher priority works on another device",
		[FM_ORDER_FIRST] = "highest priority of all devices",
		[FM_ORDER_TURN] = "turn among equal priorities",
		[FM_ORDER_AGED] = "waited long",
	};
	struct hetero *h = self;

	choice->others = h->all->changed;
	h->all->changed = false;
	choice->reason = reasons[fm_order_pick(&h->order, first(h->all), now, choice)];
}

static bool hetero_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	struct hetero *h = self;

	return key_of(e) <= first(h->all) && fm_order_beats(&h->order, key_of(e));
}

static const struct fm_policy_promise hetero_promises[] = {
	{{NULL},
		FM_PROMISE(ALONE) | FM_PROMISE(CALM) | FM_PROMISE(PRIORITY) | FM_PROMISE(ORDER) |
			FM_PROMISE(EQUAL),
		1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_heterogeneous_priority;
const struct fm_policy_ops fm_policy_heterogeneous_priority = {
	.name = "heterogeneous-priority",
	.summary = "the highest priority of all devices together; lower ones wait on every device",
	.params = hetero_params,
	.reads = FM_READS(FM_HINT_PRIORITY),
	.advice = FM_ADVICE_PRIORITY | FM_ADVICE_ELSEWHERE,
	.promises = hetero_promises,
	.size = sizeof(struct hetero),
	.ent_size = sizeof(struct hetero_ent),
	.shared_size = sizeof(struct machine),
	.share = hetero_share,
	.init = hetero_init,
	.fini = hetero_fini,
	.join = hetero_join,
	.leave = hetero_leave,
	.ready = hetero_ready,
	.idle = hetero_idle,
	.charge = hetero_charge,
	.hint = hetero_hint,
	.decide = hetero_decide,
	.preempts = hetero_preempts,
};
