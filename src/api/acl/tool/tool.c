/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL, for the commands.
 *
 * Owns: nothing that lasts: a library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#include "api/acl/core/core.h"
#include "doctor/on_request.h"
#include <dlfcn.h>

const struct fm_api fm_api_acl;

static void try_devices(FILE *out)
{
	struct fm_acl_driver acl = {0};
	void *lib = probe_library(out, &fm_api_acl);
	aclError (*init)(const char *config) = NULL;
	aclError (*count)(uint32_t * n) = NULL;
	uint32_t n = 0;
	char name[128];
	aclError rc;

	if (!lib || !probe_driver(out, &fm_api_acl, lib, &fm_acl_owns, &acl))
		return;
	*(void **)&init = dlsym(lib, "aclInit");
	*(void **)&count = dlsym(lib, "aclrtGetDeviceCount");
	rc = init && count ? init(NULL) ?: count(&n) : -1;
	if (rc || !n) {
		probe_fails(out, &fm_api_acl, "no device of AscendCL (error %d)", rc);
		return;
	}
	probe_begins(out, &fm_api_acl);
	for (uint32_t i = 0; i < n; i++) {
		fm_acl_device_key(&acl, (int32_t)i, name, sizeof(name));
		probe_device(out, &fm_api_acl, name, "npu");
		probe_levels(out, 1u << 1, "launches are held back");
	}
}

static const struct on_request acl = {
	.shim = {"libfermata-acl.so", "AscendCL", "FERMATA_ACL"},
	.names = (const char *const[]){FM_ACL_LIBRARY, NULL},
	.how = ", at level 1",
	.node = "/dev/davinci_manager", /* of the driver of Ascend's devices */
	.get = "CANN's set_env.sh puts its libraries into LD_LIBRARY_PATH",
	.look = "`npu-smi info' shows whether there is a device, and who may use it",
};

const struct fm_api fm_api_acl = ON_REQUEST("acl", &acl, try_devices);
