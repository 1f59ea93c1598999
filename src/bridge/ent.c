/* SPDX-License-Identifier: Apache-2.0 */
/* Entities: report to the core what a group's queues claim on a device, and store its answers. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

#define QUIET (2 * FM_MS)

static uint64_t clamp(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* A queue's usage is at most the time since it joined, and never falls. When a queue stops, its
 * program first clears busy_since and then adds the time to device_ns. The words are read here in
 * the opposite order, so that this time counts once or not yet, and never twice. */
uint64_t queue_usage(struct queue *q, uint64_t now)
{
	uint64_t used = fm_sub_sat(CLAIM(q->slot->device_ns), q->usage_base);
	uint64_t busy_since = CLAIM(q->slot->busy_since);

	if (busy_since && busy_since < now)
		used = fm_add_sat(used, now - FM_MAX(busy_since, q->since));
	used = FM_MIN(used, fm_sub_sat(now, q->since));
	q->usage = FM_MAX(q->usage, used);
	return q->usage;
}

static uint64_t ent_usage(void *ctx, void *data, uint64_t now)
{
	struct ent *e = data;
	uint64_t sum = e->usage_gone;
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		sum = fm_add_sat(sum, queue_usage(q, now));
	return sum;
}

/* Device time as the programs measure it. Queues overlap, so the sum of their usage can exceed the
 * time that passed: what is added is at most the time since the last call. */
static uint64_t ent_used(struct ent *e, uint64_t now)
{
	uint64_t usage = ent_usage(NULL, e, now);

	e->used += FM_MIN(fm_sub_sat(usage, e->used_by), fm_sub_sat(now, e->used_at));
	e->used_by = usage;
	e->used_at = now;
	return e->used;
}

/* Queues get parts in proportion to what they measured; while they measured nothing, the time is
 * kept for later. It is dealt out at most once for each `now', so that a caller that asks for each
 * queue of a client does not walk the whole entity each time. */
uint64_t ent_deal(struct ent *e, uint64_t now)
{
	uint64_t used = fm_sched_ent_used(e->sent, now), ns = used - e->dealt, sum = 0;
	struct queue *q;

	if (!ns || e->dealt_at == now)
		return used;
	e->dealt_at = now;
	fm_list_each (q, &e->queues, in_ent)
		sum = fm_add_sat(sum, queue_usage(q, now) - q->dealt);
	if (!sum)
		return used;
	e->dealt = used;
	fm_list_each (q, &e->queues, in_ent) {
		q->device_ns +=
			(uint64_t)((double)ns * (double)(q->usage - q->dealt) / (double)sum);
		q->dealt = q->usage;
	}
	return used;
}

static bool is_heard(const struct ent *e)
{
	return e->bells & FM_BELL_READY;
}

/* An unheard entity may have been busy and idle in turn, and how long each time is not known. So
 * its unheard time grows by at most the time that the core counted as idle. */
void ent_look(struct ent *e, uint64_t now)
{
	uint64_t used = ent_used(e, now), idle = fm_sched_ent_idle(e->sent, now);

	if (!is_heard(e))
		e->unheard +=
			FM_MIN(fm_sub_sat(used, e->seen_used), fm_sub_sat(idle, e->seen_idle));
	e->seen_used = used;
	e->seen_idle = idle;
}

void client_dirty(struct fm_bridge *b, struct fm_bridge_client *c)
{
	fm_list_del(&c->in_dirty);
	fm_list_add_tail(&b->dirty, &c->in_dirty);
}

/* The group that the policy chose on the device. */
static struct fm_bridge_group *chosen_on(const struct bdevice *d)
{
	const struct ent *first = fm_sched_dev_first(d->sdev);

	return first ? first->group : NULL;
}

static void note_gate(
	struct fm_bridge *b, struct ent *e, bool open, const char *reason, uint64_t now)
{
	/* An idle entity is not stopped for another group: only a trace needs the cause then. */
	bool asked = !open && (e->works || NOTES(b));
	struct fm_bridge_group *cause = asked ? chosen_on(e->dev) : NULL;

