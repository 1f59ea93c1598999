/* SPDX-License-Identifier: Apache-2.0 */
/* Between guard.c (making, launching, gates) and guard_stop.c (stopping, going on). */
#pragma once
#include "api/cuda/core/internal.h"
#include "api/cuda/core/turnstile.h"
#include "code/cuda/image.h"
#include "guard.h"
#include "guard_graph.h"
#include "guard_pad.h"
#include "guard_place.h"
#include "guard_records.h"

/* Offsets in the control block (image/guardian.ptx), which begins with the stop word. */
enum {
	FM_CU_BLOCK_COUNT = 4,
	FM_CU_BLOCK_FIRST = 8,
	FM_CU_BLOCK_DECIDED = 16, /* as decided for the last launch that was all or none */
	FM_CU_BLOCK_LEFT = 48,    /* FM_LOOP_LEFT */
	FM_CU_BLOCK_HEAD = 56,    /* bytes that are read */
	FM_CU_BLOCK_MAP = 64,
};
/* Launches of more blocks than this are all or none: a bit for each is 64 KiB. */
#define FM_CU_BLOCKS_MAX (UINT64_C(1) << 19)

/* How far a stop is. */
enum fm_cu_stage {
	FM_CU_RUNS,
	FM_CU_STOPPING, /* the stop word is set, gates are held: the queue runs dry */
	FM_CU_LOOKING,  /* at rest; the stop word is taken back, the control block being read */
	FM_CU_PARKED,   /* at rest, and what is left is known */
	FM_CU_AGAIN,    /* at rest; what was left out runs, in a stream of ours */
	FM_CU_ARMING    /* padding, at rest: the stop word is set for what comes behind the gate */
};

/* Host memory that the device reaches. */
struct fm_cu_shared {
	_Atomic uint32_t hold; /* gates wait for 0 */
	_Atomic uint32_t past; /* the last mark that the stream has passed */
	/* Of gates that know their number (guard_pad.h): the last one that may be passed, instead
	 * of `hold`; and the last one that the stream has come to. */
	_Atomic uint64_t limit, at;
	struct {
		uint32_t stop, count;
		uint64_t first;
		uint64_t unused[4];
		uint64_t left; /* blocks, in loops */
	} head;                /* of the control block, as it was read */
};

struct fm_cu_guard {
	struct fm_cu_guard *next; /* of all */
	bool serves, gone;        /* it serves a queue; its context is gone. Lock of guard.c */
	const struct fm_cu_driver *cu;
	CUcontext ctx;
	struct fm_cu_turnstile *turnstile;
	CUdeviceptr block, shared_at;
	CUdeviceptr area; /* where kernels that are left in a loop are saved; 0: there is no area */
	struct fm_cu_shared *shared;
	CUstream control, again;   /* words and looks; launches that are made again, */
	struct fm_cu_place *place; /* except those of a green context; NULL: the guard is of none */
	CUfunction look;           /* NULL: the driver did not take it, and copies are used */
	_Atomic bool broken;       /* nothing is guarded any more */

	/* Under the order; any thread may read these. */
	_Atomic uint64_t launched, covered;
	bool graph_last; /* the last launch was a graph's */
	unsigned graphs; /* recorded launches of graphs */
	uint32_t marks;  /* put so far */
	struct fm_cu_records
		records; /* under the order and the lock, or what is in front of a gate */

	/* Under the lock. */
	_Atomic uint64_t *progress; /* the queue's; NULL: no gate yet */
	uint64_t said;              /* finished, by the last gate; also under the order */
	struct fm_cu_graph *graph; /* the graph that is stopped; NULL: launches of the stream are */
	_Atomic enum fm_cu_stage stage;
	bool stop;  /* the stop word, as written last */
	bool cover; /* it rests at a cover of the graph, not at a gate of the queue */
	uint64_t rest_progress;
	uint64_t rest;   /* the last launch in front of the gate where it rests */
	uint64_t todo;   /* the next launch to be made again; none: rest + 1 */
	bool first;      /* that launch has left blocks out, as the control block says */
	uint64_t half;   /* which launch that was at the last look; 0: none */
	uint64_t left;   /* and how many of its blocks are left */
	bool inside;     /* some have run */
	uint64_t number; /* of launches that are made again */
	uint32_t count;  /* blocks left out by first launches, until the last look */
	uint64_t loops;  /* and in loops */

	/* guard_pad.c. `gates` and `numbered` are also under the order. */
	_Atomic uint64_t gates;    /* put so far */
	_Atomic uint64_t numbered; /* from this gate on they know their numbers; 0: none does */
	_Atomic bool unnumbered;   /* the driver refuses such gates */
	struct fm_cu_pad *pad;     /* what is made again runs there; NULL: on the whole device */
	_Atomic uint64_t let;      /* padding: let past this gate; 0: past none */
	_Atomic bool may_pad;      /* there is a pad, and the scheduler has chosen that it may */
	_Atomic bool wants_gate;   /* it has to come to rest, behind whatever comes next */
	_Atomic uint64_t heavy[FM_CU_HEAVY / 64]; /* bits of gates: fm_cu_guard_heavy() */
	bool pad_fails;                           /* it did not take a launch */
	uint64_t
		move_at; /* padding, and its gate is open: when it is stopped there; 0: it is not */
	uint64_t put_at; /* when what runs there was launched */
	uint64_t stretch; /* how long that takes, on average */
};

