/* SPDX-License-Identifier: Apache-2.0 */
#include "guarded.h"
#include <stdlib.h>

/* Kernels of libraries whose blocks wait for each other, or for other devices. Most of them are
 * recognized by their code; these are their names in addition. */
static const char whole[] = "*ncclDevKernel*:*ncclKernel*:*[sS]tream[kK]*:*stream_k*:*DeviceScan*:"
			    "*Onesweep*:*DeviceSelect*:*DeviceReduceByKey*:*DevicePartition*:"
			    "*DeviceRunLengthEncode*:*nvshmem*";

bool fm_cuda_guard_list(const char *name, enum fm_guard_mode *mode)
{
	if (fm_listed(whole, name) || fm_listed(secure_getenv("FERMATA_GUARDIAN_GRID"), name))
		*mode = FM_GUARD_GRID;
	return fm_listed(secure_getenv("FERMATA_GUARDIAN_LEAVE"), name);
}

const char *fm_cuda_loops(void)
{
	const char *list = secure_getenv("FERMATA_GUARDIAN_LOOPS");

	return list && *list ? list : NULL;
}
