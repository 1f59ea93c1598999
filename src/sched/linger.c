/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an entity that goes idle keeps the device.
 *
 * Keeping the device costs device time for as long as the pause lasts. Giving it away costs a
 * hand-over there and one back. The length of the coming pause is not known, but the lengths of the
 * last ones are. So this is a ski rental problem with a known distribution: the threshold t is
 * chosen that minimizes
 *
 *	E[min(pause, t)] + P(pause > t) * handover
 *
 * where t = 0 gives the device away at once. While little is known, t is the cost of the hand-over:
 * then no pause costs more than twice what it would have cost with its length known (Karlin,
 * Manasse, Rudolph, Sleator 1988, "Competitive snoopy caching"). The distribution may change, or
 * have a tail that was not seen yet. So t is never above twice that cost, nor above FM_LINGER_MOST:
 * no pause costs more than thrice the hand-over.
 *
 * What a hand-over costs. Each of the two changes costs the device a switch. The entity that comes
 * back also waits until the other has come to rest. This is no loss of device time, because the
 * other computes meanwhile. Among equals two switches are lost. But if the entity that comes back
 * is the more urgent one, its delay weighs URGENT times as much as the device time that the other
 * gains:
 *
 *	handover = URGENT * delay + switch - min(rest, delay)
 *
 * rest is the mean of the device's last stops. The delay is learnt from jobs that came back and
 * were let in at once: it is how much longer they took than jobs of the same entity that had kept
 * the device. It is less than rest and switch together if the device works for the job before the
 * other has come to rest. The switch is the delay without the rest. If jobs are too unlike for
 * that, the switch stays at its initial value, and the delay is rest and switch.
 *
 * Where not all memory of those that take turns is on the device, some of it moves for each
 * hand-over, and if turns are too short for the link, the device waits for that. So that time is
 * part of the cost: a program that pauses after each of its steps is to have all of its turn, and
 * not one step of it.
 *
 * All values are integers of fixed size. A sample is one pass over 64 bytes, and so is a threshold.
 */
#include "core.h"

/* Device time lost by a change from one process to another: initial value, least and most. */
#define SWITCH       (160 * FM_US)
#define SWITCH_LEAST (40 * FM_US)
#define SWITCH_MOST  FM_MS
#define URGENT       3
#define MOVES_MOST   FM_S /* of what memory adds to it */
#define FEW          4    /* pauses needed before they are used */
#define FEW_JOBS     8

/* A sample adds UNIT to its bucket, and every bucket loses a FORGET-th of itself, so the sum stays
 * below 2^16. */
#define UNIT   512
#define FORGET 64
/* The first bucket is below 16 us. From there on there are four buckets in a power of two. */
#define BITS  2
#define FIRST ((14 - BITS + 1) << BITS) /* of fm_log_bucket(), from 2^14 ns on */

/* An entity that has paused for longer than a fixed linger this often in a row gives the device up
 * at once, until a pause is shorter. */
#define LONG_PAUSES 8

static unsigned bucket_of(uint64_t ns)
{
	unsigned i = fm_log_bucket(ns, BITS) + 1;

	return i <= FIRST ? 0 : FM_MIN(i - FIRST, FM_PAUSE_BUCKETS - 1u);
}

/* The last bucket has no end. */
static uint64_t end_of(unsigned i)
{
	return fm_log_end(i + FIRST - 1, BITS);
}

void fm_linger_paused(struct fm_sched_ent *e, uint64_t ns)
{
	struct fm_pauses *p = &e->pauses;

	e->long_pauses = ns > e->d->s->linger ? e->long_pauses + 1 : 0;
	for (unsigned i = 0; i < FM_PAUSE_BUCKETS; i++)
		p->bucket[i] = (uint16_t)(p->bucket[i] - (p->bucket[i] + (FORGET - 1)) / FORGET);
	p->bucket[bucket_of(ns)] += UNIT;
	p->seen += p->seen < UINT32_MAX;
}

void fm_linger_device(struct fm_sched_dev *d)
{
	d->swtch = SWITCH;
}

void fm_linger_drained(struct fm_sched_dev *d, uint64_t took)
{
	d->drained = fm_add_sat(d->drained, took);
	took = FM_MIN(took, FM_POLL_MAX);
	d->drain = (15 * d->drain + took) / 16;
}

/* A job begins. `came` says whether another entity was stopped for it; it says neither if there was
 * no entity to stop. */
void fm_linger_begins(struct fm_sched_ent *e, enum fm_came came, uint64_t at)
{
	struct fm_pauses *p = &e->pauses;

	p->came = came;
	p->since = at;
	if (came == FM_CAME_FETCHED || came == FM_CAME_WAITS)
		p->fetches = came == FM_CAME_FETCHED;
	if (came == FM_CAME_WAITS)
		e->d->drained = 0;
}

