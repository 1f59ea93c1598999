/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which queues may go on while their gate is closed (FM_GATE_PADS, board.h): those of a group that
 * has been given multiprocessors for that (FM_HINT_PAD, or the device's setting), that waits for
 * more urgent groups alone, all of whose work is in its own domain. In another one the device would
 * take turns between the two, and the urgent group would lose time. A group that is suspended, and
 * a client in strict mode, never pad.
 */
#include "base/parse.h"
#include "internal.h"

/* So many entities of one user may pad: others' cost no time, and theirs need none. */
#define PADDERS_MOST 32

/* --- how many --- */

static int64_t setting(const struct fm_bridge *b, const struct ent *e)
{
	int64_t hint = fm_sched_group_hints(e->group->sgroup)->value[FM_HINT_PAD];

	return hint != FM_PAD_DEVICE ? hint : way_pad(b, e->dev->key);
}

static void store(struct fm_bridge *b, struct ent *e)
{
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		pad_enter(b, q);
}

void pad_enter(struct fm_bridge *b, struct queue *q)
{
	uint32_t k = q->client->gates ? 0 : q->ent->pad_k;
	uint32_t most = !q->client->gates && fm_pad_percent(q->ent->pad) ? PAD_MOST : 0;

	if (CLAIM(q->slot->pad) == k && CLAIM(q->slot->pad_most) == most)
		return;
	atomic_store_explicit(&q->slot->pad_most, most, memory_order_release);
	atomic_store_explicit(&q->slot->pad, k, memory_order_release);
	client_dirty(b, q->client);
}

/* --- when --- */

/* Is what has the device in one domain, and more urgent than an entity, all of it? */
struct beside {
	const struct ent *than;
	const struct queue *of; /* one of their queues */
	bool no, apart;         /* they may not; their work is not in one domain */
};

static bool same_domain(const struct queue *x, const struct queue *y)
{
	uint32_t domain = CLAIM(x->slot->domain);

	if (!domain || domain != CLAIM(y->slot->domain))
		return false;
	return x->client == y->client ||
	       (domain & FM_DOMAIN_SERVER && x->client->user == y->client->user);
}

static void look_at_holder(void *arg, void *data)
{
	const struct ent *e = data;
	struct beside *s = arg;
	struct queue *q;

	if (!e->gate_open || e == s->than)
		return;
	if (fm_sched_group_priority(e->group->sgroup) <=
		fm_sched_group_priority(s->than->group->sgroup))
		s->no = true;
	fm_list_each (q, &e->queues, in_ent) {
		if (!fm_slot_pending(q->slot))
			continue;
		if (s->of && !same_domain(s->of, q))
			s->apart = true;
		s->of = q;
	}
}

/* The urgent groups beside an entity. */
static struct beside beside(const struct ent *e)
{
	struct beside s = {.than = e};

	if (e->gate_open || fm_sched_group_suspended(e->group->sgroup) || !e->pad_k ||
		(fm_pad_percent(e->pad) && pad_auto_alone(&e->pad_auto)))
		s.no = true;
	else
		fm_sched_dev_each_active(e->dev->sdev, look_at_holder, &s);
	s.no |= !s.of;
	return s;
}

/* What a queue claims is no more than the time that has passed. */
static uint64_t padded(struct queue *q, uint64_t now)
{
	uint64_t claim = CLAIM(q->slot->padded_ns), ns = fm_sub_sat(claim, q->padded);

	ns = FM_MIN(ns, fm_sub_sat(now, q->padded_at));
	q->padded = FM_MAX(q->padded, claim);
	q->padded_at = now;
	return ns;
}

/* Device time in a pad is charged by its part of the multiprocessors. */
static void charge(struct fm_bridge *b, struct ent *e, struct queue *q)
{
	uint64_t ns = padded(q, b->now), all = CLAIM(q->slot->sms);

	if (!ns || !e->pad_k)
		return;
	fm_sched_beside(b->sched, e->sent, ns / FM_MAX(all, e->pad_k) * e->pad_k, b->now);
}

/* Does a queue ask, or may one pad already? */
static bool concerns(const struct ent *e)
{
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		if (CLAIM(q->slot->asks_pad) || gate_load(q) == FM_GATE_PADS)
			return true;
	return false;
}

static void look(struct fm_bridge *b, struct ent *e)
{
	const struct beside s = concerns(e) ? beside(e) : (struct beside){.no = true};
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent) {
		bool asks = !s.no && !q->client->gates && CLAIM(q->slot->asks_pad);
		bool pads = asks && !s.apart && same_domain(q, s.of);
		enum fm_gate gate = pads ? FM_GATE_PADS : FM_GATE_CLOSED;

		q->pad_apart = asks && !pads;
		charge(b, e, q);
		e->padded |= pads;
		if (e->gate_open || gate_load(q) == gate)
			continue;
		gate_store(q, gate);
		/* The client writes the one, then reads the other. */
		atomic_thread_fence(memory_order_seq_cst);
		if (pads && !CLAIM(q->slot->asks_pad))
			gate_store(q, FM_GATE_CLOSED);
		client_dirty(b, q->client);
	}
}

