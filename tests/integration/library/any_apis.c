/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses the device APIs that it is told, a queue of each: in each round a command to
 * each queue, which it waits for. It prints "ready", then "at ROUNDS" after each round, and obeys
 * lines on stdin, each of which it answers by "did RC":
 *
 *   bind API GROUP [PRIORITY]   its first queue of that API
 *   unbind API
 *   thread GROUP [PRIORITY]     this thread, which makes its queues; GROUP "-": not any more
 *   more API [N]                another queue, which joins the round; so many
 *   elsewhere API               the same, made and first used in a thread of its own
 *   hold opencl|cuda            its first queue has a command that does not end: "held", until "go"
 *   cancel API [held]           ten threads do a command, each cancelled before; RC 0: none in it
 *                               (held: "held", until "go", comes first)
 *   end API idle|busy           "held", until "go"; its first queue ends, busy: behind a command;
 *                               "ended", until "go"; a new one comes in its place
 *   exec                        begins anew
 *   fork                        a child makes sure of what holds there; RC is its status
 *   stop                        print "done ROUNDS wrong 0" and exit
 */
#include "../../../bench/ocl.h"
#include <dlfcn.h>
#include <errno.h>
#include <fermata/bind.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<vulkan/vulkan_core.h>)
#include <vulkan/vulkan_core.h>
#define HAVE_VULKAN
#endif
#if __has_include(<level_zero/ze_api.h>)
#include <level_zero/ze_api.h>
#define HAVE_ZE
#endif

#define FOREVER UINT64_MAX
#define MOST    192 /* queues */

static void must(int rc, const char *what)
{
	if (rc)
		die("%s: %d", what, rc);
}

static void *library(const char *name)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		die("no %s", name);
	return lib;
}

static void *symbol(void *lib, const char *name)
{
	void *fn = dlsym(lib, name);

	if (!fn)
		die("no %s", name);
	return fn;
}

#define MEMBER(result, name, ...) result (*name)(__VA_ARGS__);
#define FIND(result, name, ...)   *(void **)&CALLS.name = symbol(lib, #name);
#define MUST(call)                must((int)CALLS.call, #call)

/* --- OpenCL --- */

static struct {
	struct ocl ocl;
	cl_mem buffer;
} cl;

static void cl_open(void)
{
	ocl_open(&cl.ocl);
	cl.buffer = ocl_buffer(&cl.ocl, 4096, NULL);
}

static void *cl_queue(void)
{
	return ocl_queue(&cl.ocl, 0);
}

static void cl_submit(void *queue)
{
	const cl_uint pattern = 7;

	OCL(clEnqueueFillBuffer(
		queue, cl.buffer, &pattern, sizeof(pattern), 0, 4096, 0, NULL, NULL));
}

static void cl_wait(void *queue)
{
	OCL(clFinish(queue));
}

static void cl_end(void *queue)
{
	OCL(clReleaseCommandQueue(queue));
}

static void cl_hold(void *queue, void (*wait)(void))
{
	const cl_uint pattern = 7;
	cl_event gate;

	OCL_NEW(gate, clCreateUserEvent(cl.ocl.ctx, &rc_));
	OCL(clEnqueueFillBuffer(
		queue, cl.buffer, &pattern, sizeof(pattern), 0, 4096, 1, &gate, NULL));
	OCL(clFlush(queue));
	wait();
	OCL(clSetUserEventStatus(gate, CL_COMPLETE));
	OCL(clFinish(queue));
	OCL(clReleaseEvent(gate));
}

/* --- CUDA --- */

#define CALLS cu
#define CU_CALLS(X)                                                                    \
	X(int, cuInit, unsigned flags)                                                 \
	X(int, cuDeviceGet, int *dev, int ordinal)                                     \
	X(int, cuCtxCreate_v2, void **ctx, unsigned flags, int dev)                    \
	X(int, cuCtxSetCurrent, void *ctx)                                             \
	X(int, cuStreamCreate, void **stream, unsigned flags)                          \
	X(int, cuMemAlloc_v2, uint64_t *ptr, size_t size)                              \
	X(int, cuMemsetD32Async, uint64_t ptr, unsigned value, size_t n, void *stream) \
	X(int, cuLaunchHostFunc, void *stream, void (*fn)(void *arg), void *arg)       \
	X(int, cuStreamDestroy_v2, void *stream)                                       \
	X(int, cuStreamSynchronize, void *stream)
