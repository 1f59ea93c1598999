/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA streams as hwqueues. A gate is a wait of the stream for the board's gate word (stream memory
 * operations): the device itself reads the word and writes how far it has come, so that a store by
 * the scheduler stalls the stream and no code of the program runs for it.
 *
 * Owns: one struct fm_cu_queue for each stream; our own streams, control blocks and words of
 * memory in each context (guard).
 * Locks: `capture_lock` (cuda.c), held while another thread touches a stream; the turnstile of a
 * context (turnstile.h), around calls that may wait for the device; small ones over lists
 * (reach.c, settle.c, timeslice.c, guard/). docs/design/locks.md has their order.
 * Threads: any of the program's launch; the agent places and opens gates, stops, and launches
 * again.
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
	uint64_t at, span; /* when the program began to launch what is timed; how long it took */
	bool begun, lost, behind;
};

#define FM_CU_TRACKS 8 /* under way at level 1 */

struct fm_cu_tracker {
	CUevent event; /* NULL: not made yet */
	fm_reached_fn *reached;
	void *cookie;
	uint64_t put_at;
};

/* One stream of one context: of the program, or one of its two default streams. */
struct fm_cu_queue {
	/* A line, of what launches read. */
	CUcontext ctx;                     /* whose it is */
	struct fm_cu_guard *guard;         /* NULL: launches do not stop in their middle. From
					      fm_xq_create() on */
	struct fm_cu_turnstile *turnstile; /* fm_cu_queue_turnstile() */
	/* What is put into the stream besides commands, by who puts it there. */
	struct fm_count orders;      /* calls that began, */
	struct fm_count ordered;     /* and that have come back; owned as the XQueue is */
	_Atomic uint64_t order_all;  /* behind the last of them: commands and these; */
	_Atomic uint64_t order_from; /* has this command finished, so has that one */
	_Atomic uint64_t idle_at;    /* the driver has said that so many in all were finished, */
	_Atomic uint64_t ours_at;    /* and what we had put there so often, */
	_Atomic uint64_t ours;       /* of so many times: words and events, not by a launch; */
	_Atomic uint64_t ours_put;   /* and so often the driver has it for sure */

	const void *owner; /* &fm_cu_inside of the thread that made it */

	_Atomic unsigned coming; /* calls that put something, let in while something is stopped */
	const struct fm_cu_driver *cu;
	CUcontext base;  /* the one that holds what ctx uses: the primary one of a green context,
			    else  ctx itself. Any thread may make it current */
	CUstream stream; /* never NULL: FM_CU_STREAM_LEGACY or FM_CU_STREAM_PER_THREAD instead */
	void (*release)(struct fm_cu_queue *q); /* the XQueue lets go: the last use of q */
	bool guarded;  /* by whoever makes it: launches shall stop in their middle, if it
			  can be had */
	bool loops;    /* likewise: also in the middle of their loops */
	bool ctx_ends; /* likewise, before it is closed: its context goes, too */
	/* Likewise: of a thread's default stream, which ends with it, &fm_cu_inside of the thread,
	 * where that is the one to close it. */
	_Atomic(const void *) ends_in;
	/* May a stop begin, while as many streams have work as do? NULL: nobody knows. */
	bool (*has_room)(struct fm_cu_queue *q);
	/* How many launches that can be stopped may stand between two gates; 0: as few as of
	 * others. NULL likewise. */
	unsigned (*max_unfenced)(struct fm_cu_queue *q);

	/* Within the room. */
	struct fm_cu_turnstile *visited; /* under capture_lock */
	unsigned long long id;           /* of a thread's default stream; 0: not known */
	void *map;                       /* the board */
	size_t map_size;
	struct fm_cu_reach *reach; /* while it is base's */
	struct fm_cu_reach *page;  /* strict mode: likewise, of the page of gates */
	struct fm_cu_sample sample[FM_CU_SAMPLES];
	unsigned sample_head, sample_n;
	bool sampling; /* the last gate began a sample that has not ended */
	bool no_events;
	struct fm_cu_tracker track[FM_CU_TRACKS + 1]; /* a ring, and the last one that has come */
	unsigned track_head, track_n;
	uint64_t track_at; /* when that one came, as is thought; 0: there is none */
};

