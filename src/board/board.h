/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: one client's shared memory, mapped by client and daemon (and, where a device can, by
 * the device). Control plane and data plane meet here and nowhere else.
 *
 * The client creates it (memfd, sealed against resizing) and keeps it for life: a daemon that
 * restarts is simply sent the same descriptor again. Each hot word has one writer and a cache line
 * of its own. The daemon trusts nothing in it: it reads each word once, atomically, and validates.
 *
 * Memory order. A counter is published with release and read with acquire. Ready edge: the client
 * raises `begun`, then (full fence) looks at `bells`; the daemon sets `bells`, then (full fence)
 * reads `begun`: one of the two sees the other, so no edge is lost. The same holds for `done` and
 * idle.
 *
 * Stall: the client raises `released`, then looks at `gate` before it opens a gate of the
 * device; the daemon closes `gate`, then reads `released`: once it reads a stall, no gate opens. A
 * device that waits for `gate` itself says so first (`progress`, `waiting`), then looks. What it
 * says is true, except for the microsecond in which it has seen the gate open and has not yet said
 * that it goes on.
 *
 * Owns: the layout, and the mapping of one board. Each word in it belongs to the client or to the
 * daemon, as its comment says.
 * Locks: none. Words are atomic, and each has one writer.
 * Threads: any of the client's; the daemon's loop, or in local mode the holder of the link's lock
 * (local/local.h); the device.
 */
#pragma once
#include "base/count.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FM_BOARD_MAGIC   0x444f4246u /* "FBOD" */
#define FM_BOARD_VERSION 8
#define FM_BOARD_SLOTS   128
#define FM_BOARD_GROUPS  16
#define FM_BOARD_CALLS   16
#define FM_BOARD_SETS    8
#define FM_BOARD_TASKS   64
#define FM_TASK_MAX      64 /* size of a task's name, with its terminating zero */
#define FM_CALL_MAX      48 /* size of a name, with its terminating zero */

/* Open is zero: a fresh board is all zeros, and pages of slots not in use are never touched. PADS:
 * closed, and a queue that is held by other means, too, and has asked for it (`asks_pad`), may go
 * on beside the urgent work on `pad` multiprocessors. Its device may look at the lowest bit alone.
 * PADS never follows OPEN directly. */
enum fm_gate { FM_GATE_OPEN, FM_GATE_CLOSED, FM_GATE_PADS };

/* Edges that the daemon wants a bell for (struct fm_slot.bells). */
#define FM_BELL_READY 1u
#define FM_BELL_IDLE  2u

/* How deep preemption reaches. The level in use is a number n. The levels that a device can do are
 * bits (1 << n). */
enum fm_level { FM_LEVEL_NONE, FM_LEVEL_PENDING, FM_LEVEL_QUEUED, FM_LEVEL_RUNNING };

/* Does the client share a device, or does another rank of its gang share one? FIRST: it does, and
 * the policy never makes it wait for others. */
enum fm_shares { FM_SHARES_NONE, FM_SHARES, FM_SHARES_FIRST };

/* The program itself holds a queue, whatever the scheduler says. STOPS: the queue may still be on
 * the device. RESTS: it does not need the device. GOES_ON: it needs the device, and is let go when
 * its gate is open.
 */
enum fm_hold { FM_HOLD_NONE, FM_HOLD_STOPS, FM_HOLD_RESTS, FM_HOLD_GOES_ON };

/* A rest of the process, in `rest': 0 while it is OPEN, else its epoch, and in the two lowest bits
 * the state (xqueue/rest.h). A device that waits for zero waits in each other state. */
enum fm_rest { FM_REST_OPEN, FM_REST_CLOSED, FM_REST_MOVING, FM_REST_MAPPING };
#define FM_REST_STATE 3u

