/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the current context's device. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

bool fm_cu_shares_context(const struct fm_cu_driver *cu)
{
	CUdevice dev;
	int yes = 0;

	return cu->ctx_get_device && cu->device_get_attribute && !cu->ctx_get_device(&dev) &&
	       !cu->device_get_attribute(&yes, FM_CU_ATTRIBUTE_MPS_ENABLED, dev) && yes;
}

bool fm_cu_device_key_of(const struct fm_cu_driver *cu, CUdevice dev, char *key, size_t size)
{
	struct fm_cu_uuid id, whole;
	bool part;
	int n;

	if (!cu->device_get_uuid || cu->device_get_uuid(&id, dev))
		return false;
	part = cu->device_get_whole_uuid && !cu->device_get_whole_uuid(&whole, dev) &&
	       memcmp(&id, &whole, sizeof(id)) != 0;
	n = snprintf(key, size, part ? "MIG-" : "GPU-");
	for (unsigned i = 0; i < sizeof(id.bytes) && n < (int)size; i++)
		n += snprintf(key + n, size - (size_t)n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id.bytes[i]);
	return n < (int)size;
}

void fm_cu_device_bus_of(const struct fm_cu_driver *cu, CUdevice dev, char *bus, size_t size)
{
	int domain, number, slot;

	*bus = '\0';
	if (!cu->device_get_attribute ||
		cu->device_get_attribute(&domain, FM_CU_ATTRIBUTE_PCI_DOMAIN, dev) ||
		cu->device_get_attribute(&number, FM_CU_ATTRIBUTE_PCI_BUS, dev) ||
		cu->device_get_attribute(&slot, FM_CU_ATTRIBUTE_PCI_DEVICE, dev))
		return;
	if (snprintf(bus, size, "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)number,
		    (unsigned)slot) >= (int)size)
		*bus = '\0';
}

bool fm_cu_device_key(const struct fm_cu_driver *cu, char *key, size_t size)
{
	CUdevice dev;

	return cu->ctx_get_device && !cu->ctx_get_device(&dev) &&
	       fm_cu_device_key_of(cu, dev, key, size);
}
