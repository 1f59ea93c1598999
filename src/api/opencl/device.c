/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/uuid.h"
#include "opencl.h"
#include <stdio.h>
#include <string.h>

#define INTEL 0x8086u /* a vendor */

#ifndef CL_UUID_SIZE_KHR /* cl_khr_device_uuid */
#define CL_UUID_SIZE_KHR 16
#endif
#ifndef CL_DEVICE_UUID_KHR
#define CL_DEVICE_UUID_KHR 0x106A
#endif

static cl_device_id root_of(const cl_icd_dispatch *cl, cl_device_id device)
{
	cl_device_id parent = NULL;

	while (cl->clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof(parent), &parent,
		       NULL) == CL_SUCCESS &&
		parent) {
		device = parent;
		parent = NULL;
	}
	return device;
}

static bool uuid_of(const cl_icd_dispatch *cl, cl_device_id device, unsigned char *uuid)
{
	static const unsigned char zero[CL_UUID_SIZE_KHR];

	return cl->clGetDeviceInfo(device, CL_DEVICE_UUID_KHR, sizeof(zero), uuid, NULL) ==
		       CL_SUCCESS &&
	       memcmp(uuid, zero, sizeof(zero));
}

static unsigned ordinal_of(const cl_icd_dispatch *cl, cl_device_id device)
{
	cl_platform_id platform = NULL;
	cl_device_id list[64];
	cl_uint n = 0;

	cl->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
	if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, list, &n) != CL_SUCCESS)
		return 0;
	for (cl_uint i = 0; i < n && i < 64; i++)
		if (list[i] == device)
			return i;
	return 0;
}

/* By its UUID alone it is the same device in CUDA, Level Zero and Vulkan. */
void fm_cl_device_key(const cl_icd_dispatch *cl, cl_device_id device, char *key, size_t size)
{
	char name[48] = "", full[256] = "", text[FM_UUID_TEXT];
	unsigned char uuid[CL_UUID_SIZE_KHR] = {0};
	cl_device_type type = 0;
	cl_uint vendor = 0;

	device = root_of(cl, device);
	cl->clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(full), full, NULL);
	cl->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	cl->clGetDeviceInfo(device, CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor, NULL);
	if ((type & CL_DEVICE_TYPE_GPU) && uuid_of(cl, device, uuid)) {
		if (vendor == INTEL)
			uuid[sizeof(uuid) - 1] = 0; /* which part of the GPU the process has */
		snprintf(key, size, "GPU-%s", fm_uuid_text(uuid, text));
		return;
	}
	full[sizeof(full) - 1] = '\0';
	snprintf(name, sizeof(name), "%.47s", full[0] ? full : "device");
	for (char *p = name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '_';
	snprintf(key, size, "%s#%u", name, ordinal_of(cl, device));
}
