/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One long kernel, told what to do line by line. Each work-group counts itself in memory that the
 * host sees, as it begins; each word is changed such that once and twice differ.
 *
 * usage: opencl_long KIND GROUPS STEPS
 *
 *   launch   enqueue the kernel: "launched"
 *   count    work-groups that have begun: "count N"
 *   wait     for the end of all launches, and check them: "done LAUNCHES groups N wrong N"
 *   return   from main, whatever runs
 *   quit     at once
 */
#include "../../../bench/ocl.h"
#include <unistd.h>

#define LOCAL 16

static const char head[] =
	"#define STEPS_OF(x, i) do { uint v_ = x[i] * 3u + 1u; \\\n"
	"	for (uint k_ = 0; k_ < steps; k_++) v_ = (v_ ^ k_) * 1664525u + 1013904223u; \\\n"
	"	x[i] = v_; } while (0)\n"
	"#define WAIT\n";
static const char body[] = "{\n"
			   "	if (!get_local_id(0))\n"
			   "		atomic_inc(begun);\n"
			   "	WAIT\n"
			   "	STEPS_OF(x, get_global_id(0));\n"
			   "	if (get_local_id(0) == get_local_size(0) - 1)\n"
			   "		atomic_inc(begun + 16);\n"
			   "}\n";

/* In a file, where nobody looks: a group begins when all those have ended that are 32 or more in
 * front of it. */
static const char hidden[] = "#undef WAIT\n"
			     "#define WAIT if (!get_local_id(0)) \\\n"
			     "	while (atomic_add(begun + 16, 0) + 32 < get_group_id(0)) ;\n";

#define PARAMS "(__global uint *x, __global uint *begun, uint steps)\n"

static const struct kind {
	const char *name, *before, *function, *after, *options;
} kinds[] = {
	{"plain", "", "__kernel void f" PARAMS, "", ""},
	{"hidden", "#include \"wait.h\"\n", "__kernel void f" PARAMS, "", "-I."},
	{"profiled", "", "__kernel void f" PARAMS, "", ""},
	{"out-of-order", "", "__kernel void f" PARAMS, "", ""},
	{"one-group", "", "__kernel void f" PARAMS, "", ""},
	{"binary", "", "__kernel void f" PARAMS, "", ""},
	{"linked", "", "__kernel void f" PARAMS, "", ""},
	{"printf", "", "__kernel void f" PARAMS,
		"__kernel void g(uint x) { if (x == 77u) printf(\"%u\\n\", x); }\n", ""},
	{"waits", "", "__kernel void f" PARAMS,
		"__kernel void g(__global uint *x) { while (atomic_add(x, 0) != 1) ; }\n", ""},
	{"macro", "#define KERNEL __kernel\n__kernel void g(uint x) { }\n", "KERNEL void f" PARAMS,
		"", ""},
	{"calls", "__kernel void g(__global uint *x) { x[0] += 0u; }\n", "__kernel void f" PARAMS,
		"__kernel void h(__global uint *x) { g(x); }\n", ""},
	{"options", "", "__kernel void f" PARAMS, "", "-DUNUSED=__kernel"},
};

struct job {
	struct ocl ocl;
	const struct kind *kind;
	cl_program program;
	cl_kernel kernel;
	cl_command_queue q;
	cl_mem x, begun;
	uint32_t *host, *counter;
	size_t words;
	cl_uint steps;
	unsigned launches;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

static bool is(const struct job *j, const char *kind)
{
	return !strcmp(j->kind->name, kind);
}

/* The same, by way of what the driver has made of it. */
static cl_program as_binary(struct job *j, cl_program p)
{
	unsigned char *binary;
	cl_program other;
	size_t size;

	OCL(clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL));
	binary = malloc(size);
	OCL(clGetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL));
	OCL_NEW(other, clCreateProgramWithBinary(j->ocl.ctx, 1, &j->ocl.dev, &size,
			       (const unsigned char **)&binary, NULL, &rc_));
	free(binary);
	OCL(clBuildProgram(other, 0, NULL, "", NULL, NULL));
	return other;
}

