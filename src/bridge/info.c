/* SPDX-License-Identifier: Apache-2.0 */
/* For reports: walks over groups, entities and queues, and the groups that a target names. */
#include "internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fm_bridge_group *fm_bridge_group_next(struct fm_bridge *b, struct fm_bridge_group *prev)
{
	struct fm_list *next = prev ? prev->link.next : b->groups.next;

	return next == &b->groups ? NULL : fm_list_entry(next, struct fm_bridge_group, link);
}

struct fm_bridge_group *fm_bridge_group_after(struct fm_bridge *b, uint64_t after)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (fm_bridge_group_id(g) > after)
			return g;
	return NULL;
}

uint64_t fm_bridge_group_id(const struct fm_bridge_group *g)
{
	return fm_sched_group_id(g->sgroup);
}

/* A client may give two of its group indices the same name. It still counts as one client. */
static bool first_of_client(const struct fm_bridge_group *g, const struct member *m)
{
	for (uint32_t i = 0; i < m->index; i++) {
		const struct member *earlier = member_at(m->client, i);

		if (earlier && earlier->group == g)
			return false;
	}
	return true;
}

void fm_bridge_group_info(const struct fm_bridge_group *g, struct fm_bridge_group_info *info)
{
	struct member *m;
	struct queue *q;
	struct ent *e;

	*info = (struct fm_bridge_group_info){
		.name = g->name,
		.id = fm_sched_group_id(g->sgroup),
		.uid = g->user->uid,
		.hints = fm_sched_group_hints(g->sgroup),
		.priority = fm_sched_group_priority(g->sgroup),
		.suspended = fm_sched_group_suspended(g->sgroup),
	};
	fm_list_each (m, &g->members, in_group)
		if (first_of_client(g, m))
			info->clients++;
	fm_list_each (e, &g->ents, in_group)
		fm_list_each (q, &e->queues, in_ent)
			info->queues++;
}

static bool works(const struct ent *e)
{
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		if (fm_slot_pending(q->slot))
			return e->gate_open;
	return false;
}

static void ent_info(struct ent *e, uint64_t now, struct fm_bent_info *info)
{
	struct fm_account *a = &info->account;
	uint64_t unheard;

	*info = (struct fm_bent_info){.device = fm_sched_dev_key(e->dev->sdev)};
	ent_look(e, now);
	info->device_ns = ent_deal(e, now);
	fm_sched_ent_waits(e->sent, info->waits);
	fm_sched_ent_info(e->sent, now, &info->ent);
	fm_sched_ent_account(e->sent, now, a);
	fm_sched_ent_linger(e->sent, &info->linger);
	if (info->ent.state == FM_ENT_IDLE && works(e))
		info->ent.state = FM_ENT_RUNNING;
	unheard = FM_MIN(e->unheard, a->idle_ns);
	a->ran_ns += unheard;
	a->idle_ns -= unheard;
}

void fm_bridge_group_each_ent(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bent_info *info), void *arg)
{
	struct fm_bent_info info;
	struct ent *e;

	fm_list_each (e, &g->ents, in_group) {
		ent_info(e, now, &info);
		fn(arg, &info);
	}
}

void queue_info(const struct queue *q, struct fm_bqueue_info *info)
{
	const struct fm_slot *s = q->slot;

	*info = (struct fm_bqueue_info){
		.id = q->id,
		.pid = q->client->pid,
		.comm = q->client->comm,
		.api = q->client->api,
		.device = q->ent->dev->key,
		.client_ctx = q->client->ctx,
		.slot = q->number,
		.device_id = q->ent->dev->id,
		.since = q->since,
		.levels = q->levels,
		.level = way_level(q),
		.done = fm_slot_done(s),
		.begun = CLAIM(s->begun),
		.device_ns = q->device_ns,
		.gates = CLAIM(s->gates),
		.held_ns = CLAIM(s->held_ns),
		.interrupts = CLAIM(s->interrupts),
		.pad = CLAIM(s->pad),
		.pad_apart = q->pad_apart,
		.padding = FM_MIN(CLAIM(s->padding), 1024u),
		.sms = FM_MIN(CLAIM(s->sms), 1024u),
		.padded_ns = FM_MIN(
			CLAIM(s->padded_ns), fm_sub_sat(q->ent->group->bridge->now, q->since)),
		.gate_open = q->ent->gate_open,
		.board = q->client->board,
	};
}

