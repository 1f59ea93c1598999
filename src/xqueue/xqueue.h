/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XQueue: a preemptible queue over one hwqueue. The program launches in its own thread, straight
 * into its own hwqueue. The XQueue counts the launches. Now and then it puts a gate between them
 * (level 2) or holds the caller for a moment (level 1).
 *
 * A *segment* is the commands between two gates, about `interval` of device time by estimates
 * learnt from earlier segments. Gates are placed closed. The agent opens them while the board's
 * gate word is open, at most `lead` segments ahead of the device. So closing the word stalls the
 * hwqueue at the next gate, and no thread of this process needs to act for it.
 *
 * Around each launch: fm_xq_begin(q, key); driver call; fm_xq_end(q);
 *
 * Around a driver call that waits for all of the queue: mark = fm_xq_mark(q) before it,
 * fm_xq_synced(q, mark) after it.
 *
 * Owns: the client of this process, its agent, and all XQueues.
 *
 * Locks: one of the process and one of the client (client.h); two for each XQueue (segment.h).
 * docs/design/locks.md has their order.
 *
 * Threads: any thread of the program launches and waits. The agent opens gates and talks to the
 * daemon. Callbacks of the driver only try to take locks.
 */
#pragma once
#include "api/hwqueue.h"
#include "base/clock.h"
#include "board/board.h"
#include "board/proto.h"
#include "link.h"

struct fm_client; /* this process as the daemon sees it: board, agent thread, link */

/* How a process makes room for others in the middle of a command, by what a device can be told
 * (level 3): as the device decides; at any moment; or preferably at the process's next gate,
 * because it has been told to stop. In the last case the process reaches that gate sooner if it is
 * preempted less often on its way there. */
enum fm_slice_mode { FM_SLICE_NONE, FM_SLICE_AT_ONCE, FM_SLICE_AT_GATE };

struct fm_client_config {
	const char *api;                 /* static: "opencl", "lib" */
	const struct fm_link_ops *local; /* local mode, NULL where it is not linked in */
	const char
		*local_policy; /* force local mode with this policy; NULL: as $FERMATA_LOCAL says */
	/* The agent calls this when the answer changes, and first when it is not NONE: this process
	 * alone is to make room for others. It is not called when a lower level is wished. May be
	 * NULL. */
	void (*makes_room)(enum fm_slice_mode room);
	uint64_t spin_ns; /* how long the agent polls before it sleeps, while the device is shared;
			     0: as $FERMATA_SPIN_US says */
	/* This process can rest (rest.h), so that its memory can be moved. keep_out: what else may
	 * not happen while memory moves, which is what the driver does in calls that wait for the
	 * device. True: no thread is inside such a call, and none goes inside before
	 * keep_out(false); with `true`, false: not now. May be NULL. */
	bool rests;
	bool (*keep_out)(bool out);
	/* The agent calls this whenever it has looked around: at least when a scheduler has woken
	 * it, and when it has found or lost one. It must not wait. May be NULL. */
	void (*looked)(struct fm_client *c);
	bool gates_always;  /* place gates also when no scheduler is connected, because the program
			       suspends its own queues */
	bool counts_memory; /* what the program allocates on devices is counted: account.h */
};

/* The process's client, made at first use: settings from the environment (FERMATA_*), board, link
 * if a daemon is there (else it is looked for in the background), agent. Returns NULL when switched
 * off (FERMATA_DISABLE=1) or out of resources: the caller then runs natively. Thread-safe. In a
 * forked child the parent's client is gone and a new one is made at first use. */
struct fm_client *fm_client_get(const struct fm_client_config *config);
/* Does the environment switch Fermata off (FERMATA_DISABLE)? */
bool fm_client_switched_off(void);

/* Groups of this process. Index 0 is there from the start. -ENOSPC beyond FM_BOARD_GROUPS. */
int fm_client_group_add(struct fm_client *c, const char *name);
int fm_client_hint(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value);
/* A hint of the process's own group (index 0), as it was started with or as it was told since. */
int64_t fm_client_hinted(struct fm_client *c, enum fm_hint h);
int fm_client_segment(struct fm_client *c, uint32_t group, bool begin, int32_t priority);
/* Counts a call that bypasses XQueues. call: its name in the API. */
void fm_client_count_ungoverned(struct fm_client *c, const char *call);
/* Counts a call through an XQueue that cannot be stopped in its middle, though it is long
 * (fm_xq_long). */