/* Jobs that are far shorter than most are of another kind, for instance a copy between two jobs. */
static void learn_length(struct fm_pauses *p, uint64_t took)
{
	uint64_t off = took > p->length ? took - p->length : p->length - took;

	p->jobs += p->jobs < UINT32_MAX;
	if (p->jobs == 1) {
		p->length = took;
	} else if (2 * took < p->length) {
		p->length -= p->length / 64;
	} else {
		p->length = (7 * p->length + took) / 8;
		p->off = (7 * p->off + off) / 8;
	}
}

static uint64_t delay_of(const struct fm_sched_dev *d)
{
	return d->delay ? d->delay : d->drain + d->swtch;
}

/* Learns from a job of the same kind for which another entity was stopped. */
static void learn_switch(struct fm_sched_dev *d, const struct fm_pauses *p, uint64_t took)
{
	uint64_t delay = fm_sub_sat(took, p->length);

	if (p->jobs < FEW_JOBS || 8 * p->off > p->length || 2 * took < p->length || d->n_draining)
		return;
	d->delay = FM_MAX((15 * delay_of(d) + FM_MIN(delay, FM_POLL_MAX)) / 16, UINT64_C(1));
	delay = fm_sub_sat(delay, d->drained);
	d->swtch = (15 * d->swtch + FM_MIN(FM_MAX(delay, SWITCH_LEAST), SWITCH_MOST)) / 16;
}

void fm_linger_ends(struct fm_sched_ent *e, uint64_t at)
{
	struct fm_pauses *p = &e->pauses;
	uint64_t took = fm_sub_sat(at, p->since);

	if (p->came == FM_CAME_KEPT)
		learn_length(p, took);
	else if (p->came == FM_CAME_FETCHED)
		learn_switch(e->d, p, took);
	p->came = FM_CAME_ELSE;
}

static bool is_urgent(const struct fm_sched_ent *e)
{
	return e->pauses.fetches && e->d->s->ops->rank;
}

static uint64_t moves_of(const struct fm_sched_dev *d)
{
	return FM_MIN(d->moves, MOVES_MOST);
}

static uint64_t handover_of(const struct fm_sched_ent *e)
{
	const struct fm_sched_dev *d = e->d;

	if (!is_urgent(e))
		return 2 * d->swtch + moves_of(d);
	return URGENT * delay_of(d) + d->swtch - FM_MIN(d->drain, delay_of(d)) + moves_of(d);
}

/* An admitted task's bound has room for FM_LINGER_BOUND and no more. A group on several devices may
 * hold back entities on the other devices, so it gets no more, either. */
static uint64_t most_of(const struct fm_sched_ent *e, uint64_t handover)
{
	if (e->g->grant != FM_GRANT_NONE || fm_gang_multi(e->g))
		return FM_LINGER_BOUND;
	return FM_MIN(2 * handover, FM_LINGER_MOST);
}

/* The threshold of least cost among the ends of the buckets, and half as much again, because the
 * distribution is known only coarsely and from few samples. */
static uint64_t cheapest(const struct fm_pauses *p, uint64_t handover, uint64_t most)
{
	uint64_t longer = 0, kept = 0, least, best = 0, cost, end = 0, begin;

	for (unsigned i = 0; i < FM_PAUSE_BUCKETS; i++)
		longer += p->bucket[i];
	least = longer * handover;
	for (unsigned i = 0; i < FM_PAUSE_BUCKETS - 1; i++) {
		begin = end;
		end = end_of(i);
		if (end > most)
			break;
		longer -= p->bucket[i];
		kept += p->bucket[i] * ((begin + end) / 2);
		cost = kept + longer * (end + handover);
		if (cost >= least)
			continue;
		least = cost;
		best = end;
	}
	return FM_MIN(best + best / 2, most);
}

static uint64_t learnt(const struct fm_sched_ent *e)
{
	uint64_t handover = handover_of(e), most = most_of(e, handover);

	if (e->pauses.seen < FEW)
		return FM_MIN(handover, most);
	return cheapest(&e->pauses, handover, most);
}

uint64_t fm_linger_of(const struct fm_sched_ent *e)
{
	uint64_t fixed = e->d->s->linger;

	if (fixed == FM_LINGER_AUTO)
		return learnt(e);
	return e->long_pauses < LONG_PAUSES ? fixed : 0;
}

/* The part of the pauses that are not longer than ns, in thousandths. */
static unsigned within(const struct fm_pauses *p, uint64_t ns)
{
	uint64_t all = 0, n = 0;

	for (unsigned i = 0; i < FM_PAUSE_BUCKETS; i++) {
		all += p->bucket[i];
		if (i < FM_PAUSE_BUCKETS - 1 && end_of(i) <= ns)
			n += p->bucket[i];
	}
	return all ? (unsigned)(1000 * n / all) : 0;
}

void fm_sched_ent_linger(const struct fm_sched_ent *e, struct fm_linger *out)
{
	*out = (struct fm_linger){
		.keeps_ns = fm_linger_of(e),
		.handover_ns = handover_of(e),
		.pauses = e->pauses.seen,
		.learnt = e->d->s->linger == FM_LINGER_AUTO,
		.urgent = is_urgent(e),
	};
	out->within = within(&e->pauses, out->keeps_ns);
}
