/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: what is needed to make launches again, in the order of their stream, until a
 * gate behind them has been passed; and those gates. The size is fixed. The thread that holds the
 * queue's order fills it. It calls no driver and takes no lock: guard.h says which threads may
 * call.
 */
#pragma once
#include "api/cuda/core/driver.h"

#define FM_CU_RECORD_BYTES (1u << 20)
#define FM_CU_RECORDS      4096u
#define FM_CU_COVERS       1024u

struct fm_cu_record {
	uint64_t number; /* the number of its last launch */
	uint64_t blocks;
	struct fm_cu_launch_config config; /* without a stream; its attributes are here */
	CUfunction function;
	uint32_t bytes; /* of the parameters */
	bool whole;     /* all blocks or none, */
	uint8_t cuts;   /* how often its rest was made again */
	bool follows;   /* it decides as the launch in front of it did (guard_internal.h) */
	char *params;
	/* Instead of all that, a launch of a graph (guard_graph.h), or NULL; and the least progress
	 * of the queue when it has begun, or may have. */
	struct fm_cu_graph *graph;
	uint64_t from;
	uint32_t mark; /* the last mark in front of it (guard.h) */
};

/* A gate that has launches between it and the one before. */
struct fm_cu_cover {
	uint64_t waiting; /* the queue's progress while it waits there, */
	uint64_t passed;  /* and from which progress on it has passed */
	uint64_t last;    /* the last launch in front of it */
};

struct fm_cu_records {
	char *ring;
	size_t head, tail;    /* where the next record begins; where the first does */
	uint64_t first, next; /* the first launch that is kept; the next one. From 1 on */
	unsigned cover_first, cover_n;
	uint32_t at[FM_CU_RECORDS];
	struct fm_cu_cover cover[FM_CU_COVERS];
};

/* False: no memory. */
bool fm_cu_records_init(struct fm_cu_records *r);
/* Nothing is kept any more; the numbers go on. */
void fm_cu_records_reset(struct fm_cu_records *r);
/* A record of a launch, whose parameters are not copied yet; it counts from fm_cu_records_add() on.
 * NULL: there is no room for it, or for a gate. */
struct fm_cu_record *fm_cu_records_room(
	struct fm_cu_records *r, const struct fm_cu_launch_config *config, size_t bytes);
static inline void fm_cu_records_add(struct fm_cu_records *r)
{
	r->next++;
}
/* The record of launch n: from r->first on, below r->next, or the one that was just given room. */
static inline struct fm_cu_record *fm_cu_record(struct fm_cu_records *r, uint64_t n)
{
	return (struct fm_cu_record *)(r->ring + r->at[n % FM_CU_RECORDS]);
}
/* Adds a gate behind all of them: there is room for it. */
void fm_cu_records_cover(struct fm_cu_records *r, uint64_t waiting, uint64_t passed);
/* fm_cu_records_past: the last launch that a queue with this progress has passed.
 * fm_cu_records_retire: forgets those launches. */
uint64_t fm_cu_records_past(const struct fm_cu_records *r, uint64_t progress);
void fm_cu_records_retire(struct fm_cu_records *r, uint64_t progress);
/* The last launch in front of the gate at which a queue with this progress waits. If there was none
 * since the gate before, it may be a later launch that has not begun. */
uint64_t fm_cu_records_rest(const struct fm_cu_records *r, uint64_t progress);
