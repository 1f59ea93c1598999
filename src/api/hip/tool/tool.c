/* SPDX-License-Identifier: Apache-2.0 */
/* HIP, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include "api/hip/core/core.h"
#include <unistd.h>

#define NODE "/dev/kfd" /* of AMD's driver for computing */

const struct preload tool_hip_preload = {"libfermata-hip.so", "HIP", "FERMATA_HIP"};

/* May programs here use HIP: a device node of a driver that has it, or a runtime in
 * $LD_LIBRARY_PATH? */
static bool has_hip(void)
{
	static const char *const runtimes[] = {FM_HIP_RUNTIMES};
	bool has = !access(NODE, F_OK);

	for (size_t i = 0; !has && i < FM_ARRAY_LEN(runtimes); i++)
		has = preload_in_library_path(runtimes[i]);
	return has;
}

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_hip_preload, false, err);
}

static void doctor(struct doctor *d)
{
	static const struct doctor_on_request on_request = {
		.shim = &tool_hip_preload,
		.probe = "hip",
		.check = "hip",
		.how = "",
		.node = NODE,
		.get = "install the HIP runtime (Debian: libamdhip64-5)",
		.look = "`rocminfo' shows whether there is a device, and who may use it",
	};

	if (has_hip())
		doctor_on_request(d, &on_request);
}

static const struct fm_api_probe probes[] = {
	{"hip", tool_hip_probe},
	{0},
};

const struct fm_api fm_api_hip = {
	.name = "hip",
	.inject = inject,
	.doctor = doctor,
	.probe = probes,
};
