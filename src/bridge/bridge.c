/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge.h"
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_bridge_new(struct fm_bridge **out, const struct fm_bridge_host *host)
{
	struct fm_bridge *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return -ENOMEM;
	b->host = *host;
	fm_list_init(&b->clients);
	fm_list_init(&b->groups);
	fm_list_init(&b->devices);
	fm_list_init(&b->users);
	fm_list_init(&b->cgroups);
	fm_list_init(&b->recheck);
	fm_list_init(&b->heard);
	fm_list_init(&b->dirty);
	fm_list_init(&b->ended);
	fm_list_init(&b->gone);
	fm_list_init(&b->left);
	fm_list_init(&b->padders);
	fm_list_init(&b->coming);
	b->demand_at = FM_NEVER;
	b->memory.keep_percent = 100;
	rc = fm_sched_new(&b->sched, &bridge_sched_host, b);
	if (rc) {
		free(b);
		return rc;
	}
	fm_sched_turns(b->sched, DEVICE_TURN);
	*out = b;
	return 0;
}

/* Resets what the scheduler says of the queue to what holds for one that is not scheduled, except
 * its gate. */
static void reset_words(struct queue *q)
{
	atomic_store_explicit(&q->slot->bells, 0, memory_order_release);
	atomic_store_explicit(&q->slot->deepest, 0, memory_order_release);
	atomic_store_explicit(&q->slot->guard_us, 0, memory_order_release);
	atomic_store_explicit(&q->slot->shares, FM_SHARES_NONE, memory_order_release);
	atomic_store_explicit(&q->slot->pad_most, 0, memory_order_release);
	atomic_store_explicit(&q->slot->pad, 0, memory_order_release);
}

static void release_client(struct fm_bridge *b, struct fm_bridge_client *c)
{
	struct queue *q;

	fm_list_each (q, &c->queues, in_client) {
		reset_words(q);
		gate_store(q, FM_GATE_OPEN);
	}
	gate_open_gone(c);
	atomic_store_explicit(&c->board->contended, 0, memory_order_release);
	atomic_store_explicit(&c->board->makes_room, 0, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (CLAIM(c->board->agent_sleeps))
		b->host.wake(c->ctx);
}

void fm_bridge_free(struct fm_bridge *b)
{
	struct bdevice *d, *next_device;
	struct user *u, *next_user;
	struct fm_bridge_cgroup *g, *next_cgroup;

	if (!b)
		return;
	b->closing = true;
	while (!fm_list_empty(&b->clients)) {
		struct fm_bridge_client *c =
			fm_list_first(&b->clients, struct fm_bridge_client, link);

		release_client(b, c);
		fm_bridge_detach(b, c, b->now);
	}
	fm_sched_free(b->sched);
	fm_list_each_safe (d, next_device, &b->devices, link) {
		planner_free(d);
		free(d);
	}
	fm_list_each_safe (u, next_user, &b->users, link)
		free(u);
	fm_list_each_safe (g, next_cgroup, &b->cgroups, link)
		free(g);
	free(b);
}

struct fm_sched *fm_bridge_sched(struct fm_bridge *b)
{
	return b->sched;
}

void fm_bridge_set_limits(struct fm_bridge *b, const struct fm_bridge_limits *l)
{
	b->limits = *l;
}

/* The gate stores come before, the sleeping flags after the fence; the agent sets its flag, fences
 * and then looks at its gates: one of the two sees the other. */
static void wake_dirty(struct fm_bridge *b)
{
	struct fm_bridge_client *c, *tmp;

	if (fm_list_empty(&b->dirty))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	fm_list_each_safe (c, tmp, &b->dirty, in_dirty) {
		fm_list_del(&c->in_dirty);
		if (CLAIM(c->board->agent_sleeps))
			b->host.wake(c->ctx);
	}
}

void bridge_settle(struct fm_bridge *b, uint64_t now)
{
	if (b->policies != fm_sched_policies(b->sched))
		policy_changed(b);
	pad_settle(b);
	wake_dirty(b);
	for (unsigned i = 0; i < RECHECK_BUDGET && !fm_list_empty(&b->recheck); i++) {
		struct ent *e = fm_list_first(&b->recheck, struct ent, in_recheck);

		fm_list_del(&e->in_recheck);
		atomic_thread_fence(
			memory_order_seq_cst); /* bells before begun and done: board.h */
		ent_refresh(b, e, now);
	}
	pad_settle(b);
	wake_dirty(b);
	if (!fm_list_empty(&b->ended))
		group_end_jobs(b);
}

static bool plain(char c)
{
	return c > ' ' && c <= '~' && !strchr("/\"'`", c);
}

void fm_bridge_plain(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from[n] && n + 1 < size; n++)
		to[n] = plain(from[n]) ? from[n] : '_';
	to[n] = '\0';
}

static void init_client(struct fm_bridge_client *c)
{
	fm_list_init(&c->in_dirty);
	fm_list_init(&c->in_gone);
	fm_list_init(&c->queues);
	c->first.client = c;
	fm_list_init(&c->first.in_group);
}

