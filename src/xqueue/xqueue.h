/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XQueue: a preemptible queue over one hwqueue. The program launches in its own thread, straight
 * into its own hwqueue; the XQueue counts, and now and then puts a gate in between (level 2) or
 * holds the caller for a moment (level 1).
 *
 * A *segment* is the stretch of commands between two gates, about `interval` of device time by
 * estimates learnt from earlier segments. Gates are placed closed; the agent opens them while the
 * board's gate word is open, at most `lead` segments ahead of the device. So closing the word
 * stalls the hwqueue at the next gate, and nobody in this process needs to act for it.
 *
 * Around each launch:    fm_xq_begin(q, key);  driver call;  fm_xq_end(q);
 * After a driver call that waited for all of the queue:    mark = fm_xq_mark(q) before,
 * fm_xq_synced(q, mark).
 *
 * Owns: the client of this process, its agent, and all XQueues.
 * Locks: that of the process and that of the client (client.h); two for each XQueue (segment.h).
 * docs/design/locks.md has their order.
 * Threads: any of the program's launch and wait; the agent opens gates and talks to the daemon;
 * callbacks of the driver only try to take locks.
 */
#pragma once
#include "api/hwqueue.h"
#include "base/clock.h"
#include "board/board.h"
#include "board/proto.h"
#include "link.h"

struct fm_client; /* this process as the daemon sees it: board, agent thread, link */

/* How a process makes room for others in the middle of a command, by what a device can be told
 * (level 3): as the device will; at any moment; or rather at its next gate, for it has been told to
 * stop, and comes to that gate the sooner the less often it is sent away on its way there. */
enum fm_slice_mode { FM_SLICE_NONE, FM_SLICE_AT_ONCE, FM_SLICE_AT_GATE };

struct fm_client_config {
	const char *api;                 /* static: "opencl", "lib" */
	const struct fm_link_ops *local; /* local mode, NULL where it is not linked in */
	const char
		*local_policy; /* force local mode with this policy; NULL: as $FERMATA_LOCAL says */
	/* Told by the agent when it changes, first when it is not NONE: this process alone is to
	 * make room for others. Not where a lesser level is wished. May be NULL. */
	void (*makes_room)(enum fm_slice_mode room);
	uint64_t spin_ns;  /* the agent looks for so long before it sleeps, while the device is
			      shared; 0: as $FERMATA_SPIN_US says */
	bool gates_always; /* place gates also while nobody schedules us: the program suspends its
			      own queues */
};

/* The process's client, made at first use: settings from the environment (FERMATA_*), board, link
 * if a daemon is there (else it is looked for in the background), agent. Returns NULL when switched
 * off (FERMATA_DISABLE=1) or out of resources: the caller then runs natively. Thread-safe. In a
 * forked child the parent's client is gone and a new one is made at first use. */
struct fm_client *fm_client_get(const struct fm_client_config *config);
/* Does the environment say so (FERMATA_DISABLE)? */
bool fm_client_switched_off(void);

/* Groups of this process. Index 0 is there from the start. -ENOSPC beyond FM_BOARD_GROUPS. */
int fm_client_group_add(struct fm_client *c, const char *name);
int fm_client_hint(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value);
int fm_client_segment(struct fm_client *c, uint32_t group, bool begin, int32_t priority);
/* A call that goes past XQueues. call: its name in the API. */
void fm_client_count_ungoverned(struct fm_client *c, const char *call);
/* A call through an XQueue that cannot be stopped in its middle, though it is long (fm_xq_long). */
void fm_client_count_undivided(struct fm_client *c, const char *call);
/* What has become of images of code (board.h): all so far. */
struct fm_client_images {
	uint64_t images, images_left, kernels, kernels_left, ns;
};
void fm_client_count_images(struct fm_client *c, const struct fm_client_images *n);
void fm_client_images(const struct fm_client *c, struct fm_client_images *n);
/* So many more images, or kernels of others, were left as they are for one reason. */
void fm_client_count_left(struct fm_client *c, const char *what, const char *why, unsigned n);
bool fm_client_connected(struct fm_client *c); /* somebody schedules us */
/* The memory in which the words of its hwqueues lie (struct fm_gate_words). It begins with eight
 * bytes that never change. */
struct fm_board *fm_client_board(const struct fm_client *c);
bool fm_client_exits(
	const struct fm_client *c); /* the process does: nobody of us calls the driver */
/* Kernels that take so long, or longer, are to be stopped in their middle, where nobody else says
 * from when on (fm_xq_guard_from); UINT64_MAX: none. */