void fm_bridge_group_each_queue(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bqueue_info *info), void *arg)
{
	struct fm_bqueue_info info;
	struct queue *q;
	struct ent *e;

	fm_list_each (e, &g->ents, in_group) {
		fm_list_each (q, &e->queues, in_ent) {
			queue_info(q, &info);
			fn(arg, &info);
		}
	}
}

/* Queues found so far, in the order of their ids. */
struct lowest {
	unsigned n;
	struct queue *queue[FM_QUEUES_AT_ONCE];
};

static void lowest_add(struct lowest *l, struct queue *q)
{
	unsigned i = l->n;

	if (l->n == FM_QUEUES_AT_ONCE) {
		if (q->id > l->queue[--i]->id)
			return;
	} else {
		l->n++;
	}
	for (; i > 0 && l->queue[i - 1]->id > q->id; i--)
		l->queue[i] = l->queue[i - 1];
	l->queue[i] = q;
}

unsigned fm_bridge_group_queues_after(
	struct fm_bridge_group *g, uint32_t after, struct fm_bqueue_info info[FM_QUEUES_AT_ONCE])
{
	struct lowest l = {0};
	struct queue *q;
	struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		fm_list_each (q, &e->queues, in_ent)
			if (q->id > after)
				lowest_add(&l, q);
	for (unsigned i = 0; i < l.n; i++)
		queue_info(l.queue[i], &info[i]);
	return l.n;
}

void fm_bridge_each_device(
	struct fm_bridge *b, void (*fn)(void *arg, const struct fm_bdevice_info *info), void *arg)
{
	struct bdevice *d;

	fm_list_each (d, &b->devices, link) {
		struct fm_bdevice_info info = {
			d->key, d->id, fm_sched_dev_preempt_hist(d->sdev), d->exposed, d->hidden};

		fn(arg, &info);
	}
}

/* A sum over clients wraps around, as counters do. If it stopped at its maximum because one client
 * lied, it would no longer show the others. It wraps within the range of JSON's integers. */
static uint64_t add_claim(uint64_t sum, uint64_t claim)
{
	return (sum + claim) & INT64_MAX;
}

void client_coverage(const struct fm_bridge_client *c, struct fm_bcoverage *sum)
{
	struct queue *q;

	sum->governed = add_claim(sum->governed, CLAIM(c->board->governed));
	sum->ungoverned = add_claim(sum->ungoverned, CLAIM(c->board->ungoverned));
	sum->undivided = add_claim(sum->undivided, CLAIM(c->board->undivided));
	sum->images = add_claim(sum->images, CLAIM(c->board->images));
	sum->images_left = add_claim(sum->images_left, CLAIM(c->board->images_left));
	sum->kernels = add_claim(sum->kernels, CLAIM(c->board->kernels));
	sum->kernels_left = add_claim(sum->kernels_left, CLAIM(c->board->kernels_left));
	sum->images_ns = add_claim(sum->images_ns, CLAIM(c->board->images_ns));
	fm_list_each (q, &c->queues, in_client)
		sum->governed = add_claim(sum->governed, CLAIM(q->slot->begun));
}

struct fm_bcoverage fm_bridge_group_coverage(struct fm_bridge_group *g)
{
	struct fm_bcoverage sum = {0};
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (first_of_client(g, m))
			client_coverage(m->client, &sum);
	return sum;
}

/* The group in which a client's own numbers are reported: its group 0, or the first of its other
 * groups if it has no queues in group 0. */
static const struct member *own_member(struct fm_bridge_client *c)
{
	struct queue *q;

	fm_list_each (q, &c->queues, in_client)
		if (q->member == &c->first)
			return &c->first;
	for (uint32_t i = 1; c->more && i < FM_BOARD_GROUPS; i++)
		if (member_at(c, i)->group)
			return member_at(c, i);
	return &c->first;
}

/* Groups are compared, since two indices of a client may share one. Callers take only the first. */
static bool is_own(const struct member *m)
{
	return own_member(m->client)->group == m->group;
}

