/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that end contexts, and what is in them; and those that give memory to other processes.
 */
#include "calls.h"

/* Handles and addresses may mean something else behind it: a table of ours would then be written
 * into memory of the program's. */
#define ENDS(symbol)                            \
	fm_cu_result symbol(CUcontext ctx)      \
	{                                       \
		if (fm_record_alone()) {        \
			fm_record_forget(ctx);  \
			fm_record_alone_over(); \
		}                               \
		return NEXT(symbol, (ctx));     \
	}
ENDS(cuCtxDestroy)
ENDS(cuCtxDestroy_v2)
ENDS(cuCtxDetach)

/* Is the device's primary context still in use? */
static bool is_alive(CUdevice dev)
{
	const struct fm_record_driver *cu = fm_record_driver();
	unsigned flags;
	int active;

	return cu && cu->primary_state && !cu->primary_state(dev, &flags, &active) && active;
}

#define ENDS_OF_DEVICE(symbol, stays)                  \
	fm_cu_result symbol(CUdevice dev)              \
	{                                              \
		bool alone = fm_record_alone();        \
		fm_cu_result rc = NEXT(symbol, (dev)); \
                                                       \
		if (alone && !rc && !(stays))          \
			fm_record_forget(NULL);        \
		if (alone)                             \
			fm_record_alone_over();        \
		return rc;                             \
	}
ENDS_OF_DEVICE(cuDevicePrimaryCtxRelease, is_alive(dev))
ENDS_OF_DEVICE(cuDevicePrimaryCtxRelease_v2, is_alive(dev))
ENDS_OF_DEVICE(cuDevicePrimaryCtxReset, false)
ENDS_OF_DEVICE(cuDevicePrimaryCtxReset_v2, false)

#define GIVES_AWAY(symbol, params, args)              \
	fm_cu_result symbol params                    \
	{                                             \
		fm_cu_result rc = NEXT(symbol, args); \
                                                      \
		if (!rc)                              \
			fm_record_exported();         \
		return rc;                            \
	}
GIVES_AWAY(cuIpcGetMemHandle, (struct fm_cu_ipc_handle * handle, CUdeviceptr p), (handle, p))
GIVES_AWAY(cuMemGetHandleForAddressRange,
	(void *handle, CUdeviceptr p, size_t size, int type, unsigned long long flags),
	(handle, p, size, type, flags))
GIVES_AWAY(cuMemPoolExportToShareableHandle,
	(void *handle, CUmemoryPool pool, int type, unsigned long long flags),
	(handle, pool, type, flags))
