/* SPDX-License-Identifier: Apache-2.0 */
/* Vulkan: its devices, and whether its loader loads our layer. */
#include "base/cleanup.h"
#include "base/err.h"
#include "doctor/probe.h"
#include "tool.h"
#include <stdlib.h>
#include <string.h>

void tool_vulkan_installed(struct doctor *d)
{
	struct fm_err err = {0};
	char dir[PATH_MAX];

	if (tool_vulkan_find(dir, &err))
		doctor_found(d, WARNING, "Vulkan layer", err.text, err.hint);
	else
		doctor_found(d, GOOD, "Vulkan layer", dir, NULL);
}

static size_t judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	json_t *last = n ? json_array_get(d->devices, json_array_size(d->devices) - 1) : NULL;
	char text[384];

	if (*result->died)
		snprintf(text, sizeof(text), "trying %s: the driver %s",
			last ? cli_str(last, "name") : "Vulkan", result->died);
	else
		snprintf(text, sizeof(text), "%zu of %zu devices can be scheduled", usable, n);
	doctor_found(d, usable == n && !*result->died ? GOOD : WARNING, "Vulkan", text,
		"`vulkaninfo --summary' shows whether it works without Fermata; update the driver");
	return usable;
}

/* Its devices must work through the layer as they do without it. */
static void judge_layer(struct doctor *d, const struct probe_result *result)
{
	const json_t *vulkan = probe_step(result, "vulkan");

	if (*result->died || !vulkan || json_object_get(vulkan, "error"))
		doctor_found(d, WARNING, "Vulkan layer",
			*result->died ? result->died
			: vulkan      ? cli_str(vulkan, "error")
				      : "nothing came of trying it",
			"programs run unscheduled or not at all under it: give --no-vulkan, and "
			"please report it with the output of `vulkaninfo --summary'");
	else
		d->usable = true;
}

static void check_layer(struct doctor *d, const char *dir)
{
	const char *only = getenv(TOOL_VULKAN_ONLY), *add = getenv(TOOL_VULKAN_ADD);
	bool replaced = only && *only;
	const char *others = replaced ? only : add ?: "";
	FM_CLEAN_FREE char *list = NULL;
	struct probe_result result;

	if (asprintf(&list, "%s%s%s", others, *others ? ":" : "", dir) < 0)
		return;
	doctor_progress(d, "trying them under the layer...");
	if (probe_run("vulkan-layer", replaced ? TOOL_VULKAN_ONLY : TOOL_VULKAN_ADD, list, &result))
		return;
	judge_layer(d, &result);
	json_decref(result.lines);
}

/* Most programs use no Vulkan: that there is no loader, or no device, is no fault. */
void tool_vulkan_doctor(const struct fm_api *api, struct doctor *d)
{
	struct fm_err err = {0};
	struct probe_result result;
	const json_t *vulkan;
	char dir[PATH_MAX];
	size_t usable = 0;

	doctor_progress(d, "trying the devices of Vulkan...");
	if (probe_run("vulkan", TOOL_VULKAN_LAYERS, NULL, &result))
		return;
	vulkan = probe_step(&result, "vulkan");
	if (json_is_true(json_object_get(vulkan, "absent")))
		;
	else if (json_object_get(vulkan, "error"))
		doctor_found(d, GOOD, "Vulkan", cli_str(vulkan, "error"), NULL);
	else
		usable = judge_devices(d, &result);
	json_decref(result.lines);
	if (usable && !tool_vulkan_find(dir, &err))
		check_layer(d, dir);
}