static void process_info(const struct member *m, uint64_t now, struct fm_bprocess_info *info)
{
	struct fm_bridge_client *c = m->client;
	struct queue *q;

	*info = (struct fm_bprocess_info){
		.pid = c->pid, .comm = c->comm, .api = c->api, .own = is_own(m)};
	if (!info->own)
		return;
	client_coverage(c, &info->calls);
	info->device_ns = c->device_gone;
	fm_list_each (q, &c->queues, in_client) {
		ent_deal(q->ent, now);
		info->device_ns += q->device_ns;
	}
}

void fm_bridge_group_each_process(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bprocess_info *info), void *arg)
{
	struct fm_bprocess_info info;
	struct member *m;

	fm_list_each (m, &g->members, in_group) {
		if (!first_of_client(g, m))
			continue;
		process_info(m, now, &info);
		fn(arg, &info);
	}
}

static unsigned add_call(
	struct fm_call *calls, unsigned n, unsigned max, const struct fm_call *call)
{
	unsigned i = 0;

	while (i < n && strcmp(calls[i].name, call->name))
		i++;
	if (i == max)
		return n;
	if (i == n) {
		calls[n] = *call;
		return n + 1;
	}
	calls[i].ungoverned = fm_add_sat(calls[i].ungoverned, call->ungoverned);
	calls[i].undivided = fm_add_sat(calls[i].undivided, call->undivided);
	return n;
}

unsigned fm_bridge_group_calls(struct fm_bridge_group *g, struct fm_call *calls, unsigned max)
{
	struct fm_call call;
	struct member *m;
	unsigned n = 0;

	fm_list_each (m, &g->members, in_group) {
		if (!first_of_client(g, m))
			continue;
		for (unsigned i = 0; i < FM_BOARD_CALLS; i++)
			if (fm_board_call_read(&m->client->board->call[i], &call))
				n = add_call(calls, n, max, &call);
	}
	return n;
}

struct fm_bcoverage fm_bridge_coverage(struct fm_bridge *b)
{
	struct fm_bcoverage sum = b->past;
	struct fm_bridge_client *c;

	fm_list_each (c, &b->clients, link)
		client_coverage(c, &sum);
	return sum;
}

static bool has_pid(const struct fm_bridge_group *g, const char *target)
{
	struct member *m;
	char *end;
	long pid = strtol(target, &end, 10);

	if (!isdigit((unsigned char)*target) || *end || pid <= 0)
		return false;
	fm_list_each (m, &g->members, in_group)
		if (m->client->pid == pid)
			return true;
	return false;
}

static bool has_queue(const struct fm_bridge_group *g, const char *target)
{
	struct queue *q;
	struct ent *e;
	unsigned long id;
	char *end;

	if (target[0] != 'q' || !isdigit((unsigned char)target[1]))
		return false;
	id = strtoul(target + 1, &end, 10);
	if (*end)
		return false;
	fm_list_each (e, &g->ents, in_group)
		fm_list_each (q, &e->queues, in_ent)
			if (q->id == id)
				return true;
	return false;
}

static bool has_name(const struct fm_bridge_group *g, const char *target)
{
	return !strcmp(g->name, target);
}

/* Numbers that the kernel or the daemon gave come before names that users chose: a group cannot
 * take another's place by being named like its process or queue. fn may not add or remove groups.
 */
int fm_bridge_target(struct fm_bridge *b, const char *target,
	int (*fn)(void *arg, struct fm_bridge_group *g), void *arg)
{
	static bool (*const matches[])(const struct fm_bridge_group *, const char *) = {
		has_pid, has_queue, has_name};
	struct fm_bridge_group *g;
	int n = 0, rc;

	for (size_t i = 0; i < FM_ARRAY_LEN(matches) && !n; i++) {
		fm_list_each (g, &b->groups, link) {
			if (!matches[i](g, target))
				continue;
			rc = fn(arg, g);
			n += rc != FM_TARGET_NOT;
			if (rc && rc != FM_TARGET_NOT)
				return n;
		}
	}
	return n;
}

struct fm_bridge_client_work fm_bridge_client_work(const struct fm_bridge_client *c)
{
	struct fm_bridge_client_work w = {0};
	struct queue *q;

	fm_list_each (q, &c->queues, in_client) {
		uint64_t pending = fm_slot_pending(q->slot);

		w.commands = fm_add_sat(w.commands, pending);
		w.stopped = w.stopped || (pending && !q->ent->gate_open);
	}
	return w;
}
