/* SPDX-License-Identifier: Apache-2.0 */
#include "able.h"
#include "api/cuda/core/cuda.h"
#include "base/size.h"
#include "base/util.h"
#include "chunk.h"
#include "host.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool fm_cu_memory_functions(const struct fm_cu_driver *cu)
{
	return cu->mem_reserve && cu->mem_unreserve && cu->mem_create && cu->mem_release &&
	       cu->mem_map && cu->mem_unmap && cu->mem_access && cu->host_register &&
	       cu->host_unregister && cu->copy_to_host && cu->copy_to_device && cu->stream_create &&
	       cu->event_create && cu->event_record && cu->event_query;
}

/* Processes that share a context (MPS) see each other's mistakes: not tried yet. */
#define ATTRIBUTE_VMM 102
enum fm_cu_memory_able fm_cu_memory_able(const struct fm_cu_driver *cu, CUdevice device)
{
	int vmm = 0;

	if (!fm_cu_memory_functions(cu) || !cu->device_get_attribute ||
		cu->device_get_attribute(&vmm, ATTRIBUTE_VMM, device) || !vmm)
		return FM_CU_MEMORY_NO_VMM;
	return fm_cu_shares_context(cu) ? FM_CU_MEMORY_SHARED : FM_CU_MEMORY_ABLE;
}

#define ATTRIBUTE_FD 103
bool fm_cu_memory_shares(const struct fm_cu_driver *cu, CUdevice device)
{
	int fd = 0;

	return cu->mem_export && cu->mem_import && cu->device_get_attribute &&
	       !cu->device_get_attribute(&fd, ATTRIBUTE_FD, device) && fd;
}

#define ATTRIBUTE_CARDS 110 /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
bool fm_cu_memory_for_cards(const struct fm_cu_driver *cu, CUdevice device)
{
	int can = 0;

	return cu->device_get_attribute &&
	       !cu->device_get_attribute(&can, ATTRIBUTE_CARDS, device) && can;
}

/* Where the driver does not say which node is near, or refuses it, that of this thread is taken. */
#define ATTRIBUTE_HOST_NODE 134 /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID */
fm_cu_result fm_cu_memory_on_host(
	const struct fm_cu_driver *cu, CUdevice device, size_t size, unsigned long long *handle)
{
	struct fm_cu_memory_kind kind = {
		.type = FM_CU_MEMORY_PINNED, .location = {FM_CU_LOCATION_HOST_NODE, -1}};
	int *node = &kind.location.id;
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;

	if (cu->device_get_attribute &&
		!cu->device_get_attribute(node, ATTRIBUTE_HOST_NODE, device) && *node >= 0)
		rc = cu->mem_create(handle, size, &kind, 0);
	if (!rc || rc == FM_CU_ERROR_OUT_OF_MEMORY)
		return rc;
	kind.location = (struct fm_cu_location){FM_CU_LOCATION_HOST_NEAR, 0};
	return cu->mem_create(handle, size, &kind, 0);
}

#define LARGEST  ((size_t)4 << 40)
#define SMALLEST ((size_t)16 << 30)

/* What a limit of the process or the driver does not give, half of it may. */
int fm_cu_memory_reserve(const struct fm_cu_driver *cu, CUdeviceptr *at, size_t *size)
{
	for (*size = LARGEST; *size >= SMALLEST; *size /= 2)
		if (!cu->mem_reserve(at, *size, FM_CU_PAGE, 0, 0))
			return 0;
	return -ENOMEM;
}

uint64_t fm_cu_memory_host_most(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY_HOST");
	int64_t bytes;

	if (said && *said && !fm_parse_size(said, &bytes, NULL) && bytes >= 0)
		return (uint64_t)bytes;
	return fm_cu_host_most();
}
