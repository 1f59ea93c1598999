/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says of an address. */
#include "vmm.h"
#include <string.h>

/* Of a chunk, as driver 580 answers: the range is the whole one, whatever is in it. */
static fm_cu_result of_chunk(void *value, int which, CUdeviceptr d, const struct fk_mapped *m)
{
	switch (which) {
	case CU_POINTER_CONTEXT:
	case CU_POINTER_POOL:
		*(void **)value = NULL;
		return FM_CU_SUCCESS;
	case CU_POINTER_TYPE:
		*(unsigned *)value = m->device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
		return FM_CU_SUCCESS;
	case CU_POINTER_DEVICE:
		*(CUdeviceptr *)value = d;
		return FM_CU_SUCCESS;
	case CU_POINTER_ID:
	case CU_POINTER_CHUNK_ID:
		*(uint64_t *)value = m->id;
		return FM_CU_SUCCESS;
	case CU_POINTER_HANDLES:
		*(uint64_t *)value = (uint64_t)m->prop.handles;
		return FM_CU_SUCCESS;
	case CU_POINTER_SYNC:
	case CU_POINTER_RDMA:
		*(unsigned *)value = which == CU_POINTER_RDMA && m->prop.rdma;
		return FM_CU_SUCCESS;
	case CU_POINTER_ACCESS:
		*(int *)value = m->access;
		return FM_CU_SUCCESS;
	case CU_POINTER_ORDINAL:
		*(int *)value = m->device ? m->prop.location.id : 0;
		return FM_CU_SUCCESS;
	case CU_POINTER_MAPPING_SIZE:
		*(size_t *)value = m->size;
		return FM_CU_SUCCESS;
	case CU_POINTER_MAPPING_START:
		*(CUdeviceptr *)value = m->at;
		return FM_CU_SUCCESS;
	}
	return FM_CU_ERROR_INVALID_VALUE;
}

/* Of holes nothing is told. */
static fm_cu_result of_range(void *value, int which, CUdeviceptr d, const struct fk_mapped *m)
{
	if (!m->there)
		return FM_CU_ERROR_INVALID_VALUE;
	switch (which) {
	case CU_POINTER_MAPPED:
		*(unsigned *)value = 1;
		return FM_CU_SUCCESS;
	case CU_POINTER_START:
		*(CUdeviceptr *)value = m->range;
		return FM_CU_SUCCESS;
	case CU_POINTER_SIZE:
		*(size_t *)value = m->range_size;
		return FM_CU_SUCCESS;
	case CU_POINTER_MANAGED:
	case CU_POINTER_IPC:
		*(unsigned *)value = 0;
		return FM_CU_SUCCESS;
	}
	return of_chunk(value, which, d, m);
}

static fm_cu_result of_block(void *value, int which, CUdeviceptr d, const struct fk_memory *b)
{
	switch (which) {
	case CU_POINTER_CONTEXT:
		*(CUcontext *)value = b->ctx;
		return FM_CU_SUCCESS;
	case CU_POINTER_TYPE:
		*(unsigned *)value = b->place == FK_DEVICE ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
		return FM_CU_SUCCESS;
	case CU_POINTER_DEVICE:
		*(CUdeviceptr *)value = d;
		return FM_CU_SUCCESS;
	case CU_POINTER_HOST:
		if (b->place != FK_PINNED)
			return FM_CU_ERROR_INVALID_VALUE;
		*(void **)value = (void *)(uintptr_t)d;
		return FM_CU_SUCCESS;
	case CU_POINTER_ID:
		*(uint64_t *)value = b->id;
		return FM_CU_SUCCESS;
	case CU_POINTER_MANAGED:
		*(unsigned *)value = b->managed;
		return FM_CU_SUCCESS;
	case CU_POINTER_MAPPED:
		*(unsigned *)value = 1;
		return FM_CU_SUCCESS;
	case CU_POINTER_IPC:
		*(unsigned *)value = b->place == FK_DEVICE && !b->registered;
		return FM_CU_SUCCESS;
	case CU_POINTER_ORDINAL:
		*(int *)value = b->ctx->dev;
		return FM_CU_SUCCESS;
	case CU_POINTER_START:
	case CU_POINTER_MAPPING_START:
		*(CUdeviceptr *)value = (uintptr_t)b->p;
		return FM_CU_SUCCESS;
	case CU_POINTER_SIZE:
	case CU_POINTER_MAPPING_SIZE:
		*(size_t *)value = b->size;
		return FM_CU_SUCCESS;
	}
	return FM_CU_ERROR_INVALID_VALUE;
}

