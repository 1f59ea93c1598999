/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "core.h"
#include <stdio.h>

#define OWNER struct fm_acl_driver
static const struct fm_own own[] = {
	FM_ACL_DRIVER(FM_OWN){"aclrtGetSocName", offsetof(OWNER, soc_name)}};
const struct fm_owns fm_acl_owns = {own, FM_ARRAY_LEN(own), FM_ACL_NEEDED(FM_OWN_COUNT)};

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
