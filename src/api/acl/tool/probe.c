/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for AscendCL's devices, in the probe's process. Besides the lines of doctor/probe.h:
 * {"step":"acl"}, with "absent" where there is no library, or with an "error". */
#include "doctor/probe.h"
#include "api/acl/core/core.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>

/* What only a program that chooses devices needs. */
static struct {
	aclError (*init)(const char *config);
	aclError (*count)(uint32_t *n);
} choose;

static bool load(struct fm_acl_driver *acl, void *lib, FILE *out)
{
	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b, s:s}", "step", "acl", "absent", true, "error",
					dlerror()));
		return false;
	}
#define LOAD(name, symbol, params) *(void **)&acl->name = dlsym(lib, symbol);
	FM_ACL_DRIVER(LOAD)
#undef LOAD
	*(void **)&acl->soc_name = dlsym(lib, "aclrtGetSocName");
	*(void **)&choose.init = dlsym(lib, "aclInit");
	*(void **)&choose.count = dlsym(lib, "aclrtGetDeviceCount");
	if (fm_acl_driver_whole(acl) && choose.init && choose.count)
		return true;
	probe_tell(out,
		json_pack("{s:s, s:s}", "step", "acl", "error", "the library is too old for us"));
	return false;
}

void tool_acl_probe(FILE *out)
{
	struct fm_acl_driver acl = {0};
	uint32_t n = 0;
	char text[128];
	aclError rc;

	if (!load(&acl, dlopen(FM_ACL_LIBRARY, RTLD_NOW | RTLD_LOCAL), out))
		return;
	rc = choose.init(NULL) ?: choose.count(&n);
	if (rc || !n) {
		snprintf(text, sizeof(text), "no device of AscendCL (error %d)", rc);
		probe_tell(out, json_pack("{s:s, s:s}", "step", "acl", "error", text));
		return;
	}
	probe_tell(out, json_pack("{s:s}", "step", "acl"));
	for (uint32_t i = 0; i < n; i++) {
		fm_acl_device_key(&acl, (int32_t)i, text, sizeof(text));
		probe_tell(
			out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", text,
				     "platform", "AscendCL", "version", "-", "type", "npu"));
		probe_tell(out, json_pack("{s:s, s:[i], s:s}", "step", "levels", "levels", 1,
					"text", "launches are held back"));
	}
}