void fm_client_count_undivided(struct fm_client *c, const char *call);
/* What was done to images of code (board.h), in total so far. */
struct fm_client_images {
	uint64_t images, images_left, kernels, kernels_left, ns;
};
void fm_client_count_images(struct fm_client *c, const struct fm_client_images *n);
void fm_client_images(const struct fm_client *c, struct fm_client_images *n);
/* Counts n more images, or kernels of other images, that were left unchanged for one reason. */
void fm_client_count_left(struct fm_client *c, const char *what, const char *why, unsigned n);
bool fm_client_connected(struct fm_client *c); /* a scheduler is connected */
/* Is the scheduler strict, or was the last one? The second waits, for a second at most, where a
 * session is just beginning. */
bool fm_client_is_strict(const struct fm_client *c);
bool fm_client_finds_strict(const struct fm_client *c);
/* The memory in which the words of its hwqueues lie (struct fm_gate_words). It begins with eight
 * bytes that never change. */
struct fm_board *fm_client_board(const struct fm_client *c);
bool fm_client_exits(
	const struct fm_client *c); /* the process exits: no code of ours may call the driver */
/* Kernels that take at least this long are stopped in their middle, unless the scheduler sets
 * another limit (fm_xq_guard_from); UINT64_MAX: none. */
uint64_t fm_client_guard_from(const struct fm_client *c);

#define FM_SEG_KEYS 64

/*
 * Estimates: learnt device time by kind of command, for all queues of the process. This is a cache
 * of four ways, one cache line per set; if there are too many kinds, they evict each other. Threads
 * may mix up two kinds that replace each other. Then an estimate is wrong, which costs one gate too
 * many or a late gate.
 */
#define FM_EST_SET_BITS 10
#define FM_EST_WAYS     4
struct fm_est {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t ns;  /* odd: an upper bound, never measured exactly */
};
struct fm_est_set {
	_Alignas(64) struct fm_est way[FM_EST_WAYS];
};

extern struct fm_est_set fm_estimates[1 << FM_EST_SET_BITS] __attribute__((visibility("hidden")));
/* ns by which segments that were timed took longer than their estimates, in all. */
extern _Atomic uint64_t fm_est_late __attribute__((visibility("hidden"))); /* of this process */

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

/* What must still be told that a queue has work: nothing, this process's own threads, or the
 * scheduler as well. */
enum fm_tell { FM_TELL_NOBODY, FM_TELL_OWN, FM_TELL_ALL };

/* Who holds a queue of this process, whatever its gate word says: the program, which suspends this
 * queue alone (fm_xq_suspend), or a rest, which holds all of them (rest.h). */
enum fm_xq_holder { FM_XQ_BY_PROGRAM = 1, FM_XQ_BY_REST = 2 };

struct fm_xq {
	/* Read or written at each launch: a line. */
	FM_LINE struct fm_slot *slot;
	_Atomic(_Atomic uint32_t *) gate; /* the slot's gate word, or in strict mode another */
	const void *owner;                /* the thread that made it (fm_xq_is_own) */
	_Atomic uint64_t interval;        /* of a segment; UINT64_MAX: no scheduler, so no gates */
	_Atomic uint64_t finishes; /* at most these are known to have finished (fm_xq_may_finish) */
	_Atomic uint64_t seg_ns;   /* estimated device time since the last gate */
	_Atomic uint32_t seg_n;    /* commands since the last gate, */
	_Atomic uint32_t seg_most; /* the segment ends at this many commands */
	_Atomic uint32_t gates_pending; /* gates closed now, or just before (fm_xq_is_behind) */
	_Atomic uint8_t announce; /* no longer idle, and these are not told yet: enum fm_tell */
	_Atomic uint8_t held_by;  /* besides the gate: bits of enum fm_xq_holder */
	_Atomic bool guessed; /* what counts as finished may not have finished (fm_xq_refused) */
	bool steered;         /* fm_xq_config */

	/* Read in addition where launches must be able to stop in their middle. */
	FM_LINE struct fm_xq_cold *cold; /* segment.h */
	const struct fm_hw_ops *ops;
	void *hwq;
	struct fm_client *client;
	_Atomic enum fm_level level; /* in use */
	_Atomic bool stops_alone;    /* fm_xq_suspend may stop this queue alone, so its commands are
					launched so that they can stop, whether or not the device is
					shared */

