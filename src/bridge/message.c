/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says. fm_msg_check() has checked the message's form; here it is checked against the
 * state. */
#include "internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct bdevice *device_find(struct fm_bridge *b, const char *key)
{
	struct bdevice *d;

	fm_list_each (d, &b->devices, link)
		if (!strcmp(fm_sched_dev_key(d->sdev), key))
			return d;
	return NULL;
}

int device_get(struct fm_bridge *b, struct bdevice **out, struct user *u, const char *key,
	struct fm_err *err)
{
	struct bdevice *d;

	key = way_device(b, key);
	d = device_find(b, key);
	*out = d;
	if (d)
		return 0;
	if (u->uid && u->devices >= USER_DEVICES)
		return fm_err_set(err, -EDQUOT, "user %u has named %u devices, the limit", u->uid,
			u->devices);
	d = calloc(1, sizeof(*d));
	if (!d || fm_sched_device_add(b->sched, &d->sdev, key)) {
		free(d);
		return fm_err_set(err, -ENOMEM, "out of memory for another device");
	}
	d->id = ++b->next_device;
	d->key = fm_sched_dev_key(d->sdev);
	fm_list_init(&d->ents);
	fm_list_add_tail(&b->devices, &d->link);
	u->devices++;
	*out = d;
	return 0;
}

static struct queue *queue_new(struct member *member, const struct fm_msg_queue *m, uint64_t now)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->client = member->client;
	q->member = member;
	q->number = m->slot;
	q->slot = &member->client->board->slot[m->slot];
	q->levels = m->levels;
	q->since = now;
	q->usage_base = CLAIM(q->slot->device_ns);
	fm_list_init(&q->in_ent);
	return q;
}

/* Clients have few queues, and ask seldom. */
static struct queue *queue_at(const struct fm_bridge_client *c, uint32_t slot)
{
	struct queue *q;

	fm_list_each (q, &c->queues, in_client)
		if (q->number == slot)
			return q;
	return NULL;
}

static int check_queue(struct fm_bridge *b, const struct fm_bridge_client *c,
	const struct fm_msg_queue *m, struct fm_err *err)
{
	const struct fm_bridge_limits *l = client_limits(b, c);
	const struct user *u = c->user;

	if (queue_at(c, m->slot))
		return fm_err_set(err, -EBADMSG, "QUEUE message: slot %u is in use", m->slot);
	if (l && l->queues && u->queues >= l->queues) {
		fm_err_set(err, -EDQUOT, "user %u has %u queues, the limit", u->uid, u->queues);
		fm_err_hint(err, "destroy queues, or have limits.queues in fermatad.conf raised");
		return -EDQUOT;
	}
	return 0;
}

/* Where the user may have no more groups, queues of the client are in its own. So a queue that
 * changes its group does not leave the scheduler thereby. */
static int member_for_queue(
	struct fm_bridge *b, struct member **m, uint64_t now, struct fm_err *err)
{
	int rc = member_get(b, *m, now, err);

	if (rc != -EDQUOT)
		return rc;
	*m = &(*m)->client->first;
	return 0;
}

static int on_queue(struct fm_bridge *b, struct member *member, const struct fm_msg_queue *m,
	uint64_t now, struct fm_err *err)
{
	struct fm_bridge_client *c = member->client;
	struct bdevice *d;
	struct queue *q;
	struct ent *e;
	int rc = check_queue(b, c, m, err);

	rc = rc ? rc : member_for_queue(b, &member, now, err);
	rc = rc ? rc : device_get(b, &d, c->user, m->device, err);
	if (rc)
		return rc;
	q = queue_new(member, m, now);
	e = q ? ent_get(b, q->member->group, d, now) : NULL;
	if (!e) {
		free(q);
		return fm_err_set(err, -ENOMEM, "out of memory for another queue");
	}
	q->id = ++b->next_queue;
	c->user->queues++;
	fm_list_add_tail(&c->queues, &q->in_client);
	ent_attach_queue(b, e, q);
	return 0;
}

/* A client also reports a refused queue as gone. Its slot is empty, so there is nothing to do. */
static int on_queue_gone(
	struct fm_bridge *b, struct fm_bridge_client *c, uint32_t slot, uint64_t now)
{
	struct queue *q = queue_at(c, slot);

	if (q)
		queue_free(b, q, now);
	return 0;
}

/* Does the hint change what clients are told: which entity is first, which one is alone but heard?
 */
