/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that forks while its threads, or Fermata's, are anywhere (forks.h), by OpenCL. Its
 * children let go of objects that the parent has made and does not use.
 *
 * usage: no arguments; under `fermata run`, with libfake_park.so
 */
#include "../integration/opencl/conform.h"
#include "forks.h"

#define LAUNCHES 10

static struct conform kept, c;
static cl_command_queue kept_queue;

static void use(void)
{
	cl_command_queue q;
	cl_mem m;

	conform_open(&c);
	q = ocl_queue(&c.o, 0);
	m = new_words(&c, 1);
	OCL(clRetainCommandQueue(q));
	for (cl_uint i = 0; i < LAUNCHES; i++)
		enqueue_mix(&c, q, m, i, 0, NULL, NULL);
	OCL(clFinish(q));
	OCL(clReleaseCommandQueue(q));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
	conform_close(&c);
}

static void exits(void)
{
}

static void lets_go(void)
{
	cl_uint number = 1;

	OCL(clSetKernelArg(kept.mix, 1, sizeof(number), &number));
	OCL(clRetainKernel(kept.mix));
	OCL(clReleaseKernel(kept.mix));
	OCL(clReleaseKernel(kept.mix));
	OCL(clFinish(kept_queue));
	OCL(clRetainCommandQueue(kept_queue));
	OCL(clReleaseCommandQueue(kept_queue));
	OCL(clReleaseKernel(kept.join));
}

int main(void)
{
	static void (*const children[])(void) = {exits, lets_go, forks_exec, NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	forks_find();
	conform_open(&kept);
	kept_queue = ocl_queue(&kept.o, 0);
	return forks_at_locks(use, children);
}