static bool is_padder(const struct ent *e)
{
	return !fm_list_empty(&e->in_pads);
}

void pad_forget(struct ent *e)
{
	e->group->user->padders -= is_padder(e);
	fm_list_del(&e->in_pads);
}

void pad_refresh(struct fm_bridge *b, struct ent *e)
{
	int64_t is = setting(b, e);

	if (is && !is_padder(e) && e->group->user->padders >= PADDERS_MOST)
		is = 0;
	if (is == e->pad)
		return;
	if (fm_pad_percent(is))
		pad_auto_init(&e->pad_auto, fm_pad_percent(is));
	pad_forget(e);
	e->pad = is;
	e->pad_k = is > 0 ? (unsigned)is : 0;
	if (is)
		fm_list_add_tail(&b->padders, &e->in_pads);
	e->group->user->padders += is_padder(e);
	if (!is)
		look(b, e);
	store(b, e);
}

void pad_settle(struct fm_bridge *b)
{
	struct ent *e;

	if (b->closing)
		return;
	fm_list_each (e, &b->padders, in_pads)
		look(b, e);
}

/* --- auto --- */

static void chosen(struct fm_bridge *b, struct ent *e, struct ent *urgent)
{
	e->pad_k = e->pad_auto.k;
	store(b, e);
	NOTE_MEMORY(b, pad_chosen, e->group, e->dev, urgent->group, e->pad_k, e->pad_auto.padded_ns,
		e->pad_auto.alone_ns);
}

static uint64_t commands(const struct ent *e)
{
	uint64_t sum = 0;
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		sum += fm_slot_done(q->slot);
	return sum;
}

void pad_job_begins(struct fm_bridge *b, struct ent *e)
{
	struct ent *p;

	if (fm_list_empty(&b->padders))
		return;
	e->job_first = commands(e);
	e->job_from = b->now;
	fm_list_each (p, &b->padders, in_pads)
		if (p->dev == e->dev && p != e)
			p->padded = false;
}

/* Jobs of different groups are of different kinds. */
static uint64_t kind_of(const struct ent *e, uint64_t n)
{
	return n + (uintptr_t)e * UINT64_C(0x9e3779b97f4a7c15);
}

/* A job that began before anything could pad has no beginning here, and teaches nothing. */
void pad_job_ends(struct fm_bridge *b, struct ent *e, uint64_t at)
{
	uint64_t from = e->job_from, ns = fm_sub_sat(at, from), kind;
	struct ent *p;

	e->job_from = 0;
	if (fm_list_empty(&b->padders) || !from)
		return;
	kind = kind_of(e, commands(e) - e->job_first);
	fm_list_each (p, &b->padders, in_pads) {
		if (p->dev != e->dev || p == e || !fm_pad_percent(p->pad) ||
			fm_sched_group_priority(e->group->sgroup) <=
				fm_sched_group_priority(p->group->sgroup))
			continue;
		if (pad_auto_job(&p->pad_auto, kind, ns, p->padded))
			chosen(b, p, e);
		p->padded = false;
	}
}
