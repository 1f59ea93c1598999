/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL: the loader, its devices, and whether it loads the layer. */
#include "base/err.h"
#include "doctor/probe.h"
#include "tool.h"
#include <limits.h>
#include <string.h>

void tool_opencl_installed(struct doctor *d)
{
	struct fm_err err = {0};
	char layer[PATH_MAX];

	if (!tool_opencl_layer(layer, &err))
		doctor_found(d, GOOD, "layer", layer, NULL);
	else
		doctor_found(d, BAD, "layer", err.text, err.hint);
}

/* The verdict on a fault of OpenCL: a warning if another API works. */
static enum verdict without_opencl(const struct doctor *d)
{
	return d->usable ? WARNING : BAD;
}

/* Can a device be scheduled? */
static bool judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	json_t *last = n ? json_array_get(d->devices, json_array_size(d->devices) - 1) : NULL;
	char text[256];

	if (*result->died) {
		snprintf(text, sizeof(text), "trying %s: the driver %s",
			last ? cli_str(last, "name") : "OpenCL", result->died);
		doctor_found(d, usable ? WARNING : without_opencl(d), "devices", text,
			"`clinfo' shows whether it works without Fermata; update the driver");
	} else if (!n) {
		doctor_found(d, without_opencl(d), "devices", "OpenCL has no device",
			"install the driver of your device; pocl-opencl-icd makes the processor "
			"one");
	} else {
		snprintf(text, sizeof(text), "%zu of %zu can be scheduled", usable, n);
		doctor_found(d,
			usable == n ? GOOD
			: usable    ? WARNING
				    : without_opencl(d),
			"devices", text, "see what trying them showed, below; update the driver");
	}
	return usable > 0;
}

static bool check_opencl(struct doctor *d)
{
	bool usable = false;
	struct probe_result result;
	const json_t *loader;

	doctor_progress(d, "trying the devices of OpenCL...");
	if (probe_run("opencl", LAYERS, NULL, &result)) {
		doctor_found(d, without_opencl(d), "opencl", "cannot run a process to try it",
			"free memory, then try again");
		return false;
	}
	loader = probe_step(&result, "loader");
	if (!loader) {
		doctor_found(d, without_opencl(d), "opencl",
			*result.died ? result.died : "the loader does not load",
			"reinstall libOpenCL.so.1 (Debian: ocl-icd-libopencl1)");
	} else if (json_object_get(loader, "error")) {
		doctor_found(d, without_opencl(d), "opencl", cli_str(loader, "error"),
			"install an OpenCL loader (Debian: ocl-icd-libopencl1)");
	} else {
		doctor_found(d, GOOD, "opencl", cli_str(loader, "path"), NULL);
		usable = judge_devices(d, &result);
	}
	json_decref(result.lines);
	return usable;
}

/* The loader must load the layer, and devices must work with it as they do without it. */
static void judge_layer(struct doctor *d, const struct probe_result *result)
{
	const json_t *layer = probe_step(result, "layer");
	size_t tried = 0, i;
	json_t *line;

	json_array_foreach (result->lines, i, line)
		tried += !strcmp(cli_str(line, "step"), "levels") &&
			 json_array_size(json_object_get(line, "levels")) > 0;
	if (!layer && *result->died)
		doctor_found(d, without_opencl(d), "layers", result->died,
			"reinstall fermata; its layer does not load");
	else if (!json_is_true(json_object_get(layer, "loaded")))
		doctor_found(d, without_opencl(d), "layers",
			"the OpenCL loader ignores OPENCL_LAYERS",
			"install ocl-icd 2.3 or newer, or the Khronos loader, as libOpenCL.so.1");
	else if (*result->died || !tried)
		doctor_found(d, without_opencl(d), "layers",
			*result->died ? result->died : "no device works under the layer",
			"please report it, with the output of clinfo");
	else
		doctor_found(d, GOOD, "layers",
			"the OpenCL loader loads the layer, and devices work under it", NULL);
}

static void check_layers(struct doctor *d, const char *layer)
{
	struct probe_result result;

	doctor_progress(d, "trying them under the layer...");
	if (probe_run("layer", LAYERS, layer, &result)) {
		doctor_found(d, without_opencl(d), "layers", "cannot run a process to try them",
			"free memory, then try again");
		return;
	}
	judge_layer(d, &result);
	json_decref(result.lines);
}

void tool_opencl_doctor(const struct fm_api *api, struct doctor *d)
{
	char layer[PATH_MAX];
	struct fm_err err = {0};

	if (check_opencl(d) && !tool_opencl_layer(layer, &err))
		check_layers(d, layer);
}
