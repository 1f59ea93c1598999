/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of cases that use OpenCL and note down what they saw: values, digests of buffers, error
 * codes; never times or addresses. A run prints its notes, which must be the same with and without
 * Fermata.
 *
 * usage: [SECONDS [CASE...]] | --list    With SECONDS the set is repeated for so long; each round
 * must note the same as the first.
 */
#pragma once
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "../../../bench/ocl.h"
#include <CL/cl_ext.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#define WORDS 4096
#define BYTES (WORDS * sizeof(uint32_t))

static const char conform_source[] =
	/* Not commutative: the result tells the order of all that ran. */
	"__kernel void scramble(__global uint *x, uint number)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"	uint v = x[i] ^ (number + (uint)i);\n"
	"	for (uint k = 0; k < 40; k++)\n"
	"		v = v * 1664525u + 1013904223u;\n"
	"	x[i] = v;\n"
	"}\n"
	"__kernel void join(__global uint *out, __global const uint *a, __global const uint *b)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"	out[i] = a[i] * 31u + (b[i] ^ 0x9e3779b9u);\n"
	"}\n"
	"__kernel void count(__global uint *x)\n"
	"{\n"
	"	atomic_add(&x[get_global_id(0) & 63], (uint)get_global_id(0) + 1);\n"
	"}\n"
	"__kernel void one(__global uint *x)\n"
	"{\n"
	"	x[0] = x[0] * 3u + 1u;\n"
	"}\n";

struct conform {
	struct ocl o;
	cl_program program;
	cl_kernel mix, join, count, one;
	FILE *notes;
	const char *name;
};

struct conform_case {
	const char *name;
	void (*run)(struct conform *c);
};

__attribute__((format(printf, 2, 3))) static inline void note(
	struct conform *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(c->notes, "%s: ", c->name);
	va_start(ap, fmt);
	vfprintf(c->notes, fmt, ap);
	va_end(ap);
	fputc('\n', c->notes);
}

static inline uint64_t digest(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

static inline void note_data(struct conform *c, const char *what, const void *data, size_t n)
{
	note(c, "%s %016llx", what, (unsigned long long)digest(data, n));
}

/* A buffer of BYTES whose content follows from the seed. */
static inline cl_mem new_words(struct conform *c, uint32_t seed)
{
	uint32_t words[WORDS];

	seed = seed * 2654435761u | 1;
	for (int i = 0; i < WORDS; i++)
		words[i] = xorshift32(&seed);
	return ocl_buffer(&c->o, BYTES, words);
}

/* Waits for the queue: a blocking read. */
static inline void note_buffer(struct conform *c, const char *what, cl_command_queue q, cl_mem m)
{
	uint32_t words[WORDS];

	OCL(clEnqueueReadBuffer(q, m, CL_TRUE, 0, BYTES, words, 0, NULL, NULL));
	note_data(c, what, words, BYTES);
}

static inline void enqueue_mix(struct conform *c, cl_command_queue q, cl_mem m, cl_uint number,
	cl_uint n, const cl_event *wait, cl_event *event)
{
	size_t global = WORDS, local = 64;

	OCL(clSetKernelArg(c->mix, 0, sizeof(m), &m));
	OCL(clSetKernelArg(c->mix, 1, sizeof(number), &number));
	OCL(clEnqueueNDRangeKernel(q, c->mix, 1, NULL, &global, &local, n, wait, event));
}

static inline void enqueue_join(struct conform *c, cl_command_queue q, cl_mem out, cl_mem a,
	cl_mem b, cl_uint n, const cl_event *wait, cl_event *event)
{
	size_t global = WORDS, local = 64;

	OCL(clSetKernelArg(c->join, 0, sizeof(out), &out));
	OCL(clSetKernelArg(c->join, 1, sizeof(a), &a));
	OCL(clSetKernelArg(c->join, 2, sizeof(b), &b));
	OCL(clEnqueueNDRangeKernel(q, c->join, 1, NULL, &global, &local, n, wait, event));
}

static inline cl_int event_status(cl_event e)
{
	cl_int status;

	OCL(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL));
	return status;
}

static inline void release_events(cl_event *e, int n)
{
	for (int i = 0; i < n; i++)
		OCL(clReleaseEvent(e[i]));
}

static inline cl_event user_event(struct conform *c)
{
	cl_event e;

	OCL_NEW(e, clCreateUserEvent(c->o.ctx, &rc_));
	return e;
}

/* An empty list chooses all. */
static inline bool conform_chosen(char *const *only, const char *name)
{
	bool chosen = !only[0];

	for (; *only; only++)
		chosen |= !strcmp(*only, name);
	return chosen;
}

static inline char *conform_round(
	struct conform *c, const struct conform_case *cases, char *const *only)
{
	char *text = NULL;
	size_t size;

	c->notes = open_memstream(&text, &size);
	if (!c->notes)
		die("out of memory");
	for (; cases->name; cases++) {
		c->name = cases->name;
		if (conform_chosen(only, c->name))
			cases->run(c);
	}
	fclose(c->notes);
	return text;
}

static inline void conform_differs(int round, char *first, char *again)
{
	char *rest[2] = {first, again}, *a, *b;

	fprintf(stderr, "round %d differs from the first:\n", round);
	do {
		a = strsep(&rest[0], "\n");
		b = strsep(&rest[1], "\n");
		if (!a || !b || strcmp(a, b))
			fprintf(stderr, "\t%s\n\tfirst: %s\n", b ? b : "", a ? a : "");
	} while (a || b);
	exit(1);
}

/* Whose code it died in, which its status does not say. */
static inline void conform_died(int sig)
{
	void *frames[48];

	backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
	raise(sig); /* the handler was for once */
}

/* A sanitizer says more. */
static inline void conform_says_where(void)
{
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	struct sigaction a = {
		.sa_handler = conform_died, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
	void *frame;

	(void)backtrace(&frame, 1); /* loads what it needs while that can be done */
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGBUS, &a, NULL);
	sigaction(SIGABRT, &a, NULL);
#endif
}

static inline void conform_open(struct conform *c)
{
	ocl_open(&c->o);
	conform_says_where(); /* after PoCL's own */
	c->program = ocl_program(&c->o, conform_source);
	c->mix = ocl_kernel(c->program, "scramble");
	c->join = ocl_kernel(c->program, "join");
	c->count = ocl_kernel(c->program, "count");
	c->one = ocl_kernel(c->program, "one");
}

static inline void conform_close(struct conform *c)
{
	OCL(clReleaseKernel(c->one));
	OCL(clReleaseKernel(c->count));
	OCL(clReleaseKernel(c->join));
	OCL(clReleaseKernel(c->mix));
	OCL(clReleaseProgram(c->program));
	OCL(clReleaseContext(c->o.ctx));
}

static inline int conform_main(int argc, char **argv, const struct conform_case *cases)
{
	uint64_t until = now_ns() + (argc > 1 ? (uint64_t)(atof(argv[1]) * 1e9) : 0);
	char *const none[] = {NULL}, *const *only = argc > 2 ? argv + 2 : none;
	struct conform c;
	char *first;
	int rounds = 1;

	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (; cases->name; cases++)
			puts(cases->name);
		return 0;
	}
	conform_open(&c);
	first = conform_round(&c, cases, only);
	for (; now_ns() < until; rounds++) {
		char *again = conform_round(&c, cases, only);

		if (strcmp(first, again))
			conform_differs(rounds, first, again);
		free(again);
	}
	conform_close(&c);
	fputs(first, stdout);
	free(first);
	fprintf(stderr, "%d rounds\n", rounds);
	return 0;
}
