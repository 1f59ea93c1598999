/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers, devices, contexts, memory, modules, events and fences. */
#include "entry.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _ze_driver_handle_t fk_driver;
struct _ze_device_handle_t fk_device[16];

static uint32_t devices(void)
{
	uint64_t n = fk_setting("FAKE_ZE_DEVICES");

	return n ? (uint32_t)(n < 16 ? n : 16) : 1;
}

ENTRY(zeInit, (ze_init_flags_t flags))
{
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDriverGet, (uint32_t * n, ze_driver_handle_t *drivers))
{
	if (*n && drivers)
		drivers[0] = &fk_driver;
	*n = 1;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDriverGetApiVersion, (ze_driver_handle_t driver, ze_api_version_t *version))
{
	*version = ZE_API_VERSION_CURRENT;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDriverGetProperties, (ze_driver_handle_t driver, ze_driver_properties_t *p))
{
	memset(&p->uuid, 1, sizeof(p->uuid));
	p->driverVersion = 1;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDriverGetExtensionProperties,
	(ze_driver_handle_t driver, uint32_t *n, ze_driver_extension_properties_t *p))
{
	*n = 0;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDriverGetExtensionFunctionAddress, (ze_driver_handle_t driver, const char *name, void **fn))
{
	*fn = fk_function(name);
	return *fn ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ENTRY(zeDeviceGet, (ze_driver_handle_t driver, uint32_t *n, ze_device_handle_t *out))
{
	uint32_t there = devices();

	for (uint32_t i = 0; out && i < *n && i < there; i++) {
		fk_device[i].index = i;
		out[i] = &fk_device[i];
	}
	*n = there;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDeviceGetSubDevices, (ze_device_handle_t device, uint32_t *n, ze_device_handle_t *out))
{
	*n = 0;
	return ZE_RESULT_SUCCESS;
}

/* As Intel's drivers make it (vendor, model, revision, place on the bus, part); or used to. */
static ze_device_uuid_t uuid_of(ze_device_handle_t device)
{
	ze_device_uuid_t old = {{0x86, 0x80, 0, 0, 0xd5, 0x0b, 0, 0, (uint8_t)device->index}};
	ze_device_uuid_t uuid = {
		{0x86, 0x80, 0xd5, 0x0b, 3, 0, 0, 0, (uint8_t)(3 + device->index)}};

	uuid.id[15] = fk_setting("FAKE_ZE_PART") ? 2 : 0;
	return fk_setting("FAKE_ZE_OLD_UUID") ? old : uuid;
}

ENTRY(zeDeviceGetProperties, (ze_device_handle_t device, ze_device_properties_t *p))
{
	if (p->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	p->type = fk_setting("FAKE_ZE_NPU") ? ZE_DEVICE_TYPE_VPU : ZE_DEVICE_TYPE_GPU;
	p->vendorId = 0x8086;
	p->uuid = uuid_of(device);
	snprintf(p->name, sizeof(p->name), "Fake Level Zero %s",
		p->type == ZE_DEVICE_TYPE_VPU ? "NPU" : "GPU");
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeDevicePciGetPropertiesExt, (ze_device_handle_t device, ze_pci_ext_properties_t *p))
{
	if (fk_setting("FAKE_ZE_NO_PCI"))
		return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
	p->address = (ze_pci_address_ext_t){0, 3 + device->index, 0, 0};
	return ZE_RESULT_SUCCESS;
}

/* The second group copies alone. */
ENTRY(zeDeviceGetCommandQueueGroupProperties,
	(ze_device_handle_t device, uint32_t *n, ze_command_queue_group_properties_t *p))
{
	for (uint32_t i = 0; p && i < *n && i < 2; i++) {
		p[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
			     (i ? 0 : ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);
		p[i].numQueues = 4;
	}
	*n = 2;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeContextCreate,
	(ze_driver_handle_t driver, const ze_context_desc_t *desc, ze_context_handle_t *context))
{
	*context = calloc(1, sizeof(**context));
	return ZE_RESULT_SUCCESS;
}

/* One with pools of events is kept, so that these can be told that it has ended. */
ENTRY(zeContextDestroy, (ze_context_handle_t context))
{
	bool last;

	fk_lock();
	if (context->uses)
		fk_undefined("a context is destroyed while %u commands use it", context->uses);
	context->ended = true;
	last = !context->pools;
	fk_unlock();
	if (last)
		free(context);
	return ZE_RESULT_SUCCESS;
}

/* --- memory and code --- */

static ze_result_t allocate(size_t size, size_t alignment, void **p)
{
	*p = NULL;
	if (posix_memalign(p, alignment > 64 ? alignment : 64, size))
		return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
	memset(*p, 0xa5, size);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeMemAllocDevice, (ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
				size_t size, size_t alignment, ze_device_handle_t device, void **p))
{
	return allocate(size, alignment, p);
}

ENTRY(zeMemAllocHost, (ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
			      size_t size, size_t alignment, void **p))
{
	return allocate(size, alignment, p);
}

ENTRY(zeMemAllocShared, (ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
				const ze_host_mem_alloc_desc_t *host, size_t size, size_t alignment,
				ze_device_handle_t device, void **p))
{
	return allocate(size, alignment, p);
}

ENTRY(zeMemFree, (ze_context_handle_t context, void *p))
{
	free(p);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeModuleCreate,
	(ze_context_handle_t context, ze_device_handle_t device, const ze_module_desc_t *desc,
		ze_module_handle_t *module, ze_module_build_log_handle_t *log))
{
	if (strcmp((const char *)desc->pInputModule, "kernels"))
		return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
	*module = calloc(1, sizeof(**module));
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeModuleDestroy, (ze_module_handle_t module))
{
	free(module);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeKernelCreate,
	(ze_module_handle_t module, const ze_kernel_desc_t *desc, ze_kernel_handle_t *kernel))
{
	fk_kernel *fn = fk_kernel_named(desc->pKernelName);

	if (!fn)
		return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
	*kernel = calloc(1, sizeof(**kernel));
	(*kernel)->fn = fn;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeKernelDestroy, (ze_kernel_handle_t kernel))
{
	free(kernel);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeKernelSetArgumentValue,
	(ze_kernel_handle_t kernel, uint32_t index, size_t size, const void *value))
{
	if (index >= FK_ARGS || size > sizeof(kernel->arg[0]))
		return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
	memcpy(kernel->arg[index].bytes, value, size);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeKernelSetGroupSize, (ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z))
{
	return ZE_RESULT_SUCCESS;
}

/* --- events and fences --- */

ENTRY(zeEventPoolCreate, (ze_context_handle_t context, const ze_event_pool_desc_t *desc, uint32_t n,
				 ze_device_handle_t *of, ze_event_pool_handle_t *pool))
{
	static _Atomic uint64_t made;
	uint64_t most = fk_setting("FAKE_ZE_POOLS");

	if (most && atomic_fetch_add(&made, 1) >= most)
		return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
	*pool = calloc(1, sizeof(**pool));
	(*pool)->context = context;
	fk_lock();
	context->pools++;
	fk_unlock();
	(*pool)->host_visible = desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
	(*pool)->count = desc->count;
	(*pool)->used = calloc(desc->count, sizeof(*(*pool)->used));
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeEventPoolDestroy, (ze_event_pool_handle_t pool))
{
	if (pool->live)
		fk_undefined("a pool of events ends before %u of them", pool->live);
	fk_lock();
	if (pool->context->ended)
		fk_undefined("a pool of events ends after its context");
	pool->context->pools--;
	fk_unlock();
	free(pool->used);
	free(pool);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeEventCreate,
	(ze_event_pool_handle_t pool, const ze_event_desc_t *desc, ze_event_handle_t *event))
{
	uint64_t few = fk_setting("FAKE_ZE_FEW_EVENTS");

	if (desc->index >= pool->count)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	if (few && desc->index >= few)
		return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
	if (atomic_exchange(&pool->used[desc->index], true))
		fk_undefined("a second event at the same place of a pool");
	*event = calloc(1, sizeof(**event));
	(*event)->pool = pool;
	(*event)->index = desc->index;
	fk_lock();
	pool->live++;
	fk_unlock();
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeEventDestroy, (ze_event_handle_t event))
{
	fk_lock();
	if (event->uses)
		fk_undefined("an event is destroyed while %u commands use it", event->uses);
	atomic_store(&event->pool->used[event->index], false);
	event->pool->live--;
	fk_unlock();
	free(event);
	return ZE_RESULT_SUCCESS;
}

static void host_looks(ze_event_handle_t event)
{
	if (!event->pool->host_visible)
		fk_undefined("the host looks at an event that it may not see");
}

ENTRY(zeEventHostSignal, (ze_event_handle_t event))
{
	host_looks(event);
	fk_lock();
	event->signalled = true;
	fk_changed();
	fk_unlock();
	return fk_is_lost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ENTRY(zeEventHostReset, (ze_event_handle_t event))
{
	host_looks(event);
	fk_lock();
	if (event->uses)
		fk_undefined("an event is reset while %u commands use it", event->uses);
	event->signalled = false;
	event->seen_at = 0;
	fk_unlock();
	return ZE_RESULT_SUCCESS;
}

static bool seen(bool signalled, uint64_t at, uint64_t *again_at)
{
	if (fk_is_lost())
		return true;
	if (signalled && at > fk_now())
		*again_at = at;
	return signalled && at <= fk_now();
}

static bool event_seen(void *of, uint64_t *again_at)
{
	ze_event_handle_t e = of;

	return seen(e->signalled, e->seen_at, again_at);
}

static bool fence_seen(void *of, uint64_t *again_at)
{
	ze_fence_handle_t f = of;

	return seen(f->signalled, f->seen_at, again_at);
}

static ze_result_t look(bool (*is)(void *of, uint64_t *again_at), void *of, uint64_t timeout)
{
	bool yes;

	fk_lock();
	yes = fk_await(is, of, timeout);
	fk_unlock();
	if (yes && fk_is_lost())
		return ZE_RESULT_ERROR_DEVICE_LOST;
	return yes ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ENTRY(zeEventHostSynchronize, (ze_event_handle_t event, uint64_t timeout))
{
	host_looks(event);
	return look(event_seen, event, timeout);
}

ENTRY(zeEventQueryStatus, (ze_event_handle_t event))
{
	host_looks(event);
	return look(event_seen, event, 0);
}

ENTRY(zeFenceCreate,
	(ze_command_queue_handle_t queue, const ze_fence_desc_t *desc, ze_fence_handle_t *fence))
{
	*fence = calloc(1, sizeof(**fence));
	return ZE_RESULT_SUCCESS;
}

static void fence_unused(ze_fence_handle_t fence)
{
	fk_lock();
	if (fence->uses)
		fk_undefined("a fence is destroyed or reset while it is used");
	fence->signalled = false;
	fk_unlock();
}

ENTRY(zeFenceDestroy, (ze_fence_handle_t fence))
{
	fence_unused(fence);
	free(fence);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeFenceReset, (ze_fence_handle_t fence))
{
	fence_unused(fence);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeFenceHostSynchronize, (ze_fence_handle_t fence, uint64_t timeout))
{
	return look(fence_seen, fence, timeout);
}

ENTRY(zeFenceQueryStatus, (ze_fence_handle_t fence))
{
	return look(fence_seen, fence, 0);
}
