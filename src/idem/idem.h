/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotence: from where a queue's operations may run again after one of them was cut off, so that
 * memory ends as if nothing had been. A trace is what each operation touched, by the byte; three
 * algorithms find the starts of it; kernels fall into classes; a file keeps these for later runs.
 * docs/idempotence.md has the definitions and the formats. Pure, but for the files.
 *
 * Of an operation: R, the bytes whose first access in it may be a read; W, those that it writes; K,
 * those of W that are certainly written before they are read. Of a group of operations: E, the
 * bytes whose first access may be a read. It may run again from its first operation, wherever it
 * was cut off, if E and W have nothing in common. start(k): the last i for which this holds for i
 * to k.
 *
 * Owns: traces, reports and lists of keys; the caller frees each.
 * Locks: none.
 * Threads: any, each with objects of its own.
 */
#pragma once
#include "base/blake2b.h"
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FM_IDEM_VERSION 1
#define FM_IDEM_GROUP   64u                 /* operations of a group, at most */
#define FM_IDEM_OPS     (1u << 22)          /* of a trace, */
#define FM_IDEM_SPANS   (24u << 20)         /* with as many spans in all, */
#define FM_IDEM_ALLOCS  (1u << 18)          /* allocations, */
#define FM_IDEM_QUEUES  64u                 /* queues, */
#define FM_IDEM_NAMES   (64u << 20)         /* bytes of names and hashes, each once, */
#define FM_IDEM_NAME    8191u               /* so long at most, */
#define FM_IDEM_KILLS   64u                 /* launches of a kernel that a list tells apart, */
#define FM_IDEM_LINE    ((size_t)16 << 20)  /* and bytes a line */
#define FM_IDEM_FILE    ((size_t)16 << 20)  /* bytes of a list of keys, */
#define FM_IDEM_KERNELS (1u << 16)          /* with so many */
#define FM_IDEM_END     (UINT64_C(1) << 63) /* addresses are below it */

/* --- sets of bytes --- */

struct fm_idem_span {
	uint64_t from, to; /* never empty; of a set: rising, and apart from each other */
};
struct fm_idem_set {
	struct fm_idem_span *span;
	size_t n, room;
};
void fm_idem_set_free(struct fm_idem_set *s);
#define FM_IDEM_CLEAN __attribute__((cleanup(fm_idem_set_free)))
/* The result replaces what is in `to`, which is neither of the others. 0 or -ENOMEM. */
int fm_idem_set_union(struct fm_idem_set *to, const struct fm_idem_span *a, size_t n,
	const struct fm_idem_span *b, size_t m);
int fm_idem_set_minus(struct fm_idem_set *to, const struct fm_idem_span *a, size_t n,
	const struct fm_idem_span *b, size_t m);
bool fm_idem_set_meet(
	const struct fm_idem_span *a, size_t n, const struct fm_idem_span *b, size_t m);
bool fm_idem_set_within(
	const struct fm_idem_span *a, size_t n, const struct fm_idem_span *b, size_t m);
/* Any spans become a set, in their place. How many are left. */
size_t fm_idem_set_make(struct fm_idem_span *s, size_t n);

/* --- traces --- */

enum fm_idem_kind {
#define FM_IDEM_KIND_MAP(X)                      \
	X(FM_IDEM_KERNEL, "kernel", true)        \
	X(FM_IDEM_MEMSET, "memset", true)        \
	X(FM_IDEM_D2D, "d2d", true)              \
	X(FM_IDEM_H2D, "h2d", false)             \
	X(FM_IDEM_D2H, "d2h", false)             \
	X(FM_IDEM_RECORD, "event_record", false) \
	X(FM_IDEM_WAIT, "event_wait", false)     \
	X(FM_IDEM_HOST, "host_fn", false)        \
	X(FM_IDEM_FREE, "free", false)
#define FM_IDEM_KIND_ID(id, name, again) id,
	FM_IDEM_KIND_MAP(FM_IDEM_KIND_ID)
#undef FM_IDEM_KIND_ID
		FM_IDEM_KINDS
};
const char *fm_idem_kind_name(enum fm_idem_kind kind);

