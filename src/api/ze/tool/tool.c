/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include <stdio.h>

const struct preload tool_ze_preload = {"libfermata-ze.so", "Level Zero", "FERMATA_LEVEL_ZERO"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_ze_preload, false, err);
}

static void judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%s%zu of %zu devices can be scheduled, for programs that are started with "
		"FERMATA_LEVEL_ZERO=1: the shim for Level Zero has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable, n);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING, "level zero", text,
		"see what trying them showed, below");
	if (doctor_preload(d, &tool_ze_preload) && usable &&
		preload_wanted(&tool_ze_preload, false))
		d->usable = true;
}

/* Where there is no loader there is nothing to say. */
static void doctor(struct doctor *d)
{
	struct probe_result result;
	const json_t *ze;

	doctor_progress(d, "trying the devices of Level Zero...");
	if (probe_run("ze", NULL, NULL, &result))
		return;
	ze = probe_step(&result, "ze");
	if (json_object_get(ze, "error"))
		doctor_found(d, WARNING, "level zero", cli_str(ze, "error"),
			"a driver's package brings its devices (Debian: libze-intel-gpu1)");
	else if (!json_is_true(json_object_get(ze, "absent")))
		judge_devices(d, &result);
	json_decref(result.lines);
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