int fm_bridge_attach(struct fm_bridge *b, struct fm_bridge_client **out, struct fm_board *board,
	uid_t uid, pid_t pid, const char *comm, const char *api, void *client_ctx, uint64_t now)
{
	struct fm_bridge_client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	init_client(c);
	b->now = now;
	c->board = board;
	c->pid = FM_MAX(pid, 0);
	c->number = ++b->next_client;
	c->ctx = client_ctx;
	fm_bridge_plain(c->comm, sizeof(c->comm), *comm ? comm : "unknown");
	fm_bridge_plain(c->api, sizeof(c->api), api);
	c->user = user_get(b, uid);
	if (!c->user) {
		free(c);
		return -ENOMEM;
	}
	rc = member_get(b, &c->first, now, NULL);
	if (rc) {
		user_put(c->user);
		free(c);
		return rc;
	}
	fm_list_add_tail(&b->clients, &c->link);
	*out = c;
	return 0;
}

void queue_free(struct fm_bridge *b, struct queue *q, uint64_t now)
{
	struct ent *e = q->ent;

	NOTE_QUEUE(b, queue_gone, q, now);
	ent_detach_queue(e, q, now);
	fm_list_del(&q->in_client);
	q->client->user->queues--;
	reset_words(q); /* it may go on in the same slot, in another group or in none */
	gate_leave(b, q, now);
	client_contended(b, q->client);
	free(q);
	ent_put(b, e, now);
}

/* All queues leave their entities first, so that no decision in between writes to the board of the
 * client that is gone. */
static void drop_queues(struct fm_bridge *b, struct fm_bridge_client *c)
{
	struct queue *q, *tmp;

	fm_list_each_safe (q, tmp, &c->queues, in_client) {
		NOTE_QUEUE(b, queue_gone, q, b->now);
		ent_deal(q->ent, b->now);
		q->ent->usage_gone = fm_add_sat(q->ent->usage_gone, q->usage);
		fm_list_del(&q->in_ent);
		fm_list_del(&q->in_client);
		c->user->queues--;
		free(q);
	}
}

static void drop_ents(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct ent *e, *tmp;

	fm_list_each_safe (e, tmp, &g->ents, in_group) {
		if (!fm_list_empty(&e->in_left))
			continue;
		if (fm_list_empty(&e->queues))
			ent_end(b, e, now);
		else
			ent_put(b, e, now);
	}
}

void fm_bridge_detach(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now)
{
	struct user *u = c->user;

	b->now = now;
	fm_list_del(&c->in_dirty);
	fm_list_del(&c->in_gone);
	client_coverage(c, &b->past);
	drop_queues(b, c);
	memory_end(c);
	demand_kick(b);
	for (unsigned i = 0; i < FM_BOARD_GROUPS; i++) {
		struct member *m = member_at(c, i);

		if (!m)
			continue;
		if (m->group)
			drop_ents(b, m->group, now);
		member_leave(b, m, now);
	}
	fm_list_del(&c->link);
	free(c->more);
	free(c);
	user_put(u);
	bridge_settle(b, now);
}

void fm_bridge_bell(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now)
{
	uint64_t round = ++b->round;
	struct queue *q;

	b->now = now;
	/* First refresh the groups that are active on the client's devices: if one of them went
	 * idle, the core must know before it hears what this client wants. */
	fm_list_each (q, &c->queues, in_client) {
		if (q->ent->dev->round == round)
			continue;
		q->ent->dev->round = round;
		device_refresh(b, q->ent->dev);
	}
	fm_list_each (q, &c->queues, in_client) {
		if (q->ent->round == round)
			continue;
		q->ent->round = round;
		ent_refresh(b, q->ent, now);
	}
	bridge_settle(b, now);
}

static struct queue *that_works(const struct ent *e)
{
	struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		if (fm_slot_pending(q->slot) && CLAIM(q->slot->hold) != FM_HOLD_RESTS)
			return q;
	return NULL;
}

bool fm_bridge_look(struct fm_bridge *b, uint64_t now)
{
	unsigned n = 0;
	struct queue *q;
	struct ent *e;

	fm_list_each (e, &b->heard, in_heard) {
		q = n++ < HEARD_BUDGET ? that_works(e) : NULL;
		if (q)
			fm_bridge_bell(b, q->client, now);
		if (q || n > HEARD_BUDGET)
			return q;
	}
	return false;
}

uint64_t fm_bridge_run(struct fm_bridge *b, uint64_t now)
{
	uint64_t due = gate_run(b, now);
	struct bdevice *d;

	b->now = now;
	due = FM_MIN(due, ents_run(b, now));
	due = FM_MIN(due, away_run(b, now));
	due = FM_MIN(due, caps_run(b, now));
	due = FM_MIN(due, hosts_run(b, now));
	due = FM_MIN(due, demand_run(b, now));
	bridge_settle(b, now);
	if (fm_sched_next(b->sched) <= now) {
		fm_list_each (d, &b->devices, link)
			device_refresh(b, d);
		fm_sched_tick(b->sched, now);
		bridge_settle(b, now);
	}
	due = FM_MIN(due, b->demand_at);
	return fm_list_empty(&b->recheck) ? FM_MIN(fm_sched_next(b->sched), due) : now;
}
