/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a chain of kernels that can be guarded, and of other nodes that wait for them at
 * covers (docs/cuda-guardian.md, "Graphs"). */
#pragma once
#include "api/cuda/shim/guard/modules.h"

#define FM_CUDA_ATTRIBUTES 9u

/* A kernel: its node, what the driver says of it, and how it is launched alone. */
struct fm_cuda_link {
	CUgraphNode node;
	CUgraphNode
		front; /* a kernel right in front of it, before whose end it may begin; or NULL */
	struct fm_cu_kernel_node params;
	const struct fm_cuda_kernel *kernel;
	struct fm_cu_launch_config config;
	struct fm_cu_attribute attribute[FM_CUDA_ATTRIBUTES];
};

/* A cover: its node, as captured, where it waits for nothing. */
struct fm_cuda_seam {
	CUgraphNode node;
	struct fm_cu_words_node words;
};

struct fm_cuda_chain {
	struct fm_cuda_link *link;
	struct fm_cu_guarded *launch; /* each of them */
	unsigned n;
	struct fm_cuda_seam *seam;
	uint32_t *last; /* of the kernels in front of each */
	unsigned seams;
	bool *waits;       /* between them, and at both ends: something may wait for the program */
	bool open;         /* kernels stand behind the last of them */
	bool early;        /* some kernel may begin early */
	CUgraphNode front; /* the last node, if it was a kernel */
	_Atomic uint32_t *waiting; /* 1 while it stands at a gate in it; NULL: there is none */
};

/* NULL: it is one, to be freed by fm_cuda_chain_free(); else why it is not. The context that is
 * current is its kernels'. */
const char *fm_cuda_chain_read(struct fm_cuda_chain *c, CUgraph graph);
void fm_cuda_chain_free(struct fm_cuda_chain *c);

/* graph_bare.c: there are no gates of ours in it any more, nor in its parts; nor covers, if those
 * are to go, too. False: the driver does not tell of it, or lets nothing be taken out. */
bool fm_cuda_graph_bare(CUgraph graph, bool covers);
/* Likewise: the same graph, made node by node, to be destroyed by the driver. NULL: it has nodes of
 * a kind that we do not know, or of which the driver does not tell all. */
CUgraph fm_cuda_graph_anew(CUgraph graph);

/* graph_early.c: what a chain is made into so that its kernels may begin early. */
struct fm_cuda_early {
	CUgraphExec exec;
	CUgraph clone; /* what it was made of: to say what its nodes are */
};
/* From the chain's graph, which the program has instantiated with these flags. True: the nodes of
 * `c` are those of the clone from now on, to be set; then fm_cuda_early_made(). False: none of it
 * may begin early, or the driver has no such edges. */
bool fm_cuda_early_make(
	struct fm_cuda_chain *c, CUgraph graph, uint64_t flags, struct fm_cuda_early *e);
void fm_cuda_early_made(struct fm_cuda_early *e);
/* No more launches of it; what was launched goes on. */
void fm_cuda_early_end(struct fm_cuda_early *e);