static void write_hidden(void)
{
	FILE *f = fopen("wait.h", "w");

	if (!f || fputs(hidden, f) < 0 || fclose(f))
		die("cannot write wait.h");
}

static void build(struct job *j)
{
	const char *text[] = {head, j->kind->before, j->kind->function, body, j->kind->after};
	cl_program other = NULL;

	if (is(j, "hidden"))
		write_hidden();
	OCL_NEW(j->program, clCreateProgramWithSource(j->ocl.ctx, 5, text, NULL, &rc_));
	if (is(j, "linked")) {
		OCL(clCompileProgram(j->program, 0, NULL, "", 0, NULL, NULL, NULL, NULL));
		OCL_NEW(other,
			clLinkProgram(j->ocl.ctx, 0, NULL, "", 1, &j->program, NULL, NULL, &rc_));
	} else {
		OCL(clBuildProgram(j->program, 0, NULL, j->kind->options, NULL, NULL));
		if (is(j, "binary"))
			other = as_binary(j, j->program);
	}
	if (other) {
		OCL(clReleaseProgram(j->program));
		j->program = other;
	}
	j->kernel = ocl_kernel(j->program, "f");
}

static void open_job(struct job *j, char **argv)
{
	size_t groups = (size_t)atoi(argv[2]);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, argv[1]))
			j->kind = &kinds[i];
	if (!j->kind)
		die("no such kind");
	ocl_open(&j->ocl);
	build(j);
	j->words = groups * LOCAL;
	j->steps = (cl_uint)atoi(argv[3]);
	j->host = calloc(j->words, sizeof(*j->host));
	j->x = ocl_buffer(&j->ocl, j->words * sizeof(*j->host), j->host);
	j->counter = aligned_alloc(4096, 4096);
	memset(j->counter, 0, 4096);
	OCL_NEW(j->begun, clCreateBuffer(j->ocl.ctx, CL_MEM_USE_HOST_PTR, 4096, j->counter, &rc_));
	j->q = ocl_queue(&j->ocl, is(j, "profiled")       ? CL_QUEUE_PROFILING_ENABLE
				  : is(j, "out-of-order") ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
							  : 0);
	OCL(clSetKernelArg(j->kernel, 0, sizeof(j->x), &j->x));
	OCL(clSetKernelArg(j->kernel, 1, sizeof(j->begun), &j->begun));
	OCL(clSetKernelArg(j->kernel, 2, sizeof(j->steps), &j->steps));
}

static void launch(struct job *j)
{
	size_t local = is(j, "one-group") ? j->words : LOCAL;
	cl_event e;

	OCL(clEnqueueNDRangeKernel(j->q, j->kernel, 1, NULL, &j->words, &local, 0, NULL, &e));
	OCL(clReleaseEvent(e));
	OCL(clFlush(j->q));
	j->launches++;
	say("launched\n");
}

static void check(struct job *j)
{
	uint32_t v = 0;
	unsigned wrong = 0;

	OCL(clFinish(j->q));
	for (unsigned n = 0; n < j->launches; n++) {
		v = v * 3 + 1;
		for (uint32_t k = 0; k < j->steps; k++)
			v = (v ^ k) * 1664525u + 1013904223u;
	}
	OCL(clEnqueueReadBuffer(
		j->q, j->x, CL_TRUE, 0, j->words * sizeof(*j->host), j->host, 0, NULL, NULL));
	for (size_t i = 0; i < j->words; i++)
		wrong += j->host[i] != v;
	say("done %u groups %u wrong %u\n", j->launches,
		__atomic_load_n(j->counter, __ATOMIC_SEQ_CST), wrong);
}

int main(int argc, char **argv)
{
	char line[64];
	static struct job j; /* it is not lost when main returns */

	if (argc != 4)
		die("usage: opencl_long KIND GROUPS STEPS");
	open_job(&j, argv);
	say("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "launch\n"))
			launch(&j);
		else if (!strcmp(line, "count\n"))
			say("count %u\n", __atomic_load_n(j.counter, __ATOMIC_SEQ_CST));
		else if (!strcmp(line, "wait\n"))
			check(&j);
		else if (!strcmp(line, "return\n"))
			return 0;
		else
			break;
	}
	_exit(0);
}
