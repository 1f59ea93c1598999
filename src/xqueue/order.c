/* SPDX-License-Identifier: Apache-2.0 */
/* Queues whose commands are counted in the order of the hwqueue, so that they can be stopped in
 * their middle. */
#include "segment.h"

FM_HOT void fm_xq_order_take(struct fm_xq *q)
{
	pthread_mutex_lock(&q->cold->order);
}

FM_HOT void fm_xq_order_give(struct fm_xq *q)
{
	pthread_mutex_unlock(&q->cold->order);
}

FM_HOT bool fm_xq_is_shared(const struct fm_xq *q)
{
	return q->level == FM_LEVEL_RUNNING && !fm_xq_gates_only(q) &&
	       (atomic_load_explicit(&q->slot->shares, memory_order_relaxed) == FM_SHARES ||
		       atomic_load_explicit(&q->stops_alone, memory_order_relaxed));
}

static FM_HOT bool uncovered(struct fm_xq *q, uint64_t far)
{
	return fm_xq_is_unfenced(q);
}

/* Places a gate if there is still a reason for one. Order held. */
static FM_COLD void place(
	struct fm_xq *q, bool (*reason)(struct fm_xq *q, uint64_t far), uint64_t far)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now(), gates;

	if (atomic_load(&q->client->dead))
		return;
	pthread_mutex_lock(&x->lock);
	gates = atomic_load(&q->slot->gates);
	if (!q->closing && !x->gone && q->device_gates && reason(q, far))
		fm_xq_place_gate(q, false, now);
	if (atomic_load(&q->slot->gates) != gates)
		fm_xq_device_stands(q, now);
	fm_xq_leave(q);
}

FM_HOT void fm_xq_cover_in_order(struct fm_xq *q)
{
	if (uncovered(q, 0))
		place(q, uncovered, 0);
}

/* Is the last gate `far` commands back? */
static bool unfenced_since(struct fm_xq *q, uint64_t far)
{
	return fm_xq_mark(q) >= q->cold->fenced + far;
}

void fm_xq_gate_in_order(struct fm_xq *q)
{
	place(q, unfenced_since, 0);
}

void fm_xq_cover(struct fm_xq *q)
{
	fm_xq_order_take(q);
	place(q, uncovered, 0);
	fm_xq_order_give(q);
}

struct outlasting {
	const struct fm_xq_outlast *how;
	uint64_t seen_at, left; /* of the time that it may take while it runs */
};

/* Have all commands finished that can be stopped in their middle, as far as can be known? */
static bool drained(struct fm_xq *q, const struct fm_xq_outlast *how, bool ask)
{
	const struct fm_xq_cold *x = q->cold;

	if (x->gone)
		return atomic_load(&x->passed);
	return !how->pending(q->hwq) || (ask && !q->closing && fm_xq_is_lost(q));
}

/* Is the wait over, or has the work been left to itself? */
static bool outlasted(struct fm_xq *q, struct outlasting *o, bool ask)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();
	bool over, runs;

	pthread_mutex_lock(&x->lock);
	over = drained(q, o->how, ask); /* a hwqueue that is gone is not queried */
	/* This thread may be the one that resumes a queue that the program itself has suspended. */
	runs = fm_xq_may_run(q) || fm_xq_own_suspended(q);
	runs = runs && !over && !x->gone && !fm_xq_is_stopped(q);
	if (runs)
		o->left = fm_sub_sat(o->left, now - o->seen_at);
	o->seen_at = now;
	/* The rest of a queue that is gone will never be reported. */
	if (!over && (x->gone || (runs && !o->left))) {
		o->how->let_be(o->how->arg);
		over = true;
	}
	fm_xq_leave(q);
	return over;
}

void fm_xq_outlast(struct fm_xq *q, const struct fm_xq_outlast *how)
{
	struct outlasting o = {how, fm_now(), how->most};
	struct fm_xq_cold *x = q->cold;

	for (unsigned i = 1;
		!atomic_load(&q->client->dead) && !outlasted(q, &o, i % FM_XQ_LOSS_LOOKS == 0); i++)
		fm_turn_wait(q, atomic_load(&x->turn), fm_now() + FM_XQ_AHEAD_LOOK);
}

bool fm_xq_said(struct fm_xq *q, uint64_t more_than)
{
	bool yes;

	pthread_mutex_lock(&q->cold->lock);
	yes = q->cold->gone ? atomic_load(&q->cold->passed) : fm_slot_progress(q->slot) > more_than;
	fm_xq_leave(q);
	return yes;
}

static FM_COLD bool wait_to_have_fewer(struct fm_xq *q, uint64_t most)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t since = fm_now(), now = since, still = 0, done = fm_slot_done(q->slot);

	fm_xq_order_take(q);
	/* The device reports its progress only at gates. A gate for each launch would cost more
	 * than all else. */
	place(q, unfenced_since, FM_MAX(most / FM_XQ_AHEAD_GATES, UINT64_C(1)));
	fm_xq_order_give(q);
	while (fm_slot_pending(q->slot) >= most && !atomic_load(&q->client->dead) &&
		still < FM_XQ_AHEAD_MOST) {
		bool is_free = fm_xq_free(q);

		fm_turn_wait(q, atomic_load(&x->turn), now + FM_XQ_AHEAD_LOOK);
		still += fm_xq_free_ns(q, is_free, &now);
		if (fm_slot_done(q->slot) != done)
			still = 0;
		done = fm_slot_done(q->slot);
	}
	atomic_fetch_add_explicit(&q->slot->held_ns, now - since, memory_order_relaxed);
	return fm_slot_pending(q->slot) < most;
}

FM_HOT bool fm_xq_ahead(struct fm_xq *q, uint64_t most)
{
	return FM_LIKELY(fm_slot_pending(q->slot) < most) || atomic_load(&q->client->dead) ||
	       wait_to_have_fewer(q, most);
}
