// SPDX-License-Identifier: Apache-2.0
/*
 * A program with urgent and other work on one OpenCL device. Each kind has a queue of its own,
 * which <fermata/bind.h> binds to a group: while the urgent queue has work, the other one stops.
 *
 *   cc bind_opencl.c -o bind_opencl $(pkg-config --cflags --libs fermata) -lOpenCL
 *   fermata run -- ./bind_opencl          and meanwhile: fermata ps
 *   ./bind_opencl                         the same, without Fermata: nothing is bound
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <errno.h>
#include <fermata/bind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 4096

static void must(cl_int rc, const char *what)
{
	if (rc == CL_SUCCESS)
		return;
	fprintf(stderr, "%s: error %d\n", what, rc);
	exit(1);
}

/* A queue in a group of that priority. */
static cl_command_queue queue_in(
	cl_context context, cl_device_id device, const char *group, int64_t priority)
{
	const struct fm_binding_hint hint = {FM_HINT_PRIORITY, priority};
	const struct fm_binding binding = {sizeof(binding), group, &hint, 1};
	cl_int rc;
	cl_command_queue queue = clCreateCommandQueue(context, device, 0, &rc);

	must(rc, "clCreateCommandQueue");
	rc = fm_bind("opencl", queue, &binding);
	if (rc == -ENOSYS)
		printf("%s: not bound, this program runs without Fermata\n", group);
	else if (rc)
		printf("%s: not bound: %s\n", group, strerror(-rc));
	else
		printf("%s: bound\n", group);
	return queue;
}

static void fill(cl_command_queue queue, cl_mem buffer, cl_uint value)
{
	must(clEnqueueFillBuffer(
		     queue, buffer, &value, sizeof(value), 0, WORDS * sizeof(value), 0, NULL, NULL),
		"clEnqueueFillBuffer");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000;
	cl_command_queue urgent, batch;
	cl_platform_id platform;
	cl_device_id device;
	cl_uint word = 0;
	cl_context context;
	cl_mem buffer[2];
	cl_int rc;

	must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
	must(rc, "clCreateContext");
	for (int i = 0; i < 2; i++) {
		buffer[i] = clCreateBuffer(
			context, CL_MEM_READ_WRITE, WORDS * sizeof(cl_uint), NULL, &rc);
		must(rc, "clCreateBuffer");
	}
	urgent = queue_in(context, device, "urgent", FM_PRIORITY_HIGH);
	batch = queue_in(context, device, "batch", FM_PRIORITY_LOW);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 20; k++)
			fill(batch, buffer[0], (cl_uint)i);
		must(clFlush(batch), "clFlush");
		fill(urgent, buffer[1], (cl_uint)i);
		must(clFinish(urgent), "clFinish"); /* it does not wait for the twenty */
	}
	must(clFinish(batch), "clFinish");
	must(clEnqueueReadBuffer(batch, buffer[0], CL_TRUE, 0, sizeof(word), &word, 0, NULL, NULL),
		"clEnqueueReadBuffer");
	printf("%d rounds, the last word is %u\n", rounds, word);
	clReleaseCommandQueue(urgent);
	clReleaseCommandQueue(batch);
	clReleaseMemObject(buffer[0]);
	clReleaseMemObject(buffer[1]);
	clReleaseContext(context);
	return 0;
}
