/* SPDX-License-Identifier: Apache-2.0 */
/* Trying Level Zero's devices, in the probe's process. Besides the lines of doctor/probe.h:
 * {"step":"ze"}, with "absent" where there is no loader, or with an "error". */
#include "doctor/probe.h"
#include "api/ze/core/core.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 16 /* drivers, and devices of one */

/* What only a program that chooses devices needs. */
static struct {
	ze_result_t (*init)(uint32_t flags);
	ze_result_t (*drivers)(uint32_t *n, ze_driver_handle_t *drivers);
	ze_result_t (*devices)(ze_driver_handle_t driver, uint32_t *n, ze_device_handle_t *devices);
	ze_result_t (*context)(ze_driver_handle_t driver, const struct fm_ze_context_desc *desc,
		ze_context_handle_t *context);
} choose;

static bool load(struct fm_ze_driver *ze, void *lib, FILE *out)
{
	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b}", "step", "ze", "absent", true));
		return false;
	}
#define LOAD(name, symbol, params) *(void **)&ze->name = dlsym(lib, symbol);
	FM_ZE_DRIVER(LOAD)
#undef LOAD
	*(void **)&choose.init = dlsym(lib, "zeInit");
	*(void **)&choose.drivers = dlsym(lib, "zeDriverGet");
	*(void **)&choose.devices = dlsym(lib, "zeDeviceGet");
	*(void **)&choose.context = dlsym(lib, "zeContextCreate");
	if (fm_ze_driver_whole(ze) && choose.init && choose.drivers && choose.devices &&
		choose.context)
		return true;
	probe_tell(out,
		json_pack("{s:s, s:s}", "step", "ze", "error", "the loader is too old for us"));
	return false;
}

static void free_queue(struct fm_ze_hwq *q)
{
	free(q);
}

/* A queue of the first group, which the driver has for kernels. */
static unsigned levels(const struct fm_ze_driver *ze, const struct fm_ze_made *made)
{
	struct fm_ze_hwq *q = calloc(1, sizeof(*q));
	ze_command_queue_handle_t queue;

	if (!q || ze->queue_create(made->context, made->device, &made->desc, &queue))
		return 0;
	fm_ze_hwq_init(q, ze, made, queue, free_queue);
	return fm_ze_ops(q)->levels(q);
}

static void try_device(const struct fm_ze_driver *ze, ze_driver_handle_t driver,
	ze_device_handle_t device, FILE *out)
{
	static const char *const says[] = {"it makes no queue",
		"no queue stands at a gate, or others stand with it: launches are held back",
		"queues stall at a closed gate and go on when it opens"};
	const struct fm_ze_context_desc desc = {.stype = FM_ZE_TYPE_CONTEXT};
	struct fm_ze_device is = {.stype = FM_ZE_TYPE_DEVICE, .name = "-"};
	struct fm_ze_made made = {.device = device,
		.desc = {.stype = FM_ZE_TYPE_QUEUE, .mode = FM_ZE_MODE_ASYNCHRONOUS}};
	unsigned can = 0, n;
	json_t *list = json_array();

	ze->device_properties(device, &is);
	is.name[sizeof(is.name) - 1] = '\0';
	probe_tell(out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", is.name,
				"platform", "Level Zero", "version", "-", "type",
				is.type == FM_ZE_VPU ? "npu" : "gpu"));
	if (!choose.context(driver, &desc, &made.context))
		can = levels(ze, &made);
	for (n = 0; can >> (n + 1) & 1; n++)
		json_array_append_new(list, json_integer(n + 1));
	probe_tell(out, json_pack("{s:s, s:o, s:s}", "step", "levels", "levels", list, "text",
				says[n < 2 ? n : 2]));
}

void tool_ze_probe(FILE *out)
{
	struct fm_ze_driver ze = {0};
	ze_driver_handle_t driver[MOST];
	ze_device_handle_t device[MOST];
	uint32_t drivers = MOST, devices;
	char text[64];
	ze_result_t rc;

	if (!load(&ze, dlopen(FM_ZE_LOADER, RTLD_NOW | RTLD_LOCAL), out))
		return;
	/* Some loaders say of a driver that works that it is not initialized. */
	rc = choose.init(0);
	if (choose.drivers(&drivers, driver) || !drivers) {
		snprintf(text, sizeof(text), "no driver of Level Zero (error 0x%x)", (unsigned)rc);
		probe_tell(out, json_pack("{s:s, s:s}", "step", "ze", "error", text));
		return;
	}
	probe_tell(out, json_pack("{s:s}", "step", "ze"));
	for (uint32_t i = 0; i < drivers && i < MOST; i++) {
		devices = MOST;
		if (choose.devices(driver[i], &devices, device))
			continue;
		for (uint32_t k = 0; k < devices && k < MOST; k++)
			try_device(&ze, driver[i], device[k], out);
	}
}
