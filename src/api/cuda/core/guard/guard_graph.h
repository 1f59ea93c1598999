/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable graph whose kernels are guarded (docs/cuda-guardian.md, "Graphs"): a chain of
 * kernels, of gates of ours, and of other nodes with covers in front. The parameters of its nodes
 * stay the same over all launches. So it has a control block of its own, in which the nodes are
 * launches 1 to n, and for each node what is needed to launch it again outside of the graph.
 *
 * It is launched in one stream at a time, with gates in front of it and behind it. So its control
 * block is under the lock of that stream's XQueue, as a guard's is.
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
	_Atomic bool spoilt; /* a stop of it has failed: its words may have any value */
	bool let_be; /* it is no longer stopped, including earlier guarded launches; under the lock
			of the XQueue that it was launched in */
	_Atomic bool gone;         /* with its context */
	unsigned n, whole;         /* nodes, and how many decide that they run all blocks or none */
	_Atomic uint32_t *waiting; /* 1 while it waits at a gate of its own; NULL: it has none */
	unsigned covers;
	uint32_t *last;                  /* the last node in front of each cover; ascending */
	bool *waits;                     /* fm_cu_chain; */
	bool anew;                       /* `waits` at one end, so each launch must reset `place` */
	struct fm_cu_graph_words *words; /* NULL: it has no covers */
	CUdeviceptr words_at;

	/* Under the lock of the XQueue that it was launched in last. */
	uint64_t number; /* of launches that are made again */
	uint32_t count;  /* blocks left out by first launches, until the last look */
	bool renumbered;

	struct fm_cu_record node[];
};

/* The words of a graph with covers, in the host's memory. */
struct fm_cu_graph_words {
	_Atomic uint32_t hold;  /* covers wait for 0 */
	_Atomic uint32_t place; /* 2 * i + 1 while it waits at cover i, then 2 * i + 2 */
};

/* A chain of n launches whose attributes can be repeated, and its covers. `last` says behind how
 * many launches each cover is, ascending. Each is in front of something that must not run ahead of
 * those launches. */
struct fm_cu_chain {
	const struct fm_cu_guarded *launch;
	const uint32_t *last;
	unsigned n, covers;
	/* In front of each cover, and behind the last: may the graph wait there for the program?
	 * NULL: nowhere. */
	const bool *waits;
};

/* Makes a graph in context ctx, which is current. NULL: the driver lacks something, or there is no
 * memory. The caller gets one reference. */
struct fm_cu_graph *fm_cu_graph_new(
	const struct fm_cu_driver *cu, CUcontext ctx, const struct fm_cu_chain *c);
/* The operations of cover i in the executable graph. */
#define FM_CU_COVER_OPS 3
void fm_cu_graph_cover(
	const struct fm_cu_graph *g, unsigned i, union fm_cu_mem_op op[FM_CU_COVER_OPS]);
/* Returns where the parameters of node i (from 0) are to be copied; fills in ours, which stay the
 * node's own. */
void *fm_cu_graph_node(struct fm_cu_graph *g, unsigned i, uint64_t ours[3]);
void fm_cu_graph_keep(struct fm_cu_graph *g);
void fm_cu_graph_put(struct fm_cu_graph *g);

/* Launches are not guarded from now on, because the records are no longer true for them. */
void fm_cu_graph_loosen(struct fm_cu_graph *g);
/* And earlier launches are no longer stopped either. Called with the lock of its XQueue, while the
 * graph is not stopped. */
void fm_cu_graph_let_be(struct fm_cu_graph *g);
/* A stop has failed, and its stop word may stay set. */
void fm_cu_graph_spoilt(struct fm_cu_graph *g);
/* Called before a launch, in its stream: resets words that must be as they were at the first
 * launch. An unguarded launch needs this only if the graph is spoilt. */
bool fm_cu_graph_prepare(struct fm_cu_graph *g, CUstream stream);

/* --- while it is stopped --- */

/* The nodes' numbers, as they are in the graph. */
void fm_cu_graph_number(struct fm_cu_graph *g);
/* Its covers hold from now on. False: the graph is just about to pass a cover, or waits there. */
bool fm_cu_graph_hold(struct fm_cu_graph *g);
/* While they hold: between its place and the next cover, or its end, may the graph wait for the
 * program? */
bool fm_cu_graph_waits(const struct fm_cu_graph *g);
void fm_cu_graph_let_go(struct fm_cu_graph *g);
/* It has reached a cover since they hold, and waits there. *last: behind how many launches. */
bool fm_cu_graph_covered(const struct fm_cu_graph *g, uint64_t *last);
/* It waits at a closed gate of its own, as the device reports. */
bool fm_cu_graph_stands(const struct fm_cu_graph *g);

/* --- lives of contexts --- */
void fm_cu_graphs_forget(CUcontext ctx);
/* Gives back the memory of a context's graphs; none of them runs. The context is current. */
void fm_cu_graphs_give_back(const struct fm_cu_driver *cu, CUcontext ctx);
/* Has it gone with its context? */
bool fm_cu_graph_gone(const struct fm_cu_graph *g);
void fm_cu_graphs_fork_child(void);