static fm_cu_result attribute(void *value, int which, CUdeviceptr d)
{
	const void *p = (void *)(uintptr_t)d;
	struct fk_mapped m;
	struct fk_memory b;

	if (!value)
		return FM_CU_ERROR_INVALID_VALUE;
	if (fk_vmm_find(p, &m))
		return of_range(value, which, d, &m);
	return fk_memory_find(p, &b) ? of_block(value, which, d, &b) : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuPointerGetAttribute(void *value, int which, CUdeviceptr d)
{
	FK_TRY(fk_enter());
	return fk_leave(attribute(value, which, d));
}

/* What there is no answer to is zero, also where there is nothing. */
fm_cu_result cuPointerGetAttributes(unsigned n, int *which, void **values, CUdeviceptr d)
{
	if (!n || !which || !values)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	for (unsigned i = 0; i < n; i++) {
		bool narrow = which[i] == CU_POINTER_TYPE || which[i] == CU_POINTER_MANAGED ||
			      which[i] == CU_POINTER_MAPPED || which[i] == CU_POINTER_IPC ||
			      which[i] == CU_POINTER_ORDINAL;

		if (attribute(values[i], which[i], d))
			memset(values[i], which[i] == CU_POINTER_ORDINAL ? 0xfe : 0,
				narrow ? sizeof(int) : sizeof(void *));
	}
	return fk_leave(FM_CU_SUCCESS);
}

/* That copies of it are waited for: not of what is mapped. */
fm_cu_result cuPointerSetAttribute(const void *value, int which, CUdeviceptr d)
{
	const void *p = (void *)(uintptr_t)d;
	struct fk_mapped m;
	struct fk_memory b;

	FK_TRY(fk_enter());
	if (!value || which != CU_POINTER_SYNC)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fk_vmm_find(p, &m))
		return fk_leave(m.there ? FM_CU_ERROR_NOT_SUPPORTED : FM_CU_ERROR_INVALID_VALUE);
	if (!fk_memory_find(p, &b) || b.place != FK_DEVICE)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(FM_CU_SUCCESS);
}

/* Of a chunk of the host, an address that the program has never seen. */
fm_cu_result cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	const void *p = (void *)(uintptr_t)at;
	struct fk_mapped m;
	struct fk_memory b;

	FK_TRY(fk_enter_ctx());
	if (fk_vmm_find(p, &m)) {
		if (!m.there)
			return fk_leave(CU_NOT_FOUND);
		b.p = (void *)m.alias;
		b.size = m.size;
	} else if (!fk_memory_find(p, &b)) {
		return fk_leave(CU_NOT_FOUND);
	}
	if (base)
		*base = (uintptr_t)b.p;
	if (size)
		*size = b.size;
	return fk_leave(FM_CU_SUCCESS);
}

/* For another process; which can do nothing with it here. */
fm_cu_result cuIpcGetMemHandle(struct cu_ipc *handle, CUdeviceptr d)
{
	const void *p = (void *)(uintptr_t)d;
	struct fk_mapped m;
	struct fk_memory b;

	FK_TRY(fk_enter_ctx());
	if (!handle || fk_vmm_find(p, &m) || !fk_memory_find(p, &b) || b.place != FK_DEVICE ||
		b.registered)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle->bytes, &b.id, sizeof(b.id));
	return fk_leave(FM_CU_SUCCESS);
}

/* Nothing of another process can be had here. */
fm_cu_result cuIpcOpenMemHandle_v2(CUdeviceptr *d, struct cu_ipc handle, unsigned flags)
{
	(void)d, (void)handle, (void)flags;
	FK_TRY(fk_enter_ctx());
	return fk_leave(FM_CU_ERROR_INVALID_VALUE);
}

fm_cu_result cuIpcCloseMemHandle(CUdeviceptr d)
{
	(void)d;
	FK_TRY(fk_enter_ctx());
	return fk_leave(FM_CU_ERROR_INVALID_VALUE);
}
