/* SPDX-License-Identifier: Apache-2.0 */
/* VPI, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include <stdio.h>

const struct preload tool_vpi_preload = {"libfermata-vpi.so", "VPI", "FERMATA_VPI"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_vpi_preload, false, err);
}

static void judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%sstreams can%s be scheduled, for programs that are started with "
		"FERMATA_VPI=1: the shim for VPI has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable ? "" : "not");
	doctor_found(d, usable && !*result->died ? GOOD : WARNING, "vpi", text,
		"see what trying them showed, below");
	if (doctor_preload(d, &tool_vpi_preload) && usable &&
		preload_wanted(&tool_vpi_preload, false))
		d->usable = true;
}

/* Where there is no library there is nothing to say. */
static void doctor(struct doctor *d)
{
	struct probe_result result;
	const json_t *vpi;

	doctor_progress(d, "trying VPI's backends...");
	if (probe_run("vpi", NULL, NULL, &result))
		return;
	vpi = probe_step(&result, "vpi");
	if (json_object_get(vpi, "error"))
		doctor_found(d, WARNING, "vpi", cli_str(vpi, "error"),
			"NVIDIA's package libnvvpi brings a newer one");
	else if (!json_is_true(json_object_get(vpi, "absent")))
		judge_devices(d, &result);
	json_decref(result.lines);
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