static bool changes_clients(enum fm_hint h)
{
	return h == FM_HINT_PRIORITY || h == FM_HINT_FOREGROUND || h == FM_HINT_GANG ||
	       h == FM_HINT_DEADLINE;
}

static int set_hint(struct fm_bridge *b, struct fm_bridge_group *g,
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, uint64_t now,
	struct fm_err *err)
{
	int rc = fm_bridge_allows(by, h, v, err);

	rc = rc ? rc : fm_bridge_memory_allows(b, g, h, v, err);
	if (rc)
		return rc;
	rc = fm_sched_hint(b->sched, g->sgroup, h, v, now);
	if (!rc)
		NOTE_GROUP(b, hint, g, now, NULL, h, v, 0);
	if (!rc && h == FM_HINT_DEADLINE)
		group_deadline(g);
	if (!rc && h == FM_HINT_MEMORY_LIMIT)
		memory_reset_group(g);
	if (!rc && (h == FM_HINT_IDLE_OUT || h == FM_HINT_MEMORY_PIN))
		demand_kick(b);
	if (!rc && changes_clients(h))
		group_hinted(b, g);
	if (!rc && (h == FM_HINT_LEVEL || h == FM_HINT_GUARD_FROM || h == FM_HINT_PAD))
		group_ways(b, g);
	return rc ? fm_err_set(err, rc, "hint %d does not take the value %" PRId64, (int)h, v) : 0;
}

static void tell_hint(const struct fm_bridge *b, const struct member *m, enum fm_hint h, int64_t v)
{
	if (b->host.hint)
		b->host.hint(m->client->ctx, m->index, h, v);
}

/* Each client of a process starts with the hints of the same environment. A client that comes later
 * must not undo what another client or an operator has set in the process's group since.
 */
static bool repeats(const struct member *m, enum fm_hint h, int64_t v)
{
	const struct fm_bridge_group *g = m->group;
	bool begins = !(m->said & FM_HINT_BIT(h)) && fm_list_empty(&m->client->queues);

	return begins && g->pid && g->said & FM_HINT_BIT(h) && g->first[h] == v;
}

static void note_first(struct fm_bridge_group *g, enum fm_hint h, int64_t v)
{
	if (!(g->said & FM_HINT_BIT(h)))
		g->first[h] = v;
	g->said |= FM_HINT_BIT(h);
}

/* Tells the other clients of the process, so that each tells the next daemon the same. A process
 * with more than SIBLINGS_TOLD clients is not an honest one. */
static void tell_siblings(const struct fm_bridge *b, const struct member *but, enum fm_hint h)
{
	const struct fm_bridge_group *g = but->group;
	const struct member *m;
	unsigned n = 0;

	fm_list_each (m, &g->members, in_group)
		if (m != but && g->pid && m->client->pid == g->pid && n++ < SIBLINGS_TOLD)
			tell_hint(b, m, h, fm_sched_group_hints(g->sgroup)->value[h]);
}

static int client_hint(struct fm_bridge *b, struct member *m, enum fm_hint h, int64_t v,
	uint64_t now, struct fm_err *err)
{
	int64_t before = fm_sched_group_hints(m->group->sgroup)->value[h];
	bool again = repeats(m, h, v);
	int rc;

	m->said |= FM_HINT_BIT(h);
	if (again && before != v)
		tell_hint(b, m, h, before);
	if (again)
		return 0;
	rc = set_hint(b, m->group, client_limits(b, m->client), h, v, now, err);
	if (rc)
		return rc;
	note_first(m->group, h, v);
	if (before != v)
		tell_siblings(b, m, h);
	return 0;
}

static int on_hint(struct fm_bridge *b, struct member *member, const struct fm_msg_hint *m,
	uint64_t now, struct fm_err *err)
{
	int rc = member_get(b, member, now, err);

	return rc ? rc : client_hint(b, member, (enum fm_hint)m->hint, m->value, now, err);
}

/* The program is inside the segment whatever the answer is, and will end it. That end must not end
 * the segment around it. So a refused priority is left out, and a segment beyond the limit is
 * counted. */
static int segment_begin(
	struct fm_bridge *b, struct member *m, int32_t priority, uint64_t now, struct fm_err *err)
{
	int rc = member_get(b, m, now, err), refused = 0;
	int64_t rank;

