/* SPDX-License-Identifier: Apache-2.0 */
/* HIP, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include "api/hip/core/core.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
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

static void judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%s%zu of %zu devices can be scheduled, for programs that are started with "
		"FERMATA_HIP=1: the shim for HIP has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable, n);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING, "hip", text,
		"see what trying them showed, below");
	if (doctor_preload(d, &tool_hip_preload) && usable &&
		preload_wanted(&tool_hip_preload, false))
		d->usable = true;
}

static void judge(struct doctor *d, const struct probe_result *result)
{
	const json_t *hip = probe_step(result, "hip");
	bool absent = json_is_true(json_object_get(hip, "absent"));

	if (absent && access(NODE, F_OK))
		return;
	if (json_object_get(hip, "error"))
		doctor_found(d, WARNING, "hip", cli_str(hip, "error"),
			absent ? "install the HIP runtime (Debian: libamdhip64-5)"
			       : "`rocminfo' shows whether there is a device, and who may use it");
	else
		judge_devices(d, result);
}

static void doctor(struct doctor *d)
{
	struct probe_result result;

	if (!has_hip())
		return;
	doctor_progress(d, "trying the devices of HIP...");
	if (probe_run("hip", NULL, NULL, &result))
		return;
	judge(d, &result);
	json_decref(result.lines);
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
