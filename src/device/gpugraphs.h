/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that launch themselves on a device (docs/gpu-sched.md, engine "graphs"): the two
 * kernels, each of one warp, and what they share with the host. gpugraphs_warp.h has what they do,
 * around the text that processors and the engine "gates" run, too; make-gpusched makes
 * gpugraphs_text.c of gpugraphs.cu, and gpugraphs_heard_text.c of gpugraphs_heard.cu.
 *
 *	fermata_graph(struct fm_graphs *set, uint32_t task, uint32_t what)
 *		in graphs alone: decides, and launches graphs
 *	fermata_graphs_heard(struct fm_graphs *set, struct fm_gs_task *to, uint64_t later,
 *		uint32_t what)
 *		in streams: hears what the host tells
 *
 * On one slot, each chunk of a task is a graph that the device can launch. The last node of it, or
 * of a graph of its own that is launched behind it, is fermata_graph with FM_GATES_ENDED. That
 * decides, and launches the next chunk's graph, which begins when its own graph has ended (a tail
 * launch). So there is a chain of graphs, which ends when nothing is to run: it rests. The host
 * begins the next one by a graph of which that kernel, with FM_GRAPHS_BEGIN, is the only node.
 *
 * With more slots each has a chain, and one end, a graph of its own, that is launched behind
 * whatever chunk it runs. So a chunk's graph has ended as a whole before it is decided about, and
 * any slot may launch it next: a device has a graph at work once.
 *
 * A chain that has nothing to run stays, and looks, where that is what it waits for: while a chunk
 * runs on another slot, whose end may release jobs, and in a resident set until what the host has
 * lent has passed, as a resident does (gpusched.h). It does not have the turn meanwhile.
 *
 * A driver refuses to launch a kernel that calls cudaGraphLaunch but as a part of a graph (801). So
 * what the host launches into streams is a kernel of another module, which has no such call: it
 * decides about what the host asks for, but opens nothing (FM_GRAPHS_HEAR).
 *
 * Who begins. The host asks, and then looks at `rests'; the decider writes `rests', and then looks
 * at what is asked, with a fence of the whole system in between on both sides. One of the two sees
 * the other: the host begins a chain for each rest at most once, after it has asked for something.
 * A chain that finds something new has said that it rests, and goes on. Then what the host begins
 * comes behind it, and hears too late: the host has the kernel hear (FM_GRAPHS_HEAR) as well.
 *
 * Stops inside kernels, in sets of one slot that are not resident. Where the kernels of a chunk
 * have the guardian in mode 3 (guardian.ptx), their task has a control block. A decider that finds
 * a more urgent job while the chunk runs, or that the set is to stand, sets its stop word. The
 * chunk's graph ends then with its last kernel, as ever, and the next decider sees in the block
 * whether all its blocks have run. If not, the block says from which kernel on the same graph goes
 * on when it is launched again.
 *
 * With `to', which is memory of the host, it copies the words there, as fermata_set does.
 *
 * Owns: nothing.
 * Locks: the turn (gpusched/core.h), which is waited for: nothing that has it waits for anything.
 * Threads: any; of what launches, one at a time for each slot, as there is one chain.
 */
#pragma once
#include "device/gpusched.h"

#define FM_GRAPHS_KERNEL "fermata_graph"
#define FM_GRAPHS_HEARD  "fermata_graphs_heard"
#define FM_GRAPHS_SLOTS  16u
#define FM_GRAPHS_LOOKS  64u /* at what the host asks for, before it rests for good */

/* In memory of the host, and written there. */
struct fm_graphs_asked {
	uint64_t jobs[FM_GATES_TASKS]; /* that were released, in all */
	uint64_t park;                 /* enum fm_graphs_park */
	uint64_t drain;
	uint64_t idle, has_words; /* of a resident set: as FM_GATES_RESIDE is told */
};

enum fm_graphs_park {
	FM_GRAPHS_GO = 0,
	FM_GRAPHS_STAND = FM_GS_STOP_PARK,
	FM_GRAPHS_CLOSE = 2, /* for good: what runs is not stopped, as nobody would go on with it */
	FM_GRAPHS_ASIDE = 3, /* for a call that waits for the device: nobody has stopped the set */
};

/* In memory of the host, and written by the decider. */
struct fm_graphs_said {
	/* How often each slot's chain has ended, and 1 for before the first. */
	uint64_t rests[FM_GRAPHS_SLOTS];
	uint64_t error; /* of the device runtime: a graph was not launched, and the set is over */
};

/* The guardian's; behind it is a bit for each of FM_GRAPHS_BLOCKS blocks of a kernel. */
struct fm_graphs_block {
	uint64_t left_out;
	uint64_t first; /* kernel of this launch to have left out a block; 0: none */
	uint64_t not_used;
	uint64_t from; /* the kernel to go on from; 0: the first */
	uint64_t none[3];
	uint64_t stop; /* in its lower half, the stop word */
};
#define FM_GRAPHS_BLOCKS (UINT64_C(1) << 19)

struct fm_graphs_task {
	const uint64_t *chunk; /* the graph of each */
	uint64_t end;          /* of one slot: is launched behind it; 0: it ends with this kernel */
	/* NULL: its kernels are not guarded. A task has one chunk at a time. */
	struct fm_graphs_block *block;
	const uint64_t *stops; /* may each chunk be stopped? */
};

/* In memory of the device. */
struct fm_graphs {
	struct fm_gates s;
	struct fm_graphs_asked *asked;
	struct fm_graphs_said *said;
	uint64_t resides;              /* is it a resident set? */
	uint64_t end[FM_GRAPHS_SLOTS]; /* of several: the graph of each */
	/* The decider's. */
	uint64_t rests[FM_GRAPHS_SLOTS];
	uint64_t busy;                /* chunks that run */
	uint64_t more;                /* not 0: a slot is free, and a job is ready */
	uint32_t opened;              /* the task whose chunk is to be launched; n: none */
	uint32_t opens;               /* may this decision open a gate? */
	uint32_t on[FM_GRAPHS_SLOTS]; /* the task whose chunk runs, or ran last */
	struct fm_graphs_task of[FM_GATES_TASKS];
};

/* Beside those of gpusched.h, of which there are FM_GATES_ENDED, _NOTE, _QUIET and _CLOCK. */
enum {
	FM_GRAPHS_HEAR = 1 << 16,
	FM_GRAPHS_BEGIN = 1 << 17,
	FM_GRAPHS_SLOT = 1 << 18, /* `task' is a slot: of what was launched there */
	FM_GRAPHS_LATER = 1 << 19 /* with FM_GATES_CLOCK: the set's clock is `later' from now on */
};

/* PTX; of the first kernel, to be linked to the device runtime */
extern const char fm_graphs_text[], fm_graphs_heard_text[];
