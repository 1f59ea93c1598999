/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level Zero, for the commands.
 *
 * Owns: nothing that lasts: a driver is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#include "api/ze/core/core.h"
#include "doctor/on_request.h"
#include <dlfcn.h>
#include <stdlib.h>

#define MOST 16 /* drivers, and devices of one */

const struct fm_api fm_api_ze;

/* What only a program that chooses devices needs. */
struct choose {
	ze_result_t (*init)(uint32_t flags);
	ze_result_t (*drivers)(uint32_t *n, ze_driver_handle_t *drivers);
	ze_result_t (*devices)(ze_driver_handle_t driver, uint32_t *n, ze_device_handle_t *devices);
	ze_result_t (*context)(ze_driver_handle_t driver, const struct fm_ze_context_desc *desc,
		ze_context_handle_t *context);
};

#define OWNER struct choose
static struct choose choose;
static const struct fm_own choice[] = {{"zeInit", offsetof(OWNER, init)},
	{"zeDriverGet", offsetof(OWNER, drivers)}, {"zeDeviceGet", offsetof(OWNER, devices)},
	{"zeContextCreate", offsetof(OWNER, context)}};
static const struct fm_owns choices = {choice, FM_ARRAY_LEN(choice), FM_ARRAY_LEN(choice)};

static void free_queue(struct fm_ze_hwq *q)
{
	free(q);
}

/* A queue of the first group, which the driver has for kernels. */
static unsigned levels(const struct fm_ze_driver *ze, const struct fm_ze_made *made, bool *stood)
{
	struct fm_ze_hwq *q = calloc(1, sizeof(*q));
	const uint64_t stand = probe_stand();
	ze_command_queue_handle_t queue;
	unsigned can;

	if (!q || ze->queue_create(made->context, made->device, &made->desc, &queue))
		return 0;
	fm_ze_hwq_init(q, ze, made, queue, free_queue);
	can = fm_ze_ops(q)->levels(q);
	*stood = can & 1u << 2 && stand && fm_ze_gates_stand(q, stand);
	return can;
}

static void try_device(const struct fm_ze_driver *ze, ze_driver_handle_t driver,
	ze_device_handle_t device, FILE *out)
{
	const struct fm_ze_context_desc desc = {.stype = FM_ZE_TYPE_CONTEXT};
	struct fm_ze_device is = {.stype = FM_ZE_TYPE_DEVICE, .name = "-"};
	struct fm_ze_made made = {.device = device,
		.desc = {.stype = FM_ZE_TYPE_QUEUE, .mode = FM_ZE_MODE_ASYNCHRONOUS}};
	char what[FM_PROOF_TEXT];
	bool stood = false;
	unsigned can = 0;

	ze->device_properties(device, &is);
	is.name[sizeof(is.name) - 1] = '\0';
	probe_device(out, &fm_api_ze, is.name, is.type == FM_ZE_VPU ? "npu" : "gpu");
	if (!choose.context(driver, &desc, &made.context))
		can = levels(ze, &made, &stood);
	if (!fm_ze_proof(ze, device, what, sizeof(what)))
		*what = '\0';
	probe_unproven(out, can,
		!can              ? "it makes no queue"
		: can & (1u << 2) ? "queues stall at a closed gate and go on when it opens"
				  : "no queue stands at a gate, or others stand with it: launches "
				    "are held back",
		what, stood);
}

static void try_devices(FILE *out)
{
	struct fm_ze_driver ze = {0};
	void *lib = probe_library(out, &fm_api_ze);
	ze_driver_handle_t driver[MOST];
	ze_device_handle_t device[MOST];
	uint32_t drivers = MOST, devices;
	ze_result_t rc;

	if (!lib || !probe_driver(out, &fm_api_ze, lib, &fm_ze_owns, &ze) ||
		!probe_driver(out, &fm_api_ze, lib, &choices, &choose))
		return;
	/* Some loaders say of a driver that works that it is not initialized. */
	rc = choose.init(0);
	if (choose.drivers(&drivers, driver) || !drivers) {
		probe_fails(out, &fm_api_ze, "no driver of Level Zero (error 0x%x)", (unsigned)rc);
		return;
	}
	probe_begins(out, &fm_api_ze);
	for (uint32_t i = 0; i < drivers && i < MOST; i++) {
		devices = MOST;
		if (choose.devices(driver[i], &devices, device))
			continue;
		for (uint32_t k = 0; k < devices && k < MOST; k++)
			try_device(&ze, driver[i], device[k], out);
	}
}

static const struct on_request ze = {
	.shim = {"libfermata-ze.so", "Level Zero", "FERMATA_LEVEL_ZERO"},
	.names = (const char *const[]){FM_ZE_LOADER, NULL},
	.check = "level zero",
	.how = "",
	.look = "a driver's package brings its devices (Debian: libze-intel-gpu1)",
};

const struct fm_api fm_api_ze = ON_REQUEST("ze", &ze, try_devices);
