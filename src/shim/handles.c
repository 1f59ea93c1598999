/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"
#include <stdlib.h>

#define FIRST_BITS 8u

struct fm_handles_table {
	struct fm_handles_table *smaller; /* the table before this one */
	unsigned bits;
	struct fm_map_slot slot[];
};

static struct fm_map_slot *find_slot(struct fm_handles_table *t, uintptr_t key)
{
	return t && key > FM_MAP_REMOVED ? fm_slots_find(t->slot, t->bits, key) : NULL;
}

FM_HOT void *fm_handles_find(struct fm_handles *h, uintptr_t key)
{
	struct fm_map_slot *s =
		find_slot(atomic_load_explicit(&h->table, memory_order_acquire), key);

	return s ? atomic_load_explicit(&s->value, memory_order_acquire) : NULL;
}

static bool grow(struct fm_handles *h)
{
	struct fm_handles_table *old = atomic_load(&h->table), *t;
	unsigned bits = old ? old->bits + 1 : FIRST_BITS;

	t = calloc(1, sizeof(*t) + ((size_t)1 << bits) * sizeof(t->slot[0]));
	if (!t)
		return false;
	t->smaller = old;
	t->bits = bits;
	for (size_t i = 0; old && i < (size_t)1 << old->bits; i++) {
		uintptr_t key = atomic_load(&old->slot[i].key);

		if (key > FM_MAP_REMOVED)
			fm_slots_insert(t->slot, bits, key, atomic_load(&old->slot[i].value));
	}
	atomic_store_explicit(&h->table, t, memory_order_release);
	return true;
}

/* A table is at most half full. */
bool fm_handles_set(struct fm_handles *h, uintptr_t key, void *value)
{
	struct fm_handles_table *t = atomic_load(&h->table);
	struct fm_map_slot *s = find_slot(t, key);

	if (key <= FM_MAP_REMOVED)
		return false;
	if (s) {
		atomic_store_explicit(&s->value, value, memory_order_release);
		return true;
	}
	if ((!t || 2 * (h->live + 1) > (size_t)1 << t->bits) && !grow(h))
		return false;
	t = atomic_load(&h->table);
	fm_slots_insert(t->slot, t->bits, key, value);
	h->live++;
	return true;
}

void fm_handles_erase(struct fm_handles *h, uintptr_t key, const void *value)
{
	struct fm_handles_table *t = atomic_load(&h->table);
	struct fm_map_slot *s = find_slot(t, key);

	if (!s || (value && atomic_load(&s->value) != value))
		return;
	fm_slots_erase(t->slot, t->bits, s);
	h->live--;
}
