/* SPDX-License-Identifier: Apache-2.0 */
/* For an admission control: which groups come and go, when the watched groups work, and what it has
 * granted to them. Also the jobs of groups with a deadline, which need no admission. */
#include "internal.h"
#include <string.h>

void fm_bridge_watcher(struct fm_bridge *b, const struct fm_bridge_watcher *w)
{
	b->watcher = *w;
}

void group_came(struct fm_bridge *b, struct fm_bridge_group *g)
{
	if (b->watcher.group)
		b->watcher.group(b->watcher.ctx, g, false);
}

void group_goes(struct fm_bridge *b, struct fm_bridge_group *g)
{
	if (b->watcher.group)
		b->watcher.group(b->watcher.ctx, g, true);
}

void group_deadline(struct fm_bridge_group *g)
{
	int64_t v = fm_sched_group_hints(g->sgroup)->value[FM_HINT_DEADLINE];

	g->deadline = v > 0 ? (uint64_t)v : 0;
	g->works = fm_sched_group_busy(g->sgroup);
	g->counts = false;
	fm_list_del(&g->ended);
}

/* A job is a stretch in which the group is busy. One bell may report two devices: then the end of
 * work on one is seen before its begin on the other. So whether a job has ended is settled at the
 * end of the call. */
static void note_job(struct fm_bridge *b, struct fm_bridge_group *g, bool busy, uint64_t at)
{
	if (busy == g->works)
		return;
	g->works = busy;
	if (!busy) {
		g->ended_at = at;
		fm_list_add_tail(&b->ended, &g->ended);
		return;
	}
	if (!fm_list_empty(&g->ended)) {
		fm_list_del(&g->ended); /* it goes on */
		return;
	}
	g->job_at = at;
	g->counts = true;
}

static void end_job(struct fm_bridge *b, struct fm_bridge_group *g)
{
	uint64_t took = fm_sub_sat(g->ended_at, g->job_at);

	if (!g->counts)
		return;
	g->counts = false;
	g->jobs++;
	if (took <= g->deadline)
		return;
	g->missed++;
	NOTE_GROUP(b, deadline_missed, g, g->ended_at, NULL, took, g->deadline, 0);
}

void group_end_jobs(struct fm_bridge *b)
{
	while (!fm_list_empty(&b->ended)) {
		struct fm_bridge_group *g = fm_list_first(&b->ended, struct fm_bridge_group, ended);

		fm_list_del(&g->ended);
		end_job(b, g);
	}
}

struct fm_bridge_group_jobs fm_bridge_group_jobs(const struct fm_bridge_group *g, uint64_t now)
{
	bool late = g->works && g->counts && fm_sub_sat(now, g->job_at) > g->deadline;

	return (struct fm_bridge_group_jobs){
		.deadline = g->deadline, .ended = g->jobs, .missed = g->missed + late};
}

void group_edge(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t at)
{
	struct fm_bridge_group_edge edge = {.at = at, .busy = fm_sched_group_busy(g->sgroup)};

	if (g->deadline)
		note_job(b, g, edge.busy, at);
	if (!g->watch || !b->watcher.edge || edge.busy == g->busy)
		return;
	g->busy = edge.busy;
	edge.declared = g->declared;
	if (!edge.busy)
		g->declared = false;
	b->watcher.edge(b->watcher.ctx, g->watch, &edge);
}

void group_rested(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t took, uint64_t at)
{
	if (b->watcher.rested)
		b->watcher.rested(b->watcher.ctx, g, took, at);
}

void fm_bridge_group_watch(
	struct fm_bridge *b, struct fm_bridge_group *g, void *watch, uint64_t now)
{
	b->now = now;
	g->watch = watch;
	g->busy = false;
	g->declared = false;
	if (!watch)
		fm_bridge_group_grant(b, g, FM_GRANT_NONE, 0, now);
	else
		group_note(b, g, now);
}

void *fm_bridge_group_watched(const struct fm_bridge_group *g)
{
	return g->watch;
}

/* A grant may change which entity is first on a device, and whether an entity that is alone is
 * asked for bells. So clients are told anew. */
void fm_bridge_group_grant(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_grant grant,
	int64_t place, uint64_t now)
{
	b->now = now;
	fm_sched_grant(b->sched, g->sgroup, grant, place, now);
	group_hinted(b, g);
	bridge_settle(b, now);
}

uint64_t fm_bridge_group_used(const struct fm_bridge_group *g, uint64_t now, unsigned *devices)
{
	struct fm_ent_info info;
	uint64_t used = g->used_gone;
	struct ent *e;

	*devices = 0;
	fm_list_each (e, &g->ents, in_group) {
		fm_sched_ent_info(e->sent, now, &info);
		used = fm_add_sat(used, info.served_ns);
		(*devices)++;
	}
	return used;
}

bool fm_bridge_group_is(const struct fm_bridge_group *g, uid_t uid, const char *name)
{
	return g->user->uid == uid && !strcmp(g->name, name);
}

bool fm_bridge_group_is_own(const struct fm_bridge_group *g, pid_t pid)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (!m->index && pid && m->client->pid == pid)
			return true;
	return false;
}
