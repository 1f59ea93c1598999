/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that decide on the device (docs/gpu-sched.md), as far as the driver goes: the
 * lower half of the engine "gates". Each task has a stream. A chunk stands there between a wait for
 * the task's gate word (a stream memory operation) and one warp (device/gpusched.h), which says
 * that it has ended, decides, and opens the next gate. Nothing is on the device while nothing is
 * released.
 *
 * All words are in memory of the device, where decisions are quick. So the host tells them
 * everything by a launch of that warp into a stream of its own, and sees in memory of its own what
 * has been decided.
 *
 * A stream that stands at a gate keeps its channel, and what shares a channel with it waits, too.
 * So a set has no more tasks than there are channels, less those of other streams that have work:
 * three of Fermata's, and two of the set and of what comes unforeseen.
 *
 * Chunks that stand in a stream cannot be taken back. When a set is destroyed they run.
 *
 * A resident set (FM_CU_GATES_RESIDENT) has one more stream, with one more channel, for a warp that
 * stays there and decides: about periods and words, and in place of the warps at the ends of
 * chunks. It stays while the host renews its stay (fm_cu_gates_lend), which needs no call of the
 * driver, and goes when the set is parked, or is to be left. The set's times are those of
 * CLOCK_MONOTONIC: the host measures how far the device's clock is from it (gates_clock.h), and
 * tells the device.
 *
 * A set of graphs (FM_CU_GATES_GRAPHS, device/gpugraphs.h) has no streams of tasks: each chunk is a
 * graph, which fm_cu_gates_add() makes of what `enqueue` launches, or is given, and which the
 * device launches itself. Each slot has one stream for its chain of graphs, and what has no gate
 * needs no refill: nothing is put. In one that is resident chains stay, in place of a warp. What
 * the host asks for it writes into memory of its own; then it begins a chain, if none is at work,
 * by one launch of a graph, or else has it heard, by one launch of the kernel. Its kernel is linked
 * to the device runtime of a CUDA toolkit, which is looked for when it is needed
 * (device_runtime.h). With FM_CU_GATES_STOPS each task has a control block of the guardian's;
 * `enqueue` gives it to the kernels that it launches (fm_cu_gates_guard), and a chunk that is
 * nothing but a row of such kernels may be stopped in their middle.
 *
 * Owns: the streams of a set, its graphs, and its words; the kernels of each context.
 * Locks: one, over the list of those kernels; of a set of graphs one, over the begins of its
 * chains. Threads: those that put chunks, one at a time for each task; those that tell and look,
 * any; others one at a time for each set. With the set's context current. fm_cu_gates_told(): any.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "device/gpusched.h"

struct fm_cu_gates;

#define FM_CU_GATES_KEPT 5u /* channels */

/* How many tasks a set may have; 0: none. */
static inline unsigned fm_cu_gates_room(unsigned channels, unsigned at_work)
{
	unsigned room =
		channels > at_work + FM_CU_GATES_KEPT ? channels - at_work - FM_CU_GATES_KEPT : 0;

	return room < FM_GATES_TASKS ? room : FM_GATES_TASKS;
}

/* Kinds of sets, or both. */
#define FM_CU_GATES_RESIDENT 1u
#define FM_CU_GATES_GRAPHS   2u
/* Of graphs, not resident, with one slot: chunks of guarded kernels are stopped inside. */
#define FM_CU_GATES_STOPS 4u

/* Words that code of the device may add to, which are 0. -ENOMEM, -EIO. */
int fm_cu_gates_words_new(const struct fm_cu_driver *cu, uint32_t n, CUdeviceptr *words);

/* What the driver did not do. */
struct fm_cu_gates_failure {
	const char *call; /* NULL: no call has failed */
	int result;
	char log[128]; /* of its linker; may be empty */
};

/* Of tasks as `set` describes them: n, slots, policy, gap, park, task, after; the decider's
 * words are 0, but for what was counted before. In a resident set tasks with a period are released
 * by it from now + `phase` on. `kind`: 0, or of the above. -E2BIG: more tasks than `room`.
 * -ENOSYS: the driver lacks calls, or does not take them; of graphs: or there is no device runtime,
 * or it cannot be linked. -ENOMEM; -EIO. `why`: of these, if it is not NULL. */
int fm_cu_gates_create(const struct fm_cu_driver *cu, const struct fm_gs *set, unsigned room,
	unsigned kind, struct fm_cu_gates **out, struct fm_cu_gates_failure *why);

/* Nothing is decided any more, and all that is in the streams runs. -EIO: the device is lost. */
int fm_cu_gates_open(struct fm_cu_gates *g);
/* That, and it waits for the end of it. Frees it in any case. NULL is nothing. */
int fm_cu_gates_destroy(struct fm_cu_gates *g);

bool fm_cu_gates_is_of_graphs(const struct fm_cu_gates *g);
/* Of a set of graphs, before anything is told: each task once, and then the set as a whole.
 * fm_cu_gates_stream() is what `enqueue` launches into, and is captured meanwhile. `graph`, if it
 * is not NULL, has one for each chunk instead, which stay the program's. The error of `enqueue`;
 * -EINVAL: the device cannot launch a chunk, and `r' says why; -ENOMEM; -EIO. */
