/* SPDX-License-Identifier: Apache-2.0 */
/* For gates.c and graphs.c. */
#pragma once
#include "device/gpugraphs.h"
#include "gates.h"
#include "gates_clock.h"
#include <pthread.h>

/* What the host shares with the device, in memory of the host. */
struct fm_cu_gates_shared {
	struct fm_gates_told told;
	struct fm_graphs_asked asked;
	struct fm_graphs_said said;
	uint64_t word[FM_GATES_TASKS];
	struct fm_gs_task task[]; /* as they were read; behind them the set */
};

/* Of a set of graphs. */
struct fm_cu_graphs {
	struct fm_graphs
		*words;     /* as the device is to find them, until it has; behind them the rest */
	size_t size;        /* of all that */
	CUdeviceptr lists;  /* the graphs of all chunks, those of one task after the other; and
			       behind these, of each: may it be stopped? */
	uint64_t *list;     /* likewise, until the device has it */
	CUdeviceptr blocks; /* the guardian's, of all tasks; 0: none */
	struct fm_cu_gates_guard guard[FM_GATES_TASKS];
	size_t first[FM_GATES_TASKS + 1];
	CUgraph *captured; /* of each chunk, and behind these of each task; NULL: none */
	CUgraphExec *own;  /* to be destroyed: of each of those */
	/* Of each slot: what begins its chain, and of several what is launched behind each chunk.
	 */
	CUgraphExec begin[FM_GRAPHS_SLOTS], end[FM_GRAPHS_SLOTS];
	bool ready;
	CUfunction chain;                /* the kernel of graphs */
	pthread_mutex_t lock;            /* of what follows; over the launch */
	bool closed;                     /* nothing is opened any more */
	uint64_t begun[FM_GRAPHS_SLOTS]; /* the rest after which a chain was begun last */
};

struct fm_cu_gates {
	const struct fm_cu_driver *cu;
	uint32_t n, slots;
	struct fm_cu_gates_failure failure; /* of the start: the first */
	CUfunction set;
	struct fm_cu_gates_shared *shared;
	CUdeviceptr shared_at, words; /* words: fm_gates or fm_graphs, tasks, after, lists */
	CUstream news, resident, stream[FM_GATES_TASKS];
	unsigned kind;
	_Atomic uint64_t residents; /* launched */
	uint64_t notes;             /* read */
	struct fm_cu_clock clock;
	uint64_t put[FM_GATES_TASKS]; /* chunks, also those that failed */
	bool broken[FM_GATES_TASKS];  /* a wait stands there alone */
	_Atomic bool any_put;
	/* Of a set of them. The chain of slot 0 is in the stream `resident', and those of others
	 * are in the streams of their numbers, of which 0 is what is captured. */
	struct fm_cu_graphs graphs;
};

static inline bool fm_cu_gates_of_graphs(const struct fm_cu_gates *g)
{
	return g->kind & FM_CU_GATES_GRAPHS;
}

/* Of the start, which is one thread's. */
static inline fm_cu_result fm_cu_gates_tried(
	struct fm_cu_gates *g, const char *call, fm_cu_result rc)
{
	if (rc && !g->failure.call) {
		g->failure.call = call;
		g->failure.result = rc;
	}
	return rc;
}

fm_cu_result fm_cu_gates_await(struct fm_cu_gates *g, CUstream stream);
/* Of a resident set, when the device has its words. */
fm_cu_result fm_cu_gates_measure_clock(struct fm_cu_gates *g);
/* Periods begin now. */
void fm_cu_gates_begin_periods(
	struct fm_cu_gates *g, struct fm_gates *head, struct fm_gs_task *task);

/* graphs.c; the last two take a set of which something is missing. */
bool fm_cu_graphs_has_calls(const struct fm_cu_driver *cu);
/* The kernel for streams, and that of graphs, which is linked to the device runtime. */
fm_cu_result fm_cu_graphs_load(struct fm_cu_gates *g);
/* Takes over the words, which are described but for what is of graphs alone. */
fm_cu_result fm_cu_graphs_make(
	struct fm_cu_gates *g, const struct fm_gs *set, char *words, size_t size);
/* A launch of the kernel for streams; `to': of the host's memory, or 0. */
fm_cu_result fm_cu_graphs_say(struct fm_cu_gates *g, CUdeviceptr to, uint32_t what, uint64_t later);
/* graphs_stop.c */
void fm_cu_graphs_make_blocks(struct fm_cu_gates *g);
/* May this chunk, which was captured just now, be stopped inside? */
bool fm_cu_graphs_stops(struct fm_cu_gates *g, uint32_t task, CUgraph graph);
int fm_cu_graphs_tell(
	struct fm_cu_gates *g, uint32_t task, uint32_t what, uint64_t jobs, uint64_t chunks);
/* Of a resident set: chains that rest are begun, and stay. */
int fm_cu_graphs_reside(struct fm_cu_gates *g, uint64_t idle, bool has_words);
bool fm_cu_graphs_resides(const struct fm_cu_gates *g); /* is a chain at work? */
int fm_cu_graphs_close(struct fm_cu_gates *g);          /* nothing begins any more */
/* `runs': it may be that a graph does, so that what the device has is left alone. */
void fm_cu_graphs_free(struct fm_cu_gates *g, bool runs);
