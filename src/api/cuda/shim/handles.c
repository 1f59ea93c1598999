/* SPDX-License-Identifier: Apache-2.0 */
#include "handles.h"
#include "base/util.h"
#include <stdlib.h>

#define FIRST   256u /* slots, a power of two */
#define REMOVED 1u   /* keys 0 and 1 are no handles: a slot never used, one used before */

struct slot {
	_Atomic uintptr_t key;
	_Atomic(void *) value;
};

struct fm_handles_table {
	struct fm_handles_table *smaller; /* what came before */
	size_t slots;
	unsigned shift;
	struct slot slot[];
};

static size_t hash(const struct fm_handles_table *t, uintptr_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> t->shift);
}

static size_t next(const struct fm_handles_table *t, size_t at)
{
	return (at + 1) & (t->slots - 1);
}

/* NULL: not there. */
static struct slot *find(struct fm_handles_table *t, uintptr_t key)
{
	for (size_t i = 0, at = hash(t, key); i < t->slots; i++) {
		uintptr_t k = atomic_load_explicit(&t->slot[at].key, memory_order_acquire);

		if (FM_LIKELY(k == key))
			return &t->slot[at];
		if (!k)
			return NULL;
		at = next(t, at);
	}
	return NULL;
}

FM_HOT void *fm_handles_find(struct fm_handles *h, uintptr_t key)
{
	struct fm_handles_table *t = atomic_load_explicit(&h->table, memory_order_acquire);
	struct slot *s = t && key > REMOVED ? find(t, key) : NULL;

	return s ? atomic_load_explicit(&s->value, memory_order_acquire) : NULL;
}

/* The key is not there, and there is room: a table is at most half full. */
static void insert(struct fm_handles_table *t, uintptr_t key, void *value)
{
	size_t at = hash(t, key);

	while (atomic_load_explicit(&t->slot[at].key, memory_order_relaxed) > REMOVED)
		at = next(t, at);
	atomic_store_explicit(&t->slot[at].value, value, memory_order_relaxed);
	atomic_store_explicit(&t->slot[at].key, key, memory_order_release);
}

static bool grow(struct fm_handles *h)
{
	struct fm_handles_table *old = atomic_load(&h->table), *t;
	size_t slots = old ? 2 * old->slots : FIRST;

	t = calloc(1, sizeof(*t) + slots * sizeof(t->slot[0]));
	if (!t)
		return false;
	t->smaller = old;
	t->slots = slots;
	t->shift = 64u - (unsigned)__builtin_ctzll(slots);
	for (size_t i = 0; old && i < old->slots; i++) {
		uintptr_t key = atomic_load(&old->slot[i].key);

		if (key > REMOVED)
			insert(t, key, atomic_load(&old->slot[i].value));
	}
	atomic_store_explicit(&h->table, t, memory_order_release);
	return true;
}

bool fm_handles_set(struct fm_handles *h, uintptr_t key, void *value)
{
	struct fm_handles_table *t = atomic_load(&h->table);
	struct slot *s;

	if (key <= REMOVED)
		return false;
	s = t ? find(t, key) : NULL;
	if (s) {
		atomic_store_explicit(&s->value, value, memory_order_release);
		return true;
	}
	if ((!t || 2 * (h->live + 1) > t->slots) && !grow(h))
		return false;
	insert(atomic_load(&h->table), key, value);
	h->live++;
	return true;
}

/* What ends a chain need not be marked as used: see shim/map.h. */
static void trim(struct fm_handles_table *t, size_t at)
{
	if (atomic_load_explicit(&t->slot[next(t, at)].key, memory_order_relaxed))
		return;
	while (atomic_load_explicit(&t->slot[at].key, memory_order_relaxed) == REMOVED) {
		atomic_store_explicit(&t->slot[at].key, 0, memory_order_relaxed);
		at = (at - 1) & (t->slots - 1);
	}
}

void fm_handles_erase(struct fm_handles *h, uintptr_t key, const void *value)
{
	struct fm_handles_table *t = atomic_load(&h->table);
	struct slot *s = t && key > REMOVED ? find(t, key) : NULL;

	if (!s || (value && atomic_load(&s->value) != value))
		return;
	atomic_store_explicit(&s->key, REMOVED, memory_order_relaxed);
	trim(t, (size_t)(s - t->slot));
	h->live--;
}
