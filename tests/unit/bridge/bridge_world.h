/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge with boards of this process: clients a and z of one user, told and looked at by hand.
 */
#pragma once
#include "bridge/internal.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICE "sim:0"
#define ALICE  1000
#define BOB    1001
#define T0     (100 * FM_S)

struct client {
	struct fm_board *board;
	struct fm_bridge_client *c;
	unsigned wakes, hints;
	uint32_t hint_group;
	int64_t hint_value;
};

struct world {
	struct fm_bridge *b;
	struct client a, z;
	uint64_t now;
};

static inline void on_wake(void *ctx)
{
	((struct client *)ctx)->wakes++;
}

static inline void on_hint(void *ctx, uint32_t group, enum fm_hint h, int64_t value)
{
	struct client *c = ctx;

	c->hints++;
	c->hint_group = group;
	c->hint_value = value;
}

static inline int attach(struct world *w, struct client *c, uid_t uid, pid_t pid, const char *comm)
{
	assert_int_equal(fm_board_create(&c->board, NULL), 0);
	return fm_bridge_attach(w->b, &c->c, c->board, uid, pid, comm, "test", c, w->now);
}

static inline int setup(void **state)
{
	static const struct fm_bridge_host host = {.wake = on_wake, .hint = on_hint};
	struct world *w = calloc(1, sizeof(*w));

	w->now = T0;
	assert_int_equal(fm_bridge_new(&w->b, &host), 0);
	assert_int_equal(attach(w, &w->a, ALICE, 11, "alpha"), 0);
	assert_int_equal(attach(w, &w->z, ALICE, 22, "zeta"), 0);
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	fm_bridge_free(w->b);
	fm_board_unmap(w->a.board);
	fm_board_unmap(w->z.board);
	free(w);
	return 0;
}

static inline int tell(struct world *w, struct client *c, union fm_msg m, enum fm_msg_type type)
{
	struct fm_err err = {0};
	size_t size = fm_msg_head(&m, type);
	int rc;

	assert_int_equal(fm_msg_check(&m, size, &err), 0);
	rc = fm_bridge_message(w->b, c->c, &m, w->now, &err);
	if (rc)
		assert_true(err.code == rc && err.text[0]);
	return rc;
}

static inline int add_queue_on(
	struct world *w, struct client *c, uint32_t slot, uint32_t group, const char *key)
{
	union fm_msg m = {.queue = {.slot = slot, .group = group, .levels = 6}};

	snprintf(m.queue.device, sizeof(m.queue.device), "%s", key);
	return tell(w, c, m, FM_MSG_QUEUE);
}

static inline int add_queue(struct world *w, struct client *c, uint32_t slot)
{
	return add_queue_on(w, c, slot, 0, DEVICE);
}

static inline int name_group(struct world *w, struct client *c, uint32_t group, const char *name)
{
	union fm_msg m = {.group = {.group = group}};

	snprintf(m.group.name, sizeof(m.group.name), "%s", name);
	return tell(w, c, m, FM_MSG_GROUP);
}

static inline int give_hint(struct world *w, struct client *c, enum fm_hint h, int64_t v)
{
	return tell(w, c, (union fm_msg){.hint = {.hint = h, .value = v}}, FM_MSG_HINT);
}

static inline int segment(struct world *w, struct client *c, uint32_t begin, int32_t priority)
{
	return tell(w, c, (union fm_msg){.segment = {.begin = begin, .priority = priority}},
		FM_MSG_SEGMENT);
}

static inline void ring(struct world *w, struct client *c)
{
	assert_int_equal(tell(w, c, (union fm_msg){0}, FM_MSG_BELL), 0);
}

static inline void begin(struct client *c, uint32_t slot, uint64_t n)
{
	atomic_fetch_add(&c->board->slot[slot].begun, n);
	atomic_fetch_add(&c->board->slot[slot].released, n);
}

static inline void finish(struct world *w, struct client *c, uint32_t slot)
{
	struct fm_slot *s = &c->board->slot[slot];

	atomic_store(&s->done, atomic_load(&s->begun));
	atomic_store(&s->done_at, w->now);
}

static inline bool open_gate(const struct client *c, uint32_t slot)
{
	return atomic_load(&c->board->slot[slot].gate) == FM_GATE_OPEN;
}

/* Let time pass, doing what is due on the way. */
static inline void pass(struct world *w, uint64_t ns)
{
	uint64_t end = w->now + ns, next;

	while ((next = fm_bridge_run(w->b, w->now)) <= end && w->now < end)
		w->now = FM_MAX(next, w->now + 1);
	w->now = end;
	fm_bridge_run(w->b, w->now);
}

static inline struct fm_bridge_group *group_of(const struct client *c, uint32_t index)
{
	return member_at(c->c, index)->group;
}

static inline void two_on_a_device(struct world *w)
{
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 5), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_LOW), 0);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
}

static inline void keep(void *arg, const struct fm_bent_info *i)
{
	*(struct fm_bent_info *)arg = *i;
}

/* On its one device. Each moment counts once. */
static inline struct fm_bent_info told(const struct world *w, const struct client *c)
{
	struct fm_bent_info i = {0};
	const struct fm_account *a = &i.account;
	uint64_t sum;

	fm_bridge_group_each_ent(group_of(c, 0), w->now, keep, &i);
	sum = a->ran_ns + a->idle_ns + a->by_hand_ns + a->over_budget_ns;
	for (unsigned k = 0; k < FM_WAITS; k++)
		sum += a->wait_ns[k];
	assert_int_equal(sum, a->age_ns);
	return i;
}

static inline bool running(const struct world *w, const struct client *c)
{
	return told(w, c).ent.state == FM_ENT_RUNNING;
}
