/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML without a device: the memory of the devices that the fake CUDA driver has (fakes/cuda). It
 * sees what processes share by FAKE_CUDA_DEVICE, or else what its own process has. All devices of
 * the machine are there, whatever CUDA_VISIBLE_DEVICES says. A handle is a number, and 1.
 */
#define NVML_EXPORT __attribute__((visibility("default")))
#include "nvml.h"
#include "../cuda/capacity.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned users;

static unsigned count(void)
{
	const char *given = getenv("FAKE_CUDA_DEVICES");
	unsigned n = given && *given ? (unsigned)atoi(given) : 1;

	return n > FK_MACHINE_DEVICES ? FK_MACHINE_DEVICES : n;
}

int nvmlInit_v2(void)
{
	users++;
	return NVML_DONE;
}

int nvmlInit(void)
{
	return nvmlInit_v2();
}

int nvmlShutdown(void)
{
	if (!users)
		return NVML_UNINITIALIZED;
	users--;
	return NVML_DONE;
}

const char *nvmlErrorString(int e)
{
	return e ? "NVML error" : "The operation was successful";
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	if (!users || !n)
		return users ? NVML_INVALID : NVML_UNINITIALIZED;
	*n = count();
	return NVML_DONE;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *d)
{
	if (!users || !d || index >= count())
		return users ? NVML_INVALID : NVML_UNINITIALIZED;
	*d = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_DONE;
}

int nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *d)
{
	return nvmlDeviceGetHandleByIndex_v2(index, d);
}

static int find(nvmlDevice_t d, unsigned *which)
{
	*which = (unsigned)(uintptr_t)d - 1;
	if (!users)
		return NVML_UNINITIALIZED;
	return *which < count() ? NVML_DONE : NVML_INVALID;
}

int nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned size)
{
	unsigned char bytes[17] = "fermata-fake-gpu";
	char all[64];
	unsigned which, at = 4;
	int rc = find(d, &which);

	if (rc || !text)
		return rc ? rc : NVML_INVALID;
	bytes[0] = (unsigned char)(bytes[0] + which);
	bytes[15] = (unsigned char)(bytes[15] + which);
	memcpy(all, "GPU-", 5);
	for (unsigned i = 0; i < 16; i++)
		at += (unsigned)sprintf(all + at, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
	if (at >= size)
		return NVML_TOO_SMALL;
	memcpy(text, all, at + 1);
	return NVML_DONE;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d)
{
	char text[96];

	if (!users || !uuid || !d)
		return users ? NVML_INVALID : NVML_UNINITIALIZED;
	for (unsigned i = 0; i < count(); i++) {
		*d = (nvmlDevice_t)(uintptr_t)(i + 1);
		if (!nvmlDeviceGetUUID(*d, text, sizeof(text)) && !strcmp(text, uuid))
			return NVML_DONE;
	}
	return NVML_NOT_FOUND;
}

static unsigned long long left(unsigned which)
{
	const char *shared = getenv("FAKE_CUDA_DEVICE");
	void *driver = shared && *shared ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	unsigned long (*ask)(unsigned) = NULL;
	unsigned long long n;

	if (driver)
		*(void **)&ask = dlsym(driver, "fake_cuda_free");
	n = ask ? ask(which) : fk_capacity_free(which);
	if (driver)
		dlclose(driver);
	return n;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, struct nvml_memory *m)
{
	unsigned which;
	int rc = find(d, &which);

	if (rc || !m)
		return rc ? rc : NVML_INVALID;
	m->total = fk_capacity_total();
	m->free = left(which);
	m->used = m->total - m->free;
	return NVML_DONE;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, struct nvml_memory_v2 *m)
{
	struct nvml_memory v1;
	int rc;

	if (!m || m->version != NVML_MEMORY_V2)
		return m ? NVML_OTHER_VERSION : NVML_INVALID;
	rc = nvmlDeviceGetMemoryInfo(d, &v1);
	if (rc)
		return rc;
	m->total = v1.total;
	m->reserved = 0;
	m->free = v1.free;
	m->used = v1.used;
	return NVML_DONE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, struct nvml_process *list)
{
	unsigned which, found = 0;
	uint64_t bytes;
	pid_t pid;
	int rc = find(d, &which);

	if (rc || !n)
		return rc ? rc : NVML_INVALID;
	for (; fk_capacity_user(which, found, &pid, &bytes); found++)
		if (list && found < *n)
			list[found] = (struct nvml_process){(unsigned)pid, bytes, ~0u, ~0u};
	rc = found > *n ? NVML_TOO_SMALL : NVML_DONE;
	*n = found;
	return rc;
}
