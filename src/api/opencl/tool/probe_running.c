/* SPDX-License-Identifier: Apache-2.0 */
/* What level 3 needs of an OpenCL device: a running kernel sees what the host writes. */
#include "base/clock.h"
#include "doctor/probe.h"
#include <dlfcn.h>
#include <stdatomic.h>

#define CL_TARGET_OPENCL_VERSION 200
#include "probe_running.h"

#define LOOK_NS   (100 * FM_US)
#define BEGIN_NS  (2 * FM_S)
#define FINISH_NS (10 * FM_S)

/* Functions of OpenCL 2.0, and others that a trial needs. */
#define FUNCTIONS(X)                          \
	X(clGetDeviceInfo)                    \
	X(clCreateContext)                    \
	X(clReleaseContext)                   \
	X(clCreateCommandQueueWithProperties) \
	X(clReleaseCommandQueue)              \
	X(clCreateProgramWithSource)          \
	X(clBuildProgram)                     \
	X(clReleaseProgram)                   \
	X(clCreateKernel)                     \
	X(clReleaseKernel)                    \
	X(clSVMAlloc)                         \
	X(clSVMFree)                          \
	X(clSetKernelArgSVMPointer)           \
	X(clEnqueueNDRangeKernel)             \
	X(clFlush)                            \
	X(clGetEventInfo)                     \
	X(clReleaseEvent)

struct calls {
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

/* It ends by itself after some seconds. */
static const char source[] = "__kernel void look(volatile __global uint *word)\n"
			     "{\n"
			     "	uint n = 0;\n"
			     "	word[1] = 1;\n"
			     "	while (!word[0] && ++n < 1000000000u) ;\n"
			     "	word[2] = n;\n"
			     "}\n";

struct running {
	struct calls cl;
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_event event;
	_Atomic uint32_t *word;
};

static bool find(struct calls *cl, void *lib)
{
	bool all = true;

#define LOAD(name)                                        \
	cl->name = (__typeof__(name) *)dlsym(lib, #name); \
	all = all && cl->name;
	FUNCTIONS(LOAD)
#undef LOAD
	return all;
}

static bool build(struct running *r, cl_device_id device)
{
	const char *text = source;
	cl_int rc;

	r->context = r->cl.clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
	if (!r->context)
		return false;
	r->queue = r->cl.clCreateCommandQueueWithProperties(r->context, device, NULL, &rc);
	r->program = r->cl.clCreateProgramWithSource(r->context, 1, &text, NULL, &rc);
	if (!r->queue || !r->program ||
		r->cl.clBuildProgram(r->program, 1, &device, "", NULL, NULL))
		return false;
	r->kernel = r->cl.clCreateKernel(r->program, "look", &rc);
	r->word = r->cl.clSVMAlloc(r->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
		3 * sizeof(*r->word), 0);
	return r->kernel && r->word;
}

static bool launch(struct running *r)
{
	size_t one = 1;

	for (unsigned i = 0; i < 3; i++)
		atomic_store(&r->word[i], 0);
	return !r->cl.clSetKernelArgSVMPointer(r->kernel, 0, (void *)r->word) &&
	       !r->cl.clEnqueueNDRangeKernel(
		       r->queue, r->kernel, 1, NULL, &one, &one, 0, NULL, &r->event) &&
	       !r->cl.clFlush(r->queue);
}

static bool is_over(struct running *r)
{
	cl_int status = CL_QUEUED;

	return r->cl.clGetEventInfo(r->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
		       &status, NULL) ||
	       status <= CL_COMPLETE;
}

static bool has_begun(struct running *r)
{
	return atomic_load(&r->word[1]);
}

static bool within(struct running *r, bool (*is)(struct running *r), uint64_t ns)
{
	const struct timespec pause = fm_timespec(LOOK_NS);
	uint64_t end = fm_now() + ns;

	while (!is(r)) {
		if (fm_now() > end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* A kernel may still be running: its objects are not released, since this process ends soon. */
static void end(struct running *r)
{
	if (r->event)
		r->cl.clReleaseEvent(r->event);
	if (r->word)
		r->cl.clSVMFree(r->context, (void *)r->word);
	if (r->kernel)
		r->cl.clReleaseKernel(r->kernel);
	if (r->program)
		r->cl.clReleaseProgram(r->program);
	if (r->queue)
		r->cl.clReleaseCommandQueue(r->queue);
	if (r->context)
		r->cl.clReleaseContext(r->context);
}

bool probe_running(void *lib, cl_device_id device)
{
	cl_device_svm_capabilities svm = 0;
	struct running r = {.context = NULL};
	bool sees, over;

	if (!find(&r.cl, lib) ||
		r.cl.clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof(svm), &svm, NULL) ||
		!(svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
		return false;
	if (!build(&r, device) || !launch(&r)) {
		end(&r);
		return false;
	}
	sees = within(&r, has_begun, BEGIN_NS) && !is_over(&r);
	atomic_store(&r.word[0], 1);
	over = within(&r, is_over, FINISH_NS);
	sees = sees && over && atomic_load(&r.word[2]) < 1000000000u;
	if (over)
		end(&r);
	return sees;
}
