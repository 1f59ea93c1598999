/* SPDX-License-Identifier: Apache-2.0 */
/* The memory and the lane of a warp as one thread is it, for the texts of src/device. */
#pragma once
#include "fake.h"

#define FM_GS_LANE             0u
#define FM_GS_LANES            1u
#define FM_GS_SYNC             ((void)0)
#define FM_GS_LOAD(p)          __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define FM_GS_STORE(p, v)      __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_ADD(p, v)        __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_SWAP(p, v)       __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_FENCE            __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define FM_GS_SAME(x)          (x)
#define FM_GS_SUM(x)           (x)
#define FM_GS_LEAST(x)         (x)
#define FM_GS_FIRST(n, key, i) (i)
#define FM_GS_CLZ(x)           __builtin_clzll(x)
#define FM_GATES_DEVICE_NOW    device_now()
#define FM_GATES_SHOW(p, v)    FM_GS_STORE(p, v)
#define FM_GATES_TAKE(p)       FM_GS_ADD(p, 1)
#define FM_GATES_MORE(p, v)    FM_GS_ADD(p, v)

/* Its clock has begun at another time, and goes 100 us a second faster. */
static inline uint64_t device_now(void)
{
	uint64_t ns = fk_now();

	return ns + ns / 10000 + UINT64_C(77000000000);
}