	/* Under lock unless noted. */
	_Atomic bool partly;       /* what level 3 can do depends on the command: fm_xq_reaches() */
	_Atomic bool device_gates; /* the device looks at the gate word itself */
	bool in_order;
	_Atomic bool closing; /* the agent looks without the lock, too (pad.c) */
	unsigned slot_index;
	_Atomic unsigned group;      /* fm_xq_move() */
	unsigned levels;             /* bits that the hwqueue can do */
	_Atomic uint64_t gate_mark;  /* commands in front of the last gate of the device */
	_Atomic unsigned refs;       /* the owner, the agent's list, each tracker under way */
	uint64_t spacing;            /* device time of a segment while others share the device */
	_Atomic uint64_t edge_at;    /* when the queue last went from idle to busy */
	_Atomic uint64_t edge_gates; /* gates placed until then */
	_Atomic uint64_t waited_at;  /* since when the program waits in the driver for its end */
	_Atomic uint64_t long_mark;  /* the last command launched that is long (fm_xq_begin_slow) */
	char device[FM_DEVKEY_MAX];
	_Atomic uint64_t seg_key[FM_SEG_KEYS]; /* kinds of the first commands since the last gate */
	/* Of what counts as launched nobody has launched so many (count_one() in device.c): the
	 * first is raised before they count, the second when they do. */
	_Atomic uint64_t stand_ins_come, stand_ins;
	_Atomic uint32_t calls; /* under way that are not launches (fm_xq_use) */
};

struct fm_xq_config {
	unsigned group;     /* index from fm_client_group_add(), 0: the process's */
	const char *device; /* key that names the device across processes */
	const struct fm_hw_ops *ops;
	void *hwq;
	enum fm_level level_wish; /* at most this level; FM_LEVEL_NONE: the deepest possible */
	bool in_order;            /* commands finish in order of submission */
	/* The program suspends this queue itself. So gates are placed also while no scheduler is
	 * connected, and a device that looks at gates also looks at the hold word of
	 * fm_xq_suspend(). */
	bool steered;
	/* The agent calls this without a lock: the queue has work and is at rest because it may not
	 * run; or that is over. It must not wait. May be NULL. */
	void (*turned)(void *hwq, bool stopped, uint64_t now);
	/* The agent calls this without a lock whenever it has looked at the queue: at least when a
	 * gate has opened. It must not wait for the device. May be NULL. */
	void (*looked)(void *hwq);
	uint64_t interval_ns; /* a segment's device time unless something else sets it; 0: 500 us */
	uint32_t domain;      /* as in the board */
};

/* 0; -ENOSPC when the board has no slot left: the queue then runs ungoverned. */
int fm_xq_create(struct fm_xq **out, struct fm_client *c, const struct fm_xq_config *config);
/* The queue is in this group from now on. What it has launched before counts there, too. */
void fm_xq_move(struct fm_xq *q, unsigned group);
/* No more launches will come. Commands in flight go on; the slot is given back when they are done.
 */
void fm_xq_close(struct fm_xq *q);

/* Returns the estimate to use; est is UINT64_MAX for a kind not seen before. */
FM_COLD uint64_t fm_xq_begin_slow(struct fm_xq *q, uint64_t begun_before, uint64_t est, bool waits);
FM_COLD void fm_xq_announce(struct fm_xq *q);
FM_COLD void fm_xq_end_slow(struct fm_xq *q);
FM_COLD void fm_xq_synced_slow(struct fm_xq *q, uint64_t mark, uint64_t since);
/* The program has waited for something that this queue may have finished: check soon whether the
 * queue is idle. */
void fm_xq_nudge(struct fm_xq *q);

/* A command that the hwqueue has already is counted only now, and the scheduler is told that there
 * is work. Nobody is held, and no gate is placed. */
void fm_xq_count(struct fm_xq *q);

/* Did the calling thread make the queue? Usually that thread also launches on it. */
static inline bool fm_xq_is_own(const struct fm_xq *q)
{
	return q->owner == fm_this_thread();
}

static inline uint64_t fm_xq_estimate(uint64_t key)
{
	struct fm_est *e = fm_est_find(fm_estimates, key);

	return FM_LIKELY(e) ? atomic_load_explicit(&e->ns, memory_order_relaxed) : UINT64_MAX;
}

/* The command's weight in its segment. If its estimate is only a bound (estimate.c), the device
 * waits for the program and the command takes less. */
static inline uint64_t fm_xq_weight(uint64_t est)
{
	return est >> (est & 1);
}

/* Had all commands finished that were begun before this one? Threads that begin at the same time
 * each take the others' commands for unfinished ones. The thread that began first may look last,
 * when the others' commands have finished already. Therefore more commands than `before` may have
 * finished, and that thread still announces the queue. */