uint64_t fm_client_guard_from(const struct fm_client *c);

#define FM_SEG_KEYS 64

/*
 * Estimates: device time of a kind of command, learnt, for all queues of the process. A cache of
 * four ways, a line of memory each; too many kinds forget each other. Threads may mix up two kinds
 * that take each other's place: an estimate is then wrong, which costs a gate too many or a late
 * one.
 */
#define FM_EST_SET_BITS 10
#define FM_EST_WAYS     4
struct fm_est {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t ns;  /* odd: at most so much, never measured exactly */
};
struct fm_est_set {
	_Alignas(64) struct fm_est way[FM_EST_WAYS];
};

extern struct fm_est_set fm_estimates[1 << FM_EST_SET_BITS]
	__attribute__((visibility("hidden"))); /* of this process */

static inline struct fm_est_set *fm_est_set(struct fm_est_set *table, uint64_t key)
{
	return &table[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FM_EST_SET_BITS)];
}

static inline struct fm_est *fm_est_find(struct fm_est_set *table, uint64_t key)
{
	struct fm_est_set *set = fm_est_set(table, key);

	for (unsigned i = 0; i < FM_EST_WAYS; i++)
		if (atomic_load_explicit(&set->way[i].key, memory_order_relaxed) == key)
			return &set->way[i];
	return NULL;
}

struct fm_xq_gate;

/* Who is yet to hear that a queue has work: nobody, this process's own threads, the scheduler too.
 */
enum fm_tell { FM_TELL_NOBODY, FM_TELL_OWN, FM_TELL_ALL };

struct fm_xq {
	/* Read or written at each launch: a line. */
	FM_LINE struct fm_slot *slot;
	_Atomic(_Atomic uint32_t *) gate; /* that of the slot, or in strict mode another */
	const void *owner;                /* the thread that made it (fm_xq_is_own) */
	_Atomic uint64_t interval; /* of a segment; UINT64_MAX: nobody schedules us, no gates */
	_Atomic uint64_t finishes; /* no more are known to have finished (fm_xq_may_finish) */
	_Atomic uint64_t seg_ns;   /* estimated device time since the last gate */
	_Atomic uint32_t seg_n;    /* commands since the last gate, */
	_Atomic uint32_t seg_most; /* and with so many it ends */
	_Atomic uint32_t gates_pending; /* gates that are still closed, or were (fm_xq_is_behind) */
	_Atomic uint8_t announce;   /* idle no more, and these have not been told: enum fm_tell */
	_Atomic bool own_suspended; /* by fm_xq_suspend: this queue alone */
	_Atomic bool guessed;       /* what counts as finished may not have (fm_xq_refused) */
	bool steered;               /* fm_xq_config */

	/* Where launches are to stop in their middle, these besides. */
	FM_LINE struct fm_xq_cold *cold; /* segment.h */
	const struct fm_hw_ops *ops;
	void *hwq;
	struct fm_client *client;
	_Atomic enum fm_level level; /* in use */
	_Atomic bool stops_alone;    /* it may be suspended alone, by fm_xq_suspend: commands are
					launched so that they can stop, whoever shares the device */

	/* Under lock unless noted. */
	_Atomic bool partly;       /* what level 3 can do depends on the command: fm_xq_reaches() */
	_Atomic bool device_gates; /* the device looks at the gate word itself */
	bool in_order, closing;
	unsigned slot_index, group;
	unsigned levels;             /* bits that the hwqueue can do */
	_Atomic uint64_t gate_mark;  /* of the last gate the device looks at: commands in front */
	_Atomic unsigned refs;       /* the owner, the agent's list, each tracker under way */
	uint64_t spacing;            /* device time of a segment while others share the device */
	_Atomic uint64_t edge_at;    /* when the queue last went from idle to busy */
	_Atomic uint64_t edge_gates; /* gates placed until then */
	_Atomic uint64_t waited_at;  /* the program began to wait in the driver for its end */
	_Atomic uint64_t long_mark;  /* the last command launched that is long (fm_xq_begin_slow) */
	char device[FM_DEVKEY_MAX];
	_Atomic uint64_t seg_key[FM_SEG_KEYS]; /* of the commands since the last gate, the first */
};

