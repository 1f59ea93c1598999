/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include <stdio.h>

bool fm_acl_driver_whole(const struct fm_acl_driver *acl)
{
	return acl->get_context && acl->set_context && acl->get_device && acl->stream_synchronize &&
	       acl->event_create && acl->event_destroy && acl->event_record && acl->event_status;
}

/* A program may see some of the devices alone, by other numbers. */
void fm_acl_device_key(const struct fm_acl_driver *acl, int32_t device, char *key, size_t size)
{
	const char *soc = acl->soc_name ? acl->soc_name() : NULL;
	char name[48], place[32] = "";
	int32_t number = device;

	snprintf(name, sizeof(name), "%s", soc ? soc : "Ascend");
	for (char *p = name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '_';
	if (acl->device_pci && !acl->device_pci(device, place, sizeof(place) - 1) && *place) {
		snprintf(key, size, "%s %s", name, place);
		return;
	}
	if (acl->device_number && acl->device_number(device, &number))
		number = device;
	snprintf(key, size, "%s#%d", name, (int)number);
}
