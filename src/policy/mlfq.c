/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlfq: a multi-level feedback queue, which needs no hints (Corbato et al. 1962; the rules are
 * those of Arpaci-Dusseau and Arpaci-Dusseau, Operating Systems: Three Easy Pieces, chapter 8):
 *
 *   1. of two levels the higher runs;
 *   2. groups of one level run in turns, by the quantum of that level, which doubles from level to
 *      level;
 *   3. a new group begins at the highest level;
 *   4. a group that has used up its quantum of device time, in however many pieces, goes down a
 *      level;
 *   5. after each `boost` all groups are at the highest level again, so that none starves.
 *
 * O(1) for an event and a decision: there is a list for each level, and a bit for each list that is
 * not empty. A boost joins the lists. A group finds out that it was boosted by the epoch in which
 * it was last seen.
 */
#include "base/list.h"
#include "policy.h"

#define LEVELS_MAX 16

struct mlfq {
	struct fm_list level[LEVELS_MAX]; /* 0 the highest; the head has the turn */
	uint32_t some;                    /* bit l: level l is not empty */
	unsigned levels, n_ready;
	uint64_t quantum, boost, next_boost, epoch;
};

struct mlfq_ent {
	struct fm_list node;
	struct fm_ent *ent;
	unsigned level;
	uint64_t used, epoch;
};

static const struct fm_policy_param mlfq_params[] = {
	{"levels", "", "number of levels", 2, LEVELS_MAX, 4},
	{"quantum", "ms", "device time at the highest level, twice that at the next, and so on",
		100 * FM_US, FM_S, 2 * FM_MS},
	{"boost", "ms", "time after which all groups are at the highest level again", 10 * FM_MS,
		60 * FM_S, FM_S},
	{0},
};

static int mlfq_init(void *self, const int64_t *params)
{
	struct mlfq *m = self;

	for (unsigned l = 0; l < LEVELS_MAX; l++)
		fm_list_init(&m->level[l]);
	m->levels = (unsigned)params[0];
	m->quantum = (uint64_t)params[1];
	m->boost = (uint64_t)params[2];
	return 0;
}

static int mlfq_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct mlfq *m = self;
	struct mlfq_ent *me = e->priv;

	fm_list_init(&me->node);
	me->ent = e;
	me->epoch = m->epoch;
	return 0;
}

/* Apply the boosts since the entity was last seen. */
static void catch_up(const struct mlfq *m, struct mlfq_ent *me)
{
	if (me->epoch == m->epoch)
		return;
	me->epoch = m->epoch;
	me->level = 0;
	me->used = 0;
}

static void enqueue(struct mlfq *m, struct mlfq_ent *me)
{
	fm_list_add_tail(&m->level[me->level], &me->node);
	m->some |= 1u << me->level;
}

static void dequeue(struct mlfq *m, struct mlfq_ent *me)
{
	fm_list_del(&me->node);
	if (fm_list_empty(&m->level[me->level]))
		m->some &= ~(1u << me->level);
}

static void mlfq_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct mlfq *m = self;

	m->n_ready++;
	catch_up(m, e->priv);
	enqueue(m, e->priv);
}

static void mlfq_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct mlfq *m = self;

	m->n_ready--;
	catch_up(m, e->priv);
	dequeue(m, e->priv);
}

static void mlfq_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct mlfq *m = self;
	struct mlfq_ent *me = e->priv;
	bool queued = !fm_list_empty(&me->node);

	catch_up(m, me);
	me->used = fm_add_sat(me->used, ns);
	if (me->used < m->quantum << me->level)
		return;
	if (queued)
		dequeue(m, me);
	me->level = FM_MIN(me->level + 1, m->levels - 1);
	me->used = 0;
	if (queued)
		enqueue(m, me);
}

static void boost(struct mlfq *m, uint64_t now)
{
	for (unsigned l = 1; l < m->levels; l++) {
		struct fm_list *from = &m->level[l], *to = &m->level[0];

		if (fm_list_empty(from))
			continue;
		from->next->prev = to->prev;
		to->prev->next = from->next;
		from->prev->next = to;
		to->prev = from->prev;
		fm_list_init(from);
	}
	m->some = !fm_list_empty(&m->level[0]);
	m->epoch++;
	m->next_boost = now + m->boost;
}

static void mlfq_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct mlfq *m = self;
	struct mlfq_ent *me;

	if (now >= m->next_boost)
		boost(m, now);
	if (!m->some)
		return;
	me = fm_list_first(&m->level[__builtin_ctz(m->some)], struct mlfq_ent, node);
	catch_up(m, me);
	choice->run[choice->n++] = me->ent;
	choice->reason = me->level ? "highest level that is ready" : "highest level";
	if (m->n_ready > 1)
		choice->next =
			FM_MIN(m->next_boost, now + fm_sub_sat(m->quantum << me->level, me->used));
}

static int mlfq_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct mlfq *m = self;
	const struct mlfq_ent *me;
	struct mlfq *t = to;

	*t = *m;
	for (unsigned l = 0; l < LEVELS_MAX; l++) {
		fm_list_init(&t->level[l]);
		fm_list_each (me, &m->level[l], node) {
			struct fm_ent *e = &twin[me->ent->index];
			struct mlfq_ent *te = e->priv;

			*te = *me;
			te->ent = e;
			fm_list_add_tail(&t->level[l], &te->node);
		}
	}
	return 0;
}

static bool mlfq_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct mlfq *m = self;
	const struct mlfq_ent *me = e->priv;
	unsigned level = me->epoch == m->epoch ? me->level : 0;

	return !m->some || level < (unsigned)__builtin_ctz(m->some);
}

static const struct fm_policy_promise mlfq_promises[] = {
	{{NULL},
		FM_PROMISE_SOUND | FM_PROMISE(EQUAL) | FM_PROMISE(SERVES) | FM_PROMISE(SHORT) |
			FM_PROMISE(WAKES),
		1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_mlfq;
const struct fm_policy_ops fm_policy_mlfq = {
	.name = "mlfq",
	.summary = "groups that used little device time come first, without hints; all are boosted "
		   "now and then",
	.params = mlfq_params,
	.advice = FM_ADVICE_NO_HINT,
	.promises = mlfq_promises,
	.size = sizeof(struct mlfq),
	.ent_size = sizeof(struct mlfq_ent),
	.init = mlfq_init,
	.join = mlfq_join,
	.ready = mlfq_ready,
	.idle = mlfq_idle,
	.charge = mlfq_charge,
	.decide = mlfq_decide,
	.preempts = mlfq_preempts,
	.copy = mlfq_copy,
};
