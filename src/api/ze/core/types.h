/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero's types as its binary interface has them, and the functions that we call ourselves, by
 * the specification: https://spec.oneapi.io/level-zero/latest/core/api.html. No header of it is
 * needed; where there is one, tests/integration/ze/ze_types.c compares. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int ze_result_t;
typedef int ze_memory_advice_t;
typedef struct _ze_driver_handle_t *ze_driver_handle_t;
typedef struct _ze_device_handle_t *ze_device_handle_t;
typedef struct _ze_context_handle_t *ze_context_handle_t;
typedef struct _ze_command_queue_handle_t *ze_command_queue_handle_t;
typedef struct _ze_command_list_handle_t *ze_command_list_handle_t;
typedef struct _ze_fence_handle_t *ze_fence_handle_t;
typedef struct _ze_event_pool_handle_t *ze_event_pool_handle_t;
typedef struct _ze_event_handle_t *ze_event_handle_t;
typedef struct _ze_kernel_handle_t *ze_kernel_handle_t;
typedef struct _ze_image_handle_t *ze_image_handle_t;
typedef struct _ze_copy_region_t ze_copy_region_t;
typedef struct _ze_image_region_t ze_image_region_t;

typedef struct _ze_external_semaphore_ext_handle_t *ze_external_semaphore_ext_handle_t;
typedef struct _ze_external_semaphore_signal_params_ext_t ze_external_semaphore_signal_params_ext_t;
typedef struct _ze_external_semaphore_wait_params_ext_t ze_external_semaphore_wait_params_ext_t;
typedef struct _ze_graph_handle_t *ze_graph_handle_t;
typedef struct _ze_executable_graph_handle_t *ze_executable_graph_handle_t;
typedef void (*ze_host_function_callback_t)(void *arg);

typedef struct _ze_group_size_t {
	uint32_t x, y, z; /* groupSizeX, ... */
} ze_group_size_t;

typedef struct _ze_group_count_t {
	uint32_t x, y, z; /* groupCountX, ... */
} ze_group_count_t;

typedef struct _ze_command_queue_desc_t {
	int stype;
	const void *pNext;
	uint32_t ordinal, index, flags;
	int mode, priority;
} ze_command_queue_desc_t;

struct fm_ze_list_desc { /* ze_command_list_desc_t */
	int stype;
	const void *next;
	uint32_t ordinal, flags;
};

struct fm_ze_pool_desc { /* ze_event_pool_desc_t */
	int stype;
	const void *next;
	uint32_t flags, count;
};

struct fm_ze_event_desc { /* ze_event_desc_t */
	int stype;
	const void *next;
	uint32_t index, signal, wait;
};

struct fm_ze_device { /* ze_device_properties_t */
	int stype;
	void *next;
	int type;
	uint32_t vendor, device, flags, subdevice, clock;
	uint64_t allocation;
	uint32_t contexts, priority, threads, width, units, subslices, slices;
	uint64_t resolution;
	uint32_t valid_bits, kernel_valid_bits;
	uint8_t uuid[16];
	char name[256];
};

struct fm_ze_pci { /* ze_pci_ext_properties_t */
	int stype;
	void *next;
	uint32_t domain, bus, device, function;
	int32_t generation, width;
	int64_t bandwidth;
};

struct fm_ze_driver_is { /* ze_driver_properties_t */
	int stype;
	void *next;
	uint8_t uuid[16];
	uint32_t version;
};

struct fm_ze_context_desc { /* ze_context_desc_t */
	int stype;
	const void *next;
	uint32_t flags;
};

enum {
	FM_ZE_SUCCESS = 0,
	FM_ZE_NOT_READY = 1,
	FM_ZE_DEVICE_LOST = 0x70000001,
	FM_ZE_UNINITIALIZED = 0x78000001,

	FM_ZE_TYPE_DRIVER = 0x1, /* ZE_STRUCTURE_TYPE_* */
	FM_ZE_TYPE_DEVICE = 0x3,
	FM_ZE_TYPE_CONTEXT = 0xd,
	FM_ZE_TYPE_QUEUE = 0xe,
	FM_ZE_TYPE_LIST = 0xf,
	FM_ZE_TYPE_POOL = 0x10,
	FM_ZE_TYPE_EVENT = 0x11,
	FM_ZE_TYPE_PCI = 0x10008,

