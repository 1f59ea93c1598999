/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/probe.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include "probe_running.h"

#define PLATFORMS 16
#define DEVICES   64
#define STALL_NS  (20 * FM_MS)
#define FINISH_NS (5 * FM_S)
#define STEP_NS   (200 * FM_US)

/* Lines besides those of doctor/probe.h: first {"step":"loader","path":...} or
 * {"step":"loader","error":...}; and {"step":"layer","loaded":bool} if the loader has been given a
 * layer. */

/* All functions are looked up at run time, so that doctor works on a machine without OpenCL. */
#define CL_FUNCTIONS(X)                 \
	X(clGetPlatformIDs)             \
	X(clGetPlatformInfo)            \
	X(clGetDeviceIDs)               \
	X(clGetDeviceInfo)              \
	X(clCreateContext)              \
	X(clReleaseContext)             \
	X(clCreateCommandQueue)         \
	X(clReleaseCommandQueue)        \
	X(clCreateUserEvent)            \
	X(clSetUserEventStatus)         \
	X(clEnqueueBarrierWithWaitList) \
	X(clEnqueueMarkerWithWaitList)  \
	X(clGetEventInfo)               \
	X(clReleaseEvent)               \
	X(clFlush)

struct cl {
#define MEMBER(name) __typeof__(name) *name;
	CL_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct probe {
	struct cl cl;
	void *lib;
	FILE *out;
};

static void tell(struct probe *p, json_t *line)
{
	probe_tell(p->out, line);
}

static bool load(struct probe *p)
{
	void *lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	FM_CLEAN_FREE char *path = NULL;
	struct link_map *map;
	const char *missing = NULL;

	if (!lib) {
		tell(p, json_pack("{s:s, s:s}", "step", "loader", "error", dlerror()));
		return false;
	}
#define LOAD(name)                                          \
	p->cl.name = (__typeof__(name) *)dlsym(lib, #name); \
	missing = p->cl.name ? missing : #name;
	CL_FUNCTIONS(LOAD)
#undef LOAD
	p->lib = lib;
	if (missing) {
		tell(p, json_pack("{s:s, s:s+}", "step", "loader", "error", "it lacks ", missing));
		return false;
	}
	path = dlinfo(lib, RTLD_DI_LINKMAP, &map) ? NULL : strdup(map->l_name);
	tell(p, json_pack("{s:s, s:s}", "step", "loader", "path", path ? path : "libOpenCL.so.1"));
	return true;
}

/* CL_COMPLETE, a negative error, or CL_SUBMITTED if the event does not finish in time. */
static cl_int await(struct probe *p, cl_event event, uint64_t limit_ns)
{
	const struct timespec pause = fm_timespec(STEP_NS);
	uint64_t end = fm_now() + limit_ns;
	cl_int status = CL_SUBMITTED;

	do {
		if (p->cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
			    &status, NULL) != CL_SUCCESS)
			return CL_INVALID_EVENT;
		if (status <= CL_COMPLETE)
			return status;
		nanosleep(&pause, NULL);
	} while (fm_now() < end);
	return CL_SUBMITTED;
}

/* The handles of one trial. Those that have been made are released. */
struct trial {
	cl_context context;
	cl_command_queue queue;
	cl_event gate, barrier, marker;
};

static void end_trial(struct probe *p, struct trial *t)
{
	if (t->marker)
		p->cl.clReleaseEvent(t->marker);
	if (t->barrier)
		p->cl.clReleaseEvent(t->barrier);
	if (t->gate)
		p->cl.clReleaseEvent(t->gate);
	if (t->queue)
		p->cl.clReleaseCommandQueue(t->queue);
	if (t->context)
		p->cl.clReleaseContext(t->context);
}

static const char *enqueue_gated(struct probe *p, cl_device_id device, struct trial *t)
{
	cl_int rc = CL_SUCCESS;

	t->context = p->cl.clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
	if (!t->context || rc)
		return "no context can be created";
	t->queue = p->cl.clCreateCommandQueue(t->context, device, 0, &rc);
	if (!t->queue || rc)
		return "no command queue can be created";
	t->gate = p->cl.clCreateUserEvent(t->context, &rc);
	if (!t->gate || rc)
		return "no user event can be created";
	if (p->cl.clEnqueueBarrierWithWaitList(t->queue, 1, &t->gate, &t->barrier) ||
		p->cl.clEnqueueMarkerWithWaitList(t->queue, 0, NULL, &t->marker) ||
		p->cl.clFlush(t->queue))
		return "commands cannot wait for events";
	return NULL;
}

/* Does a marker behind a barrier that waits for a user event stay until the event is set, and
 * finish then? The gate is always opened: releasing the handles may wait for it. */
static int try_levels(struct probe *p, cl_device_id device, const char **text)
{
	struct trial t = {0};
	bool stalled, finished = false;

	*text = enqueue_gated(p, device, &t);
	stalled = !*text && await(p, t.marker, STALL_NS) > CL_COMPLETE;
	if (t.gate)
		p->cl.clSetUserEventStatus(t.gate, CL_COMPLETE);
	if (!*text) {
		finished = await(p, t.marker, FINISH_NS) == CL_COMPLETE;
		*text = !finished ? "a queue did not go on when its gate opened"
			: stalled ? "queues stall at a closed gate and go on when it opens"
				  : "queues do not stall at a closed gate";
	}
	end_trial(p, &t);
	return !finished ? 0 : stalled ? 2 : 1;
}

static json_t *device_string(struct probe *p, cl_device_id device, cl_device_info what)
{
	char text[256] = "";
	json_t *s;

	if (p->cl.clGetDeviceInfo(device, what, sizeof(text) - 1, text, NULL))
		return json_string("-");
	s = json_string(text);
	return s ? s : json_string("-");
}

static const char *type_of(struct probe *p, cl_device_id device)
{
	cl_device_type type = 0;

	if (p->cl.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL))
		return "unknown";
	return type & CL_DEVICE_TYPE_GPU           ? "gpu"
	       : type & CL_DEVICE_TYPE_CPU         ? "cpu"
	       : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
						   : "other";
}