/* One XQueue. */
struct fm_slot {
	/* Written by the daemon (or by local mode). */
	FM_LINE _Atomic uint32_t gate; /* enum fm_gate */
	_Atomic uint32_t bells;        /* FM_BELL_*; written by the daemon, FM_BELL_* wanted */
	/* The present settings of the group and the device. deepest: enum fm_level; 0: as deep as
	 * the queue can. guard_us: commands that take so long are stopped in their middle; 0: the
	 * client's own setting. They hold for later stops and launches. */
	_Atomic uint32_t deepest, guard_us;
	_Atomic uint32_t shares; /* enum fm_shares, as `contended`, but for this queue only */
	/* On how many multiprocessors the queue may go on while its gate is FM_GATE_PADS; 0: on
	 * none. A client makes that possible before it asks. pad_most: the daemon may change `pad'
	 * by itself, up to this number (FM_PAD_AUTO), and fewer will do; 0: it does not. A daemon
	 * that does not know of pad_most leaves it 0. */
	_Atomic uint32_t pad, pad_most;

	/* Written by the threads that submit. */
	FM_LINE _Atomic uint64_t begun; /* commands whose launch has begun */
	struct fm_count passed;         /* commands whose launch has returned from the driver;
					   owned by the thread that made the queue */

	/* Written by the thread that learns of completion. done <= begun. */
	FM_LINE _Atomic uint64_t done; /* commands finished */
	_Atomic uint64_t done_at;      /* when their end was noticed */
	_Atomic uint64_t released;  /* commands let past their gates; stalled: gate closed, done >=
				       released */
	_Atomic uint64_t device_ns; /* device time used, of finished commands */
	_Atomic uint64_t
		busy_since; /* the device works on released commands since then; 0: it does not */

	/* Written by the client, seldom. */
	FM_LINE _Atomic uint64_t gates; /* gates placed */
	_Atomic uint64_t held_ns;       /* time callers were held back (level 1) */
	_Atomic uint64_t interrupts;    /* times it was stopped in the middle of a command */
	_Atomic uint32_t level;         /* enum fm_level in use */
	_Atomic uint32_t hold;          /* enum fm_hold; a device may wait for zero behind `gate` */
	_Atomic uint32_t hears; /* 1: wake the agent when the gate closes, too, at any level */
	/* asks_pad: 1 while the queue is held by other means than the gate word, and could pad.
	 * domain: queues of one client that have one number, and not 0, run side by side on a
	 * device; with FM_DOMAIN_SERVER also those of other clients of the user. padding: on so
	 * many multiprocessors it pads now; sms: of so many; padded_ns: for so long in all. */
	_Atomic uint32_t asks_pad, domain, padding, sms;
	_Atomic uint64_t padded_ns;

	/* Written by the device, where it can (hwqueue.h, gate). progress: twice the number of
	 * finished commands, plus one while the device waits for `gate` behind them. waiting: 1
	 * while it waits for `gate` in the middle of a command. */
	FM_LINE _Atomic uint64_t progress;
	_Atomic uint32_t waiting;
	_Atomic uint64_t left; /* FM_SLOT_LEFT: the queue's last operation on this slot is over */
};

#define FM_SLOT_LEFT 2

#define FM_DOMAIN_SERVER 0x80000000u

/* Calls of one name. ungoverned: calls that could not be governed. undivided: governed calls that
 * take longer than a segment and cannot be stopped in their middle. Written by the client: the name
 * once, before a count leaves zero. */
struct fm_board_call {
	FM_LINE _Atomic uint64_t ungoverned;
	_Atomic uint64_t undivided;
	_Atomic char name[FM_CALL_MAX];
};

/* A queue that is a set of tasks which schedules itself (fermata/gpu_sched.h), and its tasks. For
 * people: the daemon decides nothing by them. Written by the client, which takes free rows; sets
 * and tasks that find none are not told of. */
struct fm_board_set {
	FM_LINE _Atomic uint32_t queue; /* 1 + its slot; 0: the row is free. Written last */
	_Atomic uint32_t policy;        /* index, FM_BOARD_SET_POLICIES */
	_Atomic uint32_t slots, tasks;  /* tasks: also those that have no row */
	_Atomic uint32_t running; /* 1 + the number of a task of which a chunk runs; 0: none */
	_Atomic uint32_t stopped; /* 1: no chunk may begin */
	_Atomic uint64_t decisions;
	_Atomic uint32_t resident; /* 1: it also releases by periods and words */
};

