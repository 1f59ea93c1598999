/* SPDX-License-Identifier: Apache-2.0 */
/* What cuDLA's library says of the machine, in the probe's process. Besides the lines of
 * doctor/probe.h: {"step":"cudla"}, with "absent" where there is no library, or with an "error". */
#include "doctor/probe.h"
#include "api/cudla/core/types.h"
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>

#define MOST 16u /* devices */

void tool_cudla_probe(FILE *out)
{
	static const char *const names[] = {FM_CUDLA_LIBRARIES};
	cudlaStatus (*count)(uint64_t *) = NULL;
	void *lib = NULL;
	uint64_t n = 0;
	char text[64];
	cudlaStatus rc;

	for (size_t i = 0; !lib && i < FM_ARRAY_LEN(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b}", "step", "cudla", "absent", true));
		return;
	}
	*(void **)&count = dlsym(lib, "cudlaDeviceGetCount");
	rc = count ? count(&n) : FM_CUDLA_UNSUPPORTED;
	if (rc || !n) {
		snprintf(text, sizeof(text), "no device of cuDLA (error %d)", rc);
		probe_tell(out, json_pack("{s:s, s:s}", "step", "cudla", "error", text));
		return;
	}
	probe_tell(out, json_pack("{s:s}", "step", "cudla"));
	for (unsigned i = 0; i < n && i < MOST; i++) {
		snprintf(text, sizeof(text), "NVIDIA DLA %u", i);
		probe_tell(
			out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", text,
				     "platform", "cuDLA", "version", "-", "type", "accelerator"));
		probe_tell(
			out, json_pack("{s:s, s:[i], s:s}", "step", "levels", "levels", 1, "text",
				     "submissions are held back; on CUDA streams as those are"));
	}
}
