/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says of unified memory. It stays where it is, and other memory is none. */
#include "fake.h"

static bool is_unified(CUdeviceptr at, size_t n)
{
	const char *p = (const char *)(uintptr_t)at;
	struct fk_memory b;

	return n && fk_memory_find(p, &b) && b.managed &&
	       (size_t)(p - (const char *)b.p) <= b.size - n && n <= b.size;
}

static fm_cu_result of_unified(CUdeviceptr at, size_t n)
{
	FK_TRY(fk_enter_ctx());
	return fk_leave(is_unified(at, n) ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

enum { ADVICE_MOST = 6, CPU = -1 };

fm_cu_result cuMemAdvise(CUdeviceptr at, size_t n, int advice, CUdevice dev)
{
	if (advice < 1 || advice > ADVICE_MOST || dev < CPU)
		return FM_CU_ERROR_INVALID_VALUE;
	return of_unified(at, n);
}

fm_cu_result cuMemAdvise_v2(CUdeviceptr at, size_t n, int advice, struct cu_location to)
{
	if (advice < 1 || advice > ADVICE_MOST || to.type < CU_LOCATION_DEVICE)
		return FM_CU_ERROR_INVALID_VALUE;
	return of_unified(at, n);
}

static fm_cu_result prefetch(CUdeviceptr at, size_t n, CUstream stream)
{
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_enter_ctx());
	rc = fk_stream_find(stream, &s);
	if (!rc && !is_unified(at, n))
		rc = FM_CU_ERROR_INVALID_VALUE;
	return fk_leave(rc);
}

fm_cu_result cuMemPrefetchAsync(CUdeviceptr at, size_t n, CUdevice to, CUstream stream)
{
	return to < CPU ? FM_CU_ERROR_INVALID_VALUE : prefetch(at, n, stream);
}

fm_cu_result cuMemPrefetchAsync_v2(
	CUdeviceptr at, size_t n, struct cu_location to, unsigned flags, CUstream stream)
{
	if (flags || to.type < CU_LOCATION_DEVICE)
		return FM_CU_ERROR_INVALID_VALUE;
	return prefetch(at, n, stream);
}