static struct {
	CU_CALLS(MEMBER)
	void *ctx;
	uint64_t words;
} cu;

static void cu_open(void)
{
	void *lib = library("libcuda.so.1");
	int dev;

	CU_CALLS(FIND)
	MUST(cuInit(0));
	MUST(cuDeviceGet(&dev, 0));
	MUST(cuCtxCreate_v2(&cu.ctx, 0, dev));
	MUST(cuMemAlloc_v2(&cu.words, 4096));
}

static void *cu_queue(void)
{
	void *stream;

	MUST(cuCtxSetCurrent(cu.ctx));
	MUST(cuStreamCreate(&stream, 1));
	return stream;
}

static void cu_submit(void *queue)
{
	MUST(cuCtxSetCurrent(cu.ctx));
	MUST(cuMemsetD32Async(cu.words, 7, 1024, queue));
}

static void cu_wait(void *queue)
{
	MUST(cuStreamSynchronize(queue));
}

static void cu_end(void *queue)
{
	MUST(cuStreamDestroy_v2(queue));
}

static void cu_await(void *gate)
{
	sem_wait(gate);
}

static void cu_hold(void *queue, void (*wait)(void))
{
	sem_t gate;

	sem_init(&gate, 0, 0);
	MUST(cuLaunchHostFunc(queue, cu_await, &gate));
	MUST(cuMemsetD32Async(cu.words, 7, 1024, queue)); /* the former is no work of the device */
	wait();
	sem_post(&gate);
	MUST(cuStreamSynchronize(queue));
	sem_destroy(&gate);
}

/* --- HIP --- */

#undef CALLS
#define CALLS hip
#define HIP_CALLS(X)                                                         \
	X(int, hipStreamCreateWithFlags, void **stream, unsigned flags)      \
	X(int, hipMalloc, void **ptr, size_t size)                           \
	X(int, hipMemsetAsync, void *ptr, int value, size_t n, void *stream) \
	X(int, hipStreamDestroy, void *stream)                               \
	X(int, hipStreamSynchronize, void *stream)
static struct {
	HIP_CALLS(MEMBER)
	void *words;
} hip;

static void hip_open(void)
{
	void *lib = library("libamdhip64.so.6");

	HIP_CALLS(FIND)
	MUST(hipMalloc(&hip.words, 4096));
}

static void *hip_queue(void)
{
	void *stream;

	MUST(hipStreamCreateWithFlags(&stream, 1));
	return stream;
}

static void hip_submit(void *queue)
{
	MUST(hipMemsetAsync(hip.words, 7, 4096, queue));
}

static void hip_wait(void *queue)
{
	MUST(hipStreamSynchronize(queue));
}

static void hip_end(void *queue)
{
	MUST(hipStreamDestroy(queue));
}

/* --- Vulkan: a queue of a device each --- */

