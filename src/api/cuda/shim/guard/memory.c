/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is given back, for which the driver waits until no kernel uses it. Guarded launches
 * may have to be made again, and the driver may hold locks while it waits that they need.
 */
#include "guarded.h"

#define FREE(symbol, type)                                                          \
	fm_cu_result symbol(type what)                                              \
	{                                                                           \
		struct fm_cu_turnstile *t =                                         \
			FM_LIKELY(!fm_cu_inside) ? fm_cuda_wait_begin(NULL) : NULL; \
		fm_cu_result rc = NEXT(FM_CUDA_##symbol, (type), (what));           \
                                                                                    \
		fm_cu_wait_end(t);                                                  \
		return rc;                                                          \
	}

FREE(cuMemFree, CUdeviceptr_v1)
FREE(cuMemFree_v2, CUdeviceptr)
FREE(cuMemFreeHost, void *)
FREE(cuMemHostUnregister, void *)
FREE(cuArrayDestroy, CUarray)
FREE(cuMipmappedArrayDestroy, struct CUmipmappedArray_st *)
