/* SPDX-License-Identifier: Apache-2.0 */
/* Trying HIP's devices, in the probe's process. Besides the lines of doctor/probe.h:
 * {"step":"hip","error":...}, with "absent" where there is no runtime. */
#include "doctor/probe.h"
#include "api/hip/core/core.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>

static void *open_runtime(void)
{
	static const char *const names[] = {FM_HIP_RUNTIMES};
	void *lib = NULL;

	for (size_t i = 0; !lib && i < FM_ARRAY_LEN(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static bool load(struct fm_hip_driver *hip, void *lib, FILE *out)
{
	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b, s:s}", "step", "hip", "absent", true, "error",
					dlerror()));
		return false;
	}
#define LOAD(name, symbol, params) *(void **)&hip->name = dlsym(lib, symbol);
	FM_HIP_DRIVER(LOAD)
#undef LOAD
	if (fm_hip_driver_whole(hip))
		return true;
	probe_tell(out,
		json_pack("{s:s, s:s}", "step", "hip", "error", "the runtime is too old for us"));
	return false;
}

static void try_device(const struct fm_hip_driver *hip, int device, FILE *out)
{
	char name[256] = "-";
	bool holds;

	hip->device_name(name, sizeof(name) - 1, device);
	probe_tell(out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", name,
				"platform", "HIP", "version", "-", "type", "gpu"));
	holds = fm_hip_gates_hold(hip, device);
	probe_tell(out, json_pack("{s:s, s:o, s:s}", "step", "levels", "levels",
				holds ? json_pack("[i, i]", 1, 2) : json_pack("[i]", 1), "text",
				holds ? "streams stall at a closed gate and go on when it opens"
				      : "no stream stands at a gate: launches are held back"));
}

void tool_hip_probe(FILE *out)
{
	struct fm_hip_driver hip = {0};
	void *lib = open_runtime();
	hipError_t (*count)(int *) = NULL;
	char text[64];
	hipError_t rc;
	int n = 0;

	if (!load(&hip, lib, out))
		return;
	*(void **)&count = dlsym(lib, "hipGetDeviceCount");
	rc = count ? count(&n) : -1;
	if (rc || !n) {
		snprintf(text, sizeof(text), "no device of HIP (error %d)", rc);
		probe_tell(out, json_pack("{s:s, s:s}", "step", "hip", "error", text));
		return;
	}
	probe_tell(out, json_pack("{s:s}", "step", "hip"));
	for (int i = 0; i < n; i++)
		try_device(&hip, i, out);
}
