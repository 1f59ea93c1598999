/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"
#include "base/err.h"
#include "cmd/inject.h"
#include "cmd/place.h"
#include <errno.h>
#include <string.h>

int tool_opencl_layer(char path[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!place_file(TOOL_OPENCL_LAYER, path, self)) {
		fm_err_set(err, -ENOENT, "cannot find " TOOL_OPENCL_LAYER " near %s", self);
		return fm_err_hint(err, "install it again, or set FERMATA_LIBDIR to its directory");
	}
	if (!strchr(path, ':'))
		return 0;
	fm_err_set(err, -ENOTSUP, "the path of the layer has a ':' in it: %s", path);
	return fm_err_hint(err, LAYERS " is a list separated by ':'; install elsewhere");
}

static int check(struct fm_err *err)
{
	char path[PATH_MAX];

	return inject_has(LAYERS, ":", TOOL_OPENCL_LAYER) ? 0 : tool_opencl_layer(path, err);
}

int tool_opencl_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err)
{
	char path[PATH_MAX];
	int rc;

	(void)wishes;
	if (inject_has(LAYERS, ":", TOOL_OPENCL_LAYER))
		return 0;
	rc = tool_opencl_layer(path, err);
	return rc ? rc : inject_first(LAYERS, path, err);
}

static const struct fm_api_probe probes[] = {
	{"opencl", tool_opencl_probe},
	{"layer", tool_opencl_probe_layer},
	{0},
};

const struct fm_api fm_api_opencl = {
	.name = "opencl",
	.check = check,
	.inject = tool_opencl_inject,
	.installed = tool_opencl_installed,
	.doctor = tool_opencl_doctor,
	.probe = probes,
	.load = &tool_opencl_load,
};
