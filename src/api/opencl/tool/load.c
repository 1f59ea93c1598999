/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that computes for a given time, by plain OpenCL. */
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#define PLATFORMS 16
#define DEVICES   64

#define CL_FUNCTIONS(X)              \
	X(clGetPlatformIDs)          \
	X(clGetPlatformInfo)         \
	X(clGetDeviceIDs)            \
	X(clGetDeviceInfo)           \
	X(clCreateContext)           \
	X(clCreateCommandQueue)      \
	X(clCreateBuffer)            \
	X(clCreateProgramWithSource) \
	X(clBuildProgram)            \
	X(clCreateKernel)            \
	X(clSetKernelArg)            \
	X(clEnqueueNDRangeKernel)    \
	X(clEnqueueWriteBuffer)      \
	X(clEnqueueReadBuffer)       \
	X(clFlush)                   \
	X(clWaitForEvents)           \
	X(clReleaseEvent)            \
	X(clReleaseMemObject)        \
	X(clReleaseKernel)           \
	X(clReleaseProgram)          \
	X(clReleaseCommandQueue)     \
	X(clReleaseContext)

#define GROUP 32u

/* Each step depends on the one before, so no compiler can shorten the loop. */
static const char source[] = "__kernel void spin(__global uint *out, uint steps)\n"
			     "{\n"
			     "	uint x = get_global_id(0);\n"
			     "	for (uint i = 0; i < steps; i++)\n"
			     "		x = (x ^ (x >> 7)) * 2654435761u + i;\n"
			     "	out[get_global_id(0)] = x;\n"
			     "}\n";

struct ocl {
#define MEMBER(name) __typeof__(name) *name;
	CL_FUNCTIONS(MEMBER)
#undef MEMBER
	cl_platform_id platform;
	cl_device_id dev;
	cl_context ctx;
	cl_command_queue q;
	cl_program program;
	cl_kernel kernel;
	cl_mem out, copied; /* copied: of the requested size */
	size_t items, bytes;
	char *host; /* of the same size */
	cl_event event[LOAD_DEPTH];
};

static const char *load(struct ocl *o)
{
	void *lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	bool whole = true;

	if (!lib)
		return "there is no OpenCL loader (Debian: ocl-icd-libopencl1)";
#define LOAD(name)                                       \
	o->name = (__typeof__(name) *)dlsym(lib, #name); \
	whole = whole && o->name;
	CL_FUNCTIONS(LOAD)
#undef LOAD
	return whole ? NULL : "the OpenCL loader lacks functions of OpenCL 1.2";
}

/* In the order in which `fermata doctor' lists them. */
static bool find(struct ocl *o, unsigned index)
{
	cl_platform_id platforms[PLATFORMS];
	cl_device_id devices[DEVICES];
	cl_uint np = 0, nd;

	if (o->clGetPlatformIDs(PLATFORMS, platforms, &np))
		return false;
	for (cl_uint i = 0; i < FM_MIN(np, (cl_uint)PLATFORMS); i++) {
		nd = 0;
		if (o->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES, devices, &nd))
			continue;
		nd = FM_MIN(nd, (cl_uint)DEVICES);
		if (index < nd) {
			o->platform = platforms[i];
			o->dev = devices[index];
			return true;
		}
		index -= nd;
	}
	return false;
}

static void describe(struct ocl *o, struct load *l)
{
	struct fm_bench_device *a = &l->about;

	if (o->clGetDeviceInfo(o->dev, CL_DEVICE_NAME, sizeof(a->name) - 1, a->name, NULL))
		strcpy(a->name, "-");
	if (o->clGetDeviceInfo(o->dev, CL_DRIVER_VERSION, sizeof(a->driver) - 1, a->driver, NULL))
		strcpy(a->driver, "-");
	if (o->clGetPlatformInfo(
		    o->platform, CL_PLATFORM_NAME, sizeof(a->platform) - 1, a->platform, NULL))
		strcpy(a->platform, "-");
}

