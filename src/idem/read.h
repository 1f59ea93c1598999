/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the reader of traces. */
#pragma once
#include "idem.h"
#include "idem/kill/kill.h"
#include "json/json.h"

struct idem_alloc {
	int64_t id;
	uint64_t base, size;
	bool visible; /* to others while the queue runs */
	bool freed;
};
/* Numbers by 64 bits of a hash: one more than an index, 0 for none. */
struct idem_table {
	uint32_t *slot;
	uint32_t mask, used;
};
struct idem_reader {
	struct fm_idem_trace *t;
	struct fm_json j;
	char where[128];
	uint32_t line;
	bool begun;
	unsigned queues;
	struct idem_alloc *alloc;
	uint32_t n_alloc, alloc_room;
	uint32_t *live; /* by base */
	uint32_t n_live;
	struct idem_table ids, names, kernels;
	struct fm_idem_span *span; /* of the operation that is read */
	size_t n_span, span_room;
};
void idem_reader_free(struct idem_reader *r);

/* --- read_alloc.c --- */

int idem_alloc_add(struct idem_reader *r, const struct idem_alloc *a);
const struct idem_alloc *idem_alloc_find(const struct idem_reader *r, int64_t id);
void idem_alloc_drop(struct idem_reader *r, int64_t id);
/* Doubles what is half full. -ENOMEM. `again' gives the hash of a number. */
typedef uint64_t idem_hash_of(const struct idem_reader *r, uint32_t i);
int idem_table_room(const struct idem_reader *r, struct idem_table *t, idem_hash_of *again);
static inline uint32_t idem_table_first(const struct idem_table *t, uint64_t hash)
{
	return (uint32_t)(hash >> 32) & t->mask;
}
static inline uint64_t idem_mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

/* --- read_op.c --- */

int idem_read_op(struct idem_reader *r, const json_t *root);

/* --- read_launch.c --- */

/* The launch as kill/kill.h has it, of the members `scalars' and `args'. False: it has none: such a
 * launch is never killed. */
bool idem_read_launch(const struct idem_reader *r, const json_t *root, const struct fm_idem_op *o,
	const struct fm_idem_kernel *k, char text[FM_KILL_CHARS]);

/* --- read_kernel.c --- */

/* The kernel of an operation, whose spans are r->span, becomes o->kernel. */
int idem_read_kernel(struct idem_reader *r, const json_t *root, struct fm_idem_op *o);