struct fm_board_task {
	FM_LINE _Atomic uint32_t set; /* 1 + the set's row; 0: the row is free. Written last */
	_Atomic uint32_t number;      /* in its set */
	/* Jobs, as in fermata/gpu_sched.h, and the longest response time. */
	_Atomic uint64_t released, done, missed, missed_stopped, dropped, response_max;
	_Atomic uint32_t runs; /* 1: a chunk of it does */
	FM_LINE _Atomic char name[FM_TASK_MAX];
};

struct fm_board {
	/* Constant after creation. */
	FM_LINE uint32_t magic;
	uint16_t version;
	uint16_t slots;
	uint32_t size;

	/* Written by the client: 1 while its agent sleeps, so that a changed gate needs a wake-up.
	 */
	FM_LINE _Atomic uint32_t agent_sleeps;
	/* Written by the client: 0, or it rests, and its memory may be on the move (xqueue/rest.h).
	 * Devices may wait for zero behind each gate; and for the second when they have written
	 * that they go on. */
	_Atomic uint32_t rest, rest_leave;
	/* Written by the client: the last gate, by number, whose memory is there (xqueue/early.h).
	 */
	_Atomic uint32_t memory;
	/* Written by the daemon, enum fm_shares: others share a device with this client, or it may
	 * be stopped although no other does. So it keeps progress up to date. */
	FM_LINE _Atomic uint32_t contended;
	/* Written by the daemon: on each of its devices, this client is the only one in the
	 * background (priority below 0). So it may make room in the middle of a command, by means
	 * that would harm two such clients. */
	_Atomic uint32_t makes_room;

	/* Written by the client. governed: calls through XQueues that are gone (those of existing
	 * XQueues are in their slots, `begun`). ungoverned: calls that could not be governed. */
	FM_LINE _Atomic uint64_t governed;
	_Atomic uint64_t ungoverned;
	_Atomic uint64_t undivided; /* of those governed: struct fm_board_call */
	/* images: images of code that were rewritten, so that their kernels can be stopped in the
	 * middle; images_left: images left as they are. kernels, kernels_left: the same of kernels
	 * in rewritten images. Images left, and kernels left that were asked for, are also among
	 * the calls below: by reason, each as one undivided call. They do not count in `undivided`
	 * above. */
	_Atomic uint64_t images, images_left;
	_Atomic uint64_t kernels, kernels_left;
	_Atomic uint64_t images_ns; /* time for all rewriting and for look-ups in the cache */

	struct fm_slot slot[FM_BOARD_SLOTS];

	/* Ungoverned and undivided calls by name. Rows are taken from the first on. A call that
	 * finds no free row is counted only above. */
	struct fm_board_call call[FM_BOARD_CALLS];

	struct fm_board_set set[FM_BOARD_SETS];
	struct fm_board_task task[FM_BOARD_TASKS];
};

_Static_assert(sizeof(struct fm_slot) == 5 * FM_CACHE_LINE, "a slot is five cache lines");
_Static_assert(sizeof(struct fm_board_call) == FM_CACHE_LINE, "a call is a cache line");
_Static_assert(sizeof(struct fm_board_set) == FM_CACHE_LINE, "a set is a cache line");
_Static_assert(sizeof(struct fm_board_task) == 2 * FM_CACHE_LINE, "a task is two cache lines");
_Static_assert(sizeof(struct fm_board) <= 64 * 1024, "a board stays within 64 KiB");

/* Commands that the device has said are finished. */
static inline uint64_t fm_slot_progress(const struct fm_slot *s)
{
	return atomic_load_explicit(&s->progress, memory_order_acquire) >> 1;
}

/* Does the device say that it stands at a gate? */
static inline bool fm_slot_waits(const struct fm_slot *s)
{
	return atomic_load_explicit(&s->progress, memory_order_acquire) & 1 ||
	       atomic_load_explicit(&s->waiting, memory_order_acquire);
}

