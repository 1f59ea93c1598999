/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is allocated and freed in the order of streams (pools.c), and by graphs. */
#pragma once
#include "fake.h"

struct fk_alloc {
	struct fk_alloc *next;
	CUcontext ctx;
	unsigned char *p;
	size_t size;
	uint64_t id;
	enum fk_place place;
	bool registered; /* the program's own memory */
	bool read_only;
	bool managed;
	uint64_t takes;        /* of the device's memory */
	CUmemoryPool pool;     /* or NULL */
	bool freed;            /* no more the program's, in the order of its stream: */
	struct fk_point after; /* here */
	bool of_graph; /* its address is; `allocated`: and its memory is the program's now */
	bool allocated;
};

/* memory.c */
extern struct fk_alloc *fk_allocs;
struct fk_alloc *fk_alloc_at(const void *p); /* of the device, which the program may free */
/* Of the device; NULL: there is no more memory. */
struct fk_alloc *fk_alloc_new(size_t size);
void fk_alloc_drop(struct fk_alloc *b);
bool fk_alloc_charge(struct fk_alloc *b); /* what it takes of the device's memory */
void fk_alloc_uncharge(struct fk_alloc *b);

/* pools.c */
/* The program frees it, and nobody uses it any more. False: it is no pool's, nor a graph's. */
bool fk_pool_takes_back(struct fk_alloc *b);
void fk_pools_synced(void);
/* Before a graph is launched: what it allocates and frees. */
fm_cu_result fk_graph_memory(const struct fk_plan *p, bool frees_on_launch);
bool fk_graph_allocates(CUgraph graph); /* or frees */
