/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDLA, for the commands.
 *
 * Owns: nothing that lasts: the library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#include "api/cudla/core/types.h"
#include "doctor/on_request.h"
#include <dlfcn.h>

#define MOST 16u /* devices */

const struct fm_api fm_api_cudla;

static void try_devices(FILE *out)
{
	void *lib = probe_library(out, &fm_api_cudla);
	cudlaStatus (*count)(uint64_t *) = NULL;
	uint64_t n = 0;
	char name[64];
	cudlaStatus rc;

	if (!lib)
		return;
	*(void **)&count = dlsym(lib, "cudlaDeviceGetCount");
	rc = count ? count(&n) : FM_CUDLA_UNSUPPORTED;
	if (rc || !n) {
		probe_fails(out, &fm_api_cudla, "no device of cuDLA (error %d)", rc);
		return;
	}
	probe_begins(out, &fm_api_cudla);
	for (unsigned i = 0; i < n && i < MOST; i++) {
		snprintf(name, sizeof(name), "NVIDIA DLA %u", i);
		probe_device(out, &fm_api_cudla, name, "accelerator");
		probe_levels(
			out, 1u << 1, "submissions are held back; on CUDA streams as those are");
	}
}

static const struct on_request cudla = {
	.shim = {"libfermata-cudla.so", "cuDLA", "FERMATA_CUDLA"},
	.names = (const char *const[]){FM_CUDLA_LIBRARIES, NULL},
	.how = "",
	.look = "it is part of the software of NVIDIA's boards",
};

const struct fm_api fm_api_cudla = ON_REQUEST("cudla", &cudla, try_devices);