#ifdef HAVE_VULKAN
#undef CALLS
#define CALLS vk
#define VK_CALLS(X)                                                                           \
	X(VkResult, vkCreateInstance, const VkInstanceCreateInfo *info,                       \
		const VkAllocationCallbacks *, VkInstance *)                                  \
	X(VkResult, vkEnumeratePhysicalDevices, VkInstance, uint32_t *n, VkPhysicalDevice *)  \
	X(VkResult, vkCreateDevice, VkPhysicalDevice, const VkDeviceCreateInfo *info,         \
		const VkAllocationCallbacks *, VkDevice *)                                    \
	X(void, vkGetDeviceQueue, VkDevice, uint32_t family, uint32_t index, VkQueue *)       \
	X(VkResult, vkCreateCommandPool, VkDevice, const VkCommandPoolCreateInfo *,           \
		const VkAllocationCallbacks *, VkCommandPool *)                               \
	X(VkResult, vkAllocateCommandBuffers, VkDevice, const VkCommandBufferAllocateInfo *,  \
		VkCommandBuffer *)                                                            \
	X(VkResult, vkBeginCommandBuffer, VkCommandBuffer, const VkCommandBufferBeginInfo *)  \
	X(VkResult, vkEndCommandBuffer, VkCommandBuffer)                                      \
	X(VkResult, vkQueueSubmit, VkQueue, uint32_t n, const VkSubmitInfo *submits, VkFence) \
	X(void, vkDestroyCommandPool, VkDevice, VkCommandPool, const VkAllocationCallbacks *) \
	X(void, vkDestroyDevice, VkDevice, const VkAllocationCallbacks *)                     \
	X(VkResult, vkQueueWaitIdle, VkQueue)
static struct {
	VK_CALLS(MEMBER)
	VkInstance instance;
	VkPhysicalDevice physical;
	struct vk_commands {
		VkDevice device;
		VkQueue queue;
		VkCommandPool pool;
		VkCommandBuffer buffer;
	} of[MOST];
} vk;

static void vk_open(void)
{
	const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
	void *lib = library("libvulkan.so.1");
	uint32_t n = 1;

	VK_CALLS(FIND)
	MUST(vkCreateInstance(&info, NULL, &vk.instance));
	vk.vkEnumeratePhysicalDevices(vk.instance, &n, &vk.physical);
	if (!n)
		die("no device for Vulkan");
}

/* A command buffer without commands is one command, too. */
static void vk_record(VkDevice device, VkQueue queue)
{
	const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
	const VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
	struct vk_commands *to = vk.of;

	while (to->queue)
		to++;
	to->device = device;
	to->queue = queue;
	MUST(vkCreateCommandPool(device, &pool, NULL, &info.commandPool));
	to->pool = info.commandPool;
	MUST(vkAllocateCommandBuffers(device, &info, &to->buffer));
	MUST(vkBeginCommandBuffer(to->buffer, &begin));
	MUST(vkEndCommandBuffer(to->buffer));
}

static void *vk_queue(void)
{
	const float priority = 1;
	const VkDeviceQueueCreateInfo of = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueCount = 1,
		.pQueuePriorities = &priority};
	const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &of};
	VkDevice device;
	VkQueue queue;

	MUST(vkCreateDevice(vk.physical, &info, NULL, &device));
	vk.vkGetDeviceQueue(device, 0, 0, &queue);
	vk_record(device, queue);
	return queue;
}

static void vk_submit(void *queue)
{
	VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1};
	const struct vk_commands *of = vk.of;

	while (of->queue != queue)
		of++;
	batch.pCommandBuffers = &of->buffer;
	MUST(vkQueueSubmit(queue, 1, &batch, VK_NULL_HANDLE));
}

static void vk_wait(void *queue)
{
	MUST(vkQueueWaitIdle(queue));
}

static void vk_end(void *queue)
{
	struct vk_commands *of = vk.of;

	while (of->queue != queue)
		of++;
	vk.vkDestroyCommandPool(of->device, of->pool, NULL);
	vk.vkDestroyDevice(of->device, NULL);
	of->queue = (VkQueue)(uintptr_t)1; /* its place is not used again */
}
#endif

/* --- Level Zero: immediate lists --- */

