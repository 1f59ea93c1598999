/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"

const struct preload tool_ze_preload = {"libfermata-ze.so", "Level Zero", "FERMATA_LEVEL_ZERO"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_ze_preload, false, err);
}

/* Where there is no loader there is nothing to say. */
static void doctor(struct doctor *d)
{
	static const struct doctor_on_request on_request = {
		.shim = &tool_ze_preload,
		.probe = "ze",
		.check = "level zero",
		.how = "",
		.look = "a driver's package brings its devices (Debian: libze-intel-gpu1)",
	};

	doctor_on_request(d, &on_request);
}

static const struct fm_api_probe probes[] = {
	{"ze", tool_ze_probe},
	{0},
};

const struct fm_api fm_api_ze = {
	.name = "ze",
	.inject = inject,
	.doctor = doctor,
	.probe = probes,
};
