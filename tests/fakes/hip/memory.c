/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, copies and fills. The host reaches all of it. */
#include "fake.h"

hipError_t hipMalloc(void **p, size_t size)
{
	CUdeviceptr d = 0;
	hipError_t rc;

	if (!p)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	*p = NULL;
	if (!size)
		return fh_done(fh_ready());
	rc = fh_ready() ?: cuMemAlloc_v2(&d, size);
	if (!rc)
		*p = (void *)(uintptr_t)d;
	return fh_done(rc);
}

/* Signal memory is eight bytes, which the host reads and writes. */
hipError_t hipExtMallocWithFlags(void **p, size_t size, unsigned flags)
{
	if (!p || flags > HIP_SIGNAL_MEMORY || (flags == HIP_SIGNAL_MEMORY && size != 8))
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	if (flags != HIP_SIGNAL_MEMORY)
		return hipMalloc(p, size);
	FH_CALL(cuMemHostAlloc(p, size, 0) ?: (*(uint64_t *)*p = 0, FM_CU_SUCCESS));
}

static fm_cu_result release(void *p)
{
	enum fk_place place;

	FK_TRY(fk_enter_ctx());
	place = fk_place(p);
	FK_TRY(fk_leave(FM_CU_SUCCESS));
	return place == FK_PINNED ? cuMemFreeHost(p) : cuMemFree_v2(FH_PTR(p));
}

hipError_t hipFree(void *p)
{
	if (!p)
		return fh_done(fh_ready());
	FH_CALL(release(p));
}

hipError_t hipHostMalloc(void **p, size_t size, unsigned flags)
{
	if (!p)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	FH_CALL(cuMemHostAlloc(p, size, 0));
}

hipError_t hipHostFree(void *p)
{
	if (!p)
		return fh_done(fh_ready());
	FH_CALL(cuMemFreeHost(p));
}

hipError_t hipHostRegister(void *p, size_t size, unsigned flags)
{
	FH_CALL(cuMemHostRegister_v2(p, size, 0));
}

hipError_t hipHostUnregister(void *p)
{
	FH_CALL(cuMemHostUnregister(p));
}

hipError_t hipHostGetDevicePointer(void **d, void *p, unsigned flags)
{
	if (!d)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	FH_CALL(cuMemHostGetDevicePointer_v2((CUdeviceptr *)d, p, flags));
}

hipError_t hipMallocAsync(void **p, size_t size, hipStream_t stream)
{
	FH_CALL(cuMemAllocAsync((CUdeviceptr *)p, size, stream));
}

hipError_t hipFreeAsync(void *p, hipStream_t stream)
{
	FH_CALL(cuMemFreeAsync(FH_PTR(p), stream));
}

/* --- copies: where memory lies is known by its address --- */

hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind)
{
	if (kind < 0 || kind > HIP_COPY_DEFAULT)
		return fh_done(21); /* hipErrorInvalidMemcpyDirection */
	FH_CALL(cuMemcpy(FH_PTR(dst), FH_PTR(src), size));
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind, hipStream_t stream)
{
	if (kind < 0 || kind > HIP_COPY_DEFAULT)
		return fh_done(21);
	FH_CALL(cuMemcpyAsync(FH_PTR(dst), FH_PTR(src), size, stream));
}

hipError_t hipMemcpyWithStream(
	void *dst, const void *src, size_t size, int kind, hipStream_t stream)
{
	hipError_t rc = hipMemcpyAsync(dst, src, size, kind, stream);

	return rc ?: hipStreamSynchronize(stream);
}

hipError_t hipMemcpyHtoD(void *dst, void *src, size_t size)
{
	FH_CALL(cuMemcpyHtoD_v2(FH_PTR(dst), src, size));
}

hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size)
{
	FH_CALL(cuMemcpyDtoH_v2(dst, FH_PTR(src), size));
}

hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size)
{
	FH_CALL(cuMemcpyDtoD_v2(FH_PTR(dst), FH_PTR(src), size));
}

hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t size, hipStream_t stream)
{
	FH_CALL(cuMemcpyHtoDAsync_v2(FH_PTR(dst), src, size, stream));
}

hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, hipStream_t stream)
{
	FH_CALL(cuMemcpyDtoHAsync_v2(dst, FH_PTR(src), size, stream));
}

hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, hipStream_t stream)
{
	FH_CALL(cuMemcpyDtoDAsync_v2(FH_PTR(dst), FH_PTR(src), size, stream));
}

static struct cu_copy_2d shape(
	void *dst, size_t to, const void *src, size_t from, size_t width, size_t height)
{
	return (struct cu_copy_2d){.src_type = CU_MEMORY_UNIFIED,
		.src_device = FH_PTR(src),
		.src_pitch = from,
		.dst_type = CU_MEMORY_UNIFIED,
		.dst_device = FH_PTR(dst),
		.dst_pitch = to,
		.width = width,
		.height = height};
}

hipError_t hipMemcpy2D(
	void *dst, size_t to, const void *src, size_t from, size_t width, size_t height, int kind)
{
	struct cu_copy_2d c = shape(dst, to, src, from, width, height);

	FH_CALL(cuMemcpy2D_v2(&c));
}

hipError_t hipMemcpy2DAsync(void *dst, size_t to, const void *src, size_t from, size_t width,
	size_t height, int kind, hipStream_t stream)
{
	struct cu_copy_2d c = shape(dst, to, src, from, width, height);

	FH_CALL(cuMemcpy2DAsync_v2(&c, stream));
}

/* --- fills --- */

hipError_t hipMemset(void *dst, int value, size_t size)
{
	FH_CALL(cuMemsetD8_v2(FH_PTR(dst), (unsigned char)value, size));
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream)
{
	FH_CALL(cuMemsetD8Async(FH_PTR(dst), (unsigned char)value, size, stream));
}

hipError_t hipMemsetD8(void *dst, unsigned char value, size_t n)
{
	FH_CALL(cuMemsetD8_v2(FH_PTR(dst), value, n));
}

hipError_t hipMemsetD8Async(void *dst, unsigned char value, size_t n, hipStream_t stream)
{
	FH_CALL(cuMemsetD8Async(FH_PTR(dst), value, n, stream));
}

hipError_t hipMemsetD32(void *dst, int value, size_t n)
{
	FH_CALL(cuMemsetD32_v2(FH_PTR(dst), (unsigned)value, n));
}

hipError_t hipMemsetD32Async(void *dst, int value, size_t n, hipStream_t stream)
{
	FH_CALL(cuMemsetD32Async(FH_PTR(dst), (unsigned)value, n, stream));
}

HIP_MEMORY_API(FH_NOTHING, FH_SPT)
