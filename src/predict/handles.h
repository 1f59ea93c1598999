/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: numbers by handles of functions, found without a lock. Each word is a handle
 * times 4096, and a number below that. Lossy: a handle may have to go for another.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FM_HANDLES_NUMBERS 4096u
#define FM_HANDLES_PLACES  8192u
#define FM_HANDLES_WAYS    4u
#define FM_HANDLES_NONE    UINT32_MAX

static inline uint32_t fm_handles_place(const void *handle)
{
	return (uint32_t)((uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 53) * FM_HANDLES_WAYS;
}
_Static_assert(FM_HANDLES_PLACES == (1u << 11) * FM_HANDLES_WAYS, "places of handles");

static inline uint32_t fm_handles_number(
	const _Atomic uint64_t word[FM_HANDLES_PLACES], const void *handle)
{
	const _Atomic uint64_t *at = &word[fm_handles_place(handle)];

	for (unsigned i = 0; i < FM_HANDLES_WAYS; i++) {
		uint64_t is = atomic_load_explicit(&at[i], memory_order_acquire);

		if (is / FM_HANDLES_NUMBERS == (uintptr_t)handle && is)
			return (uint32_t)(is % FM_HANDLES_NUMBERS);
	}
	return FM_HANDLES_NONE;
}

static inline bool fm_handles_fits(const void *handle)
{
	return handle && (uintptr_t)handle <= UINT64_MAX / FM_HANDLES_NUMBERS;
}

/* One thread at a time. next: the place that has to go. */
static inline void fm_handles_enter(_Atomic uint64_t word[FM_HANDLES_PLACES],
	_Atomic uint32_t *next, const void *handle, uint32_t number)
{
	_Atomic uint64_t *at = &word[fm_handles_place(handle)];
	uint32_t way = atomic_load_explicit(next, memory_order_relaxed) % FM_HANDLES_WAYS;

	for (unsigned k = 0; k < FM_HANDLES_WAYS; k++)
		way = atomic_load_explicit(&at[k], memory_order_relaxed) ? way : k;
	atomic_store_explicit(&at[way], (uintptr_t)handle * (uint64_t)FM_HANDLES_NUMBERS + number,
		memory_order_release);
	atomic_store_explicit(next, way + 1, memory_order_relaxed);
}
