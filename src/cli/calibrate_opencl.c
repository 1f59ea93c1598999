/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that computes for as long as it is told, by plain OpenCL. */
#include "base/util.h"
#include "calibrate.h"
#include <dlfcn.h>
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
	X(clFlush)                   \
	X(clWaitForEvents)           \
	X(clReleaseEvent)

#define GROUP 32u

/* Each step needs the one before, so that no compiler shortens it. */
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
	cl_kernel kernel;
	size_t items;
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
	if (o->clGetDeviceInfo(o->dev, CL_DEVICE_NAME, sizeof(l->name) - 1, l->name, NULL))
		strcpy(l->name, "-");
	if (o->clGetDeviceInfo(o->dev, CL_DRIVER_VERSION, sizeof(l->driver) - 1, l->driver, NULL))
		strcpy(l->driver, "-");
	if (o->clGetPlatformInfo(
		    o->platform, CL_PLATFORM_NAME, sizeof(l->platform) - 1, l->platform, NULL))
		strcpy(l->platform, "-");
}

/* As many work-items as keep every compute unit busy. */
static const char *prepare(struct ocl *o)
{
	const char *text = source;
	cl_uint units = 1;
	cl_program program;
	cl_mem out;
	cl_int rc;

	o->clGetDeviceInfo(o->dev, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	o->items = (size_t)FM_MAX(units, 1u) * 2 * GROUP;
	o->ctx = o->clCreateContext(NULL, 1, &o->dev, NULL, NULL, &rc);
	if (!o->ctx)
		return "no context can be created";
	o->q = o->clCreateCommandQueue(o->ctx, o->dev, 0, &rc);
	out = o->clCreateBuffer(o->ctx, CL_MEM_READ_WRITE, o->items * sizeof(cl_uint), NULL, &rc);
	if (!o->q || !out)
		return "no queue or buffer can be created";
	program = o->clCreateProgramWithSource(o->ctx, 1, &text, NULL, &rc);
	if (!program || o->clBuildProgram(program, 1, &o->dev, "", NULL, NULL))
		return "a kernel does not build";
	o->kernel = o->clCreateKernel(program, "spin", &rc);
	if (!o->kernel || o->clSetKernelArg(o->kernel, 0, sizeof(out), &out))
		return "a kernel cannot be created";
	return NULL;
}

static const char *ocl_open(struct load *l, unsigned index)
{
	static struct ocl o;
	const char *wrong = load(&o);

	if (!wrong && !find(&o, index))
		wrong = "OpenCL has no such device; `fermata doctor' lists them";
	if (wrong)
		return wrong;
	describe(&o, l);
	l->priv = &o;
	return prepare(&o);
}

static const char *ocl_launch(struct load *l, unsigned slot, uint64_t amount)
{
	struct ocl *o = l->priv;
	const size_t group = GROUP;
	cl_uint steps = (cl_uint)amount;

	if (o->clSetKernelArg(o->kernel, 1, sizeof(steps), &steps) ||
		o->clEnqueueNDRangeKernel(
			o->q, o->kernel, 1, NULL, &o->items, &group, 0, NULL, &o->event[slot]) ||
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

const struct load_ops load_opencl = {
	.kind = "opencl", .native = true, .open = ocl_open, .launch = ocl_launch, .wait = ocl_wait};
