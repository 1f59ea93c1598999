/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, their members, and what each user may have. */
#include "internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user *user_get(struct fm_bridge *b, uid_t uid)
{
	struct user *u;

	fm_list_each (u, &b->users, link)
		if (u->uid == uid)
			return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	fm_list_init(&u->memories);
	fm_list_add_tail(&b->users, &u->link);
	return u;
}

/* A device is never removed, so a user who introduced one is kept. */
void user_put(struct user *u)
{
	if (u->groups || u->queues || u->devices)
		return;
	fm_list_del(&u->link);
	free(u);
}

static struct fm_bridge_group *group_find(
	struct fm_bridge *b, const struct user *u, const char *name)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (g->user == u && !strcmp(g->name, name))
			return g;
	return NULL;
}

static void set_name(struct fm_bridge_group *g, const char *name)
{
	_Static_assert(FM_NAME_MAX <= FM_WHO_NAME, "a name is remembered as it is");

	g->name = fm_sched_label(g->sgroup, g->user->uid, name);
}

static struct fm_bridge_group *group_new(
	struct fm_bridge *b, const struct fm_bridge_client *c, const char *name, struct fm_err *err)
{
	const struct fm_bridge_limits *l = client_limits(b, c);
	struct user *u = c->user;
	struct fm_bridge_group *g;

	if (l && l->groups && u->groups >= l->groups) {
		fm_err_set(err, -EDQUOT, "user %u has %u groups, the limit", u->uid, u->groups);
		fm_err_hint(
			err, "end other programs, or have limits.groups in fermatad.conf raised");
		return NULL;
	}
	fm_err_set(err, -ENOMEM, "out of memory for another group");
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	if (fm_sched_group_add(b->sched, &g->sgroup)) {
		free(g);
		return NULL;
	}
	g->bridge = b;
	g->user = u;
	g->demand.at = b->now;
	set_name(g, name);
	fm_list_init(&g->members);
	fm_list_init(&g->ents);
	fm_list_init(&g->ended);
	fm_list_init(&g->memory_past);
	fm_list_init(&g->coming);
	fm_list_add_tail(&b->groups, &g->link);
	u->groups++;
	limits_start(b, g, l);
	return g;
}

static void group_put(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	if (!fm_list_empty(&g->members))
		return;
	while (!fm_list_empty(&g->ents))
		ent_end(b, fm_list_first(&g->ents, struct ent, in_group), now);
	group_goes(b, g);
	ents_forget(b, g);
	fm_sched_group_del(b->sched, g->sgroup, now);
	fm_list_del(&g->link);
	fm_list_del(&g->ended);
	memory_forget_group(g);
	fm_list_del(&g->coming);
	g->user->groups--;
	free(g);
}

static void join(struct fm_bridge *b, struct member *m, struct fm_bridge_group *g)
{
	m->group = g;
	fm_list_add_tail(&g->members, &m->in_group);
	NOTE_GROUP(b, joined, g, b->now, NULL, m->client->pid, 0, 0);
	memory_reset_group(g);
	group_came(b, g);
}

static int join_new(struct fm_bridge *b, struct member *m, const char *name, struct fm_err *err)
{
	struct fm_err reason;
	struct fm_bridge_group *g = group_new(b, m->client, name, &reason);

	if (!g) {
		if (err)
			*err = reason;
		return reason.code;
	}
	join(b, m, g);
	return 0;
}

static bool has_process_of(const struct fm_bridge *b, const struct fm_bridge_group *g,
	const struct fm_bridge_client *c)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (m->client != c && m->client->pid == c->pid &&
			b->host.one_process(c->ctx, m->client->ctx))
			return true;
	return false;
}

/* The group of the clients of c's process that name no group, or NULL. */
static struct fm_bridge_group *process_group(
	const struct fm_bridge *b, const struct fm_bridge_client *c)
{
	struct fm_bridge_group *g;

	if (!c->pid || !b->host.one_process)
		return NULL;
	fm_list_each (g, &b->groups, link)
		if (g->user == c->user && g->pid == c->pid && has_process_of(b, g, c))
			return g;
	return NULL;
}

static int join_default(struct fm_bridge *b, struct member *m, const char *name, struct fm_err *err)
{
	struct fm_bridge_group *g = process_group(b, m->client);
	int rc;

	if (g) {
		join(b, m, g);
		return 0;
	}
	rc = join_new(b, m, name, err);
	if (!rc)
		m->group->pid = m->client->pid;
	return rc;
}

struct member *member_make(struct fm_bridge_client *c, uint32_t index)
{
	if (index && !c->more) {
		c->more = calloc(FM_BOARD_GROUPS - 1, sizeof(*c->more));
		for (uint32_t i = 0; c->more && i < FM_BOARD_GROUPS - 1; i++) {
			c->more[i].client = c;
			c->more[i].index = i + 1;
			fm_list_init(&c->more[i].in_group);
		}
	}
	return member_at(c, index);
}