	e->closed_for = cause != e->group ? cause : NULL;
	if (open)
		NOTE_ENT(b, gate_opened, e, NULL, reason, 0, now);
	else
		NOTE_ENT(b, gate_closed, e, cause, reason, 0, now);
}

static void ent_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	enum fm_gate gate = open ? FM_GATE_OPEN : FM_GATE_CLOSED;
	struct fm_bridge *b = ctx;
	struct ent *e = data;
	struct queue *q;

	if (b->closing)
		return;
	e->gate_open = open;
	if (!open)
		e->closed_at = now;
	fm_list_each (q, &e->queues, in_ent) {
		gate_store(q, gate);
		if (open && !fm_list_empty(&q->client->in_gone))
			gate_open_gone(q->client);
	}
	/* A client that changes a queue's level writes the level first, then reads its gate. */
	atomic_thread_fence(memory_order_seq_cst);
	fm_list_each (q, &e->queues, in_ent) {
		/* At level 2 a closed gate stops the queue without the client's help. */
		if (open || CLAIM(q->slot->level) != FM_LEVEL_QUEUED || q->client->makes_room ||
			CLAIM(q->slot->hears))
			client_dirty(b, q->client);
	}
	note_gate(b, e, open, reason, now);
	planner_kick(b, e->dev);
}

/* When a queue came to rest. A device that waits at the gate reports no time, so it is now. */
static uint64_t rest_since(const struct fm_bridge *b, const struct ent *e, const struct fm_slot *s)
{
	uint64_t done_at = CLAIM(s->done_at);

	return fm_slot_waits(s) && fm_slot_pending(s) && done_at < e->closed_at ? b->now : done_at;
}

/* A queue may wait, by an event, for one that stands at its gate, and never reach its own gate.
 * When one queue stands and none has finished a command for QUIET, all queues count as at rest. */
static bool waits_for_each_other(struct fm_bridge *b, struct ent *e, bool one_stands, uint64_t done)
{
	if (done != e->quiet_done || e->quiet_since < e->closed_at) {
		e->quiet_done = done;
		e->quiet_since = b->now;
	}
	return one_stands && b->now - e->quiet_since >= QUIET;
}

static bool ent_stalled(void *ctx, void *data, uint64_t *since)
{
	bool all_stand = true, one_stands = false;
	struct fm_bridge *b = ctx;
	struct ent *e = data;
	uint64_t last = 0, done = 0;
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent) {
		bool stands = fm_slot_stalled(q->slot);

		done += fm_slot_done(q->slot);
		all_stand = all_stand && stands;
		one_stands = one_stands || fm_slot_waits(q->slot) ||
			     (stands && fm_slot_pending(q->slot));
		if (stands)
			last = FM_MAX(last, rest_since(b, e, q->slot));
	}
	if (!all_stand && !waits_for_each_other(b, e, one_stands, done))
		return false;
	*since = clamp(last, FM_MIN(e->closed_at, b->now), b->now);
	return true;
}

bool ent_is_alone(const struct ent *e)
{
	return e->dev->n_ents < 2;
}

/* After bells are set, the board must be looked at (board.h, memory order). That look may report an
 * edge, which the core does not expect within its own call, so bridge_settle() does it. */
static void ent_bells(void *ctx, void *data, bool want_ready, bool want_idle)
{
	uint32_t bells = (want_ready ? FM_BELL_READY : 0) | (want_idle ? FM_BELL_IDLE : 0);
	struct fm_bridge *b = ctx;
	struct ent *e = data;
	struct queue *q;

	if (bells == e->bells || b->closing)
		return;
	if ((bells ^ e->bells) & FM_BELL_READY)
		ent_look(e, b->now);
	if (bells & ~e->bells) {
		fm_list_del(&e->in_recheck);
		fm_list_add_tail(&b->recheck, &e->in_recheck);
	}
	e->bells = bells;
	fm_list_del(&e->in_heard);
	if (want_ready)
		fm_list_add_head(&b->heard, &e->in_heard);
	fm_list_each (q, &e->queues, in_ent) {
		atomic_store_explicit(&q->slot->bells, bells, memory_order_release);
		if (bells && ent_is_alone(e))
			client_contended(b, q->client); /* it is alone, but heard */
	}
}

