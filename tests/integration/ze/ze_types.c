/* SPDX-License-Identifier: Apache-2.0 */
/* The shim's own declarations (src/api/ze/core/types.h) are those of the headers: it builds, or
 * not. */
#include <level_zero/ze_api.h>

#define ze_result_t              own_result
#define ze_memory_advice_t       own_advice
#define ze_group_count_t         own_group_count
#define _ze_group_count_t        own_group_count_s
#define ze_group_size_t          own_group_size
#define _ze_group_size_t         own_group_size_s
#define ze_command_queue_desc_t  own_queue_desc
#define _ze_command_queue_desc_t own_queue_desc_s
#include "api/ze/core/types.h"
#undef ze_result_t
#undef ze_memory_advice_t
#undef ze_group_count_t
#undef ze_group_size_t
#undef ze_command_queue_desc_t

#define SIZE(own, theirs) _Static_assert(sizeof(own) == sizeof(theirs), #theirs)
#define SAME(own, a, theirs, b)                                                   \
	_Static_assert(offsetof(own, a) == offsetof(theirs, b) &&                 \
			       sizeof(((own *)0)->a) == sizeof(((theirs *)0)->b), \
		#theirs "." #b)
#define IS(own, theirs) _Static_assert((unsigned)(own) == (unsigned)(theirs), #theirs)

SIZE(own_result, ze_result_t);
SIZE(own_advice, ze_memory_advice_t);

SIZE(own_group_count, ze_group_count_t);
SAME(own_group_count, x, ze_group_count_t, groupCountX);
SAME(own_group_count, y, ze_group_count_t, groupCountY);
SAME(own_group_count, z, ze_group_count_t, groupCountZ);

SIZE(own_queue_desc, ze_command_queue_desc_t);
SAME(own_queue_desc, pNext, ze_command_queue_desc_t, pNext);
SAME(own_queue_desc, ordinal, ze_command_queue_desc_t, ordinal);
SAME(own_queue_desc, index, ze_command_queue_desc_t, index);
SAME(own_queue_desc, flags, ze_command_queue_desc_t, flags);
SAME(own_queue_desc, mode, ze_command_queue_desc_t, mode);
SAME(own_queue_desc, priority, ze_command_queue_desc_t, priority);

SIZE(struct fm_ze_list_desc, ze_command_list_desc_t);
SAME(struct fm_ze_list_desc, ordinal, ze_command_list_desc_t, commandQueueGroupOrdinal);
SAME(struct fm_ze_list_desc, flags, ze_command_list_desc_t, flags);

SIZE(struct fm_ze_pool_desc, ze_event_pool_desc_t);
SAME(struct fm_ze_pool_desc, flags, ze_event_pool_desc_t, flags);
SAME(struct fm_ze_pool_desc, count, ze_event_pool_desc_t, count);

SIZE(struct fm_ze_event_desc, ze_event_desc_t);
SAME(struct fm_ze_event_desc, index, ze_event_desc_t, index);
SAME(struct fm_ze_event_desc, signal, ze_event_desc_t, signal);
SAME(struct fm_ze_event_desc, wait, ze_event_desc_t, wait);

SIZE(struct fm_ze_device, ze_device_properties_t);
SAME(struct fm_ze_device, type, ze_device_properties_t, type);
SAME(struct fm_ze_device, uuid, ze_device_properties_t, uuid);
SAME(struct fm_ze_device, name, ze_device_properties_t, name);

SIZE(struct fm_ze_pci, ze_pci_ext_properties_t);
SAME(struct fm_ze_pci, domain, ze_pci_ext_properties_t, address.domain);
SAME(struct fm_ze_pci, function, ze_pci_ext_properties_t, address.function);

SIZE(struct fm_ze_context_desc, ze_context_desc_t);
SAME(struct fm_ze_context_desc, flags, ze_context_desc_t, flags);

IS(FM_ZE_SUCCESS, ZE_RESULT_SUCCESS);
IS(FM_ZE_NOT_READY, ZE_RESULT_NOT_READY);
IS(FM_ZE_DEVICE_LOST, ZE_RESULT_ERROR_DEVICE_LOST);
IS(FM_ZE_UNINITIALIZED, ZE_RESULT_ERROR_UNINITIALIZED);
IS(FM_ZE_TYPE_DEVICE, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
IS(FM_ZE_TYPE_CONTEXT, ZE_STRUCTURE_TYPE_CONTEXT_DESC);
IS(FM_ZE_TYPE_QUEUE, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
IS(FM_ZE_TYPE_LIST, ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
IS(FM_ZE_TYPE_POOL, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
IS(FM_ZE_TYPE_EVENT, ZE_STRUCTURE_TYPE_EVENT_DESC);
IS(FM_ZE_TYPE_PCI, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);
IS(FM_ZE_MODE_DEFAULT, ZE_COMMAND_QUEUE_MODE_DEFAULT);
IS(FM_ZE_MODE_SYNCHRONOUS, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
IS(FM_ZE_MODE_ASYNCHRONOUS, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
IS(FM_ZE_HOST_VISIBLE, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
IS(FM_ZE_GPU, ZE_DEVICE_TYPE_GPU);
IS(FM_ZE_VPU, ZE_DEVICE_TYPE_VPU);

int main(void)
{
	return 0;
}
