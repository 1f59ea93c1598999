/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: can the memory of this process be managed, and how much of it may go to the
 * host? The shim asks before it manages any; `fermata doctor` asks the same for people.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdbool.h>
#include <stdint.h>

/* Does the driver have the functions that an arena calls? */
bool fm_cu_memory_functions(const struct fm_cu_driver *cu);

enum fm_cu_memory_able {
	FM_CU_MEMORY_ABLE,
	FM_CU_MEMORY_NO_VMM, /* the driver has no virtual memory management for the device */
	FM_CU_MEMORY_SHARED  /* processes share a context of it (MPS) */
};
/* The device's context is current. */
enum fm_cu_memory_able fm_cu_memory_able(const struct fm_cu_driver *cu, CUdevice device);

/* Can memory be passed to other processes as a descriptor? */
bool fm_cu_memory_shares(const struct fm_cu_driver *cu, CUdevice device);

/* Can network cards reach memory that is made here, if that is said when it is made? */
bool fm_cu_memory_for_cards(const struct fm_cu_driver *cu, CUdevice device);

/* Addresses for an arena, as many as the driver and the limit of the process (ulimit -v) give. 0,
 * or -ENOMEM: less than is of use. */
int fm_cu_memory_reserve(const struct fm_cu_driver *cu, CUdeviceptr *at, size_t *size);

/* Memory of the host, near the device, which can be mapped for it: what cuMemCreate() says. */
fm_cu_result fm_cu_memory_on_host(
	const struct fm_cu_driver *cu, CUdevice device, size_t size, unsigned long long *handle);

/* Bytes of the host for the memory of one device: as FERMATA_MEMORY_HOST says, or half of the
 * machine's. */
uint64_t fm_cu_memory_host_most(void);
