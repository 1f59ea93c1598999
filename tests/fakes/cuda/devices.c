/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that the process sees, and what they can do. */
#include "capacity.h"
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the number that programs know them by: which of the machine's. */
static struct {
	unsigned n;
	unsigned char which[FK_DEVICES];
} seen;

/* Two may not differ in the last letter alone: programs may name them by their first few. */
static void uuid_of(unsigned which, unsigned char bytes[16])
{
	memcpy(bytes, "fermata-fake-gpu", 16);
	bytes[0] = (unsigned char)(bytes[0] + which);
	bytes[15] = (unsigned char)(bytes[15] + which);
}

static bool named(unsigned which, const char *name, size_t n)
{
	unsigned char bytes[16];
	char text[64];
	size_t at = 0;

	uuid_of(which, bytes);
	at += (size_t)sprintf(text, "GPU-");
	for (unsigned i = 0; i < sizeof(bytes); i++)
		at += (size_t)sprintf(text + at, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
	return n > 4 && n <= at && !strncmp(text, name, n);
}

/* The device of an entry of CUDA_VISIBLE_DEVICES, a number or the beginning of a UUID; total: none.
 */
static unsigned entry(const char *name, size_t n, unsigned total)
{
	unsigned which = 0;
	char *end;

	if (*name >= '0' && *name <= '9') {
		which = (unsigned)strtoul(name, &end, 10);
		return end == name + n && which < total ? which : total;
	}
	while (which < total && !named(which, name, n))
		which++;
	return which;
}

/* The first entry that is none, or comes again, ends the list. */
static void look(void)
{
	const char *devices = fk_env("FAKE_CUDA_DEVICES"), *list = getenv("CUDA_VISIBLE_DEVICES");
	unsigned total = devices ? (unsigned)atoi(devices) : 1, which;
	size_t n;

	total = total > FK_DEVICES ? FK_DEVICES : total;
	for (unsigned i = 0; !list && i < total; i++)
		seen.which[seen.n++] = (unsigned char)i;
	for (; list && *list && seen.n < total; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		which = entry(list, n, total);
		if (which == total || memchr(seen.which, (int)which, seen.n))
			break;
		seen.which[seen.n++] = (unsigned char)which;
	}
}

static unsigned count(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look);
	return seen.n;
}

fm_cu_result fk_device(const void *out, CUdevice dev)
{
	if (!out)
		return FM_CU_ERROR_INVALID_VALUE;
	return dev < 0 || (unsigned)dev >= count() ? CU_INVALID_DEVICE : FM_CU_SUCCESS;
}

bool fk_memory_take(CUdevice dev, uint64_t bytes)
{
	return fk_capacity_take(seen.which[dev], bytes);
}

void fk_memory_give(CUdevice dev, uint64_t bytes)
{
	fk_capacity_give(seen.which[dev], bytes);
}

uint64_t fk_memory_left(CUdevice dev)
{
	return fk_capacity_free(seen.which[dev]);
}

unsigned long fake_cuda_free(unsigned which)
{
	return fk_capacity_free(which);
}

static fm_cu_result device(const void *out, CUdevice dev)
{
	FK_TRY(fk_enter());
	return fk_leave_any(fk_device(out, dev));
}

fm_cu_result cuDeviceGet(CUdevice *dev, int ordinal)
{
	FK_TRY(device(dev, ordinal));
	*dev = ordinal;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetCount(int *n)
{
	FK_TRY(fk_enter());
	if (n)
		*n = (int)count();
	return fk_leave_any(n ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

fm_cu_result cuDeviceGetName(char *name, int size, CUdevice dev)
{
	FK_TRY(device(name, dev));
	snprintf(name, size > 0 ? (size_t)size : 0, "Fake CUDA device%s",
		fk_env("FAKE_CUDA_MIG") ? " MIG 1g.5gb" : "");
	return FM_CU_SUCCESS;
}

/* That of the whole device. */
fm_cu_result cuDeviceGetUuid(struct fm_cu_uuid *uuid, CUdevice dev)
{
	FK_TRY(device(uuid, dev));
	uuid_of(seen.which[dev], uuid->bytes);
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetUuid_v2(struct fm_cu_uuid *uuid, CUdevice dev)
{
	FK_TRY(cuDeviceGetUuid(uuid, dev));
	if (fk_env("FAKE_CUDA_MIG"))
		uuid->bytes[7] = '/';
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	FK_TRY(device(bytes, dev));
	*bytes = fk_capacity_total();
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetAttribute(int *value, int which, CUdevice dev)
{
	static const short known[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {10, 32},
		{16, FK_SMS}, {31, 1}, {39, 2048}, {41, 1}, {75, 9}, {76, 0}, {95, 1}, {99, 1},
		{106, 32}, {115, 1}};
	bool memops = !fk_env("FAKE_CUDA_NO_MEMOPS");
	const char *sm = fk_env("FAKE_CUDA_SM"); /* 75 for compute capability 7.5 */

	FK_TRY(device(value, dev));
	*value = (which == 92 || which == 93 || which == 122) &&
		 memops; /* stream memory operations */
	if (which == 102 || which == 103 || which == 110 || which == 124 || which == 141)
		*value = !fk_env("FAKE_CUDA_NO_VMM") &&
			 (which != 141 || !fk_env("FAKE_CUDA_NO_HOST_CHUNKS"));
	if (which == 113) /* memory that can only be read can be registered */
		*value = !fk_env("FAKE_CUDA_NO_READ_ONLY");
	if (which == 33) /* the bus */
		*value = 0x3b + dev;
	if (which == 133)
		*value = fk_env("FAKE_CUDA_MPS") != NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i][0] == which)
			*value = known[i][1];
	if (sm && (which == 75 || which == 76))
		*value = which == 75 ? atoi(sm) / 10 : atoi(sm) % 10;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	FK_TRY(device(can, dev));
	FK_TRY(device(can, peer));
	*can = dev != peer;
	return FM_CU_SUCCESS;
}
