/* SPDX-License-Identifier: Apache-2.0 */
/* cuDLA, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"

const struct preload tool_cudla_preload = {"libfermata-cudla.so", "cuDLA", "FERMATA_CUDLA"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_cudla_preload, false, err);
}

/* Where there is no library there is nothing to say. */
static void doctor(struct doctor *d)
{
	static const struct doctor_on_request on_request = {
		.shim = &tool_cudla_preload,
		.probe = "cudla",
		.check = "cudla",
		.how = "",
		.look = "it is part of the software of NVIDIA's boards",
	};

	doctor_on_request(d, &on_request);
}

static const struct fm_api_probe probes[] = {
	{"cudla", tool_cudla_probe},
	{0},
};

const struct fm_api fm_api_cudla = {
	.name = "cudla",
	.inject = inject,
	.doctor = doctor,
	.probe = probes,
};
