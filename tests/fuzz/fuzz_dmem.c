/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as dmem.max, and as /proc/PID/cgroup: what is found is sound, whoever wrote it. */
#include "daemon/cgroups.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_bridge_dmem dmem[FM_BRIDGE_REGIONS];
	char path[CGROUP_PATH_MAX], *text = malloc(size + 1);
	int n;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	n = cgroups_dmem(text, dmem, FM_BRIDGE_REGIONS);
	must(n <= FM_BRIDGE_REGIONS);
	for (int i = 0; i < n; i++) {
		must(fm_mem_is_bus(dmem[i].bus) && dmem[i].most != UINT64_MAX);
		for (int k = 0; k < i; k++)
			must(strcmp(dmem[i].bus, dmem[k].bus) != 0);
	}
	if (!cgroups_path(text, path, sizeof(path)))
		must(*path == '/' && !strchr(path, '\n') && !strstr(path, "/../"));
	free(text);
	return 0;
}