struct fm_xq_config {
	unsigned group;     /* index from fm_client_group_add(), 0: the process's */
	const char *device; /* key that names the device across processes */
	const struct fm_hw_ops *ops;
	void *hwq;
	enum fm_level level_wish; /* at most this deep; FM_LEVEL_NONE: as deep as it goes */
	bool in_order;            /* commands finish in order of submission */
	/* The program suspends this queue itself: gates stand also while nobody schedules us, and a
	 * device that looks at them looks for fm_xq_suspend() as well. */
	bool steered;
	/* Told by the agent, without a lock: it has work, and has come to rest because it may not
	 * run; or that is over. Must not wait. May be NULL. */
	void (*turned)(void *hwq, bool stopped, uint64_t now);
	uint64_t interval_ns; /* a segment's device time where nobody wishes another; 0: 500 us */
};

/* 0; -ENOSPC when the board has no slot left: the queue then runs ungoverned. */
int fm_xq_create(struct fm_xq **out, struct fm_client *c, const struct fm_xq_config *config);
/* No more launches will come. Commands in flight go on; the slot is given back when they are done.
 */
void fm_xq_close(struct fm_xq *q);

/* Returns the estimate to use: of a kind not seen before it is UINT64_MAX until here. */
FM_COLD uint64_t fm_xq_begin_slow(struct fm_xq *q, uint64_t begun_before, uint64_t est, bool waits);
FM_COLD void fm_xq_announce(struct fm_xq *q);
FM_COLD void fm_xq_synced_slow(struct fm_xq *q, uint64_t mark, uint64_t since);
/* The program has waited for something that this queue may have finished: look soon whether it is
 * idle. */
void fm_xq_nudge(struct fm_xq *q);

/* Is this the thread that made it? Mostly it is the one that launches, too. */
static inline bool fm_xq_is_own(const struct fm_xq *q)
{
	return q->owner == fm_this_thread();
}

static inline uint64_t fm_xq_estimate(uint64_t key)
{
	struct fm_est *e = fm_est_find(fm_estimates, key);

	return FM_LIKELY(e) ? atomic_load_explicit(&e->ns, memory_order_relaxed) : UINT64_MAX;
}

/* What it counts for in its segment. Where a time is no more than a bound (estimate.c) the device
 * waits for the program, and takes less. */
static inline uint64_t fm_xq_weight(uint64_t est)
{
	return est >> (est & 1);
}

/* Had all finished that was begun before? More may have: of threads that begin at one time each
 * takes the others for busy, and the one that was first looks last, when the others are done
 * already. It is then the one that says so. */
static inline bool fm_xq_was_idle(const struct fm_xq *q, uint64_t before)
{
	return FM_UNLIKELY(before <= atomic_load(&q->finishes)) && fm_slot_done(q->slot) >= before;
}

/* Does what is launched now stand behind a closed gate? Where the device looks at gates itself
 * nobody here hears when it goes past one, and the gate word may be closed again by then. */
static inline bool fm_xq_is_behind(const struct fm_xq *q)
{
	uint64_t mark, progress;

	if (!atomic_load_explicit(&q->gates_pending, memory_order_relaxed))
		return false;
	mark = atomic_load_explicit(&q->gate_mark, memory_order_relaxed);
	progress = atomic_load_explicit(&q->slot->progress, memory_order_acquire);
	return !q->device_gates || progress >> 1 < mark || progress == 2 * mark + 1;
}

/*
 * Before a launch of a command of kind `key` (the same key for commands that cost alike; not 0).
 * No lock, no allocation, no system call, unless a segment ends here, the queue was idle while
 * somebody waits to hear of it, or the caller is to be held. The full fence of the increment orders
 * it before the look at the gate and at the bells (board.h). Returns what it is estimated to take,
 * UINT64_MAX: not known.
 *
 * waits: the driver's call may wait for the device. Where it does not, and the command may go to
 * the device as it is, those who are to hear that the queue has work are told after the launch, not
 * before.
 */