static inline bool fm_xq_was_idle(const struct fm_xq *q, uint64_t before)
{
	return FM_UNLIKELY(before <= atomic_load(&q->finishes)) && fm_slot_done(q->slot) >= before;
}

/* Will what is launched now wait behind a closed gate? If the device looks at gates itself, this
 * process is not told when the device passes one, and the gate word may be closed again by then. */
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
 * Call this before a launch of a command of kind `key` (the same key for commands that cost alike;
 * not 0). It takes no lock, does not allocate and makes no system call, unless a segment ends here,
 * the queue was idle and must be announced, or the caller is to be held. The full fence of the
 * increment orders it before the reads of the gate and of the bells (board.h). Returns the
 * estimated device time; UINT64_MAX: not known.
 *
 * waits: the driver's call may wait for the device. If it does not wait, and the command may go to
 * the device as it is, the queue is announced after the launch, not before.
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
			      atomic_load_explicit(&q->held_by, memory_order_relaxed)) &&
		      !fm_xq_is_behind(q);

	if (FM_UNLIKELY(idle || closed ||
			seg > atomic_load_explicit(&q->interval, memory_order_relaxed) ||
			n >= atomic_load_explicit(&q->seg_most, memory_order_relaxed))) {
		est = fm_xq_begin_slow(q, before, est, waits);
		seg = fm_add_sat(
			atomic_load_explicit(&q->seg_ns, memory_order_relaxed), fm_xq_weight(est));
		n = atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	}
	/* Lost updates between threads on one queue only make an estimate worse. */
	if (n < FM_SEG_KEYS)
		atomic_store_explicit(&q->seg_key[n], key, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, n + 1, memory_order_relaxed);
	atomic_store_explicit(&q->seg_ns, seg, memory_order_relaxed);
	return est;
}

/* Is the queue's gate open, and does nobody else hold the queue (fm_xq_holder)? Any thread. */
bool fm_xq_may_run(struct fm_xq *q);
/* Has the program itself suspended it? Then this thread may be the one that resumes it. */
static inline bool fm_xq_own_suspended(const struct fm_xq *q)
{
	return atomic_load(&q->held_by) & FM_XQ_BY_PROGRAM;
}
/* For a command that must not be enqueued behind a closed gate: waits until all gates have opened,
 * so the caller is held while its group may not run. */
FM_COLD void fm_xq_await_gates(struct fm_xq *q);
/* For a call that needs more than gates to be past: waits until over(hwq), which may never be,
 * since what it waits for may wait for this very thread. So the wait is bounded by `most` ns in
 * which nothing of ours held the queue. */
FM_COLD void fm_xq_await_over(struct fm_xq *q, uint64_t most, bool (*over)(void *hwq));
/* For a call that may wait in the driver for all that was launched: waits for its end, so that the
 * call does not, unless that takes long though nothing stops it. */
FM_COLD void fm_xq_await_end(struct fm_xq *q);

/*
 * Around a driver's call that puts something into the hwqueue that only waits (for an event, for a
 * word), in a process that can rest: a gate around it, so that the queue is known to stand while it
 * waits for another queue that stands. True: a gate was begun, and fm_xq_part_end() must follow.
 */
bool fm_xq_part_begin(struct fm_xq *q);
void fm_xq_part_end(struct fm_xq *q);

/* Is this queue scheduled? */
static inline bool fm_xq_scheduled(struct fm_xq *q)
{
	return atomic_load_explicit(&q->interval, memory_order_relaxed) != UINT64_MAX;
}

/*
 * If commands are counted in the order of the hwqueue (hwqueue.h, guardian), commands and gates are
 * placed one at a time. The lock is held from before fm_xq_begin() to after fm_xq_end(), or only to
 * before the driver's call for commands that need not be counted. It is taken before all other
 * locks of ours.
 */
void fm_xq_order_take(struct fm_xq *q);
void fm_xq_order_give(struct fm_xq *q);
/* Places a gate if such commands were launched since the last gate, because what comes next must
 * see them finished. The first takes that lock, the second is called with it held. */
void fm_xq_cover(struct fm_xq *q);
void fm_xq_cover_in_order(struct fm_xq *q);
/* Places a gate, whatever is in front of it. That lock is held. */
void fm_xq_gate_in_order(struct fm_xq *q);
/*
 * Waits until such commands have finished, also on a queue that is closing. That lock is not held.
 * The commands may wait for this very thread, so the wait is bounded by `most` ns, without the time
 * in which the queue is stopped. It ends at once if their end will never be reported (they are left
 * over from a queue that is gone). In both cases `let_be` is called before this returns. It is
 * called while the queue is not being stopped in the middle of a command, with the lock held under
 * which that would happen.
 */
