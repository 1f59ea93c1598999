/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context itself takes of the device: half a gigabyte, for code, stacks and heaps. CUDA does
 * not say how much, and has no figures before there is a context. So where there is a limit, NVML
 * is asked before and after the context is made. Elsewhere contexts count nothing, and NVML is not
 * loaded for their sake.
 */
#include "memory.h"
#include "nvml.h"

/* More than that was somebody else's, at the same time. */
#define CONTEXT_MOST ((uint64_t)1 << 30)
/* What a context takes of a large device, with some more: if that is not enough the driver says so
 * once more. */
#define CONTEXT_ROOM ((uint64_t)600 << 20)

static bool free_of(CUdevice dev, uint64_t *bytes)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	char key[FM_DEVKEY_MAX];

	return cu && fm_cu_device_key_of(cu, dev, key, sizeof(key)) && fm_nvml_free(key, bytes);
}

struct fm_cuda_mem_context fm_cuda_mem_context_begin(CUdevice dev)
{
	struct fm_cuda_mem_context x = {.at = fm_cuda_mem_on(dev)};
	uint64_t total, left;

	if (x.at.c &&
		!(fm_account_info(x.at.c, x.at.row, &total, &left) && free_of(dev, &x.before)))
		x.before = 0;
	return x;
}

uint64_t fm_cuda_mem_context_takes(const struct fm_cuda_mem_context *x)
{
	fm_cu_result (*total)(size_t *, CUdevice) = fm_cuda_symbol("cuDeviceTotalMem_v2");
	size_t bytes = 0;

	if (total && !total(&bytes, x->at.dev))
		return FM_MIN(CONTEXT_ROOM, (uint64_t)bytes / 16);
	return CONTEXT_ROOM;
}

void fm_cuda_mem_context_made(const struct fm_cuda_mem_context *x, CUcontext ctx, fm_cu_result rc)
{
	struct fm_cuda_block b = {.key = (uintptr_t)ctx,
		.of = (uintptr_t)ctx,
		.dev = (int16_t)x->at.dev,
		.space = FM_CUDA_CONTEXT,
		.kind = FM_MEM_CONTEXT};
	uint64_t after;
	bool kept;

	if (!x->before || rc != FM_CU_SUCCESS || !free_of(x->at.dev, &after) ||
		after >= x->before || x->before - after > CONTEXT_MOST)
		return;
	b.bytes = (int64_t)(x->before - after);
	pthread_mutex_lock(&fm_cuda_memory.lock);
	kept = !fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_CONTEXT, b.key) &&
	       fm_cuda_blocks_put(&fm_cuda_memory.blocks, &b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (kept)
		fm_cuda_mem_differs(x->at.c, b.dev, FM_MEM_CONTEXT, b.bytes);
}
