// SPDX-License-Identifier: Apache-2.0
// The mark of touched.h as text, for kernels whose text is rewritten (code/cuda/pass/marks.h): make-images makes
// touched_text.c of it. What is called in front of each access; the word says where the table is, or 0.
#include "touched.cu"

extern "C" __device__ u64 fermata_touched_table;
__device__ u64 fermata_touched_table;

extern "C" __device__ __noinline__ void fermata_touched_mark(u64 at, u32 bytes)
{
	void *table = (void *)*(volatile u64 *)&fermata_touched_table;

	if (table && __isGlobal((const void *)at))
		mark(table, at, bytes);
}