struct fm_xq_outlast {
	uint64_t most;
	bool (*pending)(void *hwq); /* is there one that has not finished? */
	void (*let_be)(void *arg);
	void *arg;
};
void fm_xq_outlast(struct fm_xq *q, const struct fm_xq_outlast *how);
/* Has the device reported that more than this many commands have finished? If the queue is gone:
 * have all of them? */
bool fm_xq_said(struct fm_xq *q, uint64_t more_than);
/* Waits until fewer than `most` commands are under way. Otherwise the driver would wait for the
 * device while it holds locks of its own, and the agent may need those to let the device go on.
 * False: the number does not fall, because the commands wait for something else. That lock is not
 * held. */
bool fm_xq_ahead(struct fm_xq *q, uint64_t most);

/* fm_xq_is_at_work: does the queue have something under way, as far as is known: a command, or what
 * only orders commands? fm_xq_at_work: how many queues of its process do? Neither takes the lock of
 * a queue. fm_xq_crowded: there are too many, so the agent is to ask the driver about queues of
 * which this is not known. */
bool fm_xq_is_at_work(struct fm_xq *q);
unsigned fm_xq_at_work(struct fm_xq *q);
void fm_xq_crowded(struct fm_xq *q);

/* May the queue be stopped at all, because it shares the device or because it stops alone
 * (stops_alone)? */
bool fm_xq_is_shared(const struct fm_xq *q);
/* The queue shares the device, waits for no other group there, and may run. */
static inline bool fm_xq_is_first(struct fm_xq *q)
{
	return atomic_load_explicit(&q->slot->shares, memory_order_relaxed) == FM_SHARES_FIRST &&
	       fm_xq_may_run(q);
}

/* pad.c: on how many multiprocessors the queue goes on while its gate is closed; 0: it does not, or
 * cannot. Will it, while its gate is closed as it is? No: it has asked to, and may not yet. */
unsigned fm_xq_pad_on(struct fm_xq *q);
bool fm_xq_may_pad(struct fm_xq *q);
/* It goes on beside more urgent work, although its gate is closed (pad.c). */
static inline bool fm_xq_is_padding(const struct fm_xq *q)
{
	return atomic_load_explicit(&q->slot->padding, memory_order_relaxed);
}

/*
 * Call this after the launch, also after a failed one (a command that never reached the driver
 * counts as finished in order). A queue that another thread closes stays while a launch has begun
 * and not ended. So nothing of the queue is used here after it is counted: what must be announced
 * is looked for before. Only what this thread has found itself, in fm_xq_begin(), must be seen.
 */
static inline void fm_xq_end(struct fm_xq *q)
{
	if (FM_UNLIKELY(atomic_load_explicit(&q->announce, memory_order_relaxed)))
		fm_xq_end_slow(q);
	else
		fm_count_raise(&q->slot->passed, fm_xq_is_own(q));
}

/*
 * Around a driver's call for the queue that is no launch and may take long, and around what comes
 * after fm_xq_end(): a queue that another thread closes meanwhile stays until fm_xq_used(). A
 * thread that is cancelled in such a call, or in a launch, leaves the queue's slot in use.
 */
static inline void fm_xq_use(struct fm_xq *q)
{
	atomic_fetch_add_explicit(&q->calls, 1, memory_order_relaxed);
}

static inline void fm_xq_used(struct fm_xq *q)
{
	atomic_fetch_sub_explicit(&q->calls, 1, memory_order_release);
}

/* Launches that the driver certainly has: what a wait that begins now will cover. */
static inline uint64_t fm_xq_mark(struct fm_xq *q)
{
	return fm_count_sum(&q->slot->passed);
}

/* The same without what nobody has launched. mark: of fm_xq_mark(). While such a command is just
 * being counted this may be one less than it is, and fm_xq_own_begun() one more. */
static inline uint64_t fm_xq_own_mark(struct fm_xq *q, uint64_t mark)
{
	uint64_t not_own = atomic_load(&q->stand_ins_come);

	return mark > not_own ? mark - not_own : 0;
}

/* The commands that the program has begun to launch. */
static inline uint64_t fm_xq_own_begun(struct fm_xq *q)
{
	uint64_t not_own = atomic_load(&q->stand_ins);

	return atomic_load(&q->slot->begun) - not_own;
}