#ifdef HAVE_ZE
#undef CALLS
#define CALLS ze
#define ZE_CALLS(X)                                                                              \
	X(ze_result_t, zeInit, ze_init_flags_t flags)                                            \
	X(ze_result_t, zeDriverGet, uint32_t *n, ze_driver_handle_t *)                           \
	X(ze_result_t, zeDeviceGet, ze_driver_handle_t, uint32_t *n, ze_device_handle_t *)       \
	X(ze_result_t, zeContextCreate, ze_driver_handle_t, const ze_context_desc_t *,           \
		ze_context_handle_t *)                                                           \
	X(ze_result_t, zeCommandQueueCreate, ze_context_handle_t, ze_device_handle_t,            \
		const ze_command_queue_desc_t *, ze_command_queue_handle_t *)                    \
	X(ze_result_t, zeCommandListCreate, ze_context_handle_t, ze_device_handle_t,             \
		const ze_command_list_desc_t *, ze_command_list_handle_t *)                      \
	X(ze_result_t, zeCommandListAppendBarrier, ze_command_list_handle_t, ze_event_handle_t,  \
		uint32_t n, ze_event_handle_t *)                                                 \
	X(ze_result_t, zeCommandListClose, ze_command_list_handle_t)                             \
	X(ze_result_t, zeCommandQueueExecuteCommandLists, ze_command_queue_handle_t, uint32_t n, \
		ze_command_list_handle_t *, ze_fence_handle_t)                                   \
	X(ze_result_t, zeCommandQueueDestroy, ze_command_queue_handle_t)                         \
	X(ze_result_t, zeCommandQueueSynchronize, ze_command_queue_handle_t, uint64_t timeout)
static struct {
	ZE_CALLS(MEMBER)
	ze_driver_handle_t driver;
	ze_device_handle_t device;
	ze_context_handle_t context;
	ze_command_list_handle_t list;
} ze;

static void ze_open(void)
{
	const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
	const ze_command_list_desc_t list = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
	void *lib = library("libze_loader.so.1");
	uint32_t n = 1;

	ZE_CALLS(FIND)
	ze.zeInit(0); /* what it says of a driver like that of the tests is not so */
	MUST(zeDriverGet(&n, &ze.driver));
	n = 1;
	MUST(zeDeviceGet(ze.driver, &n, &ze.device));
	MUST(zeContextCreate(ze.driver, &context, &ze.context));
	MUST(zeCommandListCreate(ze.context, ze.device, &list, &ze.list));
	MUST(zeCommandListAppendBarrier(ze.list, NULL, 0, NULL));
	MUST(zeCommandListClose(ze.list));
}

static void *ze_queue(void)
{
	const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
	ze_command_queue_handle_t queue;

	MUST(zeCommandQueueCreate(ze.context, ze.device, &desc, &queue));
	return queue;
}

static void ze_submit(void *queue)
{
	MUST(zeCommandQueueExecuteCommandLists(queue, 1, &ze.list, NULL));
}

static void ze_wait(void *queue)
{
	MUST(zeCommandQueueSynchronize(queue, FOREVER));
}

static void ze_end(void *queue)
{
	MUST(zeCommandQueueDestroy(queue));
}
#endif

/* --- VPI, and AscendCL --- */

#undef CALLS
#define CALLS vpi
#define VPI_CALLS(X)                                                                           \
	X(int, vpiStreamCreate, uint64_t flags, void **stream)                                 \
	X(int, vpiImageCreate, int32_t width, int32_t height, uint64_t format, uint64_t flags, \
		void **image)                                                                  \
	X(int, vpiSubmitBoxFilter, void *stream, uint64_t backend, void *in, void *out,        \
		int32_t width, int32_t height, int border)                                     \
	X(void, vpiStreamDestroy, void *stream)                                                \
	X(int, vpiStreamSync, void *stream)
static struct {
	VPI_CALLS(MEMBER)
	void *in, *out;
} vpi;

static void vpi_open(void)
{
	void *lib = library("libnvvpi.so.3");

	VPI_CALLS(FIND)
	MUST(vpiImageCreate(8, 8, 0, 0, &vpi.in));
	MUST(vpiImageCreate(8, 8, 0, 0, &vpi.out));
}

static void *vpi_queue(void)
{
	void *stream;

	MUST(vpiStreamCreate(0, &stream));
	return stream;
}

static void vpi_submit(void *queue)
{
	MUST(vpiSubmitBoxFilter(queue, 2, vpi.in, vpi.out, 3, 3, 0));
}

static void vpi_wait(void *queue)
{
	MUST(vpiStreamSync(queue));
}

