/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of kernels of a few lengths, as any OpenCL program makes them: the time of a launch
 * call, the time per kernel of a long stream, the time of a launch and a wait. One line of JSON for
 * each length. script/lib/launch_cost runs it natively and under Fermata in turn, and prints
 * ratios. With --windows one length is measured again and again, each time with when that was, so
 * that script/lib/trace_cost can switch something on and off meanwhile.
 */
#include "ocl.h"

#define STREAM_US 200000 /* of device time, about, for each stream */
#define SYNCS     2000
#define WINDOW_US 10000 /* of a stream, and of waits, in a window */

static const char source[] = "__kernel void spin(__global float *x, int n)\n"
			     "{\n"
			     "	float v = x[get_global_id(0)];\n"
			     "	for (int i = 0; i < n; i++)\n"
			     "		v = v * 0.999f + 0.5f;\n"
			     "	x[get_global_id(0)] = v;\n"
			     "}\n";

static const size_t global_size = 1024, local_size = 64;

static void launch(cl_command_queue q, cl_kernel k)
{
	OCL(clEnqueueNDRangeKernel(q, k, 1, NULL, &global_size, &local_size, 0, NULL, NULL));
}

static double stream_us(cl_command_queue q, cl_kernel k, int n, double *enqueue_us)
{
	uint64_t start = now_ns(), enqueued;

	for (int i = 0; i < n; i++)
		launch(q, k);
	enqueued = now_ns();
	OCL(clFinish(q));
	if (enqueue_us)
		*enqueue_us = (double)(enqueued - start) / 1e3 / n;
	return (double)(now_ns() - start) / 1e3 / n;
}

static double sync_us(cl_command_queue q, cl_kernel k, int n)
{
	uint64_t start = now_ns();

	for (int i = 0; i < n; i++) {
		launch(q, k);
		OCL(clFinish(q));
	}
	return (double)(now_ns() - start) / 1e3 / n;
}

static void measure(cl_command_queue q, cl_kernel k, cl_int iters)
{
	double once, enqueue, each, sync;
	int n;

	OCL(clSetKernelArg(k, 1, sizeof(iters), &iters));
	sync_us(q, k, 2); /* the first launch of a kernel does more than others */
	once = stream_us(q, k, 50, NULL);
	n = (int)(STREAM_US / once) + 20;
	each = stream_us(q, k, n, &enqueue);
	sync = sync_us(q, k, once * SYNCS > STREAM_US ? (int)(STREAM_US / once) + 1 : SYNCS);
	printf("{\"iters\": %d, \"launch_us\": %.3f, \"kernel_us\": %.3f, \"sync_us\": %.3f}\n",
		iters, enqueue, each, sync);
	fflush(stdout);
}

static void measure_windows(cl_command_queue q, cl_kernel k, double seconds, cl_int iters)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), at;
	double once, alone, enqueue, each, sync;

	OCL(clSetKernelArg(k, 1, sizeof(iters), &iters));
	sync_us(q, k, 2); /* the first launch of a kernel does more than others */
	once = stream_us(q, k, 50, NULL);
	alone = sync_us(q, k, 20);
	while ((at = now_ns()) < end) {
		each = stream_us(q, k, (int)(WINDOW_US / once) + 1, &enqueue);
		sync = sync_us(q, k, (int)(WINDOW_US / alone) + 1);
		printf("{\"at_ns\": %llu, \"until_ns\": %llu, \"launch_us\": %.3f, "
		       "\"kernel_us\": %.3f, \"sync_us\": %.3f}\n",
			(unsigned long long)at, (unsigned long long)now_ns(), enqueue, each, sync);
	}
}

int main(int argc, char **argv)
{
	cl_command_queue q;
	cl_program p;
	struct ocl o;
	cl_kernel k;
	cl_mem x;

	bool windows = argc == 4 && !strcmp(argv[1], "--windows");

	if (argc < 2 || (argv[1][0] == '-' && !windows))
		die("usage: bench_opencl_launch ITERS... | --windows SECONDS ITERS");
	ocl_open(&o);
	q = ocl_queue(&o, 0);
	p = ocl_program(&o, source);
	k = ocl_kernel(p, "spin");
	x = ocl_buffer(&o, global_size * sizeof(cl_float), NULL);
	OCL(clSetKernelArg(k, 0, sizeof(x), &x));
	if (windows)
		measure_windows(q, k, atof(argv[2]), atoi(argv[3]));
	for (int i = 1; i < argc && !windows; i++)
		measure(q, k, atoi(argv[i]));
	OCL(clReleaseMemObject(x));
	OCL(clReleaseKernel(k));
	OCL(clReleaseProgram(p));
	OCL(clReleaseCommandQueue(q));
	OCL(clReleaseContext(o.ctx));
	return 0;
}