FM_INLINE_HOT uint64_t fm_xq_begin(struct fm_xq *q, uint64_t key, bool waits)
{
	struct fm_slot *s = q->slot;
	uint64_t est = fm_xq_estimate(key);
	uint64_t before = atomic_fetch_add(&s->begun, 1);
	uint64_t seg = fm_add_sat(
		atomic_load_explicit(&q->seg_ns, memory_order_relaxed), fm_xq_weight(est));
	uint32_t n = atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	bool idle = fm_xq_was_idle(q, before);
	_Atomic uint32_t *gate = atomic_load_explicit(&q->gate, memory_order_relaxed);
	bool closed = (atomic_load_explicit(gate, memory_order_relaxed) != FM_GATE_OPEN ||
			      atomic_load_explicit(&q->own_suspended, memory_order_relaxed)) &&
		      !fm_xq_is_behind(q);

	if (FM_UNLIKELY(idle || closed ||
			seg > atomic_load_explicit(&q->interval, memory_order_relaxed) ||
			n >= atomic_load_explicit(&q->seg_most, memory_order_relaxed))) {
		est = fm_xq_begin_slow(q, before, est, waits);
		seg = fm_add_sat(
			atomic_load_explicit(&q->seg_ns, memory_order_relaxed), fm_xq_weight(est));
		n = atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	}
	/* Lost updates between threads on one queue make an estimate less good, nothing else. */
	if (n < FM_SEG_KEYS)
		atomic_store_explicit(&q->seg_key[n], key, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, n + 1, memory_order_relaxed);
	atomic_store_explicit(&q->seg_ns, seg, memory_order_relaxed);
	return est;
}

/* Is its gate open, as the scheduler and its own program say? Any thread. */
bool fm_xq_may_run(struct fm_xq *q);
/* For a command that must not be enqueued behind a closed gate: until all have opened. Holds the
 * caller while its group may not run. */
FM_COLD void fm_xq_await_gates(struct fm_xq *q);

/* Somebody schedules this queue. */
static inline bool fm_xq_scheduled(struct fm_xq *q)
{
	return atomic_load_explicit(&q->interval, memory_order_relaxed) != UINT64_MAX;
}

/*
 * Where commands are counted in the order of the hwqueue (hwqueue.h, guardian) they and gates come
 * one at a time: from before fm_xq_begin() to after fm_xq_end(), or to before the driver's call for
 * those that need not be counted. A lock, before all others of ours.
 */
void fm_xq_order_take(struct fm_xq *q);
void fm_xq_order_give(struct fm_xq *q);
/* Such commands have been launched since the last gate, and something comes that shall see them
 * finished: a gate. Without that lock, or with it. */
void fm_xq_cover(struct fm_xq *q);
void fm_xq_cover_in_order(struct fm_xq *q);
/* A gate, whatever there is in front of it. With that lock. */
void fm_xq_gate_in_order(struct fm_xq *q);
/*
 * Wait until such commands have finished; also of one that is closing. Without that lock. What they
 * wait for may be this very thread: so after `most` ns, not counting those in which it is stopped,
 * or at once where nobody will ever say that they have finished (what is left of one that is gone),
 * `let_be` is called, at a moment at which it is not being stopped in the middle of a command, with
 * a lock under which it would be; and this returns.
 */
struct fm_xq_outlast {
	uint64_t most;
	bool (*pending)(void *hwq); /* is there one that has not finished? */
	void (*let_be)(void *arg);
	void *arg;
};
void fm_xq_outlast(struct fm_xq *q, const struct fm_xq_outlast *how);
/* Has the device said that more than so many have finished? Of one that is gone: all of them. */
bool fm_xq_said(struct fm_xq *q, uint64_t more_than);
/* Wait until fewer commands than that are under way: the driver would wait for the device, with
 * locks of its own, that the agent may need to let it go on. False: they do not get fewer, for they
 * wait for something else. Without that lock. */
bool fm_xq_ahead(struct fm_xq *q, uint64_t most);

/* Has it something under way, a command or what only orders some, as far as is known? How many
 * queues of its process have? No lock of a queue is taken. There are too many: the agent is to ask
 * about those of which it is not known. */
bool fm_xq_is_at_work(struct fm_xq *q);
unsigned fm_xq_at_work(struct fm_xq *q);
void fm_xq_crowded(struct fm_xq *q);

/* May it be stopped at all: for it shares the device, or by who says that it stops alone? */
bool fm_xq_is_shared(const struct fm_xq *q);
/* It shares the device with others, none of which it has to wait for; and it may run. */
static inline bool fm_xq_is_first(struct fm_xq *q)
{
	return atomic_load_explicit(&q->slot->shares, memory_order_relaxed) == FM_SHARES_FIRST &&
	       fm_xq_may_run(q);
}

/* After the launch, also after one that failed (a command that never was counts as finished in
 * order). */
static inline void fm_xq_end(struct fm_xq *q)
{
	fm_count_raise(&q->slot->passed, fm_xq_is_own(q));
	if (FM_UNLIKELY(atomic_load_explicit(&q->announce, memory_order_relaxed)))
		fm_xq_announce(q);
}

/* Launches that the driver has for sure: what a wait that begins now will cover. */
static inline uint64_t fm_xq_mark(struct fm_xq *q)
{
	return fm_count_sum(&q->slot->passed);
}

