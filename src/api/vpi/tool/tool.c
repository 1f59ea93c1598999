/* SPDX-License-Identifier: Apache-2.0 */
/* VPI, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"

const struct preload tool_vpi_preload = {"libfermata-vpi.so", "VPI", "FERMATA_VPI"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_vpi_preload, false, err);
}

/* Where there is no library there is nothing to say. */
static void doctor(struct doctor *d)
{
	static const struct doctor_on_request on_request = {
		.shim = &tool_vpi_preload,
		.probe = "vpi",
		.check = "vpi",
		.how = ", at level 1",
		.look = "NVIDIA's package libnvvpi brings a newer one",
	};

	doctor_on_request(d, &on_request);
}

static const struct fm_api_probe probes[] = {
	{"vpi", tool_vpi_probe},
	{0},
};

const struct fm_api fm_api_vpi = {
	.name = "vpi",
	.inject = inject,
	.doctor = doctor,
	.probe = probes,
};
