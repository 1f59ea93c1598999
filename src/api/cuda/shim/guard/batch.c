/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies where memory of the program runs from the host, mapped for the device. Driver
 * 580 copies between that and pageable memory by the processor, which may not use the address: the
 * process is killed (docs/studies/moved-memory.md). Such a copy is made by a call of its own, which
 * is right, and so is each of the others. The copies of a batch have no order among each other.
 */
#include "api/cuda/shim/managed/managed.h"
#include "guarded.h"

struct batch {
	CUdeviceptr *dsts, *srcs;
	size_t *sizes, n;
	struct CUmemcpyAttributes_st *attrs;
	size_t *indices, n_attrs;
	CUstream stream;
};

typedef fm_cu_result old_fn(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
	struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, size_t *failed,
	CUstream stream);
typedef fm_cu_result new_fn(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
	struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, CUstream stream);
typedef fm_cu_result copy_fn(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream);

/* The driver's: of before CUDA 13, and since. */
static struct {
	_Atomic(old_fn *) old;
	_Atomic(new_fn *) new;
} real;

static fm_cu_result whole(const struct batch *b, bool old, size_t *failed)
{
	return old ? atomic_load(&real.old)(b->dsts, b->srcs, b->sizes, b->n, b->attrs, b->indices,
			     b->n_attrs, failed, b->stream)
		   : atomic_load(&real.new)(b->dsts, b->srcs, b->sizes, b->n, b->attrs, b->indices,
			     b->n_attrs, b->stream);
}

static bool is_managed(CUdeviceptr p)
{
	struct fm_cuda_mapped mapped;
	struct fm_cu_block block;

	return (fm_cuda_managed_find(p, &block) && block.size) || fm_cuda_vmm_find(p, &mapped);
}

static bool is_apart(const struct batch *b, size_t i)
{
	CUdeviceptr dst = b->dsts[i], src = b->srcs[i];

	return (is_managed(dst) && fm_cuda_is_pageable(src)) ||
	       (is_managed(src) && fm_cuda_is_pageable(dst));
}

static bool has_apart(const struct batch *b)
{
	if (!b->dsts || !b->srcs || !b->sizes || !b->attrs || !b->indices || !b->n_attrs)
		return false; /* the driver says what that is */
	for (size_t i = 0; i < b->n; i++)
		if (is_apart(b, i))
			return true;
	return false;
}

#define ATTRIBUTES 24 /* bytes of a CUmemcpyAttributes */
static struct CUmemcpyAttributes_st *attributes_of(const struct batch *b, size_t i)
{
	size_t k = 0;

	while (k + 1 < b->n_attrs && b->indices[k + 1] <= i)
		k++;
	return (struct CUmemcpyAttributes_st *)((char *)b->attrs + k * ATTRIBUTES);
}

static fm_cu_result one_by_one(const struct batch *b, bool old, copy_fn *copy, size_t *failed)
{
	size_t first = 0, which;
	fm_cu_result rc = FM_CU_SUCCESS;

	for (size_t i = 0; i < b->n && !rc; i++) {
		const struct batch one = {b->dsts + i, b->srcs + i, b->sizes + i, 1,
			attributes_of(b, i), &first, 1, b->stream};

		rc = is_apart(b, i) ? copy(b->dsts[i], b->srcs[i], b->sizes[i], b->stream)
				    : whole(&one, old, &which);
		if (failed)
			*failed = rc ? i : SIZE_MAX;
	}
	return rc;
}

static fm_cu_result make(const struct batch *b, bool old, size_t *failed)
{
	copy_fn *copy = (copy_fn *)fm_cuda_symbol("cuMemcpyAsync");

	if (FM_LIKELY(!atomic_load(&fm_cuda_managed_mapped)) || !copy ||
		atomic_load(&fm_cu_captures) || !has_apart(b))
		return whole(b, old, failed);
	return one_by_one(b, old, copy, failed);
}

static fm_cu_result old_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
	struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, size_t *failed,
	CUstream stream)
{
	const struct batch b = {dsts, srcs, sizes, n, attrs, indices, n_attrs, stream};

	return make(&b, true, failed);
}

static fm_cu_result new_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
	struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, CUstream stream)
{
	const struct batch b = {dsts, srcs, sizes, n, attrs, indices, n_attrs, stream};

	return make(&b, false, NULL);
}

/* A clone differs by its default stream alone, which batches refuse. */
void *fm_cuda_batch(enum fm_cuda_id id, void *next)
{
	switch (id) {
	case FM_CUDA_cuMemcpyBatchAsync:
	case FM_CUDA_cuMemcpyBatchAsync_ptsz:
		atomic_store(&real.old, (old_fn *)next);
		return (void *)old_batch;
	case FM_CUDA_cuMemcpyBatchAsync_v2:
	case FM_CUDA_cuMemcpyBatchAsync_v2_ptsz:
		atomic_store(&real.new, (new_fn *)next);
		return (void *)new_batch;
	default:
		return next;
	}
}
