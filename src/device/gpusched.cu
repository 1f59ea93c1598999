// SPDX-License-Identifier: Apache-2.0
// What gpusched.h says, for devices: the core's text, as 32 lanes run it. make-gpusched makes gpusched_text.c of it.
//
// Order. `bell` and `turn` have a fence of the whole system on both sides, so that all see their changes in one order. Other
// loads acquire and other stores release. What a lane has written is seen by the others behind __syncwarp(), and lane 0's
// fence then speaks for all.
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
	if (!threadIdx.x) {
		fence();
		asm volatile("atom.relaxed.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
		fence();
	}
	__syncwarp();
	return same(old);
}

static __device__ __forceinline__ uint64_t swap_once(uint64_t *p, uint64_t v)
{
	uint64_t old = 0;

	__syncwarp();
	if (!threadIdx.x) {
		fence();
		asm volatile("atom.relaxed.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
		fence();
	}
	__syncwarp();
	return same(old);
}

static __device__ __forceinline__ uint64_t sum(uint64_t x)
{
	for (int by = 16; by; by >>= 1)
		x += __shfl_xor_sync(ALL, x, by);
	return x;
}

static __device__ __forceinline__ uint64_t least(uint64_t x)
{
	for (int by = 16; by; by >>= 1) {
		uint64_t other = __shfl_xor_sync(ALL, x, by);

		x = other < x ? other : x;
	}
	return x;
}

static __device__ __forceinline__ uint64_t clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

// The functions of the text are the device's.
#define inline __device__ __forceinline__
#include "gpusched/keys.h"

static inline uint32_t first_of(uint32_t n, struct fm_gs_key key, uint32_t at)
{
	for (int by = 16; by; by >>= 1) {
		struct fm_gs_key other;
		uint32_t k = __shfl_xor_sync(ALL, at, by);

		other.first = __shfl_xor_sync(ALL, key.first, by);
		other.second = __shfl_xor_sync(ALL, key.second, by);
		if (k != n && (at == n || fm_gs_before(&other, k, &key, at))) {
			key = other;
			at = k;
		}
	}
	return at;
}

#define FM_GS_LANE             threadIdx.x
#define FM_GS_LANES            FM_GATES_LANES
#define FM_GS_SYNC             __syncwarp()
#define FM_GS_LOAD(p)          load(p)
#define FM_GS_STORE(p, v)      store(p, v)
#define FM_GS_ADD(p, v)        add_once(p, v)
#define FM_GS_SWAP(p, v)       swap_once(p, v)
#define FM_GS_SAME(x)          same(x)
#define FM_GS_FIRST(n, key, i) first_of(n, key, i)
#define FM_GS_SUM(x)           sum(x)
#define FM_GS_LEAST(x)         least(x)
#define FM_GS_NOW              clock_ns()
#define FM_GS_CLZ(x)           __clzll((long long)(x))
#define FM_GS_TELL(g, heard)   tell_host(g, heard)
#include "device/gpusched.h"

static inline void tell_host(const struct fm_gs *g, uint64_t heard)
{
	volatile struct fm_gates_told *told = ((const struct fm_gates *)g)->told; // g is its first member

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		told->done[i] = g->task[i].done;
		told->dropped[i] = g->task[i].stats.dropped;
	}
	__syncwarp();
	if (FM_GS_LANE)
		return;
	told->pending = g->pending;
	told->opened = g->opened;
	store((uint64_t *)&told->decided, heard);
}

#include "gpusched/core.h"

static inline void hear_news(struct fm_gs *g, uint64_t jobs, uint64_t chunks, uint32_t task, uint32_t what)
{
	struct fm_gs_task *t = &g->task[task];

	if (FM_GS_LANE)
		return;
	if (what & FM_GATES_ENDED)
		more(&t->ended, 1);
	if (jobs) // code of the device may add, too
		more(&t->rung, jobs);
	if (chunks)
		more(&t->queued, chunks);
	if (what & FM_GATES_OFF)
		store(&t->off, 1);
	if (what & (FM_GATES_PARK | FM_GATES_GO_ON))
		store(&g->park, (what & FM_GATES_PARK) != 0);
	if (what & (FM_GATES_DRAIN | FM_GATES_ACCEPT))
		store(&g->drain, (what & FM_GATES_DRAIN) != 0);
}

// Between two decisions. Returns whether it must be decided again.
static inline bool read_tasks(struct fm_gs *g, struct fm_gs_task *to)
{
	while (FM_GS_SWAP(&g->turn, 1)) // of a decision, which waits for nobody
		;
	for (uint32_t i = 0; i < g->n; i++)
		for (uint32_t at = FM_GS_LANE; at < sizeof(*to) / 8; at += FM_GS_LANES)
			((uint64_t *)&to[i])[at] = ((const uint64_t *)&g->task[i])[at];
	FM_GS_SYNC;
	return fm_gs_leave(g, FM_GS_SAME(FM_GS_LOAD(&g->decided)));
}

// One kernel, so that there is one copy of the core's text for the driver to compile.
extern "C" __global__ void fermata_set(
	struct fm_gates *s, struct fm_gs_task *to, uint64_t jobs, uint64_t chunks, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->g;
	bool again;

	if (to) {
		again = read_tasks(g, to);
	} else {
		hear_news(g, jobs, chunks, task, what);
		again = (what & FM_GATES_KICK) != 0;
		if (again)
			FM_GS_ADD(&g->bell, 1);
	}
	while (again)
		again = fm_gs_try(g);
}
