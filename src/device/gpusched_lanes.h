/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory and the 32 lanes of a device, as the texts of gpusched_warp.h and gpugraphs_warp.h
 * want them. For nvcc alone.
 *
 * Order. The set's words are of the device alone, so what is swapped and added to acquires and
 * releases in its scope. Other loads acquire and other stores release in that of the whole system,
 * as some are of the host. What a lane has written is seen by the others behind __syncwarp(), and
 * lane 0 then speaks for all.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define ALL 0xffffffffu

static __device__ __forceinline__ uint64_t load(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

static __device__ __forceinline__ void store(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ void fence(void)
{
	asm volatile("fence.sc.sys;" : : : "memory");
}

static __device__ __forceinline__ void more(uint64_t *p, uint64_t v)
{
	asm volatile("red.relaxed.sys.add.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ uint64_t same(uint64_t x)
{
	return __shfl_sync(ALL, x, 0);
}

static __device__ __forceinline__ uint64_t add_once(uint64_t *p, uint64_t v)
{
	uint64_t old = 0;

	__syncwarp();
	if (!threadIdx.x)
		asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(p), "l"(v)
			     : "memory");
	__syncwarp();
	return same(old);
}

static __device__ __forceinline__ uint64_t swap_once(uint64_t *p, uint64_t v)
{
	uint64_t old = 0;

	__syncwarp();
	if (!threadIdx.x)
		asm volatile("atom.acq_rel.gpu.exch.b64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(p), "l"(v)
			     : "memory");
	__syncwarp();
	return same(old);
}

/* Of tasks and of their jobs, which are few. */
static __device__ __forceinline__ uint64_t sum(uint64_t x)
{
	return __reduce_add_sync(ALL, (uint32_t)x);
}

static __device__ __forceinline__ uint64_t least(uint64_t x)
{
	uint32_t high = __reduce_min_sync(ALL, (uint32_t)(x >> 32));
	uint32_t mine = (uint32_t)(x >> 32) == high ? (uint32_t)x : ~0u;

	return (uint64_t)high << 32 | __reduce_min_sync(ALL, mine);
}

static __device__ __forceinline__ uint64_t clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

// The functions of the text are the device's.
#define inline __device__ __forceinline__
#include "gpusched/words.h"

/* As fm_gs_before() orders them: of those with the least key the least number. */
static inline uint32_t first_of(uint32_t n, struct fm_gs_key key, uint32_t at)
{
	uint64_t first = least(at == n ? FM_GS_NEVER : key.first), second;
	bool is_one = at != n && key.first == first;

	second = least(is_one ? key.second : FM_GS_NEVER);
	is_one = is_one && key.second == second;
	return __reduce_min_sync(ALL, is_one ? at : n);
}

static __device__ __forceinline__ uint64_t peek(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

static __device__ __forceinline__ uint64_t take(uint64_t *p)
{
	uint64_t old;

	asm volatile("atom.relaxed.sys.add.u64 %0, [%1], 1;" : "=l"(old) : "l"(p) : "memory");
	return old;
}

static __device__ __forceinline__ void bump(uint64_t *p)
{
	__syncwarp();
	if (!threadIdx.x)
		asm volatile("red.release.gpu.add.u64 [%0], 1;" : : "l"(p) : "memory");
}

static __device__ __forceinline__ void open_to(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

/* What is read in each decision is in front. */
static __device__ __forceinline__ void touch(const struct fm_gs_task *t)
{
	for (int at = 0; at < 256; at += 128)
		asm volatile("prefetch.global.L1 [%0];" : : "l"((const char *)t + at));
}

static __device__ __forceinline__ void show(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ bool any_of(uint32_t x)
{
	return __any_sync(ALL, x != 0);
}

#define FM_GS_LANE             threadIdx.x
#define FM_GS_LANES            FM_GATES_LANES
#define FM_GS_SYNC             __syncwarp()
#define FM_GS_LOAD(p)          load(p)
#define FM_GS_PEEK(p)          peek(p)
#define FM_GS_STORE(p, v)      store(p, v)
#define FM_GS_NEWS(p)          peek(p)
#define FM_GS_SHOW(p, v)       show(p, v)
#define FM_GS_FENCE            fence()
#define FM_GS_BUMP(p)          bump(p)
#define FM_GS_OPEN(p, v)       open_to(p, v)
#define FM_GS_TOUCH(t)         touch(t)
#define FM_GS_COUNT(p)         atomicAdd(p, 1)
#define FM_GS_ADD(p, v)        add_once(p, v)
#define FM_GS_SWAP(p, v)       swap_once(p, v)
#define FM_GS_SAME(x)          same(x)
#define FM_GS_FIRST(n, key, i) first_of(n, key, i)
#define FM_GS_SUM(x)           sum(x)
#define FM_GS_LEAST(x)         least(x)
#define FM_GS_ANY(x)           any_of(x)
#define FM_GS_CLZ(x)           __clzll((long long)(x))
#define FM_GATES_DEVICE_NOW    clock_ns()
#define FM_GATES_SHOW(p, v)    (*(volatile uint64_t *)(p) = (v))
#define FM_GATES_TAKE(p)       take(p)
#define FM_GATES_MORE(p, v)    more(p, v)
