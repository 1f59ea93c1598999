/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"
#include "core.h"
#include <stdio.h>
#include <string.h>

#define OWNER struct fm_ze_driver
static const struct fm_own own[] = {FM_ZE_DRIVER(FM_OWN)};
const struct fm_owns fm_ze_owns = {own, FM_ARRAY_LEN(own), FM_ZE_NEEDED(FM_OWN_COUNT)};

/* Of a GPU that Intel's drivers name by its place, as their OpenCL and Mesa's Vulkan do: vendor,
 * model, revision, place on the bus, and in the last byte which part of it. Older drivers had the
 * device's number in the process there, and nothing behind the vendor. */
static bool is_uuid_of_all_apis(const struct fm_ze_device *is)
{
	static const uint8_t zero[sizeof(is->uuid)];

	return is->type == FM_ZE_GPU && memcmp(is->uuid, zero, sizeof(zero)) &&
	       (is->vendor != FM_ZE_INTEL || is->uuid[2] || is->uuid[3]);
}

static void name_by_uuid(const struct fm_ze_device *is, char *key, size_t size)
{
	uint8_t uuid[FM_UUID_SIZE];
	char text[FM_UUID_TEXT];

	memcpy(uuid, is->uuid, sizeof(uuid));
	if (is->vendor == FM_ZE_INTEL)
		uuid[15] = 0;
	snprintf(key, size, "GPU-%s", fm_uuid_text(uuid, text));
}

/* Parts of a device (sub-devices) have its name: they are scheduled together. */
bool fm_ze_device_key(
	const struct fm_ze_driver *ze, ze_device_handle_t device, char *key, size_t size)
{
	struct fm_ze_device is = {.stype = FM_ZE_TYPE_DEVICE};
	struct fm_ze_pci at = {.stype = FM_ZE_TYPE_PCI};
	char text[FM_UUID_TEXT];

	if (ze->device_properties(device, &is))
		return false;
	if (is_uuid_of_all_apis(&is)) {
		name_by_uuid(&is, key, size);
		return true;
	}
	is.name[47] = '\0';
	for (char *p = is.name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '_';
	if (ze->device_pci && !ze->device_pci(device, &at))
		snprintf(key, size, "%s %04x:%02x:%02x.%x", is.name, at.domain, at.bus, at.device,
			at.function);
	else
		snprintf(key, size, "%s %s", is.name, fm_uuid_text(is.uuid, text));
	return true;
}

#define MOST 16u /* drivers, and devices of one */

static bool is_of(
	const struct fm_ze_driver *ze, ze_driver_handle_t driver, ze_device_handle_t device)
{
	ze_device_handle_t all[MOST];
	uint32_t n = MOST;

	if (ze->devices(driver, &n, all))
		return false;
	for (uint32_t i = 0; i < n && i < MOST; i++)
		if (all[i] == device)
			return true;
	return false;
}

/* 0: of a part of a device, or nobody says. */
static uint32_t version_of(const struct fm_ze_driver *ze, ze_device_handle_t device)
{
	struct fm_ze_driver_is is = {.stype = FM_ZE_TYPE_DRIVER};
	ze_driver_handle_t all[MOST];
	uint32_t n = MOST;

	if (!ze->drivers || !ze->devices || !ze->driver_properties || ze->drivers(&n, all))
		return 0;
	for (uint32_t i = 0; i < n && i < MOST; i++)
		if (is_of(ze, all[i], device))
			return ze->driver_properties(all[i], &is) ? 0 : is.version;
	return 0;
}

bool fm_ze_proof(const struct fm_ze_driver *ze, ze_device_handle_t device, char *text, size_t size)
{
	int n = snprintf(text, size, "ze %u ", version_of(ze, device));

	return fm_ze_device_key(ze, device, text + n, size - (size_t)n);
}
