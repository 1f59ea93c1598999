/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, copies and fills, code and launches. The host reaches all memory. */
#include "fake.h"
#include <string.h>

static fm_cu_result allocate(void **p, size_t size)
{
	FA_RELAXED(cuMemAlloc_v2((CUdeviceptr *)p, size));
}

aclError aclrtMalloc(void **p, size_t size, int policy)
{
	FA_CALL(p && size ? allocate(p, size) : FM_CU_ERROR_INVALID_VALUE);
}

static fm_cu_result release(void *p)
{
	FA_RELAXED(cuMemFree_v2(FA_PTR(p)));
}

aclError aclrtFree(void *p)
{
	FA_CALL(release(p));
}

aclError aclrtMallocHost(void **p, size_t size)
{
	FA_CALL(p && size ? cuMemHostAlloc(p, size, 0) : FM_CU_ERROR_INVALID_VALUE);
}

aclError aclrtFreeHost(void *p)
{
	FA_CALL(cuMemFreeHost(p));
}

aclError aclrtHostRegister(void *p, uint64_t size, int type, void **device)
{
	FA_CALL(type || !device ? FM_CU_ERROR_INVALID_VALUE
				: (*device = p, cuMemHostRegister_v2(p, size, 0)));
}

aclError aclrtHostUnregister(void *p)
{
	FA_CALL(cuMemHostUnregister(p));
}

aclError aclrtHostGetDevicePointer(void *p, void **device, uint32_t flags)
{
	FA_CALL(cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, p, flags));
}

/* --- at once --- */

/* Captures forbid it. */
static fm_cu_result at_once(void)
{
	fm_cu_result rc;

	FK_TRY(fk_enter_ctx());
	rc = fk_unsafe();
	return fk_leave(rc);
}

static fm_cu_result copy(void *dst, size_t room, const void *src, size_t n)
{
	if (!dst || !src || n > room)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(at_once());
	memmove(dst, src, n);
	return FM_CU_SUCCESS;
}

aclError aclrtMemcpy(void *dst, size_t room, const void *src, size_t n, int kind)
{
	FA_CALL(copy(dst, room, src, n));
}

static fm_cu_result fill(void *dst, size_t room, int32_t value, size_t n)
{
	if (!dst || n > room)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(at_once());
	memset(dst, value, n);
	return FM_CU_SUCCESS;
}

aclError aclrtMemset(void *dst, size_t room, int32_t value, size_t n)
{
	FA_CALL(fill(dst, room, value, n));
}

/* --- in a stream --- */

/* From and to memory that is not pinned it returns when it is done, which captures forbid. */
static fm_cu_result copy_async(
	void *dst, size_t room, const void *src, size_t n, int kind, CUstream s)
{
	if (!dst || !src || n > room)
		return FM_CU_ERROR_INVALID_VALUE;
	if (kind == ACL_COPY_H2H)
		return FM_CU_ERROR_NOT_SUPPORTED;
	return cuMemcpyAsync(FA_PTR(dst), FA_PTR(src), n, s);
}

aclError aclrtMemcpyAsync(
	void *dst, size_t room, const void *src, size_t n, int kind, aclrtStream stream)
{
	FA_IN_STREAM(stream, copy_async(dst, room, src, n, kind, s));
}

aclError aclrtMemsetAsync(void *dst, size_t room, int32_t value, size_t n, aclrtStream stream)
{
	FA_IN_STREAM(stream, n > room ? FM_CU_ERROR_INVALID_VALUE
				      : cuMemsetD8Async(FA_PTR(dst), (unsigned char)value, n, s));
}

aclError aclrtMemsetD32Async(void *dst, size_t room, uint32_t value, size_t n, aclrtStream stream)
{
	FA_IN_STREAM(stream, 4 * n > room ? FM_CU_ERROR_INVALID_VALUE
					  : cuMemsetD32Async(FA_PTR(dst), value, n, s));
}

/* --- code --- */

aclError aclrtBinaryLoadFromData(
	const void *data, size_t size, const void *options, aclrtBinHandle *binary)
{
	FA_CALL(cuModuleLoadData((CUmodule *)binary, data));
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binary)
{
	FA_CALL(cuModuleUnload(binary));
}

aclError aclrtBinaryGetFunction(aclrtBinHandle binary, const char *name, aclrtFuncHandle *f)
{
	FA_CALL(cuModuleGetFunction((CUfunction *)f, binary, name));
}

/* A block is one thread. */
aclError aclrtLaunchKernelWithArgsArray(
	void *f, uint32_t blocks, aclrtStream stream, void *cfg, void **args)
{
	FA_IN_STREAM(stream, cuLaunchKernel(f, blocks, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

aclError aclrtLaunchSIMTKernelWithArgsArray(void *f, acl_dim3 grid, acl_dim3 block, size_t ub,
	aclrtStream stream, void *cfg, void **args)
{
	FA_IN_STREAM(stream, cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
				     (unsigned)ub, s, args, NULL));
}
