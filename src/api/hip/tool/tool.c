/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HIP, for the commands.
 *
 * Owns: nothing that lasts: a driver is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#include "api/hip/core/core.h"
#include "doctor/on_request.h"
#include <dlfcn.h>

const struct fm_api fm_api_hip;

static void try_device(const struct fm_hip_driver *hip, int device, FILE *out)
{
	const uint64_t stand = probe_stand();
	char name[256] = "-", what[FM_PROOF_TEXT];
	bool holds;

	hip->device_name(name, sizeof(name) - 1, device);
	probe_device(out, &fm_api_hip, name, "gpu");
	holds = fm_hip_gates_hold(hip, device);
	fm_hip_proof(hip, device, what, sizeof(what));
	probe_unproven(out, holds ? 1u << 2 | 1u << 1 : 1u << 1,
		holds ? "streams stall at a closed gate and go on when it opens"
		      : "no stream stands at a gate: launches are held back",
		what, holds && stand && fm_hip_gates_stand(hip, device, stand));
}

static void try_devices(FILE *out)
{
	struct fm_hip_driver hip = {0};
	void *lib = probe_library(out, &fm_api_hip);
	hipError_t (*count)(int *) = NULL;
	hipError_t rc;
	int n = 0;

	if (!lib || !probe_driver(out, &fm_api_hip, lib, &fm_hip_owns, &hip))
		return;
	*(void **)&count = dlsym(lib, "hipGetDeviceCount");
	rc = count ? count(&n) : -1;
	if (rc || !n) {
		probe_fails(out, &fm_api_hip, "no device of HIP (error %d)", rc);
		return;
	}
	probe_begins(out, &fm_api_hip);
	for (int i = 0; i < n; i++)
		try_device(&hip, i, out);
}

static const struct on_request hip = {
	.shim = {"libfermata-hip.so", "HIP", "FERMATA_HIP"},
	.names = (const char *const[]){FM_HIP_RUNTIMES, NULL},
	.how = "",
	.node = "/dev/kfd", /* of AMD's driver for computing */
	.get = "install the HIP runtime (Debian: libamdhip64-5)",
	.look = "`rocminfo' shows whether there is a device, and who may use it",
};

const struct fm_api fm_api_hip = ON_REQUEST("hip", &hip, try_devices);
