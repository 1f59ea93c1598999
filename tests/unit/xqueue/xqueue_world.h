/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XQueues over the software device, with the test in the scheduler's place: it writes the gates of
 * the board itself. Every case runs in a process of its own, since a process has one client. The
 * device is in virtual time, driven by a ticker that can stand still, so what is asserted does not
 * hang on how fast the machine is.
 */
#pragma once
#include "api/soft/sim.h"
#include "own_process.h"
#include "xqueue/segment.h"
#include "xqueue/xqueue.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

#define COMMAND_NS (100 * FM_US)
#define TICK_US    50
#define MOST       2000

/* The link: to this test. */
static struct {
	struct fm_board *board;
	_Atomic bool refuse, gone;
	_Atomic unsigned opened, closed, bells, queues, queues_gone, hints, groups, segments;
	_Atomic int priority;         /* of the last segment that began */
	_Atomic unsigned room, rooms; /* as last told; how often */
	_Atomic unsigned rounds;      /* so often the agent has begun to look at its queues */
	void (*_Atomic looks)(void);  /* called by the agent before it looks at its queues */
} peer;

struct fm_link {
	int unused;
};

static struct fm_link the_link;

static inline int peer_open(struct fm_link **out, struct fm_client *c, const char *arg,
	struct fm_board *board, int fd, const char *api)
{
	if (peer.refuse)
		return -ECONNREFUSED;
	peer.board = board;
	peer.gone = false;
	peer.opened++;
	*out = &the_link;
	return 0;
}

static inline void peer_close(struct fm_link *l)
{
	peer.closed++;
}

static inline int peer_send(struct fm_link *l, const union fm_msg *m)
{
	peer.queues += m->head.type == FM_MSG_QUEUE;
	peer.queues_gone += m->head.type == FM_MSG_QUEUE_GONE;
	peer.hints += m->head.type == FM_MSG_HINT;
	peer.groups += m->head.type == FM_MSG_GROUP;
	peer.segments += m->head.type == FM_MSG_SEGMENT;
	if (m->head.type == FM_MSG_SEGMENT && m->segment.begin)
		peer.priority = m->segment.priority;
	return 0;
}

static inline void peer_bell(struct fm_link *l)
{
	peer.bells++;
}

static inline int peer_fd(const struct fm_link *l)
{
	return -1;
}

static inline uint64_t peer_service(struct fm_link *l, uint64_t now)
{
	void (*looks)(void) = peer.looks;

	peer.rounds++;
	if (looks)
		looks();
	return peer.gone ? 0 : FM_NEVER;
}

static const struct fm_link_ops peer_link = {
	.open = peer_open,
	.close = peer_close,
	.send = peer_send,
	.bell = peer_bell,
	.fd = peer_fd,
	.service = peer_service,
};

static inline void peer_room(enum fm_slice_mode room)
{
	peer.rooms++;
	peer.room = room; /* the test looks at this one first */
}

/* Of the client that is made first: it can rest (rest.h), and who is to be kept out is asked. */
static struct {
	bool rests;
	bool (*keep_out)(bool out);
} world_config;

static inline struct fm_client *client(bool gates_always)
{
	const struct fm_client_config config = {.api = "test",
		.local = &peer_link,
		.local_policy = "test",
		.makes_room = peer_room,
		.rests = world_config.rests,
		.keep_out = world_config.keep_out,
		.gates_always = gates_always};

	return fm_client_get(&config);
}

/* The device and what came out of it. */
static struct {
	struct fm_simdev *dev;
	bool words; /* the device looks at gates itself */
	pthread_t ticker;
	_Atomic bool stop, pause, rests; /* rests: it has seen that it is to pause */
	_Atomic unsigned n, pause_at;    /* when so many are done the device pauses */
	_Atomic unsigned result[MOST];
	void (*looked)(void *hwq); /* told each queue of */
} w;

static inline void *tick(void *arg)
{
	while (!w.stop) {
		bool pause = w.pause;

		w.rests = pause;
		if (!pause)
			fm_simdev_advance(w.dev, COMMAND_NS);
		usleep(TICK_US);
	}
	return NULL;
}

/* A device of level 2 that looks at gates itself. */
#define WORDS 20u

static inline void start_device(unsigned max_level)
{
	const struct fm_sim_options o = {
		.virtual_time = true, .max_level = max_level == WORDS ? 2 : max_level};

	memset(&w, 0, sizeof(w));
	w.words = max_level == WORDS;
	assert_int_equal(fm_simdev_new(&w.dev, &o), 0);
	assert_int_equal(pthread_create(&w.ticker, NULL, tick, NULL), 0);
}