enum {                        /* of an operation */
	FM_IDEM_DYNAMIC = 1,  /* what it touches follows from what memory holds */
	FM_IDEM_APPROX = 2,   /* it does not leave the same bits each time */
	FM_IDEM_VISIBLE = 4,  /* it touches memory that others can read or write meanwhile */
	FM_IDEM_SHARED = 8,   /* it touches what another queue writes, or the other way round */
	FM_IDEM_ATOMICS = 16, /* it has atomics */
};

enum { FM_IDEM_R, FM_IDEM_W, FM_IDEM_K, FM_IDEM_B, FM_IDEM_SETS };
struct fm_idem_op {
	int64_t op;
	uint64_t first;           /* of its spans in the trace's: R, with atomics; W, too; K; B */
	uint32_t n[FM_IDEM_SETS]; /* B: bytes that one block writes and another touches */
	uint32_t kernel;          /* which of the trace's */
	uint8_t kind, flags;
	uint16_t queue;
	uint32_t line; /* of the file */
	uint32_t
		kill; /* one more than where its launch stands in the trace's names (kill/kill.h) */
};

/* An instance: the same code with the same grid, block and scalars, whose spans lie alike. */
struct fm_idem_kernel {
	uint8_t key[FM_HASH_BYTES];
	uint32_t name, hash; /* where in the trace's names; hash: "" if it is unknown */
	uint32_t grid[3], block[3];
};

struct fm_idem_trace {
	struct fm_idem_op *op;
	size_t n_ops, ops_room;
	struct fm_idem_span *span;
	size_t n_spans, spans_room;
	struct fm_idem_kernel *kernel;
	size_t n_kernels, kernels_room;
	char *names; /* each ends with a zero */
	size_t names_size, names_room;
	unsigned n_queues;
	int64_t queue[FM_IDEM_QUEUES]; /* their numbers */
};
void fm_idem_trace_free(struct fm_idem_trace *t);
static inline const struct fm_idem_span *fm_idem_spans(
	const struct fm_idem_trace *t, const struct fm_idem_op *o, unsigned set)
{
	uint64_t at = o->first;

	for (unsigned i = 0; i < set; i++)
		at += o->n[i];
	return t->span + at;
}

/* Adds one, with `o->n' spans of each set behind another, each a set. o->first is set. -ENOMEM, or
 * -E2BIG: there are FM_IDEM_OPS or FM_IDEM_SPANS. */
int fm_idem_add(
	struct fm_idem_trace *t, const struct fm_idem_op *o, const struct fm_idem_span *spans);
/* Marks operations whose bytes queues share. To be called once when all are there. -ENOMEM. */
int fm_idem_share(struct fm_idem_trace *t);

/* All of a file; `name' is for mistakes. -EINVAL with "FILE:LINE: reason"; -ENOMEM; -E2BIG. */
int fm_idem_read(struct fm_idem_trace *t, FILE *f, const char *name, struct fm_err *err);
int fm_idem_load(struct fm_idem_trace *t, const char *path, struct fm_err *err);

/* --- starts --- */

enum fm_idem_algorithm {
#define FM_IDEM_ALGORITHM_MAP(X)                       \
	X(FM_IDEM_FORWARD, "forward", fm_idem_forward) \
	X(FM_IDEM_GREEDY, "greedy", fm_idem_greedy)    \
	X(FM_IDEM_BRUTE, "brute", fm_idem_brute)
#define FM_IDEM_ALGORITHM_ID(id, name, fn) id,
	FM_IDEM_ALGORITHM_MAP(FM_IDEM_ALGORITHM_ID)
#undef FM_IDEM_ALGORITHM_ID
		FM_IDEM_ALGORITHMS
};
const char *fm_idem_algorithm_name(enum fm_idem_algorithm a);

/* start[k]: an index into the trace's operations, of the same queue; or one of these. */
enum {
	FM_IDEM_NO_GROUP = -1,  /* no group of FM_IDEM_GROUP operations may run again */
	FM_IDEM_NOT_AGAIN = -2, /* it never runs again, by its kind or flags */
};
/* Does nothing run again from before it to behind it? */
bool fm_idem_bars(const struct fm_idem_op *o);
int fm_idem_start(const struct fm_idem_trace *t, enum fm_idem_algorithm a, int32_t *start);
int fm_idem_forward(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start);
int fm_idem_greedy(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start);
int fm_idem_brute(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start);

/* --- classes --- */

