/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable graph whose kernels are guarded (docs/cuda-guardian.md, "Graphs"): a chain of
 * kernels, of gates of ours, and of other nodes with covers in front. What its nodes pass stays the
 * same over all launches, so it has a control block of its own, in which the nodes are launches 1
 * to n; and, for each, what it takes to make it again outside of the graph.
 *
 * It is launched in one stream at a time, in front of which and behind which stand gates; so its
 * control block is under the lock of that stream's XQueue, as a guard's is.
 */
#pragma once
#include "guard.h"
#include "guard_records.h"

struct fm_cu_graph {
	struct fm_cu_graph *next; /* of all */
	_Atomic unsigned refs;
	const struct fm_cu_driver *cu;
	CUcontext ctx;
	CUdeviceptr block;
	size_t bytes;        /* of the block */
	_Atomic bool loose;  /* it is launched unguarded from now on */
	_Atomic bool spoilt; /* a stop of it has gone wrong: its words may be anything */
	bool let_be;         /* it is not stopped any more, what was launched guarded included;
				under the lock of the XQueue that it was launched in */
	_Atomic bool gone;   /* with its context */
	unsigned n, whole;   /* nodes, and of how many it is decided that they are all or none */
	_Atomic uint32_t *waiting; /* 1 while it stands at a gate of its own; NULL: it has none */
	unsigned covers;
	uint32_t *last;                  /* of the nodes in front of each cover; ascending */
	bool *waits;                     /* fm_cu_chain; */
	bool anew;                       /* at one end, so that it has to be told from the other */
	struct fm_cu_graph_words *words; /* NULL: it has no covers */
	CUdeviceptr words_at;

	/* Under the lock of the XQueue that it was launched in last. */
	uint64_t number; /* of launches that are made again */
	uint32_t count;  /* blocks left out by first launches, until the last look */
	bool renumbered;

	struct fm_cu_record node[];
};

/* What a graph with covers has of the host's memory. */
struct fm_cu_graph_words {
	_Atomic uint32_t hold;  /* covers wait for 0 */
	_Atomic uint32_t place; /* 2 * i + 1 while it waits at cover i, then 2 * i + 2 */
};

/* Of a chain of n launches, whose attributes can be repeated, and of covers: behind so many
 * launches, ascending, each in front of something that must not run ahead of those. */
struct fm_cu_chain {
	const struct fm_cu_guarded *launch;
	const uint32_t *last;
	unsigned n, covers;
	/* In front of each cover, and behind the last: may it come to wait there for the program?
	 * NULL: nowhere. */
	const bool *waits;
};

/* In a context of that name, which is current. NULL: the driver has not all it takes, or no memory.
 * With one reference. */
struct fm_cu_graph *fm_cu_graph_new(
	const struct fm_cu_driver *cu, CUcontext ctx, const struct fm_cu_chain *c);
/* What cover i does, in the executable graph. */
#define FM_CU_COVER_OPS 3
void fm_cu_graph_cover(
	const struct fm_cu_graph *g, unsigned i, union fm_cu_mem_op op[FM_CU_COVER_OPS]);
/* Where the parameters of node i (from 0) are to be copied, and ours, which stay its own. */
void *fm_cu_graph_node(struct fm_cu_graph *g, unsigned i, uint64_t ours[3]);
void fm_cu_graph_keep(struct fm_cu_graph *g);
void fm_cu_graph_put(struct fm_cu_graph *g);

/* Launches from now on are not guarded: what the records say of them is not true any more. */
void fm_cu_graph_loosen(struct fm_cu_graph *g);
/* And what was launched before is not stopped either: with the lock of its XQueue, while it is not.
 */
void fm_cu_graph_let_be(struct fm_cu_graph *g);
/* A stop has failed, and its stop word may stay set. */
void fm_cu_graph_spoilt(struct fm_cu_graph *g);
/* In front of a launch, in its stream: words that have to be as they were at the first one. Of an
 * unguarded launch only those of a graph that is spoilt do. */
bool fm_cu_graph_prepare(struct fm_cu_graph *g, CUstream stream);

/* --- while it is stopped --- */

/* The nodes' numbers, as they are in the graph. */
void fm_cu_graph_number(struct fm_cu_graph *g);
/* Its covers hold from now on. False: it is just about to go past one, or stands there for that. */
bool fm_cu_graph_hold(struct fm_cu_graph *g);
/* Since they hold: where it is, up to the next cover, or to its end, may it wait for the program?
 */
bool fm_cu_graph_waits(const struct fm_cu_graph *g);
void fm_cu_graph_let_go(struct fm_cu_graph *g);
/* It has come to a cover since they hold, and stands there; behind so many launches. */
bool fm_cu_graph_covered(const struct fm_cu_graph *g, uint64_t *last);
/* It stands at a closed gate of its own, as the device says. */
bool fm_cu_graph_stands(const struct fm_cu_graph *g);

/* --- lives of contexts --- */
void fm_cu_graphs_forget(CUcontext ctx);
/* Their memory, and none of them runs. The context is current. */
void fm_cu_graphs_give_back(const struct fm_cu_driver *cu, CUcontext ctx);
/* With its context. */
bool fm_cu_graph_gone(const struct fm_cu_graph *g);
void fm_cu_graphs_fork_child(void);
