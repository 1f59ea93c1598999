/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA streams as hwqueues. A gate is a wait of the stream for the board's gate word (stream memory
 * operations). The device itself reads the word and writes how far it has come. So a store by the
 * scheduler stalls the stream, and no code of the program runs for it.
 *
 * Owns: one struct fm_cu_queue for each stream; in each context our own streams, control blocks and
 * words of memory (guard).
 *
 * Locks: `capture_lock` (cuda.c), held while another thread touches a stream; the turnstile of a
 * context (turnstile.h), around calls that may wait for the device; small ones over lists (reach.c,
 * settle.c, timeslice.c, guard/). docs/design/locks.md has their order.
 *
 * Threads: any thread of the program launches. The agent places and opens gates, stops kernels, and
 * launches them again.
 */
#pragma once
#include "api/cuda/core/guard/guard.h"
#include "api/hwqueue.h"
#include "base/clock.h"
#include "base/count.h"
#include "driver.h"
#include "tune.h"
#include "turnstile.h"
#include <pthread.h>

#define FM_CU_SAMPLES 8 /* segments being timed */

struct fm_cu_sample {
	CUevent start, end;
	uint64_t at, span; /* when the program began to launch what is timed; how long that took */
	bool begun, lost, behind;
};

#define FM_CU_TRACKS 8 /* under way at level 1 */

struct fm_cu_tracker {
	CUevent event; /* NULL: not made yet */
	fm_reached_fn *reached;
	void *cookie;
	uint64_t put_at;
};

/* One stream of one context: a stream of the program's, or one of its two default streams. */
struct fm_cu_queue {
	/* What launches read, in one cache line. */
	CUcontext ctx; /* the stream's context */
	struct fm_cu_guard
		*guard; /* NULL: launches do not stop in their middle. Set from fm_xq_create() on */
	struct fm_cu_turnstile *turnstile; /* fm_cu_queue_turnstile() */
	/* Counts of what is put into the stream besides commands, by the source. */
	struct fm_count orders;      /* calls that began, */
	struct fm_count ordered;     /* and calls that have come back; owned as the XQueue is */
	_Atomic uint64_t order_all;  /* commands and these calls up to the last of these; */
	_Atomic uint64_t order_from; /* if this command has finished, that last one has too */
	_Atomic uint64_t idle_at;    /* this many in all were finished, as the driver has said, */
	_Atomic uint64_t ours_at;    /* and this many of our own entries, */
	_Atomic uint64_t ours;       /* of this many begun: words and events that no launch puts; */
	_Atomic uint64_t ours_put;   /* and this many the driver has for sure */

	const void *owner; /* &fm_cu_inside of the thread that made the queue */

	_Atomic unsigned coming; /* calls that put something, admitted during a stop */
	const struct fm_cu_driver *cu;
	CUcontext base; /* the context that holds what ctx uses: the primary one of a green context,
			   else ctx itself. Any thread may make it current */
	CUstream stream; /* never NULL: FM_CU_STREAM_LEGACY or FM_CU_STREAM_PER_THREAD instead */
	void (*release)(struct fm_cu_queue *q); /* the last use of q */
	bool guarded;  /* set by the maker: launches must be able to stop in their middle, if
			  possible */
	bool loops;    /* likewise: also in the middle of their loops */
	bool ctx_ends; /* likewise, before it is closed: its context ends, too */
	/* Likewise, for a thread's default stream, which ends with the thread: &fm_cu_inside of the
	 * thread, if that thread is the one that closes it. */
	_Atomic(const void *) ends_in;
	/* May a stop begin while as many streams have work as now? NULL: that is not known. */
	bool (*has_room)(struct fm_cu_queue *q);
	/* How many launches that can be stopped may be between two gates; 0: as few as other
	 * launches. NULL: likewise 0. */
	unsigned (*max_unfenced)(struct fm_cu_queue *q);
	/* Makes a green context of k multiprocessors of the device, in that base context, which is
	 * current, outside of partitions; *all: how many multiprocessors the device has.
	 * -EOPNOTSUPP; -ENOSPC; -EIO. NULL: there are no such. */
	int (*pad_green)(CUcontext base, unsigned k, CUgreenCtx *green, unsigned *all);

	/* Within the module. */
	struct fm_cu_turnstile *visited; /* under capture_lock */
	unsigned long long id;           /* id of a thread's default stream; 0: not known */
	void *map;                       /* the board */
	size_t map_size;
	struct fm_cu_reach *reach; /* valid while it belongs to base */
	struct fm_cu_reach *page;  /* strict mode: likewise, for the page of gates */
	struct fm_cu_sample sample[FM_CU_SAMPLES];
	unsigned sample_head, sample_n;
	bool sampling; /* the last gate began a sample that has not ended */
	bool no_events;
	struct fm_cu_tracker
		track[FM_CU_TRACKS + 1]; /* a ring, and the last tracker that was reached */
	unsigned track_head, track_n;
	uint64_t track_at; /* when that one was reached, by estimate; 0: there is none */
};

