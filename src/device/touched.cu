// SPDX-License-Identifier: Apache-2.0
// What touched.h says, for devices: functions that the Compute Sanitizer calls in front of each access to global memory.
// Their types are those of its manual, https://docs.nvidia.com/compute-sanitizer/api/group__SANITIZER__PATCHING__API.html
// (SanitizerCallbackMemoryAccess, SanitizerCallbackMemcpyAsync, SanitizerCallbackBulkCopyGlobalToShared and the like).
// make-images makes touched_image.c of it.
typedef unsigned u32;
typedef unsigned long long u64;

enum { GO_ON = 0 };        // SANITIZER_PATCH_SUCCESS
enum { PREFETCH = 8 };     // SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH
enum { BULK_UNIT = 16, BULK_UNITS = 0xffff };

struct region {
	u64 at, size;
	u32 shift, first;
};

struct cell {
	u32 before, end;
};

struct touched {
	u32 n, ran, outside, pad;
	region of[64];
	cell cells[1];
};

static __device__ __forceinline__ void set(u32 *word)
{
	if (!*(volatile u32 *)word)
		*(volatile u32 *)word = 1;
}

static __device__ __forceinline__ void raise(u32 *word, u32 to)
{
	if (*(volatile u32 *)word < to)
		atomicMax(word, to);
}

static __device__ __forceinline__ void mark(void *table, u64 at, u64 bytes)
{
	touched *t = (touched *)table;

	if (!t || !bytes)
		return;
	u32 low = 0, n = t->n;
	while (n > low) { // the first region that begins behind it
		u32 half = (low + n) / 2;
		if (t->of[half].at <= at)
			low = half + 1;
		else
			n = half;
	}
	if (!low || at - t->of[low - 1].at >= t->of[low - 1].size) {
		set(&t->outside);
		return;
	}
	const region *r = &t->of[low - 1];
	u64 size = 1ull << r->shift, to = min(at - r->at + bytes, r->size);
	for (u64 from = at - r->at; from < to; from = (from | (size - 1)) + 1) {
		cell *c = &t->cells[r->first + (u32)(from >> r->shift)];
		u32 before = (u32)(size - (from & (size - 1)));
		raise(&c->before, before);
		raise(&c->end, to - from < before ? (u32)((to - 1) & (size - 1)) + 1 : (u32)size);
	}
}

// At a block's beginning: so it is known that this kernel is looked at, even if it touches nothing.
extern "C" __device__ __noinline__ int fermata_touched_block(void *table, u64 pc)
{
	if (table)
		set(&((touched *)table)->ran);
	return GO_ON;
}

extern "C" __device__ __noinline__ int fermata_touched_access(void *table, u64 pc, void *at, u32 bytes, u32 flags, const void *value)
{
	if (!(flags & PREFETCH))
		mark(table, (u64)at, bytes);
	return GO_ON;
}

extern "C" __device__ __noinline__ int fermata_touched_async(void *table, u64 pc, void *from, u32 to, u32 bytes)
{
	mark(table, (u64)from, bytes);
	return GO_ON;
}

extern "C" __device__ __noinline__ int fermata_touched_load(void *table, u64 pc, u64 from, u32 to, u32 barrier, u32 data, u32 multicast)
{
	mark(table, from, (u64)(data & BULK_UNITS) * BULK_UNIT);
	return GO_ON;
}

extern "C" __device__ __noinline__ int fermata_touched_store(void *table, u64 pc, u64 to, u32 from, u32 units)
{
	mark(table, to, (u64)units * BULK_UNIT);
	return GO_ON;
}