static void vpi_end(void *queue)
{
	vpi.vpiStreamDestroy(queue);
}

#undef CALLS
#define CALLS acl
#define ACL_CALLS(X)                                                                          \
	X(int, aclInit, const char *config)                                                   \
	X(int, aclrtSetDevice, int32_t device)                                                \
	X(int, aclrtMalloc, void **p, size_t size, int policy)                                \
	X(int, aclrtCreateStream, void **stream)                                              \
	X(int, aclrtMemsetAsync, void *p, size_t room, int32_t value, size_t n, void *stream) \
	X(int, aclrtDestroyStream, void *stream)                                              \
	X(int, aclrtSynchronizeStream, void *stream)
static struct {
	ACL_CALLS(MEMBER)
	void *words;
} acl;

static void acl_open(void)
{
	void *lib = library("libascendcl.so");

	ACL_CALLS(FIND)
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtMalloc(&acl.words, 4096, 0));
}

static void *acl_queue(void)
{
	void *stream;

	MUST(aclrtSetDevice(0)); /* for this thread */
	MUST(aclrtCreateStream(&stream));
	return stream;
}

static void acl_submit(void *queue)
{
	MUST(aclrtSetDevice(0));
	MUST(aclrtMemsetAsync(acl.words, 4096, 7, 4096, queue));
}

static void acl_wait(void *queue)
{
	MUST(aclrtSynchronizeStream(queue));
}

static void acl_end(void *queue)
{
	MUST(aclrtDestroyStream(queue));
}

/* --- cuDLA: a device alone each --- */

#undef CALLS
#define CALLS dla
#define DLA_CALLS(X)                                                                       \
	X(int, cudlaCreateDevice, uint64_t number, void **device, uint32_t flags)          \
	X(int, cudlaModuleLoadFromMemory, void *device, const uint8_t *bytes, size_t size, \
		void **module, uint32_t flags)                                             \
	X(int, cudlaModuleUnload, void *module, uint32_t flags)                            \
	X(int, cudlaDestroyDevice, void *device)                                           \
	X(int, cudlaSubmitTask, void *device, const struct dla_task *tasks, uint32_t n,    \
		void *stream, uint32_t flags)
struct dla_task {
	void *module;
	uint64_t *const *outputs;
	uint32_t n_outputs, n_inputs;
	uint64_t *const *inputs;
	const void *waits;
	const struct dla_signals {
		uint64_t *const *objects;
		const struct dla_fence {
			void *fence;
			int type;
		} * fences;
		uint32_t n;
	} * signals;
};
static struct {
	DLA_CALLS(MEMBER)
	uint64_t tensor[64];
	_Atomic uint64_t done[MOST]; /* by tasks, of whatever device */
	unsigned submitted;
	struct dla_module {
		void *device, *module;
	} of[MOST];
} dla;

static void dla_open(void)
{
	void *lib = library("libcudla.so.1");

	DLA_CALLS(FIND)
}

static void *dla_queue(void)
{
	static const uint8_t loadable[] = {7};
	struct dla_module *m = dla.of;

	while (m->device)
		m++;
	MUST(cudlaCreateDevice(0, &m->device, 1));
	MUST(cudlaModuleLoadFromMemory(m->device, loadable, sizeof(loadable), &m->module, 0));
	return m->device;
}

/* An event that is submitted alone belongs to the next task. */
static void dla_submit(void *queue)
{
	_Atomic uint64_t *done = &dla.done[++dla.submitted % MOST];
	uint64_t *const tensors[] = {dla.tensor};
	const struct dla_fence fence = {(void *)done, 1};
	const struct dla_signals signals = {NULL, &fence, 1};
	struct dla_task task = {NULL, tensors, 1, 1, tensors, NULL, &signals}, event = {0};

	for (struct dla_module *m = dla.of; m->device; m++)
		task.module = m->device == queue ? m->module : task.module;
	*done = 0;
	MUST(cudlaSubmitTask(queue, &event, 1, NULL, 0));
	MUST(cudlaSubmitTask(queue, &task, 1, NULL, 0));
}