/* Commands known to be finished. */
static inline uint64_t fm_slot_done(const struct fm_slot *s)
{
	return FM_MAX(atomic_load_explicit(&s->done, memory_order_acquire), fm_slot_progress(s));
}

/* Commands launched and not known to be finished. If a client lies (done > begun), there are none.
 */
static inline uint64_t fm_slot_pending(const struct fm_slot *s)
{
	/* done first: reading begun first could miss commands that begin in between. */
	uint64_t done = fm_slot_done(s);
	uint64_t begun = atomic_load_explicit(&s->begun, memory_order_acquire);

	return fm_sub_sat(begun, done);
}

/* The queue's gate is closed. Has the queue come to rest there, or is it idle? */
static inline bool fm_slot_stalled(const struct fm_slot *s)
{
	/* done before released: a command let past in between makes the answer no, never a false
	 * yes. */
	uint64_t done = fm_slot_done(s);

	return done >= atomic_load_explicit(&s->released, memory_order_acquire) ||
	       fm_slot_waits(s) || !fm_slot_pending(s);
}

/* Client side: create a sealed board. *board is mapped, *fd to be sent to the daemon (or, with fd
 * NULL, the board is private memory). 0 or negative errno. All gates are open, all slots free. */
int fm_board_create(struct fm_board **board, int *fd);

/* Daemon side: map a descriptor that came from a client. -EINVAL unless it is a memfd of exactly
 * the right size, sealed against shrinking and growing, with a valid header. The descriptor stays
 * the caller's. */
int fm_board_map(struct fm_board **board, int fd);

void fm_board_unmap(struct fm_board *board);

/* Replace the mapping by a private copy with every gate open, at the same address: for the child
 * after fork, which must not write into its parent's board. Async-signal-safe. */
void fm_board_detach(struct fm_board *board);

/* Client side: is this row the call's? And: make it the call's, before the call is first counted.
 * Names are cut at FM_CALL_MAX - 1. */
bool fm_board_call_is(const struct fm_board_call *row, const char *name);
void fm_board_call_name(struct fm_board_call *row, const char *name);

struct fm_call {
	char name[FM_CALL_MAX];
	uint64_t ungoverned, undivided;
};

/* Daemon side: reads a row. False if the row is empty, or if its name has characters that neither
 * the name of a function nor a reason in parentheses behind it can have. Only letters, digits,
 * underscores, spaces, hyphens and parentheses are let through. */
bool fm_board_call_read(const struct fm_board_call *row, struct fm_call *call);

/* Policies of sets, by name; the numbers stand in the board. */
#define FM_BOARD_SET_POLICIES                                           \
	{                                                               \
		"fixed-priority", "edf", "least-laxity", "fifo", "fair" \
	}

struct fm_set {
	const char *policy;
	uint32_t slots, tasks, running; /* running: 1 + a task's number; 0: none */
	bool stopped, resident;
	uint64_t decisions;
};
struct fm_set_task {
	char name[FM_TASK_MAX];
	uint32_t number;
	uint64_t released, done, missed, missed_stopped, dropped, response_max;
	bool runs;
};

/* sets.c. Client side: takes a free row, for the queue of that slot or for a task of that set; -1:
 * there is none. And: gives a set's rows back. Any threads. */
int fm_board_set_take(struct fm_board *b, unsigned slot);
int fm_board_task_take(struct fm_board *b, unsigned set, uint32_t number, const char *name);
void fm_board_set_give(struct fm_board *b, unsigned set);
/* policy, slots, ..., or released, done, ...; the name stays. */
void fm_board_set_write(struct fm_board_set *row, const struct fm_set *set);
void fm_board_task_write(struct fm_board_task *row, const struct fm_set_task *task);

/* Daemon side: whatever the client has written, what is read is of a set and prints. The row of the
 * set that is in that slot; -1: it is none. */
int fm_board_set_read(const struct fm_board *b, unsigned slot, struct fm_set *set);
/* False: that row is no task of that set. */
bool fm_board_task_read(
	const struct fm_board *b, unsigned row, unsigned set, struct fm_set_task *task);