enum fm_idem_class {
#define FM_IDEM_CLASS_MAP(X)                \
	X(FM_IDEM_IDEMPOTENT, "idempotent") \
	X(FM_IDEM_IN_GROUP, "group")        \
	X(FM_IDEM_NEVER, "never")
#define FM_IDEM_CLASS_ID(id, name) id,
	FM_IDEM_CLASS_MAP(FM_IDEM_CLASS_ID)
#undef FM_IDEM_CLASS_ID
		FM_IDEM_CLASSES
};
const char *fm_idem_class_name(enum fm_idem_class c);

/* Why an operation does not run again by itself; what makes a class worse wins. */
enum fm_idem_why {
#define FM_IDEM_WHY_MAP(X)                                                                    \
	X(FM_IDEM_WHY_NONE, "it reads nothing that it writes")                                \
	X(FM_IDEM_WHY_BLOCKS, "one block writes what another one touches")                    \
	X(FM_IDEM_WHY_WRITES, "it writes what it has read")                                   \
	X(FM_IDEM_WHY_ATOMICS, "it has atomics")                                              \
	X(FM_IDEM_WHY_GROUP, "no group of operations in front of it can run again")           \
	X(FM_IDEM_WHY_KIND, "operations of this kind do not run again")                       \
	X(FM_IDEM_WHY_SHARED, "another queue touches the same bytes, and one of them writes") \
	X(FM_IDEM_WHY_VISIBLE, "it touches memory that others can reach meanwhile")           \
	X(FM_IDEM_WHY_APPROX, "it does not leave the same bits each time")                    \
	X(FM_IDEM_WHY_DYNAMIC, "which bytes it touches follows from what memory holds")
#define FM_IDEM_WHY_ID(id, text) id,
	FM_IDEM_WHY_MAP(FM_IDEM_WHY_ID)
#undef FM_IDEM_WHY_ID
		FM_IDEM_WHYS
};
const char *fm_idem_why_text(enum fm_idem_why why);
enum fm_idem_why fm_idem_why(
	const struct fm_idem_trace *t, const struct fm_idem_op *o, int32_t start);

struct fm_idem_verdict {
	uint8_t key[FM_HASH_BYTES];
	const char *name, *hash;
	uint32_t grid[3], block[3];
	uint8_t class, why;
	uint16_t size; /* kernels of its largest group, with itself; never: 0 */
	int32_t start; /* operations back to the start of that group */
	uint64_t launches;
};
struct fm_idem_report {
	struct fm_idem_verdict *kernel; /* in the order of the trace's; names are the trace's */
	size_t n;
	/* Launches of kernels: all, those that are idempotent alone, others by the kernels of
	 * their groups, and those without one. */
	uint64_t kernels, idempotent, group[FM_IDEM_GROUP + 1], never;
	/* Launches of idempotent kernels as kill/kill.h has them, of each kernel each once. */
	struct fm_idem_kill {
		uint32_t kernel, next; /* of the same kernel; one more than the number; 0: none */
		uint32_t text;
	} * kill;
	size_t n_kills, kills_room;
	uint32_t *kills_of; /* of a kernel: the first */
	const char *names;
};
void fm_idem_report_free(struct fm_idem_report *r);
int fm_idem_judge(const struct fm_idem_trace *t, const int32_t *start, struct fm_idem_report *r);

/* --- lists of keys --- */

struct fm_idem_list {
	struct fm_idem_verdict *kernel;
	size_t n;
	uint32_t *slot; /* by key: one more than the index; 0: none */
	uint32_t mask;
	char *names;
};
void fm_idem_list_free(struct fm_idem_list *l);
/* -EIO if it cannot be written, -E2BIG if it would not be read. */
int fm_idem_print(FILE *to, const struct fm_idem_report *r);
int fm_idem_parse(struct fm_idem_list *l, const char *name, const char *text, size_t size,
	struct fm_err *err);
/* A file of this user's own, or root's, that nobody else can write to; -EACCES if it is not. */
int fm_idem_list_load(struct fm_idem_list *l, const char *path, struct fm_err *err);
/* NULL: it is unknown. */
const struct fm_idem_verdict *fm_idem_find(
	const struct fm_idem_list *l, const uint8_t key[FM_HASH_BYTES]);
#define FM_IDEM_KEY (2 * FM_HASH_BYTES + 1)
void fm_idem_key_text(const uint8_t key[FM_HASH_BYTES], char text[FM_IDEM_KEY]);