void ents_forget(struct fm_bridge *b, const struct fm_bridge_group *g)
{
	struct bdevice *d;
	struct ent *e;

	fm_list_each (d, &b->devices, link)
		fm_list_each (e, &d->ents, in_device)
			if (e->closed_for == g)
				e->closed_for = NULL;
}

static void ent_rested(void *ctx, void *data, uint64_t took, uint64_t at)
{
	struct fm_bridge *b = ctx;
	struct ent *e = data;

	NOTE_ENT(b, stalled, e, e->closed_for, NULL, took, at);
	group_rested(ctx, e->group, took, at);
}

/* The bridge's device for the core's, or NULL. */
static const struct bdevice *device_of(struct fm_bridge *b, const struct fm_sched_dev *sdev)
{
	struct bdevice *d;

	fm_list_each (d, &b->devices, link)
		if (d->sdev == sdev)
			return d;
	return NULL;
}

static void device_decided(void *ctx, const struct fm_sched_dev *sdev, uint64_t now)
{
	struct fm_bridge *b = ctx;
	const struct bdevice *d;
	struct fm_decision c;

	FM_PROBE(
		decided, now, (const char *)NULL, fm_sched_dev_key(sdev), (const char *)NULL, 0, 0);
	if (!NOTES(b))
		return;
	d = device_of(b, sdev);
	fm_sched_dev_decision(sdev, &c);
	note_out(b, &(struct fm_bridge_note){
			    .event = FM_EV_decided,
			    .at = now,
			    .group = c.first ? ((struct ent *)c.first)->group : NULL,
			    .device = d ? d->id : 0,
			    .device_key = fm_sched_dev_key(sdev),
			    .reason = c.reason,
			    .arg = {c.chosen, c.ready, c.all},
		    });
}

const struct fm_sched_host bridge_sched_host = {
	.gate = ent_gate,
	.stalled = ent_stalled,
	.usage = ent_usage,
	.bells = ent_bells,
	.rested = ent_rested,
	.decided = device_decided,
};

void ent_refresh(struct fm_bridge *b, struct ent *e, uint64_t now)
{
	uint64_t last = fm_list_empty(&e->queues) ? now : 0;
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent) {
		if (e->group->demand.expects ||
			(fm_slot_pending(q->slot) && CLAIM(q->slot->hold) != FM_HOLD_RESTS)) {
			if (!e->works && !is_heard(e))
				ent_look(e, now);
			e->ready_at = now;
			if (!e->works) {
				NOTE_ENT(b, ready, e, NULL, NULL, 0, now);
				pad_job_begins(b, e);
			}
			e->works = true;
			if (demand_holds(e->group))
				demand_kick(b);
			fm_sched_ready(b->sched, e->sent, now, now);
			group_note(b, e->group, now);
			return;
		}
		last = FM_MAX(last, CLAIM(q->slot->done_at));
	}
	if (!is_heard(e))
		ent_look(e, now);
	last = clamp(last, FM_MIN(e->ready_at, now), now);
	if (e->works) {
		NOTE_ENT(b, idle, e, NULL, NULL, 0, last);
		pad_job_ends(b, e, last);
	}
	e->works = false;
	fm_sched_idle(b->sched, e->sent, last, now);
	group_note(b, e->group, last);
}

static void refresh_active(void *arg, void *data)
{
	struct fm_bridge *b = arg;

	ent_refresh(b, data, b->now);
}

void device_refresh(struct fm_bridge *b, struct bdevice *d)
{
	fm_sched_dev_each_active(d->sdev, refresh_active, b);
}

int64_t group_rank(const struct fm_bridge_group *g)
{
	if (fm_list_empty(&g->ents))
		return 0;
	return fm_sched_rank(fm_list_first(&g->ents, struct ent, in_group)->sent);
}