static void probe_device(struct probe *p, cl_platform_id platform, cl_device_id device)
{
	char name[256] = "-";
	const char *text;
	json_t *levels, *platform_name;
	int deepest;

	if (p->cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL))
		strcpy(name, "-");
	platform_name = json_string(name);
	tell(p, json_pack("{s:s, s:o, s:o, s:o, s:s}", "step", "device", "name",
			device_string(p, device, CL_DEVICE_NAME), "platform",
			platform_name ? platform_name : json_string("-"), "version",
			device_string(p, device, CL_DRIVER_VERSION), "type", type_of(p, device)));
	deepest = try_levels(p, device, &text);
	if (deepest == 2 && probe_running(p->lib, device)) {
		deepest = 3;
		text = "queues stall at a closed gate and go on when it opens; kernels that run "
		       "see what the host writes";
	}
	levels = json_array();
	for (int l = 1; l <= deepest; l++)
		json_array_append_new(levels, json_integer(l));
	tell(p, json_pack("{s:s, s:o, s:s}", "step", "levels", "levels", levels, "text", text));
}

static void probe_devices(struct probe *p)
{
	cl_platform_id platforms[PLATFORMS];
	cl_device_id devices[DEVICES];
	cl_uint np = 0, nd;

	if (p->cl.clGetPlatformIDs(PLATFORMS, platforms, &np))
		return;
	for (cl_uint i = 0; i < FM_MIN(np, (cl_uint)PLATFORMS); i++) {
		nd = 0;
		if (p->cl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES, devices, &nd))
			continue;
		for (cl_uint j = 0; j < FM_MIN(nd, (cl_uint)DEVICES); j++)
			probe_device(p, platforms[i], devices[j]);
	}
}

static int is_layer(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	(void)arg;
	return !strcmp(base ? base + 1 : info->dlpi_name, TOOL_OPENCL_LAYER);
}

/* The first call makes the loader read OPENCL_LAYERS. The devices are not looked at here. */
static void probe_layer(struct probe *p)
{
	cl_uint n = 0;

	p->cl.clGetPlatformIDs(0, NULL, &n);
	tell(p, json_pack(
			"{s:s, s:b}", "step", "layer", "loaded", dl_iterate_phdr(is_layer, NULL)));
	probe_devices(p);
}

void tool_opencl_probe(FILE *out)
{
	struct probe p = {.out = out};

	if (load(&p))
		probe_devices(&p);
}

void tool_opencl_probe_layer(FILE *out)
{
	struct probe p = {.out = out};

	if (load(&p))
		probe_layer(&p);
}
