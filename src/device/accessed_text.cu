// SPDX-License-Identifier: Apache-2.0
// What accessed.h says, as text for kernels whose text is rewritten (code/cuda/pass/marks.h): make-images makes
// accessed_text.c of it. What is called in front of each access; the word says where the table is, or 0.
typedef unsigned u32;
typedef unsigned long long u64;

enum { READ = 1, WRITE, ATOMIC };
enum { R = 0, W = 4, ALL = 8, OWN = 12, A = 16, MANY = 20, WHO = 21 };

struct region {
	u64 at, size;
	u32 shift, first;
};

struct accessed {
	u32 n, outside;
	region of[256];
	u64 cell[1];
};

extern "C" __device__ u64 fermata_accessed_table;
__device__ u64 fermata_accessed_table;

static __device__ __forceinline__ u64 next(u64 cell, u64 thread, u32 threads, u32 touches, u32 covers, u32 kind)
{
	u64 who = cell >> WHO;
	bool mine = !who || who == thread + 1;
	u32 own = mine ? (u32)(cell >> OWN) & 15 : 0;

	if (!who)
		cell |= (thread + 1) << WHO;
	if (!mine && (who - 1) / threads != thread / threads)
		cell |= 1ull << MANY;
	if (kind == WRITE) {
		cell |= (u64)touches << W | (u64)covers << ALL;
		return mine ? cell | (u64)covers << OWN : cell;
	}
	cell |= (u64)(kind == READ ? touches & ~own : touches) << R;
	if (kind == ATOMIC)
		cell |= (u64)touches << W | (u64)touches << A;
	return cell;
}

extern "C" __device__ __noinline__ void fermata_accessed_mark(u64 at, u32 bytes, u32 kind)
{
	accessed *t = (accessed *)*(volatile u64 *)&fermata_accessed_table;

	if (!t || !bytes || !__isGlobal((const void *)at))
		return;
	u32 low = 0, n = t->n;
	while (n > low) { // the first region that begins behind it
		u32 half = (low + n) / 2;
		if (t->of[half].at <= at)
			low = half + 1;
		else
			n = half;
	}
	const region *r = &t->of[low - 1];
	if (!low || at - r->at >= r->size || bytes > r->size - (at - r->at)) {
		if (!*(volatile u32 *)&t->outside)
			*(volatile u32 *)&t->outside = 1;
		return;
	}
	u32 threads = blockDim.x * blockDim.y * blockDim.z;
	u64 block = ((u64)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	u64 thread = block * threads + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	u64 from = at - r->at, to = from + bytes;
	for (u64 c = from >> (r->shift + 2); c << (r->shift + 2) < to; c++) {
		u32 touches = 0, covers = 0;
		for (u32 q = 0; q < 4; q++) {
			u64 begin = (c * 4 + q) << r->shift, end = begin + (1ull << r->shift);
			if (end > r->size)
				end = r->size;
			if (begin >= to || end <= from)
				continue;
			touches |= 1u << q;
			if (from <= begin && end <= to)
				covers |= 1u << q;
		}
		u64 *cell = &t->cell[r->first + c];
		for (u64 old = *(volatile u64 *)cell;;) { // most have been marked so before
			u64 to_be = next(old, thread, threads, touches, covers, kind);
			if (to_be == old)
				break;
			u64 was = atomicCAS(cell, old, to_be);
			if (was == old)
				break;
			old = was;
		}
	}
}