static inline union fm_cu_mem_op fm_cu_guard_op(uint32_t operation, CUdeviceptr at, uint64_t value)
{
	union fm_cu_mem_op o = {.pad = {0}};

	o.op.operation = operation;
	o.op.address = at;
	o.op.value = value;
	return o;
}

/*
 * A launch that is all or none has to decide once what it does. That costs the device a word that
 * all its blocks contend for. Directly behind a launch whose blocks each look for themselves, there
 * is another way: it checks whether a launch in front of it has left blocks out. Nothing changes
 * that any more when its first block begins. So such a launch is never the first to stop, but the
 * launch behind it may be.
 */
static inline void fm_cu_guard_params(
	uint64_t ours[FM_GUARD_PARAMS], CUdeviceptr block, const struct fm_cu_record *rec)
{
	ours[0] = block + (rec->follows ? FM_CU_BLOCK_FIRST : 0);
	ours[1] = block;
	ours[2] = rec->number << 2 | (rec->whole && !rec->follows ? FM_GUARD_GRID : FM_GUARD_BLOCK);
}

static inline bool fm_cu_guard_follows(
	const struct fm_cu_record *rec, const struct fm_cu_record *front)
{
	return rec->whole && !front->whole && !front->graph;
}

/* The number of a stream's n-th launch, from 1 on. Kernels look at the lower half, which is never
 * zero. */
static inline uint64_t fm_cu_guard_number(uint64_t n)
{
	return 2 * n + 1;
}

/* The stream in which launches are made again. */
static inline CUstream fm_cu_guard_again(const struct fm_cu_guard *g)
{
	if (g->pad)
		return fm_cu_pad_stream(g->pad);
	return g->place ? fm_cu_place_stream(g->place) : g->again;
}

/* The control block of what is stopped: launches of the stream, or a graph that runs in it. */
static inline CUdeviceptr fm_cu_guard_block(const struct fm_cu_guard *g)
{
	return g->graph ? g->graph->block : g->block;
}

/* guard_look.c, in the context. fm_cu_look_load: the kernel that reads a control block, or NULL.
 * fm_cu_look: reads it into shared->head, in the control stream. fm_cu_look_try: tries that with a
 * block of zeros. */
CUfunction fm_cu_look_load(const struct fm_cu_driver *cu);
bool fm_cu_look(struct fm_cu_guard *g);
void fm_cu_look_try(struct fm_cu_guard *g);

/* guard_area.c, likewise: makes a save area for a guard whose control block is all zeros. If there
 * is no memory for it, the guard has none. False: the driver fails. */
bool fm_cu_area_make(struct fm_cu_guard *g);

/* Gates hold the queue, or do not. */
static inline void fm_cu_guard_hold(struct fm_cu_guard *g, bool hold)
{
	atomic_store(&g->let, 0);
	atomic_store(&g->shared->limit, hold ? 0 : FM_CU_NO_LIMIT);
	atomic_store(&g->shared->hold, hold);
}

/* guard_stop.c, for guard_pad.c. fm_cu_guard_step: goes from stage to stage, as far as that needs
 * no waiting. fm_cu_guard_arm: sets the stop word of the stream. */
void fm_cu_guard_step(struct fm_cu_guard *g);
void fm_cu_guard_again_all(struct fm_cu_guard *g);
bool fm_cu_guard_stop_again(struct fm_cu_guard *g);
void fm_cu_guard_pass(struct fm_cu_guard *g);
/* As interrupt() of hwqueue.h. shut: its gate is closed, so that it stands at a gate which it was
 * let past, but has not passed. */
int fm_cu_guard_stops(struct fm_cu_queue *q, bool shut);

/* Nothing of the guard is stopped any more. */
void fm_cu_guard_runs(struct fm_cu_guard *g);

/* Around calls of ours to the driver from any thread that touch only our own streams, so captures
 * are not affected. False: the context is gone. */
bool fm_cu_guard_enter(struct fm_cu_guard *g, int *mode);
void fm_cu_guard_leave(struct fm_cu_guard *g, int mode);

/* guard_streams.c. Our streams of a context, which is current. */
bool fm_cu_guard_streams(const struct fm_cu_driver *cu, CUcontext ctx, CUstream *control,
	CUstream *again, CUfunction *look);
void fm_cu_guard_streams_forget(CUcontext ctx);
bool fm_cu_guard_streams_idle(const struct fm_cu_driver *cu, CUcontext ctx);
void fm_cu_guard_streams_give_back(const struct fm_cu_driver *cu, CUcontext ctx);
void fm_cu_guard_streams_fork_child(void);

/* guard.c, for the files that make the other parts. */
bool fm_cu_guard_has_all(const struct fm_cu_driver *cu);
/* Gives back the memory of a context's guards. The context is current, and nothing of theirs
 * runs. */
void fm_cu_guards_give_back(CUcontext ctx);