int member_get(struct fm_bridge *b, struct member *m, uint64_t now, struct fm_err *err)
{
	const struct fm_bridge_client *c = m->client;
	char name[FM_NAME_MAX];
	size_t len;

	if (m->group)
		return 0;
	if (c->pid)
		snprintf(name, sizeof(name), "%s-%d", c->comm, (int)c->pid);
	else
		snprintf(name, sizeof(name), "%s-u%u-%u", c->comm, c->user->uid, c->number);
	if (!m->index)
		return join_default(b, m, name, err);
	len = strlen(name);
	snprintf(name + len, sizeof(name) - len, ".%u", m->index);
	return join_new(b, m, name, err);
}

/* Every entity that the member's queues need in the other group, before any queue moves. */
static int prepare_move(
	struct fm_bridge *b, struct member *m, struct fm_bridge_group *to, uint64_t now)
{
	struct queue *q;

	fm_list_each (q, &m->client->queues, in_client)
		if (q->member == m && !ent_get(b, to, q->ent->dev, now))
			return -ENOMEM;
	return 0;
}

static void drop_empty(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct ent *e, *tmp;

	fm_list_each_safe (e, tmp, &g->ents, in_group)
		ent_put(b, e, now);
}

static void move_queues(
	struct fm_bridge *b, struct member *m, struct fm_bridge_group *to, uint64_t now)
{
	struct queue *q;

	fm_list_each (q, &m->client->queues, in_client) {
		struct ent *from = q->ent;

		if (q->member != m)
			continue;
		ent_detach_queue(from, q, now);
		ent_attach_queue(b, ent_get(b, to, from->dev, now), q);
		ent_put(b, from, now);
	}
}

/* A member has left. The group may have been watched because of that member, so the watcher is
 * asked again. */
static void group_stays(struct fm_bridge *b, struct fm_bridge_group *g)
{
	if (!fm_list_empty(&g->members) && !b->closing)
		group_came(b, g);
}

static int member_move(struct fm_bridge *b, struct member *m, struct fm_bridge_group *to,
	uint64_t now, struct fm_err *err)
{
	struct fm_bridge_group *from = m->group;

	if (m->segments) {
		fm_err_set(err, -EPERM, "group %u is inside a segment and cannot be renamed",
			m->index);
		fm_err_hint(err, "name the group before its first segment");
		return -EPERM;
	}
	if (prepare_move(b, m, to, now)) {
		drop_empty(b, to, now);
		return fm_err_set(err, -ENOMEM, "out of memory while renaming a group");
	}
	move_queues(b, m, to, now);
	fm_list_del(&m->in_group);
	fm_list_add_tail(&to->members, &m->in_group);
	m->group = to;
	NOTE_GROUP(b, joined, to, now, NULL, m->client->pid, 0, 0);
	memory_reset_group(to);
	demand_joined(b, m);
	group_stays(b, from);
	group_put(b, from, now);
	group_came(b, to);
	return 0;
}

static bool sole_member(const struct member *m)
{
	return m->group->members.next == &m->in_group && m->group->members.prev == &m->in_group;
}

int member_name(
	struct fm_bridge *b, struct member *m, const char *name, uint64_t now, struct fm_err *err)
{
	struct fm_bridge_group *g = *name ? group_find(b, m->client->user, name) : NULL;
	int rc;

	if (!*name)
		return member_get(b, m, now, err);
	if (g && g == m->group)
		return 0;
	if (!g && !m->group)
		return join_new(b, m, name, err);
	if (!g && sole_member(m)) {
		set_name(m->group, name);
		m->group->mark = 0;
		m->group->pid = 0;
		NOTE_GROUP(b, joined, m->group, now, NULL, m->client->pid, 0, 0);
		group_came(b, m->group);
		return 0;
	}
	if (g && !m->group) {
		join(b, m, g);
		return 0;
	}
	if (!g) {
		struct fm_err reason;

		g = group_new(b, m->client, name, &reason);
		if (!g) {
			if (err)
				*err = reason;
			return reason.code;
		}
	}
	rc = member_move(b, m, g, now, err);
	group_put(b, g, now); /* frees it if no member moved into it */
	return rc;
}

void member_leave(struct fm_bridge *b, struct member *m, uint64_t now)
{
	int64_t rank;

	if (!m->group)
		return;
	rank = group_rank(m->group);
	NOTE_GROUP(b, left, m->group, now, NULL, m->client->pid, 0, 0);
	for (; m->segments; m->segments--)
		fm_sched_segment_end(b->sched, m->group->sgroup, now);
	group_note(b, m->group, now);
	if (group_rank(m->group) != rank)
		group_hinted(b, m->group);
	fm_list_del(&m->in_group);
	group_stays(b, m->group);
	group_put(b, m->group, now);
	m->group = NULL;
}
