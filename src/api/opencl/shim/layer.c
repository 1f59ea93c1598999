/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL layer (CL/cl_layer.h): the loader passes in the dispatch table of the driver, and gets
 * back one with the layer's own entries. Nothing else happens until the program makes a queue.
 *
 * A process may have several loaders, and may close each before its queues are finished. The agent
 * calls the driver through a loader's table, so the libraries that the table points into are never
 * unloaded. Objects belong to the driver, and every loader finds the driver by the object: so the
 * first loader's table serves all loaders. Calls without an object go to the loader that the
 * program has used.
 */
#include "layer.h"
#include "base/lockorder.h"
/* The loader looks these up. All other symbols of this library are hidden. */
#pragma GCC visibility push(default)
#include <CL/cl_layer.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

/* The parameters of each row are those of the loader's header. */
#define VALUE(type, name) *(type *)NULL
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)                       \
	_Static_assert(                                                                          \
		__builtin_types_compatible_p(__typeof__(((cl_icd_dispatch *)NULL)->symbol),      \
			__typeof__(((cl_icd_dispatch *)NULL)->symbol(CALL_EACH(VALUE, params)))( \
				CL_API_CALL *) CALL_PARAMS(params)),                             \
		"other parameters than in CL/cl_icd.h: " #symbol);
#include "api/opencl/calls.def"

#define LOADERS 4u /* of one process; calls through further ones are not scheduled */

struct fm_cl_layer fm_cl_layer;

struct loader {
	bool used;
	cl_icd_dispatch next, own;
};

/* An entry is written under the lock, before the loader gets its table. It is constant then. */
static struct {
	pthread_mutex_t lock;
	struct loader loader[LOADERS];
} loaders = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(loaders.lock, CL_LOADERS);

#define NEXT fm_cl_layer.next

static CL_API_ENTRY cl_command_queue CL_API_CALL shim_clCreateCommandQueue(cl_context context,
	cl_device_id device, cl_command_queue_properties properties, cl_int *err)
{
	cl_command_queue queue = NEXT.clCreateCommandQueue(context, device, properties, err);

	if (queue)
		fm_opencl_queue_add(queue, context, device);
	return queue;
}

/* Kernels fill a queue on the device: the host sees none of its commands. */
static bool on_device(const cl_queue_properties *p)
{
	for (; p && p[0]; p += 2)
		if (p[0] == CL_QUEUE_PROPERTIES)
			return p[1] & CL_QUEUE_ON_DEVICE;
	return false;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL shim_clCreateCommandQueueWithProperties(
	cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *err)
{
	cl_command_queue queue =
		NEXT.clCreateCommandQueueWithProperties(context, device, properties, err);

	if (queue && !on_device(properties))
		fm_opencl_queue_add(queue, context, device);
	return queue;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clRetainCommandQueue(cl_command_queue queue)
{
	cl_int rc = NEXT.clRetainCommandQueue(queue);

	if (rc == CL_SUCCESS)
		fm_opencl_queue_retain(queue);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clReleaseCommandQueue(cl_command_queue queue)
{
	fm_opencl_queue_release(queue);
	return NEXT.clReleaseCommandQueue(queue);
}

/* The driver also counts the references of the layer's markers. The program gets the number of its
 * own. */
static CL_API_ENTRY cl_int CL_API_CALL shim_clGetCommandQueueInfo(cl_command_queue queue,
	cl_command_queue_info name, size_t size, void *value, size_t *size_ret)
{
	cl_int rc = NEXT.clGetCommandQueueInfo(queue, name, size, value, size_ret);
	cl_uint refs = rc == CL_SUCCESS && name == CL_QUEUE_REFERENCE_COUNT && value
			       ? fm_opencl_queue_refs(queue)
			       : 0;

	if (refs)
		memcpy(value, &refs, sizeof(refs));
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clFinish(cl_command_queue queue)
{
	struct fm_opencl_queue *q = fm_opencl_find(queue);
	uint64_t mark;
	cl_int rc;

	if (!q)
		return NEXT.clFinish(queue);
	fm_xq_use(q->xq);
	mark = fm_xq_mark(q->xq);
	fm_cl_wait_begin(&q->hw);
	rc = NEXT.clFinish(queue);
	fm_cl_wait_end(&q->hw);
	if (rc == CL_SUCCESS)
		fm_xq_synced(q->xq, mark);
	fm_xq_used(q->xq);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clWaitForEvents(cl_uint n, const cl_event *events)
{
	cl_int rc = NEXT.clWaitForEvents(n, events);

	for (cl_uint i = 0; rc == CL_SUCCESS && i < FM_MIN(n, 8u); i++) {
		cl_command_queue queue = NULL;

		NEXT.clGetEventInfo(events[i], CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL);
		if (queue)
			fm_opencl_queue_waited(queue);
	}
	return rc;
}

/* Commands enqueued by an extension's function bypass the layer: the look-up of the function is
 * counted, by its name. */
static void note_extension(const char *name, const void *function)
{
	if (!function || !name)
		return;
	if (strstr(name, "Enqueue") || strstr(name, "CommandBuffer"))
		fm_shim_ungoverned(name);
	if (strstr(name, "SetKernelArg") || strstr(name, "SetKernelExec"))
		fm_opencl_blind();
}

#define LOOK_UP(i)                                                                               \
	static CL_API_ENTRY void *CL_API_CALL look_up_##i(const char *name)                      \
	{                                                                                        \
		void *function = loaders.loader[i].next.clGetExtensionFunctionAddress(name);     \
                                                                                                 \
		note_extension(name, function);                                                  \
		return function;                                                                 \
	}                                                                                        \
	static CL_API_ENTRY void *CL_API_CALL look_up_for_##i(                                   \
		cl_platform_id platform, const char *name)                                       \
	{                                                                                        \
		const cl_icd_dispatch *next = &loaders.loader[i].next;                           \
		void *function = next->clGetExtensionFunctionAddressForPlatform(platform, name); \
                                                                                                 \
		note_extension(name, function);                                                  \
		return function;                                                                 \
	}
LOOK_UP(0)
LOOK_UP(1)
LOOK_UP(2)
LOOK_UP(3)

static void look_ups(cl_icd_dispatch *own, unsigned i)
{
	static const struct {
		__typeof__(own->clGetExtensionFunctionAddress) plain;
		__typeof__(own->clGetExtensionFunctionAddressForPlatform) for_platform;
	} of[LOADERS] = {{look_up_0, look_up_for_0}, {look_up_1, look_up_for_1},
		{look_up_2, look_up_for_2}, {look_up_3, look_up_for_3}};

	if (own->clGetExtensionFunctionAddress)
		own->clGetExtensionFunctionAddress = of[i].plain;
	if (own->clGetExtensionFunctionAddressForPlatform)
		own->clGetExtensionFunctionAddressForPlatform = of[i].for_platform;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(
	cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
	static const char layer_name[] = "fermata";
	static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
	const void *from;
	size_t n;

	if (name == CL_LAYER_API_VERSION) {
		from = &version;
		n = sizeof(version);
	} else if (name == CL_LAYER_NAME) {
		from = layer_name;
		n = sizeof(layer_name);
	} else {
		return CL_INVALID_VALUE;
	}
	if (value && size < n)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, from, n);
	if (size_ret)
		*size_ret = n;
	return CL_SUCCESS;
}

static void fork_prepare(void)
{
	fm_lock_fork_begin();
	pthread_mutex_lock(&loaders.lock);
	fm_shim_lock();
	fm_opencl_table_lock();
	fm_lock_fork_end();
}

static void fork_done(void)
{
	fm_opencl_table_unlock();
	fm_shim_unlock();
	pthread_mutex_unlock(&loaders.lock);
}

/* All queues are seen made: none is refused, and none is made by its first command. */
static const struct fm_shim_queue_ops queue_ops;

const struct fm_shim_api fm_shim_api = {
	.name = "opencl",
	.queues = &queue_ops,
	.fork_prepare = fork_prepare,
	.fork_done = fork_done,
};

/* Keeps the library of the function loaded, whatever the program closes. False: the library is not
 * known. */
static bool keep_loaded(const void *function, const void **last)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return false;
	if (map == *last)
		return true;
	*last = map;
	/* The program itself has no name, and is never unloaded. */
	return !*map->l_name || dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool keep_all_loaded(const cl_icd_dispatch *table)
{
	const void *const *function = (const void *const *)table, *last = NULL;
	bool ok = true;

	for (size_t i = 0; ok && i < sizeof(*table) / sizeof(*function); i++)
		ok = !function[i] || keep_loaded(function[i], &last);
	return ok;
}

/* Calls that the first loader lacks bypass the layer. */
static void only_known(struct loader *l)
{
	const void *const *first = (const void *const *)&fm_cl_layer.next;
	const void *const *next = (const void *const *)&l->next;
	const void **own = (const void **)&l->own;

	for (size_t i = 0; i < sizeof(l->own) / sizeof(*own); i++)
		if (!first[i])
			own[i] = next[i];
}

static void queue_calls(cl_icd_dispatch *own)
{
#define OWN_queue FM_CL_ENTRY
#define OWN_loader(symbol)
#define ON_own(symbol, per_thread, name, since, note, params, of) OWN_##of(symbol)
#define ON_make                                                   FM_CL_ENTRY
#define ON_end                                                    FM_CL_ENTRY
#define ON_sync                                                   FM_CL_ENTRY
#include "api/opencl/calls.def"
}

static void fill(struct loader *l)
{
	l->own = l->next;
	fm_opencl_enqueues(&l->own);
	queue_calls(&l->own);
	if (fm_opencl_guard_wanted()) {
		fm_opencl_programs(&l->own);
		fm_opencl_kernels(&l->own);
	}
	only_known(l);
	look_ups(&l->own, (unsigned)(l - loaders.loader));
}

/* Loaders are told apart by their functions, not by the address of the table, which another loader
 * may use by now. NULL: there are too many loaders. Lock held. */
static struct loader *enter(const cl_icd_dispatch *table)
{
	struct loader *l = loaders.loader;

	while (l < loaders.loader + LOADERS && l->used && memcmp(&l->next, table, sizeof(*table)))
		l++;
	if (l == loaders.loader + LOADERS)
		return NULL;
	if (l->used)
		return l;
	fm_shim_hear_forks();
	l->next = *table;
	if (l == loaders.loader)
		fm_cl_layer.next = l->next;
	fill(l);
	l->used = true;
	return l;
}

/* NULL: there are too many loaders, or the library could not be kept loaded. Keeping it loaded
 * takes the dynamic linker's lock, and a thread that calls a loader in a library's constructor has
 * that lock already: so it is not taken under the layer's own. */
static struct loader *enter_kept(const cl_icd_dispatch *target, cl_uint n)
{
	cl_icd_dispatch table;
	struct loader *l;

	memset(&table, 0, sizeof(table));
	memcpy(&table, target, n * sizeof(void *));
	if (!keep_all_loaded(&table))
		return NULL;
	pthread_mutex_lock(&loaders.lock);
	l = enter(&table);
	pthread_mutex_unlock(&loaders.lock);
	return l;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target,
	cl_uint *num_entries_ret, const cl_icd_dispatch **layer)
{
	/* The table of a newer loader is longer: the calls at its end bypass the layer. That of an
	 * older loader is shorter, and lacks the calls at the end of ours. */
	cl_uint known = FM_MIN(num_entries, (cl_uint)(sizeof(cl_icd_dispatch) / sizeof(void *)));
	struct loader *l;

	if (!target || !layer || !num_entries_ret)
		return CL_INVALID_VALUE;
	l = enter_kept(target, known);
	if (!l)
		fm_shim_ungoverned("clInitLayer");
	*layer = l ? &l->own : target;
	*num_entries_ret = l ? known : num_entries;
	return CL_SUCCESS;
}