/* The program begins to wait in the driver for all of the queue, so it will report the end
 * itself. */
static inline void fm_xq_waits(struct fm_xq *q, uint64_t now)
{
	atomic_store_explicit(&q->waited_at, now, memory_order_relaxed);
}

/* The driver has reported that all launches up to mark are finished. since: when the caller began
 * to wait for them in the driver; 0: it did not wait, or that is not known. */
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

/* fm_xq_end() for a launch whose call has waited for it. before: of fm_xq_mark() before the call.
 */
static inline void fm_xq_end_synced(struct fm_xq *q, uint64_t before)
{
	fm_xq_use(q);
	fm_xq_end(q);
	fm_xq_synced(q, before + 1);
	fm_xq_used(q);
}

/*
 * Replaces begin and end for a launch that the program captures into a graph, on a hwqueue that has
 * an XQueue. Gates are captured into the graph as well, so that the graph can stop in its middle.
 * Their places are the same whenever launches of the same kinds are captured again, so that a
 * program can update one graph with another. kind: what is launched, without its size, which is in
 * the key. graph: a number for each graph, ascending. divisible: this launch does not keep the
 * graph's commands from stopping in their middle. Like begin, this is called before the driver.
 * True: a gate was captured.
 */
bool fm_xq_capture(struct fm_xq *q, uint64_t key, uint64_t kind, uint64_t graph, bool divisible);
/* What is captured into that graph now keeps its commands from stopping in their middle. */
void fm_xq_capture_whole(struct fm_xq *q, uint64_t graph);
/* Captures a seam (hwqueue.h, inner) in front of the next command. False: no seam could be
 * captured. */
bool fm_xq_capture_seam(struct fm_xq *q);

/* Is a command of this kind known to take longer than a segment, while the queue is scheduled? */
bool fm_xq_long(struct fm_xq *q, uint64_t key);

/*
 * How the scheduler wants this queue to be stopped at present (board.h). This holds for stops that
 * begin and launches that come. A queue that was stopped in the middle of a command keeps its way
 * of stopping until it has gone on.
 */
static inline bool fm_xq_gates_only(const struct fm_xq *q)
{
	uint32_t deepest = atomic_load_explicit(&q->slot->deepest, memory_order_relaxed);

	return deepest && deepest < FM_LEVEL_RUNNING;
}

/* Commands that take at least this long are stopped in their middle; UINT64_MAX: none. own: the
 * limit that holds if the scheduler sets none. */
static inline uint64_t fm_xq_guard_from(const struct fm_xq *q, uint64_t own)
{
	uint32_t us = atomic_load_explicit(&q->slot->guard_us, memory_order_relaxed);

	if (own == UINT64_MAX || fm_xq_gates_only(q))
		return UINT64_MAX;
	return us ? us * FM_US : own;
}

/* The level in use, with the scheduler's limit applied. */
enum fm_level fm_xq_level(const struct fm_xq *q);

/* For level 3 that depends on the command: sets what the last command that may be long can do, 3 or
 * 2. Call it once when the queue has been made. */
void fm_xq_reaches(struct fm_xq *q, enum fm_level level);
/* For a backend whose interrupt() does not wait: the queue is stalled by now, so interrupt() is
 * called again. Any thread; the caller holds no lock that interrupt() needs. */
void fm_xq_stands(struct fm_xq *q);
/* For callbacks that outlive the XQueue: fm_xq_stands() may be called from fm_xq_keep() until
 * fm_xq_unref(). */
void fm_xq_keep(struct fm_xq *q);
void fm_xq_unref(struct fm_xq *q);

/* Suspends or resumes this queue alone, in addition to what the scheduler says. If the device looks
 * at gates itself, the queue must be steered: else -EOPNOTSUPP. */
int fm_xq_suspend(struct fm_xq *q);
int fm_xq_resume(struct fm_xq *q);
/* Waits until a suspended queue is at rest; -ETIMEDOUT after timeout_ns. */
int fm_xq_wait_rest(struct fm_xq *q, uint64_t timeout_ns);
/* Wait until `count` commands are done; -ETIMEDOUT after timeout_ns (FM_NEVER: no limit). */
int fm_xq_wait(struct fm_xq *q, uint64_t count, uint64_t timeout_ns);
/* Is the queue at rest at a closed gate (or idle)? */
bool fm_xq_stalled(struct fm_xq *q);
/* How often the queue has been stopped in the middle of a command. */
uint64_t fm_xq_interrupts(const struct fm_xq *q);
