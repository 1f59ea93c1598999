/* SPDX-License-Identifier: Apache-2.0 */
/* Programs are given the layer by variables that Vulkan's loader reads. It ignores them in programs
 * with more rights than their user. */
#include "tool.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cli.h"
#include "cmd/inject.h"
#include "cmd/place.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wanted(void)
{
	const char *wish = getenv("FERMATA_VULKAN");

#ifdef FM_SANITIZED
	/* Only for a test whose programs have the sanitizer's runtime. */
	if (!getenv("FM_TEST_SHIM"))
		return false;
#endif
	return !wish || strcmp(wish, "0");
}

int tool_vulkan_find(char dir[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!place_file(TOOL_VULKAN_MANIFEST, dir, self)) {
		fm_err_set(err, -ENOENT,
			"Vulkan programs run unscheduled: cannot find " TOOL_VULKAN_MANIFEST
			" near %s",
			self);
		return fm_err_hint(err, "install Fermata's layer for Vulkan, set FERMATA_LIBDIR to "
					"the directory of its libraries, or give --no-vulkan");
	}
	*strrchr(dir, '/') = '\0';
	if (!strchr(dir, ':'))
		return 0;
	fm_err_set(err, -EINVAL, "Vulkan programs run unscheduled: the layer's path has a ':': %s",
		dir);
	return fm_err_hint(err, TOOL_VULKAN_ADD " is a list separated by ':'; install elsewhere");
}

/* Is this element in the list? */
static bool listed(const char *variable, const char *element)
{
	FM_CLEAN_FREE char *list = strdup(getenv(variable) ?: "");
	char *rest = NULL;

	for (char *p = list ? strtok_r(list, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest))
		if (!strcmp(p, element))
			return true;
	return false;
}

/* The list is in the order from the program to the driver. What the user asked for sees the
 * program's calls as they are, and ours come behind it. */
static int append(const char *variable, const char *element, struct fm_err *err)
{
	const char *others = getenv(variable) ?: "";
	FM_CLEAN_FREE char *list = NULL;

	if (listed(variable, element))
		return 0;
	if (asprintf(&list, "%s%s%s", others, *others ? ":" : "", element) < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	return inject_set(variable, list, err);
}

static int inject(const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err)
{
	const char *only = getenv(TOOL_VULKAN_ONLY);
	char dir[PATH_MAX];
	int rc;

	if (!wanted())
		return 0;
	/* Most programs use no Vulkan, and `fermata doctor` tells. */
	if (tool_vulkan_find(dir, err)) {
		if (getenv("FERMATA_VULKAN"))
			cli_report(err);
		return 0;
	}
	rc = append(only && *only ? TOOL_VULKAN_ONLY : TOOL_VULKAN_ADD, dir, err);
	return rc ? rc : append(TOOL_VULKAN_LAYERS, TOOL_VULKAN_LAYER, err);
}

static const struct fm_api_probe probes[] = {
	{"vulkan", tool_vulkan_probe},
	{"vulkan-layer", tool_vulkan_probe_layer},
	{0},
};

const struct fm_api fm_api_vulkan = {
	.name = "vulkan",
	.inject = inject,
	.installed = tool_vulkan_installed,
	.doctor = tool_vulkan_doctor,
	.probe = probes,
};
