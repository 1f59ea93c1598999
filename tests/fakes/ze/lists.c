/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and lists. */
#include "entry.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ze_result_t queue_new(ze_context_handle_t context, ze_device_handle_t device,
	const ze_command_queue_desc_t *desc, ze_command_queue_handle_t *queue)
{
	bool only = fk_setting("FAKE_ZE_ONLY_SYNC");
	ze_command_queue_handle_t q;

	if (desc->ordinal > 1)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	if (only && desc->mode == ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS)
		return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
	q = calloc(1, sizeof(*q));
	q->context = context;
	q->copies_only = desc->ordinal == 1;
	q->mode = desc->mode;
	if (!q->mode && (only || fk_setting("FAKE_ZE_SYNC")))
		q->mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
	fk_lock();
	q->engine = fk_engine_for(device, desc->index);
	fk_unlock();
	*queue = q;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeCommandQueueCreate,
	(ze_context_handle_t context, ze_device_handle_t device,
		const ze_command_queue_desc_t *desc, ze_command_queue_handle_t *queue))
{
	return queue_new(context, device, desc, queue);
}

/* Lock held. */
static void queue_end(ze_command_queue_handle_t q)
{
	if (q->pending && !fk_is_lost())
		fk_undefined(
			"a queue is destroyed with %lu commands in it", (unsigned long)q->pending);
	if (!q->pending)
		free(q);
}

ENTRY(zeCommandQueueDestroy, (ze_command_queue_handle_t queue))
{
	fk_lock();
	queue_end(queue);
	fk_unlock();
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeCommandQueueSynchronize, (ze_command_queue_handle_t queue, uint64_t timeout))
{
	ze_result_t rc;

	fk_lock();
	rc = fk_queue_wait(queue, timeout);
	fk_unlock();
	return rc;
}

/* Lock held. */
static void execute(
	ze_command_queue_handle_t q, ze_command_list_handle_t list, ze_fence_handle_t fence)
{
	struct fk_command end = {.kind = FK_END, .list = list, .fence = fence};

	if (list->queue || !list->closed)
		fk_undefined("a list is executed that is immediate, or not closed");
	if (list->uses)
		fk_undefined("a list is executed that is in use");
	for (size_t i = 0; i < list->n; i++)
		fk_submit(q, &list->command[i]);
	fk_submit(q, &end);
}

ENTRY(zeCommandQueueExecuteCommandLists,
	(ze_command_queue_handle_t queue, uint32_t n, ze_command_list_handle_t *lists,
		ze_fence_handle_t fence))
{
	ze_result_t rc;

	if (!n || !lists)
		return ZE_RESULT_ERROR_INVALID_SIZE;
	fk_lock();
	for (uint32_t i = 0; i < n; i++)
		execute(queue, lists[i], i + 1 == n ? fence : NULL);
	rc = fk_submitted(queue);
	fk_unlock();
	return rc;
}

/* --- lists --- */

ENTRY(zeCommandListCreate,
	(ze_context_handle_t context, ze_device_handle_t device, const ze_command_list_desc_t *desc,
		ze_command_list_handle_t *list))
{
	*list = calloc(1, sizeof(**list));
	(*list)->context = context;
	(*list)->copies_only = desc->commandQueueGroupOrdinal == 1;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeCommandListCreateImmediate,
	(ze_context_handle_t context, ze_device_handle_t device,
		const ze_command_queue_desc_t *desc, ze_command_list_handle_t *list))
{
	ze_command_queue_handle_t q;
	ze_result_t rc = queue_new(context, device, desc, &q);

	if (rc)
		return rc;
	*list = calloc(1, sizeof(**list));
	(*list)->context = context;
	(*list)->queue = q;
	(*list)->copies_only = q->copies_only;
	return ZE_RESULT_SUCCESS;
}

static void empty(ze_command_list_handle_t list)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->command[i].kind == FK_FILL)
			free((void *)list->command[i].src);
	list->n = 0;
	list->closed = false;
}

/* Lock held. */
static void unused(ze_command_list_handle_t list)
{
	if (list->uses && !fk_is_lost())
		fk_undefined("a list is reset or destroyed while it is in use");
}