/* The program begins to wait in the driver for all of the queue: it will say the end itself. */
static inline void fm_xq_waits(struct fm_xq *q, uint64_t now)
{
	atomic_store_explicit(&q->waited_at, now, memory_order_relaxed);
}

/* All launches up to mark are finished: the driver has said so. since: the caller has waited for
 * them in the driver, from then on; 0: it has not, or nobody knows. */
static inline void fm_xq_waited(struct fm_xq *q, uint64_t mark, uint64_t since)
{
	if (atomic_load_explicit(&q->slot->done, memory_order_relaxed) < mark ||
		FM_UNLIKELY(atomic_load_explicit(&q->guessed, memory_order_relaxed)))
		fm_xq_synced_slow(q, mark, since);
}

static inline void fm_xq_synced(struct fm_xq *q, uint64_t mark)
{
	fm_xq_waited(q, mark, 0);
}

/*
 * In place of begin and end for a launch that the program composes into a graph, on a hwqueue that
 * has an XQueue: gates are composed into the graph as well, so that it can stop in its middle. They
 * stand at the same places whenever launches of the same kinds are composed anew, so that a program
 * can update a graph by another. kind: what it launches, whatever its size, which is in the key.
 * graph: a number for each graph, in order. divisible: as far as this launch goes, the graph's
 * commands will be such that stop in their middle. The driver is called after this, as after begin.
 * True: a gate was.
 */
bool fm_xq_capture(struct fm_xq *q, uint64_t key, uint64_t kind, uint64_t graph, bool divisible);
/* What is composed into that graph now will keep its commands from stopping in their middle. */
void fm_xq_capture_whole(struct fm_xq *q, uint64_t graph);
/* In front of a command that is composed: a seam (hwqueue.h, inner). False: it was not to be had.
 */
bool fm_xq_capture_seam(struct fm_xq *q);

/* Is a command of this kind known to take longer than a segment, while somebody schedules us? */
bool fm_xq_long(struct fm_xq *q, uint64_t key);

/*
 * How this queue is to be stopped, as whoever schedules it says at present (board.h): for stops
 * that begin, and launches that come. One that was stopped in the middle of a command keeps its way
 * until it has gone on.
 */
static inline bool fm_xq_gates_only(const struct fm_xq *q)
{
	uint32_t deepest = atomic_load_explicit(&q->slot->deepest, memory_order_relaxed);

	return deepest && deepest < FM_LEVEL_RUNNING;
}

/* Commands that take so long, or longer, are stopped in their middle; UINT64_MAX: none. own: where
 * nobody says. */
static inline uint64_t fm_xq_guard_from(const struct fm_xq *q, uint64_t own)
{
	uint32_t us = atomic_load_explicit(&q->slot->guard_us, memory_order_relaxed);

	if (own == UINT64_MAX || fm_xq_gates_only(q))
		return UINT64_MAX;
	return us ? us * FM_US : own;
}

/* The level in use, then. */
enum fm_level fm_xq_level(const struct fm_xq *q);

/* Level 3 where it depends on the command: what the last one that may be long can do, 3 or 2. To be
 * called once when the queue has been made. */
void fm_xq_reaches(struct fm_xq *q, enum fm_level level);
/* A backend whose interrupt() does not wait: ask it again, it stands by now. Any thread, no lock of
 * the caller's that interrupt() needs. */
void fm_xq_stands(struct fm_xq *q);
/* For callbacks that outlive the XQueue: fm_xq_stands() may be called until the other. */
void fm_xq_keep(struct fm_xq *q);
void fm_xq_unref(struct fm_xq *q);

/* This queue alone, besides what the scheduler says. Where the device looks at gates itself, of a
 * steered one: else -EOPNOTSUPP. */
int fm_xq_suspend(struct fm_xq *q);
int fm_xq_resume(struct fm_xq *q);
/* Wait until it is at rest; -ETIMEDOUT after timeout_ns. For one that is suspended. */
int fm_xq_wait_rest(struct fm_xq *q, uint64_t timeout_ns);
/* Wait until `count` commands are done; -ETIMEDOUT after timeout_ns (FM_NEVER: no limit). */
int fm_xq_wait(struct fm_xq *q, uint64_t count, uint64_t timeout_ns);
/* Is it at rest at a closed gate (or idle)? */
bool fm_xq_stalled(struct fm_xq *q);
/* How often it has been stopped in the middle of a command. */
uint64_t fm_xq_interrupts(const struct fm_xq *q);