	FM_ZE_MODE_DEFAULT = 0, /* ZE_COMMAND_QUEUE_MODE_* */
	FM_ZE_MODE_SYNCHRONOUS = 1,
	FM_ZE_MODE_ASYNCHRONOUS = 2,

	FM_ZE_HOST_VISIBLE = 1, /* ZE_EVENT_POOL_FLAG_* */
	FM_ZE_GPU = 1,          /* ZE_DEVICE_TYPE_* */
	FM_ZE_INTEL = 0x8086,   /* a vendor */
	FM_ZE_VPU = 5,
};

/* X(name here, symbol, parameters): what even level 1 needs, and the rest. */
#define FM_ZE_NEEDED(X)                                                                         \
	X(device_properties, "zeDeviceGetProperties",                                           \
		(ze_device_handle_t device, struct fm_ze_device * properties))                  \
	X(queue_create, "zeCommandQueueCreate",                                                 \
		(ze_context_handle_t context, ze_device_handle_t device,                        \
			const ze_command_queue_desc_t *desc, ze_command_queue_handle_t *queue)) \
	X(queue_destroy, "zeCommandQueueDestroy", (ze_command_queue_handle_t queue))            \
	X(queue_wait, "zeCommandQueueSynchronize",                                              \
		(ze_command_queue_handle_t queue, uint64_t timeout))                            \
	X(queue_execute, "zeCommandQueueExecuteCommandLists",                                   \
		(ze_command_queue_handle_t queue, uint32_t n, ze_command_list_handle_t * lists, \
			ze_fence_handle_t fence))                                               \
	X(list_create, "zeCommandListCreate",                                                   \
		(ze_context_handle_t context, ze_device_handle_t device,                        \
			const struct fm_ze_list_desc *desc, ze_command_list_handle_t *list))    \
	X(list_immediate, "zeCommandListCreateImmediate",                                       \
		(ze_context_handle_t context, ze_device_handle_t device,                        \
			const ze_command_queue_desc_t *desc, ze_command_list_handle_t *list))   \
	X(list_destroy, "zeCommandListDestroy", (ze_command_list_handle_t list))                \
	X(list_close, "zeCommandListClose", (ze_command_list_handle_t list))                    \
	X(list_barrier, "zeCommandListAppendBarrier",                                           \
		(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t waits,       \
			ze_event_handle_t * wait))                                              \
	X(pool_create, "zeEventPoolCreate",                                                     \
		(ze_context_handle_t context, const struct fm_ze_pool_desc *desc, uint32_t n,   \
			ze_device_handle_t *devices, ze_event_pool_handle_t *pool))             \
	X(pool_destroy, "zeEventPoolDestroy", (ze_event_pool_handle_t pool))                    \
	X(event_create, "zeEventCreate",                                                        \
		(ze_event_pool_handle_t pool, const struct fm_ze_event_desc *desc,              \
			ze_event_handle_t *event))                                              \
	X(event_destroy, "zeEventDestroy", (ze_event_handle_t event))                           \
	X(event_signal, "zeEventHostSignal", (ze_event_handle_t event))                         \
	X(event_reset, "zeEventHostReset", (ze_event_handle_t event))                           \
	X(event_query, "zeEventQueryStatus", (ze_event_handle_t event))                         \
	X(event_wait, "zeEventHostSynchronize", (ze_event_handle_t event, uint64_t timeout))
#define FM_ZE_WANTED(X)                                                                  \
	X(drivers, "zeDriverGet", (uint32_t * n, ze_driver_handle_t * drivers))          \
	X(driver_properties, "zeDriverGetProperties",                                    \
		(ze_driver_handle_t driver, struct fm_ze_driver_is * properties))        \
	X(devices, "zeDeviceGet",                                                        \
		(ze_driver_handle_t driver, uint32_t * n, ze_device_handle_t * devices)) \
	X(device_pci, "zeDevicePciGetPropertiesExt",                                     \
		(ze_device_handle_t device, struct fm_ze_pci * properties))
#define FM_ZE_DRIVER(X) FM_ZE_NEEDED(X) FM_ZE_WANTED(X)

struct fm_ze_driver {
#define MEMBER(name, symbol, params) ze_result_t(*name) params;
	FM_ZE_DRIVER(MEMBER)
#undef MEMBER
};
