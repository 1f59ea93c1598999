/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a chain of kernels that can be guarded, and of other nodes that wait for them at
 * covers (docs/cuda-guardian.md, "Graphs"). */
#pragma once
#include "api/cuda/shim/guard/modules.h"

#define FM_CUDA_ATTRIBUTES 9u

/* A kernel: its node, what the driver says of it, and how it is launched alone. */
struct fm_cuda_link {
	CUgraphNode node;
	CUgraphNode front; /* a kernel directly in front of it, before whose end it may begin; or
			      NULL */
	struct fm_cu_kernel_node params;
	const struct fm_cuda_kernel *kernel;
	struct fm_cu_launch_config config;
	struct fm_cu_attribute attribute[FM_CUDA_ATTRIBUTES];
};

/* A cover: its node, as captured, when it waits for nothing. */
struct fm_cuda_seam {
	CUgraphNode node;
	struct fm_cu_words_node words;
};

struct fm_cuda_chain {
	struct fm_cuda_link *link;
	struct fm_cu_guarded *launch; /* one for each kernel */
	unsigned n;
	struct fm_cuda_seam *seam;
	uint32_t *last; /* the last kernel in front of each cover */
	unsigned seams;
	bool *waits; /* between covers, and at both ends: something may wait for the program there
		      */
	bool open;   /* there are kernels behind the last cover */
	bool early;  /* some kernel may begin early */
	CUgraphNode front;         /* the last node, if it was a kernel */
	_Atomic uint32_t *waiting; /* 1 while it waits at a gate in it; NULL: none is there */
};

/* Reads a graph as a chain. NULL: it is a chain, to be freed by fm_cuda_chain_free(); else the
 * reason why it is not. Its kernels' context is current. */
const char *fm_cuda_chain_read(struct fm_cuda_chain *c, CUgraph graph);
void fm_cuda_chain_free(struct fm_cuda_chain *c);

/* graph_bare.c: removes our gates from the graph and its parts, and our covers with `covers`.
 * False: the driver does not describe the graph, or lets nothing be removed. */
bool fm_cuda_graph_bare(CUgraph graph, bool covers);
/* Likewise: makes the same graph again, node by node; the driver must destroy it. NULL: it has
 * nodes of a kind that we do not know, or that the driver does not describe completely. */
CUgraph fm_cuda_graph_anew(CUgraph graph);

/* graph_early.c: what a chain is made into so that its kernels may begin early. */
struct fm_cuda_early {
	CUgraphExec exec;
	CUgraph clone; /* what exec was made of: used to set its nodes */
};
/* Made from the chain's graph, which the program has instantiated with these flags. True: the nodes
 * of `c` are those of the clone from now on, to be set; then call fm_cuda_early_made(). False: none
 * of its kernels may begin early, or the driver has no such edges. */
bool fm_cuda_early_make(
	struct fm_cuda_chain *c, CUgraph graph, uint64_t flags, struct fm_cuda_early *e);
void fm_cuda_early_made(struct fm_cuda_early *e);
/* It is not launched any more; earlier launches go on. */
void fm_cuda_early_end(struct fm_cuda_early *e);
