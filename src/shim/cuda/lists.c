/* SPDX-License-Identifier: Apache-2.0 */
#include "guarded.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* A pattern of a list: so long at most; the rest of a longer one is not looked at. */
#define PATTERN_MAX 256

/* Kernels of libraries whose blocks wait for each other, or for other devices. That is seen in most
 * of them; here are their names besides. */
static const char whole[] = "*ncclDevKernel*:*ncclKernel*:*[sS]tream[kK]*:*stream_k*:*DeviceScan*:"
			    "*Onesweep*:*DeviceSelect*:*DeviceReduceByKey*:*DevicePartition*:"
			    "*DeviceRunLengthEncode*:*nvshmem*";

bool fm_cuda_listed(const char *list, const char *name)
{
	char pattern[PATTERN_MAX];

	while (list && *list) {
		size_t n = strcspn(list, ":");

		if (n && n < sizeof(pattern)) {
			memcpy(pattern, list, n);
			pattern[n] = '\0';
			if (!fnmatch(pattern, name, 0))
				return true;
		}
		list += n + (list[n] != '\0');
	}
	return false;
}

bool fm_cuda_guard_list(const char *name, enum fm_guard_mode *mode)
{
	if (fm_cuda_listed(whole, name) || fm_cuda_listed(getenv("FERMATA_GUARDIAN_GRID"), name))
		*mode = FM_GUARD_GRID;
	return fm_cuda_listed(getenv("FERMATA_GUARDIAN_LEAVE"), name);
}
