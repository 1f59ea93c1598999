/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps from the handles of a driver to what a shim keeps for them. They are read at each launch,
 * without a lock: keys are atomic, and a value is written before its key. Writers exclude each
 * other by a lock of the caller's.
 *
 * struct fm_map has a fixed size, several times as large as the number of queues. struct fm_handles
 * grows. A table that has become too small stays, since another thread may be reading it; each
 * table is twice as large as the one before.
 */
#pragma once
#include "base/util.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_MAP_REMOVED 1u /* keys 0 and 1 are no handles: a slot never used, one used before */

struct fm_map_slot {
	_Atomic uintptr_t key;
	_Atomic(void *) value;
};

/* --- 2^bits slots, bits: at most 24 --- */

static inline size_t fm_slots_hash(uintptr_t key, unsigned bits)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (((size_t)1 << bits) - 1);
}

static inline size_t fm_slots_next(size_t at, unsigned bits)
{
	return (at + 1) & (((size_t)1 << bits) - 1);
}

/* NULL: it is not there. */
static inline struct fm_map_slot *fm_slots_find(
	struct fm_map_slot *slot, unsigned bits, uintptr_t key)
{
	size_t at = fm_slots_hash(key, bits);

	for (size_t i = 0; i < (size_t)1 << bits; i++) {
		uintptr_t k = atomic_load_explicit(&slot[at].key, memory_order_acquire);

		if (FM_LIKELY(k == key))
			return &slot[at];
		if (!k)
			return NULL;
		at = fm_slots_next(at, bits);
	}
	return NULL;
}

/* The key is not there. False: no room. */
static inline bool fm_slots_insert(
	struct fm_map_slot *slot, unsigned bits, uintptr_t key, void *value)
{
	size_t at = fm_slots_hash(key, bits);

	for (size_t i = 0; i < (size_t)1 << bits; i++) {
		uintptr_t k = atomic_load_explicit(&slot[at].key, memory_order_relaxed);

		if (k <= FM_MAP_REMOVED) {
			atomic_store_explicit(&slot[at].value, value, memory_order_relaxed);
			atomic_store_explicit(&slot[at].key, key, memory_order_release);
			return true;
		}
		at = fm_slots_next(at, bits);
	}
	return false;
}

/* A slot at the end of a chain need not be marked as used, because a look-up that reaches it finds
 * nothing behind it. So a program that makes and ends many handles does not fill a map. */
static inline void fm_slots_erase(struct fm_map_slot *slot, unsigned bits, struct fm_map_slot *s)
{
	size_t at = (size_t)(s - slot), next = fm_slots_next(at, bits);

	atomic_store_explicit(&s->key, FM_MAP_REMOVED, memory_order_relaxed);
	if (atomic_load_explicit(&slot[next].key, memory_order_relaxed))
		return;
	while (atomic_load_explicit(&slot[at].key, memory_order_relaxed) == FM_MAP_REMOVED) {
		atomic_store_explicit(&slot[at].key, 0, memory_order_relaxed);
		at = (at - 1) & (((size_t)1 << bits) - 1);
	}
}

/* --- of a fixed size --- */

#define FM_MAP_BITS  10u
#define FM_MAP_SLOTS (1u << FM_MAP_BITS) /* several times FM_BOARD_SLOTS */

struct fm_map {
	struct fm_map_slot slot[FM_MAP_SLOTS];
};

/* key: what a program gives as a handle, which may be any value. NULL: it is not there. This is the
 * same look-up as fm_slots_find(), written out: each launch has it, and the compiler inlines less
 * around it if it is a call. */
static inline void *fm_map_find(struct fm_map *m, uintptr_t key)
{
	if (FM_UNLIKELY(key <= FM_MAP_REMOVED))
		return NULL;
	for (size_t i = 0, at = fm_slots_hash(key, FM_MAP_BITS); i < FM_MAP_SLOTS; i++) {
		uintptr_t k = atomic_load_explicit(&m->slot[at].key, memory_order_acquire);

		if (FM_LIKELY(k == key))
			return atomic_load_explicit(&m->slot[at].value, memory_order_relaxed);
		if (!k)
			return NULL;
		at = fm_slots_next(at, FM_MAP_BITS);
	}
	return NULL;
}

/* The key is not in the map. False: no room. */
static inline bool fm_map_insert(struct fm_map *m, uintptr_t key, void *value)
{
	return fm_slots_insert(m->slot, FM_MAP_BITS, key, value);
}

/* The value that was there; NULL: none was. */
static inline void *fm_map_erase(struct fm_map *m, uintptr_t key)
{
	struct fm_map_slot *s =
		key > FM_MAP_REMOVED ? fm_slots_find(m->slot, FM_MAP_BITS, key) : NULL;

	if (!s)
		return NULL;
	fm_slots_erase(m->slot, FM_MAP_BITS, s);
	return atomic_load_explicit(&s->value, memory_order_relaxed);
}

/* --- of any size --- */

struct fm_handles_table;

struct fm_handles {
	_Atomic(struct fm_handles_table *) table;
	size_t live;
};

/* NULL: it is not there. */
void *fm_handles_find(struct fm_handles *h, uintptr_t key);
/* Replaces what was there; the value is not NULL. False: out of memory, and the key is not
 * there. */
bool fm_handles_set(struct fm_handles *h, uintptr_t key, void *value);
/* Erases the key if it has that value; NULL: with any value. */
void fm_handles_erase(struct fm_handles *h, uintptr_t key, const void *value);