static void dla_wait(void *queue)
{
	while (!dla.done[dla.submitted % MOST])
		usleep(100);
}

static void dla_end(void *queue)
{
	struct dla_module *m = dla.of;

	while (m->device != queue)
		m++;
	MUST(cudlaModuleUnload(m->module, 0));
	MUST(cudlaDestroyDevice(queue));
	m->device = m; /* its place is not used again */
}

/* --- all of them --- */

static struct api {
	const char *name;
	void (*open)(void);
	void *(*queue)(void);
	void (*submit)(void *queue);
	void (*wait)(void *queue);
	void (*end)(void *queue);
	void (*hold)(void *queue, void (*wait)(void));
	void *first;
} apis[] = {
	{"opencl", cl_open, cl_queue, cl_submit, cl_wait, cl_end, cl_hold, NULL},
	{"cuda", cu_open, cu_queue, cu_submit, cu_wait, cu_end, cu_hold, NULL},
	{"hip", hip_open, hip_queue, hip_submit, hip_wait, hip_end, NULL, NULL},
	{"vpi", vpi_open, vpi_queue, vpi_submit, vpi_wait, vpi_end, NULL, NULL},
	{"acl", acl_open, acl_queue, acl_submit, acl_wait, acl_end, NULL, NULL},
	{"cudla", dla_open, dla_queue, dla_submit, dla_wait, dla_end, NULL, NULL},
#ifdef HAVE_VULKAN
	{"vulkan", vk_open, vk_queue, vk_submit, vk_wait, vk_end, NULL, NULL},
#endif
#ifdef HAVE_ZE
	{"ze", ze_open, ze_queue, ze_submit, ze_wait, ze_end, NULL, NULL},
#endif
};

static struct {
	struct api *api;
	void *queue;
} used[MOST];
static size_t n_used;

static struct api *api_of(const char *name)
{
	for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++)
		if (!strcmp(apis[i].name, name))
			return &apis[i];
	return NULL;
}

static struct api *need(const char *name)
{
	struct api *a = api_of(name);

	if (!a)
		die("built without %s", name);
	return a;
}

static void work(const struct api *a, void *queue)
{
	a->submit(queue);
	a->wait(queue);
}

static int add(struct api *a)
{
	if (n_used == sizeof(used) / sizeof(used[0]))
		die("too many queues");
	used[n_used].api = a;
	used[n_used].queue = a->queue();
	work(a, used[n_used].queue);
	a->first = a->first ? a->first : used[n_used].queue;
	n_used++;
	return 0;
}

static void *elsewhere(void *api)
{
	add(api);
	return NULL;
}

static int add_elsewhere(struct api *a)
{
	pthread_t t;

	must(pthread_create(&t, NULL, elsewhere, a), "pthread_create");
	return pthread_join(t, NULL);
}

/* What is not of the driver holds in a child; what is of the driver is not asked there. */
static int forked(void)
{
	struct fm_binding b = {.size = sizeof(b), .group = "child"};
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(fm_bind("none", &b, &b) != -ENOSYS || fm_thread_bind(&b) ||
			fm_thread_bind(NULL));
	waitpid(pid, &status, 0);
	return status;
}

static int bind(const char *api, const char *group, const char *priority, bool thread)
{
	const struct fm_binding_hint hint = {FM_HINT_PRIORITY, priority ? atoi(priority) : 0};
	struct fm_binding b = {.size = sizeof(b),
		.group = strcmp(group, ".") ? group : NULL,
		.hints = &hint,
		.hint_count = priority != NULL};
	struct api *a = thread ? NULL : api_of(api);

	if (thread)
		return fm_thread_bind(strcmp(group, "-") ? &b : NULL);
	return fm_bind(api, a && a->first ? a->first : &b, &b);
}

static int add_many(struct api *a, const char *n)
{
	for (int left = n ? atoi(n) : 1; left; left--)
		add(a);
	return 0;
}

