/* SPDX-License-Identifier: Apache-2.0 */
/* AscendCL, for the commands: which programs are given its shim, and what doctor says of it. */
#include "tool.h"
#include "api/acl/core/core.h"
#include <unistd.h>

#define NODE "/dev/davinci_manager" /* of the driver of Ascend's devices */

const struct preload tool_acl_preload = {"libfermata-acl.so", "AscendCL", "FERMATA_ACL"};

/* Only on request: the shim has been tested on no hardware. */
static int inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	return preload_inject(&tool_acl_preload, false, err);
}

/* Where there is neither a device nor a library there is nothing to say. */
static void doctor(struct doctor *d)
{
	static const struct doctor_on_request on_request = {
		.shim = &tool_acl_preload,
		.probe = "acl",
		.check = "acl",
		.how = ", at level 1",
		.node = NODE,
		.get = "CANN's set_env.sh puts its libraries into LD_LIBRARY_PATH",
		.look = "`npu-smi info' shows whether there is a device, and who may use it",
	};

	if (!access(NODE, F_OK) || preload_in_library_path(FM_ACL_LIBRARY))
		doctor_on_request(d, &on_request);
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
