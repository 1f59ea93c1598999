/* SPDX-License-Identifier: Apache-2.0 */
/* Where the shim for CUDA lies, and how programs are given it. */
#include "cmd/inject.h"
#include "cmd/preload.h"
#include "tool.h"
#include <stdlib.h>
#include <unistd.h>

const struct preload tool_cuda_preload = {"libfermata-cuda.so", "CUDA", "FERMATA_CUDA"};

/* May programs here use CUDA: a device node of a driver that has it, or what makes one when it is
 * first used, or a driver in $LD_LIBRARY_PATH? */
static bool has_cuda(void)
{
	/* Windows below Linux; NVIDIA's devices that have no bus of their own; and where there is
	 * no node yet, a driver that has one made, by a program with more rights, when it is first
	 * used. */
	static const char *const nodes[] = {TOOL_CUDA_NODE, "/dev/nvidia-uvm", "/dev/dxg",
		"/dev/nvmap", "/proc/driver/nvidia/version", "/usr/bin/nvidia-modprobe"};

	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!access(nodes[i], F_OK))
			return true;
	return preload_in_library_path("libcuda.so.1");
}

/* Each guarded stream has two more: with few channels of the driver's to share, they would wait for
 * each other. */
static int set_guardian(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	int rc = inject_set("FERMATA_GUARDIAN", "1", err);

	if (!rc && wishes->loops)
		rc = inject_set("FERMATA_GUARDIAN_LOOPS", wishes->loops, err);
	if (!rc && wishes->kill)
		rc = inject_set("FERMATA_GUARDIAN_KILL", wishes->kill, err);
	if (!rc && !getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
		rc = inject_set("CUDA_DEVICE_MAX_CONNECTIONS", "32", err);
	return rc;
}

int tool_cuda_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err)
{
	int rc = wishes->guardian ? set_guardian(wishes, err) : 0;

	if (!rc && wishes->partition)
		rc = inject_set("FERMATA_PARTITION", wishes->partition, err);
	if (!rc && wishes->by_stream_priority)
		rc = inject_set("FERMATA_BY_STREAM_PRIORITY", "1", err);
	return rc ? rc
		  : preload_inject(&tool_cuda_preload,
			    wishes->guardian || wishes->partition || wishes->by_stream_priority ||
				    has_cuda(),
			    err);
}
