/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that give memory back. The driver waits in them until no kernel uses the memory. It may
 * hold locks meanwhile that guarded launches need in order to be made again.
 */
#include "guarded.h"

#define ON_release(symbol, per_thread, name, since, note, params, handle)           \
	fm_cu_result symbol CALL_PARAMS(params)                                     \
	{                                                                           \
		struct fm_cu_turnstile *t =                                         \
			FM_LIKELY(!fm_cu_inside) ? fm_cuda_wait_begin(NULL) : NULL; \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params));                  \
                                                                                    \
		fm_cu_wait_end(t);                                                  \
		return rc;                                                          \
	}
#include "api/cuda/calls.def"
