/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include <stdio.h>

bool fm_ze_driver_whole(const struct fm_ze_driver *ze)
{
	bool whole = true;

#define LOOK(name, symbol, params) \
	whole = whole && (ze->name || (void *)&ze->name == (void *)&ze->device_pci);
	FM_ZE_DRIVER(LOOK)
#undef LOOK
	return whole;
}

/* Parts of a device (sub-devices) have its place: they are scheduled together. */
bool fm_ze_device_key(
	const struct fm_ze_driver *ze, ze_device_handle_t device, char *key, size_t size)
{
	struct fm_ze_device is = {.stype = FM_ZE_TYPE_DEVICE};
	struct fm_ze_pci at = {.stype = FM_ZE_TYPE_PCI};
	char uuid[33];

	if (ze->device_properties(device, &is))
		return false;
	is.name[47] = '\0';
	for (char *p = is.name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '_';
	if (ze->device_pci && !ze->device_pci(device, &at)) {
		snprintf(key, size, "%s %04x:%02x:%02x.%x", is.name, at.domain, at.bus, at.device,
			at.function);
		return true;
	}
	for (int i = 0; i < 16; i++)
		snprintf(uuid + 2 * i, 3, "%02x", is.uuid[i]);
	snprintf(key, size, "%s %s", is.name, uuid);
	return true;
}