struct ent *ent_get(struct fm_bridge *b, struct fm_bridge_group *g, struct bdevice *d, uint64_t now)
{
	struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->dev == d) {
			fm_list_del(&e->in_left);
			return e;
		}
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->group = g;
	e->dev = d;
	e->gate_open = true;
	e->ready_at = now;
	e->used_at = now;
	fm_list_init(&e->in_recheck);
	fm_list_init(&e->in_heard);
	fm_list_init(&e->in_left);
	fm_list_init(&e->in_pads);
	fm_list_init(&e->queues);
	if (fm_sched_ent_add(b->sched, &e->sent, g->sgroup, d->sdev, e, now)) {
		fm_list_del(&e->in_recheck);
		fm_list_del(&e->in_heard);
		free(e);
		return NULL;
	}
	pad_refresh(b, e);
	fm_list_add_tail(&g->ents, &e->in_group);
	fm_list_add_tail(&d->ents, &e->in_device);
	device_contended(b, d, ++d->n_ents == 2);
	group_contended(b, g);
	if (demand_holds(g))
		fm_sched_ready_at(b->sched, e->sent, FM_NEVER, now);
	return e;
}

void ent_put(struct fm_bridge *b, struct ent *e, uint64_t now)
{
	ent_refresh(b, e, now);
	if (e->dev->background > 1 && ent_in_background(e))
		device_contended(b, e->dev, false);
	if (!fm_list_empty(&e->queues))
		return;
	e->left_at = now;
	fm_list_del(&e->in_left);
	fm_list_add_tail(&b->left, &e->in_left);
}

uint64_t ents_run(struct fm_bridge *b, uint64_t now)
{
	while (!fm_list_empty(&b->left)) {
		struct ent *e = fm_list_first(&b->left, struct ent, in_left);

		if (fm_sub_sat(now, e->left_at) < STAYS)
			return e->left_at + STAYS;
		ent_end(b, e, now);
	}
	return FM_NEVER;
}

void ent_end(struct fm_bridge *b, struct ent *e, uint64_t now)
{
	struct fm_bridge_group *g = e->group;
	struct fm_ent_info info;

	fm_list_del(&e->in_left);
	fm_sched_ent_info(e->sent, now, &info);
	g->used_gone = fm_add_sat(g->used_gone, info.served_ns);
	fm_sched_ent_del(b->sched, e->sent, now);
	fm_list_del(&e->in_recheck);
	fm_list_del(&e->in_heard);
	pad_forget(e);
	fm_list_del(&e->in_group);
	fm_list_del(&e->in_device);
	device_contended(b, e->dev, --e->dev->n_ents == 1);
	group_contended(b, g);
	group_note(b, g, now);
	free(e);
}

void ent_attach_queue(struct fm_bridge *b, struct ent *e, struct queue *q)
{
	enum fm_gate gate = e->gate_open ? FM_GATE_OPEN : FM_GATE_CLOSED;
	bool changes = gate_load(q) != gate;

	q->ent = e;
	fm_list_add_tail(&e->queues, &q->in_ent);
	atomic_store_explicit(&q->slot->bells, e->bells, memory_order_release);
	way_store(b, q);
	q->padded = CLAIM(q->slot->padded_ns);
	q->padded_at = b->now;
	pad_enter(b, q);
	gate_enter(q);
	gate_store(q, gate);
	if (changes)
		client_dirty(b, q->client);
	fm_list_del(&e->in_recheck);
	fm_list_add_tail(&b->recheck, &e->in_recheck);
	if (e->dev->background == 1 && ent_in_background(e) && ent_has_several_clients(e))
		device_contended(b, e->dev, false);
	if (ent_shares(e) != FM_SHARES_NONE)
		client_contended(b, q->client);
	NOTE_QUEUE(b, queue_added, q, b->now);
}

/* Does not write the queue's words: its client may be gone. */
void ent_detach_queue(struct ent *e, struct queue *q, uint64_t now)
{
	ent_deal(e, now);
	e->usage_gone = fm_add_sat(e->usage_gone, queue_usage(q, now));
	q->client->device_gone += q->device_ns;
	q->device_ns = q->dealt = 0;
	q->usage_base = fm_add_sat(q->usage_base, q->usage);
	q->usage = 0;
	q->since = now;
	fm_list_del(&q->in_ent);
	q->ent = NULL;
}
