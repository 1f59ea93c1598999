/* SPDX-License-Identifier: Apache-2.0 */
/* AscendCL, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include "api/acl/core/core.h"
#include <stdio.h>
#include <unistd.h>

#define NODE "/dev/davinci_manager" /* of the driver of Ascend's devices */

const struct preload tool_acl_preload = {"libfermata-acl.so", "AscendCL", "FERMATA_ACL"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_acl_preload, false, err);
}

static void judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%s%zu of %zu devices can be scheduled, at level 1, for programs that are "
		"started "
		"with FERMATA_ACL=1: the shim for AscendCL has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable, n);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING, "acl", text,
		"see what trying them showed, below");
	if (doctor_preload(d, &tool_acl_preload) && usable &&
		preload_wanted(&tool_acl_preload, false))
		d->usable = true;
}

static void judge(struct doctor *d, const struct probe_result *result)
{
	const json_t *acl = probe_step(result, "acl");
	bool absent = json_is_true(json_object_get(acl, "absent"));

	if (absent && access(NODE, F_OK))
		return;
	if (json_object_get(acl, "error"))
		doctor_found(d, WARNING, "acl", cli_str(acl, "error"),
			absent ? "CANN's set_env.sh puts its libraries into LD_LIBRARY_PATH"
			       : "`npu-smi info' shows whether there is a device, and who may use "
				 "it");
	else
		judge_devices(d, result);
}

/* Where there is neither a device nor a library there is nothing to say. */
static void doctor(struct doctor *d)
{
	struct probe_result result;

	if (access(NODE, F_OK) && !preload_in_library_path(FM_ACL_LIBRARY))
		return;
	doctor_progress(d, "looking for the devices of AscendCL...");
	if (probe_run("acl", NULL, NULL, &result))
		return;
	judge(d, &result);
	json_decref(result.lines);
}

static const struct fm_api_probe probes[] = {
	{"acl", tool_acl_probe},
	{0},
};

const struct fm_api fm_api_acl = {
	.name = "acl",
	.inject = inject,
	.doctor = doctor,
	.probe = probes,
};
