/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the OpenCL programs of bench/ and tests/ share: choose a device, build a program, fail with
 * a message. Plain OpenCL 3.0; these programs know nothing of Fermata.
 */
#pragma once
#include <CL/cl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static inline void ocl_check(cl_int rc, const char *what, const char *file, int line)
{
	if (rc != CL_SUCCESS)
		die("%s:%d: %s: OpenCL error %d", file, line, what, rc);
}

#define OCL(call) ocl_check((call), #call, __FILE__, __LINE__)
#define OCL_NEW(v, call)                                   \
	do {                                               \
		cl_int rc_;                                \
		(v) = (call);                              \
		ocl_check(rc_, #call, __FILE__, __LINE__); \
	} while (0)

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static inline void sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
		;
}

static inline uint32_t xorshift32(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

struct ocl {
	cl_platform_id platform;
	cl_device_id dev;
	cl_device_type type;
	cl_context ctx;
	char name[128];
};

static inline int ocl_rank(cl_device_type t)
{
	return t & CL_DEVICE_TYPE_GPU ? 3 : t & CL_DEVICE_TYPE_ACCELERATOR ? 2 : 1;
}

/* The best device of any platform: a GPU, else an accelerator, else a CPU. False when there is
 * none. */
static inline bool ocl_find(struct ocl *o)
{
	cl_platform_id platforms[16];
	cl_device_id devs[16];
	cl_uint np = 0, nd;
	int best = 0;

	if (clGetPlatformIDs(16, platforms, &np) != CL_SUCCESS)
		return false;
	for (cl_uint p = 0; p < np && p < 16; p++) {
		if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devs, &nd) != CL_SUCCESS)
			continue;
		for (cl_uint d = 0; d < nd && d < 16; d++) {
			cl_device_type t;

			OCL(clGetDeviceInfo(devs[d], CL_DEVICE_TYPE, sizeof(t), &t, NULL));
			if (ocl_rank(t) <= best)
				continue;
			best = ocl_rank(t);
			*o = (struct ocl){.platform = platforms[p], .dev = devs[d], .type = t};
		}
	}
	return best > 0;
}

static inline void ocl_open(struct ocl *o)
{
	if (!ocl_find(o))
		die("no OpenCL device: install a driver, for example pocl-opencl-icd");
	OCL(clGetDeviceInfo(o->dev, CL_DEVICE_NAME, sizeof(o->name), o->name, NULL));
	OCL_NEW(o->ctx, clCreateContext(NULL, 1, &o->dev, NULL, NULL, &rc_));
}

static inline cl_command_queue ocl_queue(struct ocl *o, cl_command_queue_properties props)
{
	cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, props, 0};
	cl_command_queue q;

	OCL_NEW(q, clCreateCommandQueueWithProperties(o->ctx, o->dev, list, &rc_));
	return q;
}

static inline cl_program ocl_program(struct ocl *o, const char *source)
{
	cl_program p;
	char log[4096] = "";

	OCL_NEW(p, clCreateProgramWithSource(o->ctx, 1, &source, NULL, &rc_));
	if (clBuildProgram(p, 1, &o->dev, "", NULL, NULL) != CL_SUCCESS) {
		clGetProgramBuildInfo(p, o->dev, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
		die("the program does not build:\n%s", log);
	}
	return p;
}

static inline cl_kernel ocl_kernel(cl_program p, const char *name)
{
	cl_kernel k;

	OCL_NEW(k, clCreateKernel(p, name, &rc_));
	return k;
}

/* host may be NULL: then the content is undefined. */
static inline cl_mem ocl_buffer(struct ocl *o, size_t size, const void *host)
{
	cl_mem_flags flags = CL_MEM_READ_WRITE | (host ? CL_MEM_COPY_HOST_PTR : 0);
	cl_mem m;

	OCL_NEW(m, clCreateBuffer(o->ctx, flags, size, (void *)(uintptr_t)host, &rc_));
	return m;
}