/* As many work-items as keep every compute unit busy. */
static const char *prepare(struct ocl *o)
{
	const char *text = source;
	cl_uint units = 1;
	cl_int rc;

	o->clGetDeviceInfo(o->dev, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	o->items = (size_t)FM_MAX(units, 1u) * 2 * GROUP;
	o->ctx = o->clCreateContext(NULL, 1, &o->dev, NULL, NULL, &rc);
	if (!o->ctx)
		return "no context can be created";
	o->q = o->clCreateCommandQueue(o->ctx, o->dev, 0, &rc);
	o->out = o->clCreateBuffer(o->ctx, CL_MEM_READ_WRITE,
		FM_MAX(o->items, (size_t)LOAD_BLOCKS * GROUP) * sizeof(cl_uint), NULL, &rc);
	if (!o->q || !o->out)
		return "no queue or buffer can be created";
	o->program = o->clCreateProgramWithSource(o->ctx, 1, &text, NULL, &rc);
	if (!o->program || o->clBuildProgram(o->program, 1, &o->dev, "", NULL, NULL))
		return "a kernel does not build";
	o->kernel = o->clCreateKernel(o->program, "spin", &rc);
	if (!o->kernel || o->clSetKernelArg(o->kernel, 0, sizeof(o->out), &o->out))
		return "a kernel cannot be created";
	return NULL;
}

static const char *ocl_open(struct load *l, unsigned index)
{
	struct ocl *o = calloc(1, sizeof(*o));
	const char *wrong;

	if (!o)
		return "out of memory";
	l->priv = o;
	wrong = load(o);
	if (!wrong && !find(o, index))
		wrong = "OpenCL has no such device; `fermata doctor' lists them";
	if (wrong)
		return wrong;
	describe(o, l);
	return prepare(o);
}

static const char *ocl_launch(struct load *l, unsigned slot, uint64_t amount, uint32_t blocks)
{
	struct ocl *o = l->priv;
	const size_t group = GROUP, items = blocks ? (size_t)blocks * GROUP : o->items;
	const cl_uint steps = (cl_uint)amount;
	cl_event *event = slot < LOAD_DEPTH ? &o->event[slot] : NULL;

	if (o->clSetKernelArg(o->kernel, 1, sizeof(steps), &steps) ||
		o->clEnqueueNDRangeKernel(
			o->q, o->kernel, 1, NULL, &items, &group, 0, NULL, event) ||
		o->clFlush(o->q))
		return "a kernel was refused";
	return NULL;
}

static const char *ocl_wait(struct load *l, unsigned slot)
{
	struct ocl *o = l->priv;
	cl_int rc = o->clWaitForEvents(1, &o->event[slot]);

	o->clReleaseEvent(o->event[slot]);
	return rc ? "a kernel failed" : NULL;
}

static bool make_room(struct ocl *o, size_t bytes)
{
	cl_int rc;

	if (bytes <= o->bytes)
		return true;
	if (o->copied)
		o->clReleaseMemObject(o->copied);
	free(o->host);
	o->bytes = 0;
	o->host = calloc(1, bytes);
	o->copied = o->clCreateBuffer(o->ctx, CL_MEM_READ_WRITE, bytes, NULL, &rc);
	o->bytes = o->host && o->copied ? bytes : 0;
	return o->bytes > 0;
}

static const char *ocl_copy(struct load *l, bool back, size_t bytes)
{
	struct ocl *o = l->priv;
	cl_int rc;

	if (!make_room(o, bytes))
		return "no memory to copy";
	rc = back ? o->clEnqueueReadBuffer(
			    o->q, o->copied, CL_TRUE, 0, bytes, o->host, 0, NULL, NULL)
		  : o->clEnqueueWriteBuffer(
			    o->q, o->copied, CL_TRUE, 0, bytes, o->host, 0, NULL, NULL);
	return rc ? "a copy failed" : NULL;
}

static void ocl_close(struct load *l)
{
	struct ocl *o = l->priv;

	if (!o)
		return;
	if (o->kernel)
		o->clReleaseKernel(o->kernel);
	if (o->program)
		o->clReleaseProgram(o->program);
	if (o->copied)
		o->clReleaseMemObject(o->copied);
	if (o->out)
		o->clReleaseMemObject(o->out);
	if (o->q)
		o->clReleaseCommandQueue(o->q);
	if (o->ctx)
		o->clReleaseContext(o->ctx);
	free(o->host);
	free(o);
	l->priv = NULL;
}

const struct load_ops tool_opencl_load = {.kind = "opencl",
	.native = true,
	.open = ocl_open,
	.launch = ocl_launch,
	.wait = ocl_wait,
	.copy = ocl_copy,
	.close = ocl_close};
