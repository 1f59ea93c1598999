/* SPDX-License-Identifier: Apache-2.0 */
/* A byte stream drives clients that send any well-formed message and scribble over their boards.
 * The bridge must keep its footing, write nothing but gates into boards, and leave every gate open.
 */
#include "base/clock.h"
#include "bridge/bridge.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 4

struct input {
	const uint8_t *p, *end;
};

struct client {
	struct fm_board *board;
	struct fm_gates *gates; /* strict mode, if the client has joined so once; for good */
	struct fm_bridge_client *c;
	bool used[FM_BOARD_SLOTS]; /* slots that were ever registered in this session */
};

struct world {
	struct fm_bridge *b;
	struct client client[CLIENTS];
	uint64_t now;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t take(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static uint64_t take_u64(struct input *in)
{
	static const uint64_t edges[] = {
		0, 1, UINT64_MAX, UINT64_MAX - 1, INT64_MAX, UINT32_MAX, FM_S};
	uint8_t kind = take(in);
	uint64_t v = 0;

	if (kind < 64)
		return kind;
	if (kind < 128)
		return edges[kind % (sizeof(edges) / sizeof(edges[0]))];
	for (int i = 0; i < 8; i++)
		v = v << 8 | take(in);
	return v;
}

static void on_wake(void *ctx)
{
	must(((struct client *)ctx)->c != NULL);
}

static void on_hint(void *ctx, uint32_t group, enum fm_hint h, int64_t value)
{
	must(((struct client *)ctx)->c && group < FM_BOARD_GROUPS && h < FM_HINT_COUNT);
}

static bool one_process(void *ctx, void *other)
{
	must(!((struct client *)ctx)->c && ((struct client *)other)->c);
	return true;
}

static void come(struct world *w, struct client *c, struct input *in)
{
	char comm[8] = {(char)take(in), (char)take(in)};
	uint8_t who = take(in);
	int fd;

	if (c->c)
		return;
	if (fm_bridge_attach(w->b, &c->c, c->board, who % 3, who % 8, comm, "fuzz", c, w->now)) {
		c->c = NULL;
		return;
	}
	if (!c->gates && who & 1) {
		must(!fm_gates_create(&c->gates, &fd, who));
		close(fd);
	}
	if (c->gates)
		fm_bridge_gates(w->b, c->c, c->gates, w->now);
}

static void leave(struct world *w, struct client *c)
{
	if (c->c)
		fm_bridge_detach(w->b, c->c, w->now);
	c->c = NULL;
	memset(c->used, 0, sizeof(c->used));
}

/* Fields from the stream, brought near their ranges so that most messages are well-formed. */
static size_t compose(union fm_msg *m, struct input *in)
{
	static const char *const names[] = {"", "a", "b", "7", "q1", "a-1"};
	static const char *const devices[] = {"sim:0", "sim:1", "sim:2"};
	enum fm_msg_type type = take(in) % (FM_MSG_COUNT + 1);

	memset(m, 0, sizeof(*m));
	switch (type) {
	case FM_MSG_GROUP:
		m->group.group = take(in) % (FM_BOARD_GROUPS + 1);
		strcpy(m->group.name, names[take(in) % 6]);
		break;
	case FM_MSG_HINT:
		m->hint.group = take(in) % 3;
		m->hint.hint = take(in) % (FM_HINT_COUNT + 1);
		m->hint.value = (int64_t)take_u64(in);
		break;
	case FM_MSG_QUEUE:
		m->queue.slot = take(in) % (FM_BOARD_SLOTS + 1);
		m->queue.group = take(in) % 3;
		m->queue.levels = take(in);
		strcpy(m->queue.device, devices[take(in) % 3]);
		break;
	case FM_MSG_QUEUE_GONE:
		m->queue_gone.slot = take(in);
		break;
	case FM_MSG_SEGMENT:
		m->segment.group = take(in) % 3;
		m->segment.begin = take(in) % 3;
		m->segment.priority = take(in) & 1 ? FM_SEGMENT_KEEP : (int8_t)take(in);
		break;
	default:
		break;
	}
	return fm_msg_head(m, type);
}

static void say(struct world *w, struct client *c, struct input *in)
{
	struct fm_err err = {0};
	union fm_msg m;
	size_t size = compose(&m, in);
	int rc;

	if (!c->c || fm_msg_check(&m, size, &err))
		return;
	rc = fm_bridge_message(w->b, c->c, &m, w->now, &err);
	must(rc <= 0 && (!rc || err.text[0]));
	if (rc == -EBADMSG)
		leave(w, c);
	else if (!rc && m.head.type == FM_MSG_QUEUE)
		c->used[m.queue.slot] = true;
	else if (m.head.type == FM_MSG_QUEUE_GONE)
		c->used[m.queue_gone.slot] = false;
}

static void scribble(struct client *c, struct input *in)
{
	struct fm_slot *s = &c->board->slot[take(in) % FM_BOARD_SLOTS];
	_Atomic uint64_t *words[] = {&s->begun, &s->passed.own, &s->done, &s->done_at, &s->released,
		&s->device_ns, &s->busy_since, &s->gates, &s->held_ns};
	struct fm_board_call *call = &c->board->call[take(in) % FM_BOARD_CALLS];
	uint8_t which = take(in) % 14;

	if (which < 9)
		*words[which] = take_u64(in);
	else if (which == 9)
		s->level = (uint32_t)take_u64(in);
	else if (which == 12)
		*(take(in) & 1 ? &call->ungoverned : &call->undivided) = take_u64(in);
	else if (which == 13)
		call->name[take(in) % FM_CALL_MAX] = (char)take(in);
	else if (which == 10)
		c->board->agent_sleeps = (uint32_t)take_u64(in);
	else /* words that are the daemon's: a client can write those as well */
		s->bells = s->gate = (uint32_t)take_u64(in);
}

static void see_ent(void *arg, const struct fm_bent_info *i)
{
	const struct fm_account *a = &i->account;
	uint64_t spent = a->ran_ns + a->idle_ns + a->by_hand_ns + a->over_budget_ns;
	uint64_t waited = 0, blamed = a->others_ns;

	must(*i->device && i->ent.state <= FM_ENT_SUSPENDED);
	for (unsigned k = 0; k < FM_WAITS; k++)
		waited += a->wait_ns[k];
	for (unsigned k = 0; k < a->n_culprits; k++)
		blamed += a->culprit[k].ns;
	must(spent + waited == a->age_ns && blamed == waited);
}

static void see_queue(void *arg, const struct fm_bqueue_info *i)
{
	must(i->id && i->level <= FM_LEVEL_RUNNING);
}

static void see_calls(struct fm_bridge_group *g)
{
	struct fm_call calls[3];
	unsigned n = fm_bridge_group_calls(g, calls, 3);

	must(n <= 3);
	for (unsigned i = 0; i < n; i++)
		must((calls[i].ungoverned || calls[i].undivided) && calls[i].name[0] &&
			strlen(calls[i].name) < FM_CALL_MAX);
}

static int steer(void *arg, struct fm_bridge_group *g)
{
	struct world *w = arg;
	struct fm_bridge_group_info info;

	fm_bridge_group_info(g, &info);
	fm_bridge_group_suspend(w->b, g, !info.suspended, w->now);
	fm_bridge_group_hint(
		w->b, g, NULL, FM_HINT_PRIORITY, (int64_t)(w->now % 100), w->now, NULL);
	fm_bridge_group_each_ent(g, w->now, see_ent, NULL);
	fm_bridge_group_each_queue(g, see_queue, NULL);
	see_calls(g);
	fm_bridge_group_coverage(g);
	fm_bridge_coverage(w->b);
	return 0;
}

static void change_policy(struct world *w, uint8_t which)
{
	size_t n = 0;

	while (fm_policies[n])
		n++;
	must(!fm_sched_policy(
		fm_bridge_sched(w->b), fm_policies[which % n]->name, NULL, 0, w->now, NULL));
}

static void step(struct world *w, struct input *in)
{
	uint8_t op = take(in);
	struct client *c = &w->client[op >> 4 & (CLIENTS - 1)];
	char target[4] = {0};

	switch (op & 15) {
	case 0:
		come(w, c, in);
		break;
	case 1:
		leave(w, c);
		break;
	case 2:
		target[0] = (char)take(in);
		target[1] = (char)take(in);
		fm_bridge_target(w->b, target, steer, w);
		break;
	case 3:
		change_policy(w, take(in));
		break;
	case 4:
	case 5:
		w->now += take_u64(in) % (20 * FM_MS);
		fm_bridge_run(w->b, w->now);
		break;
	case 6:
	case 7:
		if (c->c)
			fm_bridge_bell(w->b, c->c, w->now);
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		scribble(c, in);
		break;
	default:
		say(w, c, in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fm_bridge_host host = {
		.wake = on_wake, .hint = on_hint, .one_process = one_process};
	struct fm_bridge_limits limits = {.groups = 8,
		.queues = 16,
		.forbidden = FM_HINT_BIT(FM_HINT_RUNTIME),
		.bounded = FM_HINT_BIT(FM_HINT_PRIORITY) | FM_HINT_BIT(FM_HINT_WEIGHT),
		.range = {[FM_HINT_PRIORITY] = {-100, 100}, [FM_HINT_WEIGHT] = {1, 50}}};
	struct input in = {data, data + size};
	struct world w = {.now = FM_S};
	bool joined[CLIENTS];

	must(!fm_bridge_new(&w.b, &host));
	fm_bridge_set_limits(w.b, &limits);
	for (int i = 0; i < CLIENTS; i++)
		must(!fm_board_create(&w.client[i].board, NULL));
	while (in.p < in.end)
		step(&w, &in);
	for (int i = 0; i < CLIENTS; i++)
		joined[i] = w.client[i].c;
	fm_bridge_free(w.b);
	for (int i = 0; i < CLIENTS; i++) {
		struct fm_gates *gates = w.client[i].gates;

		for (int k = 0; k < FM_BOARD_SLOTS && gates && joined[i]; k++)
			must(gates->slot[k].gate == FM_GATE_OPEN);
		fm_gates_unmap(gates);
		for (int k = 0; k < FM_BOARD_SLOTS; k++)
			must(!w.client[i].used[k] || !w.client[i].c ||
				w.client[i].board->slot[k].gate == FM_GATE_OPEN);
		fm_board_unmap(w.client[i].board);
	}
	return 0;
}