static void await_go(const char *where)
{
	char line[8];

	puts(where);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static void await_go_held(void)
{
	await_go("held");
}

static int hold(struct api *a)
{
	a->hold(a->first, await_go_held);
	return 0;
}

struct cancelled {
	const struct api *api;
	void *queue;
	_Atomic bool through;
};

static void *is_cancelled(void *arg)
{
	struct cancelled *c = arg;

	pthread_cancel(pthread_self());
	c->api->submit(c->queue);
	c->through = true;
	pthread_testcancel();
	return NULL;
}

static int cancel(struct api *a, const char *held)
{
	struct cancelled c = {.api = a};
	pthread_t t;
	void *end;

	if (held)
		await_go("held");
	for (unsigned i = 0; i < 10; i++) {
		c.queue = i % 2 ? a->queue() : a->first;
		c.through = false;
		must(pthread_create(&t, NULL, is_cancelled, &c), "pthread_create");
		must(pthread_join(t, &end), "pthread_join");
		if (!c.through || end != PTHREAD_CANCELED)
			return 1;
		a->wait(c.queue);
	}
	return 0;
}

static int end(struct api *a, bool busy)
{
	await_go("held");
	if (busy)
		a->submit(a->first);
	a->end(a->first);
	await_go("ended");
	for (size_t i = 0; i < n_used; i++) {
		if (used[i].queue != a->first)
			continue;
		used[i].queue = a->first = a->queue();
		work(a, a->first);
		return 0;
	}
	return -ENOENT;
}

static char **arguments;

static int again(void)
{
	execv(arguments[0], arguments);
	return errno;
}

static int act(char *line)
{
	char *verb = strtok(line, " "), *a = strtok(NULL, " "), *b = strtok(NULL, " "),
	     *c = strtok(NULL, " ");

	if (!strcmp(verb, "bind"))
		return bind(a, b, c, false);
	if (!strcmp(verb, "unbind"))
		return fm_unbind(a, need(a)->first ? need(a)->first : line);
	if (!strcmp(verb, "thread"))
		return bind(NULL, a, b, true);
	if (!strcmp(verb, "more"))
		return add_many(need(a), b);
	if (!strcmp(verb, "elsewhere"))
		return add_elsewhere(need(a));
	if (!strcmp(verb, "hold"))
		return hold(need(a));
	if (!strcmp(verb, "cancel"))
		return cancel(need(a), b);
	if (!strcmp(verb, "end"))
		return end(need(a), !strcmp(b, "busy"));
	if (!strcmp(verb, "exec"))
		return again();
	if (!strcmp(verb, "fork"))
		return forked();
	die("unknown command: %s", line);
}

/* False: it was the end. */
static bool obey(void)
{
	char line[96];

	if (!fgets(line, sizeof(line), stdin) || !strcmp(line, "stop\n"))
		return false;
	line[strcspn(line, "\n")] = '\0';
	printf("did %d\n", act(line));
	return true;
}

/* Loaded as a library (bind_python.py): another queue of that API, which has had a command. */
__attribute__((visibility("default"))) void *any_queue(const char *name);
void *any_queue(const char *name)
{
	struct api *a = need(name);

	if (!a->first)
		a->open();
	add(a);
	return used[n_used - 1].queue;
}

/* A command to each queue, which it waits for. */
__attribute__((visibility("default"))) void any_round(void);
void any_round(void)
{
	for (size_t i = 0; i < n_used; i++)
		work(used[i].api, used[i].queue);
}

int main(int argc, char **argv)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned rounds = 0;

	arguments = argv;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "thread=", 7)) {
			printf("did %d\n", bind(NULL, argv[i] + 7, NULL, true));
			continue;
		}
		need(argv[i])->open();
		add(need(argv[i]));
	}
	puts("ready");
	do {
		any_round();
		printf("at %u\n", ++rounds);
		usleep(1000); /* what reads it is not drowned */
	} while (poll(&in, 1, 0) <= 0 || obey());
	printf("done %u wrong 0\n", rounds);
	return 0;
}