	if (rc)
		return rc;
	if (priority != FM_SEGMENT_KEEP)
		refused = fm_bridge_allows(
			client_limits(b, m->client), FM_HINT_PRIORITY, priority, err);
	if (refused)
		priority = FM_SEGMENT_KEEP;
	rank = group_rank(m->group);
	if (fm_sched_segment_begin(b->sched, m->group->sgroup, priority, now)) {
		m->beyond++;
		return fm_err_set(err, -EDQUOT, "too many segments are open in the group");
	}
	NOTE_GROUP(b, declared_begin, m->group, now, NULL, (int64_t)priority, 0, 0);
	m->segments++;
	m->group->declared = true;
	group_note(b, m->group, now);
	if (group_rank(m->group) != rank)
		group_hinted(b, m->group);
	return refused;
}

/* Segments are counted for each client, so that no client can end a segment of another in the same
 * group. An end without a begin is not a lie: an earlier daemon may have got the begin. */
static int segment_end(struct fm_bridge *b, struct member *m, uint64_t now, struct fm_err *err)
{
	int64_t rank;

	if (m->beyond) {
		m->beyond--;
		return 0;
	}
	if (!m->segments)
		return fm_err_set(err, -EPERM, "no segment is open in group %u", m->index);
	m->segments--;
	rank = group_rank(m->group);
	NOTE_GROUP(b, declared_end, m->group, now, NULL, 0, 0, 0);
	fm_sched_segment_end(b->sched, m->group->sgroup, now);
	group_note(b, m->group, now);
	if (group_rank(m->group) != rank)
		group_hinted(b, m->group);
	return 0;
}

/* The client's group that a message is about; 0 for messages about no group. */
static uint32_t group_index(const union fm_msg *m)
{
	switch (m->head.type) {
	case FM_MSG_GROUP:
		return m->group.group;
	case FM_MSG_HINT:
		return m->hint.group;
	case FM_MSG_QUEUE:
		return m->queue.group;
	case FM_MSG_SEGMENT:
		return m->segment.group;
	}
	return 0;
}

static int on_message(struct fm_bridge *b, struct fm_bridge_client *c, const union fm_msg *m,
	uint64_t now, struct fm_err *err)
{
	struct member *member = member_make(c, group_index(m));

	if (!member)
		return fm_err_set(err, -ENOMEM, "out of memory for another group");
	switch (m->head.type) {
	case FM_MSG_BELL:
		fm_bridge_bell(b, c, now);
		return 0;
	case FM_MSG_MEMORY_BELL:
		memory_bell(b, c);
		return 0;
	case FM_MSG_GROUP:
		return member_name(b, member, m->group.name, now, err);
	case FM_MSG_HINT:
		return on_hint(b, member, &m->hint, now, err);
	case FM_MSG_QUEUE:
		return on_queue(b, member, &m->queue, now, err);
	case FM_MSG_QUEUE_GONE:
		return on_queue_gone(b, c, m->queue_gone.slot, now);
	case FM_MSG_SEGMENT:
		return m->segment.begin ? segment_begin(b, member, m->segment.priority, now, err)
					: segment_end(b, member, now, err);
	}
	return fm_err_set(err, -EBADMSG, "message of type %u is not for a daemon", m->head.type);
}

int fm_bridge_message(struct fm_bridge *b, struct fm_bridge_client *c, const union fm_msg *m,
	uint64_t now, struct fm_err *err)
{
	int rc;

	b->now = now;
	rc = on_message(b, c, m, now, err);
	bridge_settle(b, now);
	return rc;
}

int fm_bridge_group_hint(struct fm_bridge *b, struct fm_bridge_group *g,
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, uint64_t now,
	struct fm_err *err)
{
	struct member *m;
	int rc;

	b->now = now;
	rc = set_hint(b, g, by, h, v, now, err);
	if (!rc)
		fm_list_each (m, &g->members, in_group)
			tell_hint(b, m, h, v);
	bridge_settle(b, now);
	return rc;
}

void fm_bridge_group_suspend(
	struct fm_bridge *b, struct fm_bridge_group *g, bool suspended, uint64_t now)
{
	b->now = now;
	g->goes_on = !suspended;
	if (suspended)
		NOTE_GROUP(b, suspended, g, now, NULL, 0, 0, 0);
	else
		NOTE_GROUP(b, resumed, g, now, NULL, 0, 0, 0);
	fm_sched_suspend(b->sched, g->sgroup, suspended, now);
	bridge_settle(b, now);
	if (b->watcher.suspended)
		b->watcher.suspended(b->watcher.ctx, g);
}