enum fm_cu_graph_refusal {
	FM_CU_GRAPH_HAS_NODE,      /* of the type r->node, that the device cannot launch */
	FM_CU_GRAPH_HAS_CONTEXTS,  /* several */
	FM_CU_GRAPH_NOT_BY_DEVICE, /* it was not instantiated for that */
	FM_CU_GRAPH_NOT_UPLOADED,  /* it cannot be: it is of another context, or none at all */
	FM_CU_GRAPH_NOT_CAPTURED,  /* what was launched cannot be */
	FM_CU_GRAPH_IS_SHARED,     /* it is of another task, too, on several slots */
};
struct fm_cu_gates_refusal {
	uint32_t task, chunk;
	int node;
	enum fm_cu_graph_refusal why;
	struct fm_cu_gates_failure failure; /* with -EIO */
};
int fm_cu_gates_add(struct fm_cu_gates *g, uint32_t task,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), void *ctx,
	struct CUgraphExec_st *const *graph, struct fm_cu_gates_refusal *r);
/* Of the chunk that is captured. */
struct fm_cu_gates_guard {
	CUdeviceptr block;
	uint64_t kernels; /* launched with the next number each, from 1 on, and mode 3 */
	bool whole;       /* something else was, too: it is not stopped inside */
};
/* NULL: none of the set's is stopped inside. */
struct fm_cu_gates_guard *fm_cu_gates_guard(struct fm_cu_gates *g, uint32_t task);
CUdeviceptr fm_cu_gates_guard_stop(const struct fm_cu_gates_guard *guard); /* the stop word */
int fm_cu_gates_ready(struct fm_cu_gates *g, struct fm_cu_gates_refusal *r);
/* Begins what should have begun. -EIO: the device has refused to launch a graph. */
int fm_cu_gates_follow(struct fm_cu_gates *g);
/* With what error of the device runtime it has; 0: with none. */
uint64_t fm_cu_gates_refused(const struct fm_cu_gates *g);

/* Puts a chunk of the task into its stream. The error of `enqueue`, or -EIO; then the task must be
 * told to be off (FM_GATES_OFF), and gets no more chunks. */
int fm_cu_gates_put(struct fm_cu_gates *g, uint32_t task,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), unsigned chunk,
	void *ctx);

/* News (device/gpusched.h). 0; -EIO: nobody was told. */
int fm_cu_gates_tell(
	struct fm_cu_gates *g, uint32_t task, uint32_t what, uint64_t jobs, uint64_t chunks);

/* The task is off, as was decided (is_off), and nothing of it runs: what stands in its stream runs,
 * and counts for nothing. -EIO. */
int fm_cu_gates_flush(struct fm_cu_gates *g, uint32_t task);

/* What has been decided. It lasts as long as the set. */
const struct fm_gates_told *fm_cu_gates_told(const struct fm_cu_gates *g);

/* The words as they are between two decisions. It waits for the device. They last until they are
 * read again. -EIO. */
struct fm_cu_gates_words {
	const struct fm_gs *set;
	const struct fm_gs_task *task;
};
int fm_cu_gates_read(struct fm_cu_gates *g, struct fm_cu_gates_words *words);

/* Is there anything in the streams? -EIO: the device is lost. */
int fm_cu_gates_look(struct fm_cu_gates *g, bool *busy);

/* --- of a resident set --- */

bool fm_cu_gates_is_resident(const struct fm_cu_gates *g);
/* May the resident stay until then? CLOCK_MONOTONIC; 0: it goes at once. No call of the driver. */
void fm_cu_gates_lend(struct fm_cu_gates *g, uint64_t until);
/* Launches it, if it is not there. It goes by itself when nothing is released within `idle` ns, but
 * for a set with words. One at a time. -EIO. */
int fm_cu_gates_reside(struct fm_cu_gates *g, uint64_t idle, bool has_words);
bool fm_cu_gates_resides(const struct fm_cu_gates *g);
/* Measures the clock again, and tells the device. One at a time. -EIO. */
int fm_cu_gates_follow_clock(struct fm_cu_gates *g);
/* Words of the device's memory, as they are now, by a copy, which takes no time of other contexts'
 * kernels. -EIO. */
int fm_cu_gates_copy_words(struct fm_cu_gates *g, CUdeviceptr from, uint64_t *to, uint32_t n);
/* For traces. */
/* The notes since the last call, at most `most`. `lost` is added to: those that came too fast. One
 * at a time. */
uint32_t fm_cu_gates_notes(
	struct fm_cu_gates *g, struct fm_gates_note *out, uint32_t most, uint64_t *lost);

/* NULL: no such task. Of graphs: one stream for all, in which nothing stands. */
CUstream fm_cu_gates_stream(const struct fm_cu_gates *g, uint32_t task);

/* The context has ended; in the child after a fork. */
void fm_cu_gates_context_gone(CUcontext ctx);
void fm_cu_gates_fork_child(void);
