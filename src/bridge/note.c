/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in the bridge, for a trace. */
#include "internal.h"

void fm_bridge_tracer(struct fm_bridge *b, const struct fm_bridge_tracer *t)
{
	b->tracer = *t;
}

uid_t fm_bridge_group_uid(const struct fm_bridge_group *g)
{
	return g->user->uid;
}

const char *fm_bridge_group_name(const struct fm_bridge_group *g)
{
	return g->name;
}

uint32_t *fm_bridge_group_mark(struct fm_bridge_group *g)
{
	return &g->mark;
}

void note_out(struct fm_bridge *b, const struct fm_bridge_note *n)
{
	b->tracer.note(b->tracer.ctx, n);
}

void note_queue(struct fm_bridge *b, enum fm_trace_event event, const struct queue *q, uint64_t at)
{
	struct fm_bqueue_info info;

	queue_info(q, &info);
	note_out(b, &(struct fm_bridge_note){
			    .event = event,
			    .at = at,
			    .group = q->ent->group,
			    .device = q->ent->dev->id,
			    .device_key = q->ent->dev->key,
			    .queue = &info,
			    .arg = {q->id, (uint64_t)q->client->pid,
				    event == FM_EV_queue_added ? q->levels : 0},
		    });
}

/* Commands that are launched and not finished; and queues. */
static uint64_t pending(const struct ent *e, uint64_t *queues)
{
	uint64_t sum = 0;
	struct queue *q;

	*queues = 0;
	fm_list_each (q, &e->queues, in_ent) {
		sum = fm_add_sat(sum, fm_slot_pending(q->slot));
		(*queues)++;
	}
	return sum;
}

static void idle_args(const struct ent *e, uint64_t *arg)
{
	struct fm_linger linger;

	fm_sched_ent_linger(e->sent, &linger);
	arg[0] = 0;
	arg[2] = linger.keeps_ns;
}

void note_ent(struct fm_bridge *b, enum fm_trace_event event, const struct ent *e,
	struct fm_bridge_group *cause, const char *reason, uint64_t took, uint64_t at)
{
	struct fm_bridge_note n = {
		.event = event,
		.at = at,
		.group = e->group,
		.cause = cause == e->group ? NULL : cause,
		.device = e->dev->id,
		.device_key = e->dev->key,
		.reason = reason,
	};
	struct fm_ent_info info;
	uint64_t queues;

	fm_sched_ent_info(e->sent, b->now, &info);
	n.arg[0] = pending(e, &queues);
	n.arg[1] = info.served_ns;
	if (event == FM_EV_gate_closed || event == FM_EV_gate_opened)
		n.arg[2] = queues;
	else if (event == FM_EV_stalled)
		n.arg[0] = took;
	else if (event == FM_EV_idle)
		idle_args(e, n.arg);
	note_out(b, &n);
}

void note_memory(struct fm_bridge *b, enum fm_trace_event event, struct fm_bridge_group *g,
	const struct bdevice *d, struct fm_bridge_group *cause, const uint64_t *arg)
{
	note_out(b, &(struct fm_bridge_note){.event = event,
			    .at = b->now,
			    .group = g,
			    .cause = cause == g ? NULL : cause,
			    .device = d ? d->id : 0,
			    .device_key = d ? d->key : NULL,
			    .arg = {arg[0], arg[1], arg[2]}});
}

static void note_setting(struct fm_bridge *b, const char *name, int64_t value, uint64_t now)
{
	FM_PROBE(setting, now, (const char *)NULL, (const char *)NULL, name, (uint64_t)value, 0);
	if (NOTES(b))
		note_out(b, &(struct fm_bridge_note){.event = FM_EV_setting,
				    .at = now,
				    .reason = name,
				    .arg = {(uint64_t)value}});
}

/* The policy in force, with all of its settings. */
void note_policy(struct fm_bridge *b, uint64_t now)
{
	const struct fm_policy_ops *ops = fm_sched_policy_ops(b->sched);
	const int64_t *value = fm_sched_policy_params(b->sched);
	const struct fm_policy_param *p = ops->params;

	FM_PROBE(policy, now, (const char *)NULL, (const char *)NULL, ops->name, 0, 0);
	if (NOTES(b))
		note_out(b, &(struct fm_bridge_note){
				    .event = FM_EV_policy, .at = now, .reason = ops->name});
	for (; p && p->name; p++)
		note_setting(b, p->name, *value++, now);
	note_setting(b, "linger", (int64_t)fm_sched_get_linger(b->sched), now);
}

static void note_group(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	static const int64_t usual[FM_HINT_COUNT] = {
#define HINT_DEFAULT(id, word, min, max, def, unit) [id] = def,
		FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	};
	const struct fm_hints *hints = fm_sched_group_hints(g->sgroup);

	for (uint64_t h = 0; h < FM_HINT_COUNT; h++)
		if (hints->value[h] != usual[h])
			note_out(b, &(struct fm_bridge_note){.event = FM_EV_hint,
					    .at = now,
					    .group = g,
					    .reason = "before",
					    .arg = {h, (uint64_t)hints->value[h]}});
	if (fm_sched_group_suspended(g->sgroup))
		note_out(b, &(struct fm_bridge_note){.event = FM_EV_suspended,
				    .at = now,
				    .group = g,
				    .reason = "before"});
}

static void note_state(struct fm_bridge *b, const struct ent *e, uint64_t now)
{
	uint64_t queues;

	if (e->works || pending(e, &queues))
		note_ent(b, FM_EV_ready, e, NULL, NULL, 0, now);
	note_ent(
		b, e->gate_open ? FM_EV_gate_opened : FM_EV_gate_closed, e, NULL, "before", 0, now);
}

void fm_bridge_note_policy(struct fm_bridge *b, uint64_t now)
{
	b->now = now;
	note_policy(b, now);
}

/* Returns whether there are more. */
static bool note_queues(
	struct fm_bridge *b, struct fm_bridge_group *g, struct fm_bridge_told *told, uint64_t now)
{
	struct fm_bqueue_info info[FM_QUEUES_AT_ONCE];
	unsigned n = fm_bridge_group_queues_after(g, told->queues, info);

	for (unsigned i = 0; i < n; i++) {
		note_out(b, &(struct fm_bridge_note){
				    .event = FM_EV_queue_added,
				    .at = now,
				    .group = g,
				    .device = info[i].device_id,
				    .device_key = info[i].device,
				    .queue = &info[i],
				    .arg = {info[i].id, (uint64_t)info[i].pid, info[i].levels},
			    });
		told->queues = info[i].id;
	}
	return n == FM_QUEUES_AT_ONCE;
}

bool fm_bridge_note_part(struct fm_bridge *b, struct fm_bridge_told *told, uint64_t now)
{
	struct fm_bridge_group *g = fm_bridge_group_after(b, told->groups);
	struct ent *e;

	if (!g)
		return false;
	b->now = now;
	if (told->inside != fm_bridge_group_id(g)) {
		told->inside = fm_bridge_group_id(g);
		told->queues = 0;
		note_group(b, g, now);
	}
	if (note_queues(b, g, told, now))
		return true;
	fm_list_each (e, &g->ents, in_group)
		note_state(b, e, now);
	told->groups = told->inside;
	return true;
}

void fm_bridge_exact(struct fm_bridge *b, bool exact, uint64_t now)
{
	struct fm_bridge_group *g;

	b->now = now;
	if (!fm_sched_exact(b->sched, exact, now))
		return;
	fm_list_each (g, &b->groups, link)
		group_hinted(b, g); /* clients are told what is shared */
	bridge_settle(b, now);
}
