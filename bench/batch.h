/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job whose result proves that every one of its kernels ran exactly once and in order: each
 * mixes its own number into all words of one buffer and steps a generator `iters` times. The host
 * composes the steps of one kernel into a single multiply-add and so checks all words cheaply.
 */
#pragma once
#include "ocl.h"

#define BATCH_WORDS 16384
#define BATCH_LOCAL 64

static const char batch_source[] =
	"__kernel void advance(__global uint *x, uint iters, uint number)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"	uint v = x[i] ^ number;\n"
	"	for (uint k = 0; k < iters; k++)\n"
	"		v = v * 1664525u + 1013904223u;\n"
	"	x[i] = v;\n"
	"}\n";

struct batch {
	cl_program program;
	cl_kernel advance;
	cl_mem x, snapshot; /* snapshot: a copy of x, taken by the job now and then */
	cl_uint iters;
	cl_uint number;      /* kernels enqueued so far */
	cl_uint snapshot_at; /* kernels that the snapshot covers */
};

static inline void batch_open(struct batch *b, struct ocl *o, cl_uint iters)
{
	static const uint32_t zero[BATCH_WORDS];

	*b = (struct batch){.iters = iters};
	b->program = ocl_program(o, batch_source);
	b->advance = ocl_kernel(b->program, "advance");
	b->x = ocl_buffer(o, sizeof(zero), zero);
	b->snapshot = ocl_buffer(o, sizeof(zero), zero);
	OCL(clSetKernelArg(b->advance, 0, sizeof(b->x), &b->x));
	OCL(clSetKernelArg(b->advance, 1, sizeof(iters), &iters));
}

static inline void batch_close(struct batch *b)
{
	OCL(clReleaseMemObject(b->snapshot));
	OCL(clReleaseMemObject(b->x));
	OCL(clReleaseKernel(b->advance));
	OCL(clReleaseProgram(b->program));
}

/* Enqueue n kernels; *last (may be NULL) becomes the event of the last one. */
static inline void batch_enqueue(struct batch *b, cl_command_queue q, unsigned n, cl_event *last)
{
	size_t global = BATCH_WORDS, local = BATCH_LOCAL;

	for (unsigned i = 0; i < n; i++) {
		b->number++;
		OCL(clSetKernelArg(b->advance, 2, sizeof(b->number), &b->number));
		OCL(clEnqueueNDRangeKernel(q, b->advance, 1, NULL, &global, &local, 0, NULL,
			i + 1 == n ? last : NULL));
	}
	OCL(clFlush(q));
}

static inline void batch_snapshot(struct batch *b, cl_command_queue q)
{
	OCL(clEnqueueCopyBuffer(
		q, b->x, b->snapshot, 0, 0, BATCH_WORDS * sizeof(uint32_t), 0, NULL, NULL));
	b->snapshot_at = b->number;
}

/* All words start equal and stay so: the value after `number` kernels of `iters` steps. */
static inline uint32_t batch_expected(cl_uint iters, cl_uint number)
{
	uint32_t a = 1, c = 0, v = 0;

	for (cl_uint k = 0; k < iters; k++) {
		a *= 1664525u;
		c = c * 1664525u + 1013904223u;
	}
	for (cl_uint n = 1; n <= number; n++)
		v = (v ^ n) * a + c;
	return v;
}

static inline unsigned batch_wrong(cl_command_queue q, cl_mem m, uint32_t expected)
{
	static uint32_t words[BATCH_WORDS];
	unsigned wrong = 0;

	OCL(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof(words), words, 0, NULL, NULL));
	for (unsigned i = 0; i < BATCH_WORDS; i++)
		wrong += words[i] != expected;
	return wrong;
}

/* Wait for all that was enqueued and count the wrong words. */
static inline unsigned batch_check(struct batch *b, cl_command_queue q)
{
	return batch_wrong(q, b->x, batch_expected(b->iters, b->number)) +
	       batch_wrong(q, b->snapshot, batch_expected(b->iters, b->snapshot_at));
}