ENTRY(zeCommandListDestroy, (ze_command_list_handle_t list))
{
	fk_lock();
	unused(list);
	if (list->queue)
		queue_end(list->queue);
	fk_unlock();
	empty(list);
	free(list->command);
	free(list);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeCommandListReset, (ze_command_list_handle_t list))
{
	if (list->queue)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	fk_lock();
	unused(list);
	fk_unlock();
	empty(list);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeCommandListClose, (ze_command_list_handle_t list))
{
	list->closed = true;
	return ZE_RESULT_SUCCESS;
}

static void come_in(ze_command_list_handle_t list)
{
	if (atomic_exchange(&list->inside, true))
		fk_undefined("two threads inside calls for one list");
	if (list->queue && fk_setting("FAKE_ZE_SLOW_US"))
		usleep((useconds_t)fk_setting("FAKE_ZE_SLOW_US"));
}

static ze_result_t append(ze_command_list_handle_t list, struct fk_command *c)
{
	ze_result_t rc = ZE_RESULT_SUCCESS;

	come_in(list);
	if (list->queue && !list->recorded) {
		fk_lock();
		fk_submit(list->queue, c);
		rc = fk_submitted(list->queue);
		fk_unlock();
	} else if (list->closed) {
		rc = ZE_RESULT_ERROR_INVALID_ARGUMENT;
	} else {
		if (list->n == list->room) {
			list->room = 2 * list->room + 8;
			list->command = realloc(list->command, list->room * sizeof(*c));
		}
		if (c->kind == FK_FILL)
			c->src = memcpy(malloc(c->pattern), c->src, c->pattern);
		list->command[list->n++] = *c;
	}
	atomic_store(&list->inside, false);
	return rc;
}

static ze_result_t after(ze_command_list_handle_t list, struct fk_command c,
	ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait)
{
	if (n > sizeof(c.wait) / sizeof(c.wait[0]) || (n && !wait))
		return ZE_RESULT_ERROR_INVALID_SIZE;
	c.signal = signal;
	c.waits = n;
	if (n)
		memcpy(c.wait, wait, n * sizeof(*wait));
	return append(list, &c);
}

static ze_result_t launch(ze_command_list_handle_t list, ze_kernel_handle_t kernel,
	const ze_group_count_t *g, ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait)
{
	struct fk_command c = {.kind = FK_KERNEL,
		.fn = kernel->fn,
		.groups = (uint64_t)g->groupCountX * g->groupCountY * g->groupCountZ};

	if (list->copies_only)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	memcpy(c.arg, kernel->arg, sizeof(c.arg));
	return after(list, c, signal, n, wait);
}

ENTRY(zeCommandListAppendLaunchKernel,
	(ze_command_list_handle_t list, ze_kernel_handle_t kernel, const ze_group_count_t *g,
		ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait))
{
	return launch(list, kernel, g, signal, n, wait);
}

ENTRY(zeCommandListAppendLaunchCooperativeKernel,
	(ze_command_list_handle_t list, ze_kernel_handle_t kernel, const ze_group_count_t *g,
		ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait))
{
	return launch(list, kernel, g, signal, n, wait);
}

ENTRY(zeCommandListAppendMemoryCopy,
	(ze_command_list_handle_t list, void *dst, const void *src, size_t size,
		ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait))
{
	return after(list,
		(struct fk_command){.kind = FK_COPY, .dst = dst, .src = src, .size = size}, signal,
		n, wait);
}

ENTRY(zeCommandListAppendMemoryFill,
	(ze_command_list_handle_t list, void *dst, const void *pattern, size_t pattern_size,
		size_t size, ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait))
{
	return after(list,
		(struct fk_command){.kind = FK_FILL,
			.dst = dst,
			.src = pattern,
			.size = size,
			.pattern = pattern_size},
		signal, n, wait);
}

ENTRY(zeCommandListAppendBarrier, (ze_command_list_handle_t list, ze_event_handle_t signal,
					  uint32_t n, ze_event_handle_t *wait))
{
	return after(list, (struct fk_command){.kind = FK_BARRIER}, signal, n, wait);
}