extern const struct fm_hw_ops fm_cu_ops;

/* Of its context; NULL: none yet. */
static inline struct fm_cu_turnstile *fm_cu_queue_turnstile(struct fm_cu_queue *q)
{
	if (!q->turnstile)
		q->turnstile = fm_cu_turnstile(q->base, false);
	return q->turnstile;
}

/* Something that is no command was put into it, when so many commands had begun, and `mark` had
 * been passed to the driver. It is seen by who finds that call no longer inside (turnstile.h). */
void fm_cu_order_put(struct fm_cu_queue *q, uint64_t begun, uint64_t mark);
/* What was put into the stream before its queue was made is not known: it counts as one of these,
 * until the driver says that it is over. In the thread that makes it, and a context of its device.
 */
void fm_cu_look_before(struct fm_cu_queue *q);
/* May such be under way, as far as is known? (hwqueue.h, query) */
bool fm_cu_query(void *hwq, uint64_t done, uint64_t passed, bool ask);
/* So many in all, of both kinds, are there for sure, when `mark` commands had been passed to the
 * driver. Of what is just being put into the stream nobody can tell: it is not among them. */
static inline uint64_t fm_cu_all(struct fm_cu_queue *q, uint64_t mark)
{
	return mark + fm_count_sum(&q->ordered);
}
/* The driver has said that so many are finished, and so many of ours (0: of those nobody knows). */
void fm_cu_idle_at(struct fm_cu_queue *q, uint64_t all, uint64_t ours);
/* Is there a channel for one more stream, while so many have work (itself included), so that those
 * are left that the agent's streams need? */
bool fm_cu_channels_left(unsigned at_work);

/* Of ctx, the current context or that of `stream`: the one that holds what it uses. */
CUcontext fm_cu_base_context(const struct fm_cu_driver *cu, CUcontext ctx, CUstream stream);

/* Around calls of ours to the driver in a thread of the program's. Some are forbidden to a thread
 * while another captures, unless it says that it does not mind. fm_cu_enter() returns the mode to
 * go back to. */
int fm_cu_enter(const struct fm_cu_driver *cu);
void fm_cu_leave(const struct fm_cu_driver *cu, int mode);

/* The context of `stream` is `ctx`, on `base`. No call to the driver. */
void fm_cu_queue_init(struct fm_cu_queue *q, const struct fm_cu_driver *cu, CUcontext ctx,
	CUcontext base, CUstream stream, void (*release)(struct fm_cu_queue *q));

/* Before fm_xq_create(): the memory in which the words of its gates will lie. Without it there are
 * no gates. */
void fm_cu_queue_words(struct fm_cu_queue *q, void *map, size_t size);

/* The driver has ended the context. */
void fm_cu_context_gone(CUcontext ctx);

/* In the child after a fork, which has no context of its parent's: nothing here is locked, or
 * known. */
void fm_cu_fork_child(void);

/* Does the current context share the device's own with other processes (MPS)? */
bool fm_cu_shares_context(const struct fm_cu_driver *cu);

/* A name of the current context's device that is the same in every process: its UUID, or that of
 * the part of it (MIG) that the process has. False if it cannot be had. */
bool fm_cu_device_key(const struct fm_cu_driver *cu, char *key, size_t size);

/* This thread is inside the driver, for us or for the program: calls of the driver's own functions
 * that come back to a shim are the driver's, and none of the shim's business. */
extern __thread unsigned fm_cu_inside __attribute__((tls_model("initial-exec")));

/* While streams of the process are captured into graphs, nothing but the program's own calls may
 * touch a stream from elsewhere. A begin that failed is ended, too. Any thread. */
void fm_cu_capture_begin(void);
void fm_cu_capture_end(void);
extern _Atomic unsigned fm_cu_captures;   /* under way */
extern _Atomic uint64_t fm_cu_capture_no; /* how many have begun */
