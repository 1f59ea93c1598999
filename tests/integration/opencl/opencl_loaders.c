/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL's loader opened when it is needed, and closed again, as libraries do.
 * usage: opencl_loaders HOW [LOADER...]
 *	lives		five times: open each loader, work, release all, close; LOADERs take turns
 *	leak		the same, and nothing is released before the loader is closed
 *	both		all open at one time: each works in turn, then they are closed in the same
 *order many		as both, with a queue of each kept until all others are closed
 *	space		as lives, in a namespace of its own (dlmopen)
 *	ask		what each says of extensions' functions
 * A HOW that ends with '-' exits while the kernels of the last life are under way.
 */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVES 5
#define STEPS 300
#define N     ((size_t)1 << 16)
#define MOST  8

#define CALLS(X)                     \
	X(clGetPlatformIDs)          \
	X(clGetDeviceIDs)            \
	X(clCreateContext)           \
	X(clCreateCommandQueue)      \
	X(clCreateProgramWithSource) \
	X(clBuildProgram)            \
	X(clCreateKernel)            \
	X(clCreateBuffer)            \
	X(clSetKernelArg)            \
	X(clEnqueueFillBuffer)       \
	X(clEnqueueNDRangeKernel)    \
	X(clEnqueueReadBuffer)       \
	X(clFlush)                   \
	X(clFinish)                  \
	X(clReleaseKernel)           \
	X(clReleaseProgram)          \
	X(clReleaseMemObject)        \
	X(clReleaseCommandQueue)     \
	X(clReleaseContext)          \
	X(clGetExtensionFunctionAddressForPlatform)

struct loader {
	void *handle;
#define FIELD(name) __typeof__(&name) name;
	CALLS(FIELD)
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem memory;
};

static const char source[] = "kernel void add(global int *a, int steps)"
			     "{ size_t i = get_global_id(0); int x = a[i];"
			     "  for (int j = 0; j < steps; j++) x = x * 3 + 1;"
			     "  a[i] = x; }";

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "opencl_loaders: %s\n", what);
	exit(1);
}

static void open_loader(struct loader *l, const char *name, bool space)
{
	l->handle = space ? dlmopen(LM_ID_NEWLM, name, RTLD_NOW) : dlopen(name, RTLD_NOW);
	need(l->handle, name);
#define FIND(call)                                    \
	*(void **)&l->call = dlsym(l->handle, #call); \
	need(l->call, #call);
	CALLS(FIND)
}

static void make(struct loader *l)
{
	const char *text = source;
	cl_platform_id platform;
	cl_device_id device;
	cl_int rc;

	need(!l->clGetPlatformIDs(1, &platform, NULL), "no platform");
	need(!l->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "no device");
	l->context = l->clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
	l->queue = l->clCreateCommandQueue(l->context, device, 0, &rc);
	need(!rc, "no queue");
	l->program = l->clCreateProgramWithSource(l->context, 1, &text, NULL, &rc);
	need(!l->clBuildProgram(l->program, 1, &device, "", NULL, NULL), "no program");
	l->kernel = l->clCreateKernel(l->program, "add", &rc);
	l->memory = l->clCreateBuffer(l->context, CL_MEM_READ_WRITE, N * sizeof(cl_int), NULL, &rc);
	need(!rc, "no buffer");
}

static void launch(struct loader *l, int n)
{
	const size_t size = N, group = 64;
	const cl_int zero = 0, steps = STEPS;

	need(!l->clEnqueueFillBuffer(
		     l->queue, l->memory, &zero, sizeof(zero), 0, N * sizeof(zero), 0, NULL, NULL),
		"no fill");
	l->clSetKernelArg(l->kernel, 0, sizeof(l->memory), &l->memory);
	l->clSetKernelArg(l->kernel, 1, sizeof(steps), &steps);
	for (int i = 0; i < n; i++)
		need(!l->clEnqueueNDRangeKernel(
			     l->queue, l->kernel, 1, NULL, &size, &group, 0, NULL, NULL),
			"no launch");
	l->clFlush(l->queue);
}

static void work(struct loader *l)
{
	static cl_int got[N];
	uint32_t x = 0;

	launch(l, 3);
	for (int i = 0; i < 3 * STEPS; i++)
		x = x * 3 + 1;
	need(!l->clEnqueueReadBuffer(
		     l->queue, l->memory, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL),
		"no read");
	for (size_t i = 0; i < N; i++)
		need((uint32_t)got[i] == x, "a wrong result");
}

static void release(struct loader *l)
{
	l->clReleaseKernel(l->kernel);
	l->clReleaseProgram(l->program);
	l->clReleaseMemObject(l->memory);
	l->clReleaseCommandQueue(l->queue);
	l->clReleaseContext(l->context);
}

static void lives(char **names, int n, bool space, bool leak, bool last)
{
	for (int i = 0; i < LIVES * n; i++) {
		struct loader l;

		open_loader(&l, names[i % n], space);
		make(&l);
		work(&l);
		if (last && i == LIVES * n - 1) {
			launch(&l, 50);
			return;
		}
		if (leak)
			launch(&l, 5);
		else
			release(&l);
		dlclose(l.handle);
		usleep(50000); /* what is left behind has the time to do wrong */
	}
}

static void at_once(char **names, int n, bool many, bool last)
{
	static struct loader l[MOST];

	for (int i = 0; i < n; i++) {
		open_loader(&l[i], names[i], false);
		make(&l[i]);
	}
	for (int round = 0; round < LIVES; round++)
		for (int i = 0; i < n; i++)
			work(&l[i]);
	for (int i = 0; i < n - last; i++) {
		if (!many)
			release(&l[i]);
		dlclose(l[i].handle);
		usleep(50000);
		for (int k = i + 1; k < n; k++)
			work(&l[k]);
	}
	if (last)
		launch(&l[n - 1], 50);
}

static void ask(char **names, int n)
{
	static const char *const extension[] = {
		"clCreateProgramWithILKHR", "clSetContentSizeBufferPoCL", "clNothing"};
	static struct loader l[MOST];
	cl_platform_id platform;

	for (int i = 0; i < n; i++) {
		open_loader(&l[i], names[i], false);
		need(!l[i].clGetPlatformIDs(1, &platform, NULL), "no platform");
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 3; k++)
			printf("%d\n", l[i].clGetExtensionFunctionAddressForPlatform(
					       platform, extension[k]) != NULL);
	for (int i = 0; i < n; i++)
		dlclose(l[i].handle);
}

int main(int argc, char **argv)
{
	char *usual[] = {"libOpenCL.so.1"}, **names = argc > 2 ? argv + 2 : usual;
	char how[16] = "";
	int n = argc > 2 ? argc - 2 : 1;
	bool last;

	snprintf(how, sizeof(how), "%s", argc > 1 ? argv[1] : "lives");
	last = how[0] && how[strlen(how) - 1] == '-';
	how[strlen(how) - last] = '\0';
	need(n <= MOST, "too many loaders");
	if (!strcmp(how, "both") || !strcmp(how, "many"))
		at_once(names, n, !strcmp(how, "many"), last);
	else if (!strcmp(how, "ask"))
		ask(names, n);
	else
		lives(names, n, !strcmp(how, "space"), !strcmp(how, "leak"), last);
	puts("right");
	fflush(stdout);
	return 0;
}