extern const struct fm_hw_ops fm_cu_ops;

/* The turnstile of the queue's context; NULL: none yet. */
static inline struct fm_cu_turnstile *fm_cu_queue_turnstile(struct fm_cu_queue *q)
{
	if (!q->turnstile)
		q->turnstile = fm_cu_turnstile(q->base, false);
	return q->turnstile;
}

/* Something that is no command was put into the queue, when `begun` commands had begun and `mark`
 * had been passed to the driver. A thread that finds that call no longer inside (turnstile.h) sees
 * this. */
void fm_cu_order_put(struct fm_cu_queue *q, uint64_t begun, uint64_t mark);
/* What was put into the stream before its queue was made is not known. It counts as one such entry,
 * until the driver says that it is over. Called in the thread that makes the queue, with a context
 * of its device current. */
void fm_cu_look_before(struct fm_cu_queue *q);
/* May such entries be under way, as far as is known? (hwqueue.h, query) */
bool fm_cu_query(void *hwq, uint64_t done, uint64_t passed, bool ask);
/* How many entries of both kinds the stream has for sure, when `mark` commands had been passed to
 * the driver. An entry that is just being put is not counted, because its state cannot be known. */
static inline uint64_t fm_cu_all(struct fm_cu_queue *q, uint64_t mark)
{
	return mark + fm_count_sum(&q->ordered);
}
/* The driver has said that `all` entries and `ours` of our own are finished (0: not known for
 * ours). */
void fm_cu_idle_at(struct fm_cu_queue *q, uint64_t all, uint64_t ours);
/* How many channels of the device this process has, as the driver's documentation says. */
unsigned fm_cu_channels(void);
/* If `at_work` streams have work (this one included), are enough channels left for the agent's
 * streams? */
bool fm_cu_channels_left(unsigned at_work);

/* The context that holds what ctx uses. ctx is the current context, or that of `stream`. */
CUcontext fm_cu_base_context(const struct fm_cu_driver *cu, CUcontext ctx, CUstream stream);

/* Around calls of ours to the driver in a thread of the program's. The driver forbids some calls to
 * a thread while another thread captures, unless the thread relaxes its mode. fm_cu_enter() returns
 * the mode to restore. */
int fm_cu_enter(const struct fm_cu_driver *cu);
void fm_cu_leave(const struct fm_cu_driver *cu, int mode);

/* Initializes q. The context of `stream` is `ctx`, on `base`. Makes no call to the driver. */
void fm_cu_queue_init(struct fm_cu_queue *q, const struct fm_cu_driver *cu, CUcontext ctx,
	CUcontext base, CUstream stream, void (*release)(struct fm_cu_queue *q));

/* Call this before fm_xq_create(): the memory in which the words of the queue's gates will be.
 * Without it there are no gates. */
void fm_cu_queue_words(struct fm_cu_queue *q, void *map, size_t size);

/* The context is about to end, and nothing of it is held or stopped. */
void fm_cu_context_ends(const struct fm_cu_driver *cu, CUcontext ctx);
/* The driver has ended the context; it has refused to. */
void fm_cu_context_gone(CUcontext ctx);
void fm_cu_context_stays(CUcontext ctx);

/* In the child after a fork, which has no context of its parent's: all locks are free and all state
 * is empty. */
void fm_cu_fork_child(void);

/* Does the current context share the device's own with other processes (MPS)? */
bool fm_cu_shares_context(const struct fm_cu_driver *cu);

/* A name of the current context's device that is the same in every process: its UUID, or the UUID
 * of the part of it (MIG) that the process has. False if there is none. */
/* Its address on the bus; "": the driver does not say. */
void fm_cu_device_bus_of(const struct fm_cu_driver *cu, CUdevice dev, char *bus, size_t size);
bool fm_cu_device_key_of(const struct fm_cu_driver *cu, CUdevice dev, char *key, size_t size);
bool fm_cu_device_key(const struct fm_cu_driver *cu, char *key, size_t size);

/* Nonzero while this thread is inside the driver, for us or for the program. Then calls of the
 * driver's own functions that reach a shim are the driver's own, and the shim passes them on. */
extern __thread unsigned fm_cu_inside __attribute__((tls_model("initial-exec")));

/* While streams of the process are captured into graphs, only the program's own calls may touch a
 * stream from elsewhere. fm_cu_capture_end() also follows a begin that failed. Any thread. */
void fm_cu_capture_begin(void);
void fm_cu_capture_end(void);
extern _Atomic unsigned fm_cu_captures;   /* under way */
extern _Atomic uint64_t fm_cu_capture_no; /* how many captures have begun */
