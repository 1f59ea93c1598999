/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the room: what it takes to make launches again, in the order of their stream, until a gate
 * behind them has been passed; and those gates. Of fixed size, filled by who holds the queue's
 * order. No driver, no lock: guard.h says who may call.
 */
#pragma once
#include "api/cuda/core/driver.h"

#define FM_CU_RECORD_BYTES (1u << 20)
#define FM_CU_RECORDS      4096u
#define FM_CU_COVERS       1024u

struct fm_cu_record {
	uint64_t number; /* under which it was launched last */
	uint64_t blocks;
	struct fm_cu_launch_config config; /* without a stream; its attributes are here */
	CUfunction function;
	uint32_t bytes; /* of the parameters */
	bool whole;     /* all blocks or none, */
	bool follows;   /* as the one in front of it has it (guard_internal.h) */
	char *params;
	/* A launch of a graph, in place of all that (guard_graph.h), or NULL; and what the queue's
	 * progress says at least when it has begun, or may have. */
	struct fm_cu_graph *graph;
	uint64_t from;
	uint32_t mark; /* the last one in front of it (guard.h) */
};

/* A gate, with launches between it and the one before. */
struct fm_cu_cover {
	uint64_t waiting; /* what the queue's progress says while it waits there, */
	uint64_t passed;  /* and from when on it has been passed */
	uint64_t last;    /* of the launches in front of it */
};

struct fm_cu_records {
	char *ring;
	size_t head, tail;    /* where the next record begins, where the first */
	uint64_t first, next; /* of the launches that are kept; the next one. From 1 on */
	unsigned cover_first, cover_n;
	uint32_t at[FM_CU_RECORDS];
	struct fm_cu_cover cover[FM_CU_COVERS];
};

/* False: no memory. */
bool fm_cu_records_init(struct fm_cu_records *r);
/* Nothing is kept; the numbers go on. */
void fm_cu_records_reset(struct fm_cu_records *r);
/* A record of a launch, its parameters not copied yet; it counts from fm_cu_records_add() on. NULL:
 * no room, for it or for a gate. */
struct fm_cu_record *fm_cu_records_room(
	struct fm_cu_records *r, const struct fm_cu_launch_config *config, size_t bytes);
static inline void fm_cu_records_add(struct fm_cu_records *r)
{
	r->next++;
}
/* n: from r->first on, below r->next, or the one that has just been given room. */
static inline struct fm_cu_record *fm_cu_record(struct fm_cu_records *r, uint64_t n)
{
	return (struct fm_cu_record *)(r->ring + r->at[n % FM_CU_RECORDS]);
}
/* A gate behind all of them: there is room for it. */
void fm_cu_records_cover(struct fm_cu_records *r, uint64_t waiting, uint64_t passed);
/* Those that a queue is past whose progress is this; and forget them. */
uint64_t fm_cu_records_past(const struct fm_cu_records *r, uint64_t progress);
void fm_cu_records_retire(struct fm_cu_records *r, uint64_t progress);
/* The last launch in front of the gate at which such a queue waits. Where there was none since the
 * gate before it may be a later one, that has not begun. */
uint64_t fm_cu_records_rest(const struct fm_cu_records *r, uint64_t progress);
