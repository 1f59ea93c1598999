/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program's work names of its managed memory (predict/touch.h): parameters of kernels,
 * copies and fills, graphs, tensor maps, tables of pointers, textures. It decides what goes out
 * first and comes in first, and is told to the daemon (`hot` of the ledger). Nothing depends on it
 * being right.
 *
 * Calls are looked at in functions that stand between the shim's and the driver's
 * (named_calls.c), as in guard/outside.c. So programs whose memory is not managed pay nothing.
 *
 * Owns: which functions have which parameters, which tensor maps there are, what executable graphs
 * name (named_graphs.c), and which memory textures are of.
 *
 * Locks: `execs.lock` (named_graphs.c), when a graph is made, changed or ended. None at a launch.
 *
 * Threads: any thread of the program; the agent and the mover, for turns.
 */
#pragma once
#include "managed.h"
#include "predict/args.h"

/* A call of the program's own, or one that the shim makes for it: not one of the driver's in it. */
static inline bool fm_cuda_names(void)
{
	return fm_cu_inside <= 1 &&
	       atomic_load_explicit(&fm_cuda_managed_any, memory_order_relaxed);
}

/* --- named.c --- */

/* A new arena. */
void fm_cuda_named_arena(struct fm_cuda_managed *m);

/* A launch. dims: of the grid, and of a block. Either of the last two may be NULL. */
void fm_cuda_named_kernel(
	CUfunction f, const uint32_t *dims, void *const *params, void *const *extra);
/* Words that may be addresses; each is named. */
void fm_cuda_named_words(const void *words, size_t n);
/* So many bytes from there on, of the block around that address. */
void fm_cuda_named_part(uint64_t at, uint64_t bytes);
/* It is not known what the program's next work names. */
void fm_cuda_named_all(void);
/* From now on it will never be known. */
void fm_cuda_named_never_known(void);

/* A copy or a fill. */
struct fm_cuda_named_copy {
	uint64_t dst, src; /* src: 0 for a fill */
	size_t bytes;
	bool from_host; /* src may be memory of the host */
};
void fm_cuda_named_copy(const struct fm_cuda_named_copy *c);

/* The parameters of that function, or NULL: they are not known. */
const struct fm_shape *fm_cuda_named_shape(CUfunction f);
/* A list of `extra`: the buffer that it names, or NULL. */
const void *fm_cuda_named_buffer(void *const *extra, size_t *bytes);
/* Is that an address of an arena? */
bool fm_cuda_named_is_ours(uint64_t word);
const struct fm_tensor_maps *fm_cuda_named_maps(void);

/* Code is unloaded, or (NULL) a context has ended: handles of functions may mean others. */
void fm_cuda_named_unloaded(const void *handle);

/* The texture, by its number or its reference, is of that memory from now on. */
void fm_cuda_named_texture(uint64_t texture, uint64_t at);

/* Are words read from that address by the host? */
bool fm_cuda_named_readable(uint64_t at);

/* --- turns --- */

/* The program has come to a rest, or a while has passed. */
void fm_cuda_named_turn(void);
/* Memory was used that was not foretold: the kernels that were launched in the last turns name
 * whole allocations for 64 turns, whatever their templates say. Any thread. */
void fm_cuda_named_distrust(void);
/* At a look of the agent's: now and then that is a turn. */
void fm_cuda_named_look(void);
/* What was named in that turn or since is in use. 0: it is not known what is. */
uint32_t fm_cuda_named_since(const struct fm_cuda_managed *m);
/* Writes to the ledger how much was named in the last turns. */
void fm_cuda_named_tell(struct fm_cuda_managed *m);
void fm_cuda_named_fork_child(void);

/* --- missed.c --- */

/* A turn is over; so many pieces of memory have changed while they ran from the host, though
 * nothing named them. The mover; the agent. */
void fm_cuda_missed_turn(unsigned changed);
void fm_cuda_missed_fork_child(void);

/* --- named_calls.c --- */

/* What to call instead of the driver's function of that call. */
void *fm_cuda_named_outside(enum fm_cuda_id id, void *next);

/* --- named_graphs.c --- */

/* An executable graph is made of a graph, or made anew. */
void fm_cuda_named_exec(CUgraphExec exec, CUgraph graph);
/* A node of it names that from now on: what a kernel's parameters name, or n words. */
void fm_cuda_named_node(CUgraphExec exec, CUgraphNode node,
	const struct fm_cu_kernel_node_old *kernel, CUkernel k, const void *words, size_t n);
/* It is not known what it names. */
void fm_cuda_named_exec_unknown(CUgraphExec exec);
void fm_cuda_named_exec_ends(CUgraphExec exec);
void fm_cuda_named_launch(CUgraphExec exec);
/* For 64 turns, graphs name whole allocations where they named parts of them. */
void fm_cuda_named_graphs_distrust(void);
void fm_cuda_named_graphs_fork_child(void);
