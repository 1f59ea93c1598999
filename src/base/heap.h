/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive binary min-heap over an array of node pointers. Ties are broken by insertion order, so
 * that equal keys leave in the order they came: a scheduler's decisions must not depend on
 * addresses. Not thread-safe. Insertion allocates only when the array grows; fm_heap_reserve() does
 * it early.
 */
#pragma once
#include "util.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct fm_heap_node {
	uint64_t key;
	uint64_t order;
	size_t pos; /* index + 1; 0: in no heap */
};

struct fm_heap {
	struct fm_heap_node **at;
	size_t n, cap;
	uint64_t order;
};

static inline bool fm_heap_less(const struct fm_heap_node *a, const struct fm_heap_node *b)
{
	return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static inline void fm_heap_set(struct fm_heap *h, size_t i, struct fm_heap_node *n)
{
	h->at[i] = n;
	n->pos = i + 1;
}

static inline void fm_heap_up(struct fm_heap *h, size_t i)
{
	struct fm_heap_node *n = h->at[i];

	while (i > 0 && fm_heap_less(n, h->at[(i - 1) / 2])) {
		fm_heap_set(h, i, h->at[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	fm_heap_set(h, i, n);
}

static inline void fm_heap_down(struct fm_heap *h, size_t i)
{
	struct fm_heap_node *n = h->at[i];
	size_t child;

	while ((child = 2 * i + 1) < h->n) {
		if (child + 1 < h->n && fm_heap_less(h->at[child + 1], h->at[child]))
			child++;
		if (!fm_heap_less(h->at[child], n))
			break;
		fm_heap_set(h, i, h->at[child]);
		i = child;
	}
	fm_heap_set(h, i, n);
}

static inline int fm_heap_reserve(struct fm_heap *h, size_t cap)
{
	struct fm_heap_node **at;

	if (cap <= h->cap)
		return 0;
	cap = FM_MAX(cap, h->cap ? 2 * h->cap : 16);
	at = realloc(h->at, cap * sizeof(*at));
	if (!at)
		return -ENOMEM;
	h->at = at;
	h->cap = cap;
	return 0;
}

static inline bool fm_heap_has(const struct fm_heap_node *n)
{
	return n->pos != 0;
}

static inline int fm_heap_push(struct fm_heap *h, struct fm_heap_node *n, uint64_t key)
{
	int rc = fm_heap_reserve(h, h->n + 1);

	if (rc)
		return rc;
	n->key = key;
	n->order = h->order++;
	h->at[h->n++] = n;
	fm_heap_up(h, h->n - 1);
	return 0;
}

static inline struct fm_heap_node *fm_heap_min(const struct fm_heap *h)
{
	return h->n ? h->at[0] : NULL;
}

/* Does nothing for a node that is in no heap. */
static inline void fm_heap_del(struct fm_heap *h, struct fm_heap_node *n)
{
	size_t i = n->pos - 1;
	struct fm_heap_node *last;

	if (!n->pos)
		return;
	n->pos = 0;
	last = h->at[--h->n];
	if (last == n)
		return;
	fm_heap_set(h, i, last);
	fm_heap_up(h, i);
	fm_heap_down(h, last->pos - 1);
}

/* A node with a changed key keeps its place among equals. */
static inline void fm_heap_rekey(struct fm_heap *h, struct fm_heap_node *n, uint64_t key)
{
	n->key = key;
	fm_heap_up(h, n->pos - 1);
	fm_heap_down(h, n->pos - 1);
}

/* An exact copy in two steps: first its array, for as many as the heap has room for; then each node
 * that is in the heap, with its key and its place among equals. A node that is in no heap has a
 * twin that is in none. The copy must hold all nodes before it is used. */
static inline int fm_heap_copy(struct fm_heap *to, const struct fm_heap *h)
{
	*to = (struct fm_heap){.order = h->order};
	if (fm_heap_reserve(to, h->cap))
		return -ENOMEM;
	to->n = h->n;
	return 0;
}

static inline void fm_heap_copy_node(
	struct fm_heap *to, struct fm_heap_node *twin, const struct fm_heap_node *n)
{
	*twin = *n;
	if (n->pos)
		to->at[n->pos - 1] = twin;
}

static inline void fm_heap_fini(struct fm_heap *h)
{
	free(h->at);
	*h = (struct fm_heap){0};
}
