/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: padding. A queue that is stopped inside a kernel goes on meanwhile on a few
 * multiprocessors, those of a green context, beside the more urgent work for which it was stopped.
 *
 * What was left out is launched there, in a stream of ours of the lowest priority; and then, gate
 * by gate, what comes behind it. For that the stream of the program is let past its next gate with
 * the stop word set: launches leave out all of their blocks, copies are made, and it rests at the
 * gate behind. So gates have to know their numbers: one waits until the word `limit` of the guard
 * has reached its own, in place of `hold`. The device then looks only at the lowest bit of the gate
 * word (FM_GATE_PADS, board.h), which the scheduler sets when the queue is at rest and asks for it.
 *
 * A context has one pad, with one stream, and one queue at a time uses it.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdatomic.h>

struct fm_cu_guard;
struct fm_cu_queue;
struct fm_cu_pad;

#define FM_CU_NO_LIMIT ((uint64_t)INT64_MAX)
/* Gates for which it is known what is behind them. */
#define FM_CU_HEAVY 1024u
/* A device with fewer channels has none for a pad. */
#define FM_CU_PAD_CHANNELS 16u
/* The green contexts of one context that are kept; it is a multiple of this. */
#define FM_CU_PAD_STEP 8u
#define FM_CU_PAD_MOST 64u

/* Why a queue that could pad does not. */
enum fm_cu_pad_why {
	FM_CU_PAD_OK,
	FM_CU_PAD_NO_GREEN, /* the driver has no green contexts, or the context is not a primary one
			     */
	FM_CU_PAD_SIZE, /* the device has no more multiprocessors than that, or not in such steps */
	FM_CU_PAD_CHANNEL, /* too few channels */
	FM_CU_PAD_GATES,   /* the driver refuses gates that know their numbers */
	FM_CU_PAD_BUSY,    /* another queue of the context pads */
	FM_CU_PAD_LATER,   /* it is being made, or something is stopped just now */
	FM_CU_PAD_FAILED,  /* the driver fails */
	FM_CU_PAD_WHYS
};
extern const char *const fm_cu_pad_whys[FM_CU_PAD_WHYS];

/* Is there a pad of the queue's context, with *k multiprocessors (0: none)? If not, a thread begins
 * to make it, and the answer is FM_CU_PAD_LATER until that has ended. fewer: where *k cannot be, it
 * becomes the next smaller number that has a green context. The agent alone calls it, without
 * the lock of the queue. */
enum fm_cu_pad_why fm_cu_pad_ready(struct fm_cu_queue *q, unsigned *k, bool fewer);
/* Takes the pad of k multiprocessors for the guard, which has none. */
enum fm_cu_pad_why fm_cu_pad_take(struct fm_cu_guard *g, unsigned k);
/* The guard's pad, if it has one, is free for others. */
void fm_cu_pad_put(struct fm_cu_guard *g);
CUstream fm_cu_pad_stream(const struct fm_cu_pad *p);
/* It did not take a launch, and is not used with this size again. */
void fm_cu_pad_spoil(struct fm_cu_pad *p);
/* Have others its multiprocessors by now? */
bool fm_cu_pad_is_stale(const struct fm_cu_pad *p);
/* How many channels pads need. */
unsigned fm_cu_pads(void);
/* How many multiprocessors the device has, for a context that has a pad; else 0. */
unsigned fm_cu_pad_of(CUcontext ctx);
/* A part of the device's multiprocessors is for others from now on: the context's pad ends, and is
 * made again of what is left. Any thread. */
void fm_cu_pads_renew(CUcontext ctx);
/* The context ends, or has ended; in the child after a fork. */
void fm_cu_pads_forget(CUcontext ctx);
/* The context is about to end, which a driver refuses while it has green contexts. Its gates are
 * open, and nothing of it is stopped. No more are made until it is forgotten. */
void fm_cu_pads_end(const struct fm_cu_driver *cu, CUcontext ctx);
/* It has not ended. */
void fm_cu_pads_stay(CUcontext ctx);
/* Is a thread of ours in the driver for that context? It waits for what the context has to do, and
 * launches wait for it. */
bool fm_cu_pads_making(CUcontext ctx);
void fm_cu_pads_fork_child(void);

/* --- gates that know their numbers --- */

/* Is the next gate such a one? wish: the queue may pad. */
bool fm_cu_guard_numbers(struct fm_cu_guard *g, bool wish);
/* The operation that tells which gate the stream has come to. */
union fm_cu_mem_op fm_cu_guard_arrives(const struct fm_cu_guard *g);
/* What the gate waits for instead of `hold`. */
union fm_cu_mem_op fm_cu_guard_limit(const struct fm_cu_guard *g);
/* The driver refuses such a gate. True: none was taken before, so there will be none. */
bool fm_cu_guard_refused(struct fm_cu_guard *g);
/* A gate was put, of that kind, or not. */
void fm_cu_guard_counted(struct fm_cu_guard *g, bool numbered);
/*
 * The caller is about to put something that the queue must not come to while it pads: a kernel that
 * is not guarded, or a wait. The order is held. True: a gate has to be put first, and then this is
 * to be asked again, because the queue may be past the last one.
 */
bool fm_cu_guard_heavy(struct fm_cu_guard *g);

/* Do gates of the guard know their numbers? Any thread. */
bool fm_cu_guard_numbered(const struct fm_cu_guard *g);

/* Operations of level 3 (hwqueue.h). */
int fm_cu_pad_prepare(void *hwq, unsigned k, bool fewer, const char **why);
int fm_cu_pad_ahead(void *hwq, unsigned most);
int fm_cu_pad(void *hwq, unsigned k);
unsigned fm_cu_pad_all(void *hwq);