static inline void stop_device(void)
{
	w.stop = true;
	pthread_join(w.ticker, NULL);
	fm_simdev_free(w.dev);
}

/* From here on the device does nothing, until `pause` is false again. */
static inline void pause_device(void)
{
	w.rests = false;
	w.pause = true;
	eventually(w.rests);
}

static inline void done(void *arg)
{
	w.result[w.n++] = (unsigned)(uintptr_t)arg;
	if (w.n == w.pause_at)
		w.pause = true;
}

static inline struct fm_xq *new_queue_by(
	const struct fm_hw_ops *ops, bool gates_always, unsigned wish)
{
	struct fm_simq *simq;
	struct fm_xq *q;

	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {.device = "sim",
		.ops = ops,
		.hwq = simq,
		.level_wish = (enum fm_level)wish,
		.in_order = true,
		.looked = w.looked};
	assert_int_equal(fm_xq_create(&q, client(gates_always), &config), 0);
	return q;
}

static inline struct fm_xq *new_queue(bool gates_always, unsigned wish)
{
	return new_queue_by(w.words ? &fm_simq_word_ops : &fm_simq_ops, gates_always, wish);
}

static inline int launch_of(struct fm_xq *q, uint64_t ns, unsigned i)
{
	const struct fm_command c = {.device_ns = ns, .done = done, .arg = (void *)(uintptr_t)i};
	int rc;

	fm_xq_begin(q, ns, true);
	rc = fm_simq_ops.launch(q->hwq, &c);
	fm_xq_end(q);
	return rc;
}

static inline int launch(struct fm_xq *q, unsigned i)
{
	return launch_of(q, COMMAND_NS, i);
}

/* Until all has ended, and been told of: a device that says itself how far it is says so before. */
static inline void wait_all(struct fm_xq *q)
{
	assert_int_equal(fm_xq_wait(q, fm_xq_mark(q), 60 * FM_S), 0);
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
}

/* Commands that teach the estimate, one by one. */
static inline void warm_up(struct fm_xq *q)
{
	for (unsigned i = 0; i < 20; i++) {
		launch(q, i);
		wait_all(q);
	}
	assert_int_equal(w.n, 20);
	w.n = 0;
}

/* No tracker is under way, and those that were have taught what they could. */
static inline bool nothing_is_tracked(struct fm_xq *q)
{
	bool yes;

	pthread_mutex_lock(&q->cold->lock);
	fm_xq_leave(q);
	pthread_mutex_lock(&q->cold->lock);
	yes = !q->cold->tracks;
	fm_xq_leave(q);
	return yes;
}

static inline void device_goes_on(unsigned ticks)
{
	uint64_t until = fm_simdev_now(w.dev) + ticks * COMMAND_NS;

	eventually(fm_simdev_now(w.dev) >= until);
}

static inline void set_gate(struct fm_xq *q, enum fm_gate gate)
{
	atomic_store(&q->slot->gate, gate);
	fm_client_wake(q->client);
}

/* The agent has seen all that there is to see now: whatever it read before is used up. */
static inline void agent_looks(struct fm_xq *q)
{
	unsigned from = peer.rounds;

	eventually((fm_client_wake(q->client), peer.rounds > from + 1));
}

struct feeder {
	pthread_t thread;
	struct fm_xq *q;
	unsigned from, to;
	atomic_uint until; /* not further for now; 0: to the end */
};

static inline void *feed(void *arg)
{
	struct feeder *f = arg;

	for (unsigned i = f->from; i < f->to; i++) {
		eventually(!f->until || i < f->until);
		assert_int_equal(launch(f->q, i), 0);
	}
	return NULL;
}

static inline void start_feeder(struct feeder *f)
{
	assert_int_equal(pthread_create(&f->thread, NULL, feed, f), 0);
}

static inline void assert_in_order(unsigned n)
{
	assert_int_equal(w.n, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(w.result[i], i);
}

/* The device rests: with time given to it, nothing more comes out. A launch on its way to a closed
 * gate shows as work for a moment; a device that has just seen the gate open says so a moment
 * later.
 */
static inline void assert_rests(struct fm_xq *q, unsigned all)
{
	unsigned n;

	device_goes_on(1);
	eventually(fm_xq_stalled(q));
	device_goes_on(2); /* what had finished then has been told */
	n = w.n;
	device_goes_on(100);
	assert_int_equal(w.n, n);
	eventually(fm_xq_stalled(q));
	assert_true(n < all);
}
