/* SPDX-License-Identifier: Apache-2.0 */
/* cuDLA, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include <stdio.h>

const struct preload tool_cudla_preload = {"libfermata-cudla.so", "cuDLA", "FERMATA_CUDLA"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_cudla_preload, false, err);
}

static void judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%stasks can%s be scheduled, for programs that are started with "
		"FERMATA_CUDLA=1: the shim for cuDLA has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable ? "" : "not");
	doctor_found(d, usable && !*result->died ? GOOD : WARNING, "cudla", text,
		"see what trying them showed, below");
	if (doctor_preload(d, &tool_cudla_preload) && usable &&
		preload_wanted(&tool_cudla_preload, false))
		d->usable = true;
}

/* Where there is no library there is nothing to say. */
static void doctor(struct doctor *d)
{
	struct probe_result result;
	const json_t *cudla;

	doctor_progress(d, "trying the devices of cuDLA...");
	if (probe_run("cudla", NULL, NULL, &result))
		return;
	cudla = probe_step(&result, "cudla");
	if (json_object_get(cudla, "error"))
		doctor_found(d, WARNING, "cudla", cli_str(cudla, "error"),
			"it is part of the software of NVIDIA's boards");
	else if (!json_is_true(json_object_get(cudla, "absent")))
		judge_devices(d, &result);
	json_decref(result.lines);
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