ENTRY(zeCommandListAppendMemoryRangesBarrier,
	(ze_command_list_handle_t list, uint32_t ranges, const size_t *sizes, const void **of,
		ze_event_handle_t signal, uint32_t n, ze_event_handle_t *wait))
{
	return after(list, (struct fk_command){.kind = FK_BARRIER}, signal, n, wait);
}

ENTRY(zeCommandListAppendSignalEvent, (ze_command_list_handle_t list, ze_event_handle_t event))
{
	return after(list, (struct fk_command){.kind = FK_SIGNAL}, event, 0, NULL);
}

ENTRY(zeCommandListAppendWaitOnEvents,
	(ze_command_list_handle_t list, uint32_t n, ze_event_handle_t *events))
{
	return after(list, (struct fk_command){.kind = FK_WAIT}, NULL, n, events);
}

ENTRY(zeCommandListAppendEventReset, (ze_command_list_handle_t list, ze_event_handle_t event))
{
	return after(list, (struct fk_command){.kind = FK_RESET}, event, 0, NULL);
}

ENTRY(zeCommandListAppendWriteGlobalTimestamp,
	(ze_command_list_handle_t list, uint64_t *dst, ze_event_handle_t signal, uint32_t n,
		ze_event_handle_t *wait))
{
	return after(list, (struct fk_command){.kind = FK_STAMP, .dst = dst}, signal, n, wait);
}

ENTRY(zeCommandListAppendMemoryPrefetch,
	(ze_command_list_handle_t list, const void *p, size_t size))
{
	return after(list, (struct fk_command){.kind = FK_WAIT}, NULL, 0, NULL);
}

/* An extension: the loader of Debian 12 has no function of that name. */
ENTRY(zeCommandListImmediateAppendCommandListsExp,
	(ze_command_list_handle_t list, uint32_t n, ze_command_list_handle_t *lists,
		ze_event_handle_t signal, uint32_t waits, ze_event_handle_t *wait))
{
	ze_result_t rc = ZE_RESULT_SUCCESS;

	if (!list->queue)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	if (waits)
		rc = after(list, (struct fk_command){.kind = FK_BARRIER}, NULL, waits, wait);
	come_in(list);
	fk_lock();
	for (uint32_t i = 0; i < n && !rc; i++)
		execute(list->queue, lists[i], NULL);
	rc = rc ? rc : fk_submitted(list->queue);
	fk_unlock();
	atomic_store(&list->inside, false);
	if (signal && !rc)
		rc = after(list, (struct fk_command){.kind = FK_BARRIER}, signal, 0, NULL);
	return rc;
}

/* --- graphs (specification 1.17), without forks into other lists --- */

ENTRY(zeCommandListBeginGraphCaptureExt, (ze_command_list_handle_t list, const void *next))
{
	if (!list->queue || list->recorded)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	come_in(list);
	list->recorded = true;
	atomic_store(&list->inside, false);
	return ZE_RESULT_SUCCESS;
}

/* A graph is a list that is executed whole. */
ENTRY(zeCommandListEndGraphCaptureExt,
	(ze_command_list_handle_t list, const void *next, ze_command_list_handle_t *graph))
{
	if (!list->recorded)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	come_in(list);
	*graph = calloc(1, sizeof(**graph));
	(*graph)->context = list->context;
	(*graph)->command = list->command;
	(*graph)->n = list->n;
	(*graph)->closed = true;
	list->command = NULL;
	list->n = list->room = 0;
	list->recorded = false;
	atomic_store(&list->inside, false);
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeGraphInstantiateExt,
	(ze_command_list_handle_t graph, const void *next, ze_command_list_handle_t *executable))
{
	*executable = graph;
	return ZE_RESULT_SUCCESS;
}

ENTRY(zeGraphDestroyExt, (ze_command_list_handle_t graph))
{
	return fk_zeCommandListDestroy(graph);
}

ENTRY(zeCommandListAppendGraphExt,
	(ze_command_list_handle_t list, ze_command_list_handle_t graph, const void *next,
		ze_event_handle_t signal, uint32_t waits, ze_event_handle_t *wait))
{
	return fk_zeCommandListImmediateAppendCommandListsExp(list, 1, &graph, signal, waits, wait);
}
