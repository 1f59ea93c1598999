/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The save area of a guard (image.h, FM_LOOP_AREA): what kernels that can be left in the middle of
 * a loop keep there until they go on. At most one of the launches between two gates is left in this
 * way, since those behind it do not begin. So one area is enough for a stream.
 */
#include "code/cuda/image.h"
#include "guard_internal.h"

/* Enough for all threads that a large device runs at once, 240 bytes each. */
#define AREA_BYTES (UINT64_C(64) << 20)

static union fm_cu_mem_op write64(CUdeviceptr at, uint64_t value)
{
	union fm_cu_mem_op o = {.pad = {0}};

	o.op.operation = FM_CU_OP_WRITE_VALUE_64;
	o.op.address = at;
	o.op.value = value;
	return o;
}

_Static_assert((int)FM_CU_BLOCK_LEFT == (int)FM_LOOP_LEFT, "what is read");
_Static_assert(FM_LOOP_LEFT + 8 == FM_CU_BLOCK_HEAD, "it ends there");

bool fm_cu_area_make(struct fm_cu_guard *g)
{
	union fm_cu_mem_op ops[2];

	if (!g->cu->fill || g->cu->mem_alloc(&g->area, AREA_BYTES)) {
		g->area = 0;
		return true;
	}
	ops[0] = write64(g->block + FM_LOOP_AREA, g->area);
	ops[1] = write64(g->block + FM_LOOP_BYTES, AREA_BYTES - FM_LOOP_VALUES);
	return !g->cu->fill(g->area, 0, FM_LOOP_VALUES / 4, g->control) &&
	       !g->cu->stream_mem_ops(g->control, 2, ops, 0) &&
	       !g->cu->stream_synchronize(g->control);
}
