/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from the handles of a driver's queues to what a shim keeps for them. It is read at each
 * launch, without a lock: keys are atomic, and a value is written before its key. Writers exclude
 * each other by a lock of the shim's.
 */
#pragma once
#include "base/util.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_MAP_SLOTS   1024u /* a power of two, several times FM_BOARD_SLOTS */
#define FM_MAP_REMOVED 1u    /* keys 0 and 1 are no handles: a slot never used, one used before */

struct fm_map {
	struct {
		_Atomic uintptr_t key;
		_Atomic(void *) value;
	} slot[FM_MAP_SLOTS];
};

static inline size_t fm_map_hash(uintptr_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FM_MAP_SLOTS;
}

static inline void *fm_map_find(struct fm_map *m, uintptr_t key)
{
	if (FM_UNLIKELY(
		    key <= FM_MAP_REMOVED)) /* what a program gives for a handle, may be nothing */
		return NULL;
	for (size_t i = 0, at = fm_map_hash(key); i < FM_MAP_SLOTS; i++) {
		uintptr_t k = atomic_load_explicit(&m->slot[at].key, memory_order_acquire);

		if (FM_LIKELY(k == key))
			return atomic_load_explicit(&m->slot[at].value, memory_order_relaxed);
		if (!k)
			return NULL;
		at = (at + 1) % FM_MAP_SLOTS;
	}
	return NULL;
}

/* The key is not in the map. False: no room. */
static inline bool fm_map_insert(struct fm_map *m, uintptr_t key, void *value)
{
	for (size_t i = 0, at = fm_map_hash(key); i < FM_MAP_SLOTS; i++) {
		uintptr_t k = atomic_load_explicit(&m->slot[at].key, memory_order_relaxed);

		if (!k || k == FM_MAP_REMOVED) {
			atomic_store_explicit(&m->slot[at].value, value, memory_order_relaxed);
			atomic_store_explicit(&m->slot[at].key, key, memory_order_release);
			return true;
		}
		at = (at + 1) % FM_MAP_SLOTS;
	}
	return false;
}

/* What ends a chain need not be marked as used: a look-up that gets here finds nothing further on,
 * before and after. So a program that makes and ends many queues does not fill the map. */
static inline void fm_map_trim(struct fm_map *m, size_t at)
{
	if (atomic_load_explicit(&m->slot[(at + 1) % FM_MAP_SLOTS].key, memory_order_relaxed))
		return;
	while (atomic_load_explicit(&m->slot[at].key, memory_order_relaxed) == FM_MAP_REMOVED) {
		atomic_store_explicit(&m->slot[at].key, 0, memory_order_relaxed);
		at = (at - 1) % FM_MAP_SLOTS;
	}
}

/* The value that was there; NULL if none. */
static inline void *fm_map_erase(struct fm_map *m, uintptr_t key)
{
	for (size_t i = 0, at = fm_map_hash(key); i < FM_MAP_SLOTS; i++) {
		uintptr_t k = atomic_load_explicit(&m->slot[at].key, memory_order_relaxed);

		if (k == key) {
			atomic_store_explicit(
				&m->slot[at].key, FM_MAP_REMOVED, memory_order_relaxed);
			fm_map_trim(m, at);
			return atomic_load_explicit(&m->slot[at].value, memory_order_relaxed);
		}
		if (!k)
			return NULL;
		at = (at + 1) % FM_MAP_SLOTS;
	}
	return NULL;
}
