/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of every kind that level 3 rewrites, none of them idempotent: a work-group that ran
 * twice, or not at all, shows in the result. Each launch is long enough to be stopped in its
 * middle.
 */
#include "conform.h"
#include <pthread.h>
#include <unistd.h>

/* Some microseconds of work, and a step that cannot be taken twice. */
#define STEP                                                 \
	"#define STEP(x) do { uint v_ = (x) * 3u + 1u; \\\n" \
	"	for (uint k_ = 0; k_ < SPIN; k_++) \\\n"           \
	"		v_ = (v_ ^ k_) * 1664525u + 1013904223u; \\\n"    \
	"	(x) = v_; \\\n"                                    \
	"} while (0)\n"

#define OPTIONS "-DSPIN=1000 -cl-std=CL1.2"

struct run {
	cl_program program;
	cl_kernel kernel;
	cl_command_queue q;
	cl_mem x;
};

static void build(struct conform *c, struct run *r, const char *source, const char *options)
{
	const char *text[] = {STEP, source};
	char log[4096] = "";

	OCL_NEW(r->program, clCreateProgramWithSource(c->o.ctx, 2, text, NULL, &rc_));
	if (clBuildProgram(r->program, 0, NULL, options, NULL, NULL) != CL_SUCCESS) {
		clGetProgramBuildInfo(
			r->program, c->o.dev, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
		die("%s: does not build:\n%s", c->name, log);
	}
}

static struct run begin(
	struct conform *c, const char *source, const char *options, const char *name)
{
	struct run r = {.q = ocl_queue(&c->o, 0), .x = new_words(c, (uint32_t)strlen(source))};

	build(c, &r, source, options);
	r.kernel = ocl_kernel(r.program, name);
	OCL(clSetKernelArg(r.kernel, 0, sizeof(r.x), &r.x));
	return r;
}

static void end(struct conform *c, struct run *r)
{
	note_buffer(c, "x", r->q, r->x);
	OCL(clReleaseKernel(r->kernel));
	OCL(clReleaseProgram(r->program));
	OCL(clReleaseMemObject(r->x));
	OCL(clReleaseCommandQueue(r->q));
}

static void range(
	struct run *r, cl_uint dim, const size_t *offset, const size_t *global, const size_t *local)
{
	OCL(clEnqueueNDRangeKernel(r->q, r->kernel, dim, offset, global, local, 0, NULL, NULL));
}

static void range_1d(struct run *r, size_t local)
{
	size_t global = WORDS;

	range(r, 1, NULL, &global, local ? &local : NULL);
}

/* One kernel, launched three times over all words. */
static void plain(struct conform *c, const char *source, const char *options, const char *name)
{
	struct run r = begin(c, source, options, name);

	for (int i = 0; i < 3; i++)
		range_1d(&r, 16);
	end(c, &r);
}

static void not_idempotent(struct conform *c)
{
	plain(c,
		"__kernel void f(__global uint *x) { STEP(x[get_global_id(0)]); }\n"
		"// __kernel void g( {\n",
		OPTIONS, "f");
}

static void counters(struct conform *c)
{
	plain(c,
		"#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable\n"
		"__kernel void f(volatile __global uint *x)\n"
		"{\n"
		"	uint y = (uint)get_global_id(0);\n"
		"	STEP(y);\n"
		"	for (int i = 0; i < 4; i++)\n"
		"		atomic_add(&x[(y >> i * 4) & 63], y);\n"
		"	uint old, sum;\n"
		"	if (!get_local_id(0))\n"
		"		atomic_inc(&x[64]);\n"
		"}\n",
		OPTIONS, "f");
}

static void macros(struct conform *c)
{
	plain(c,
		"#define ARGUMENTS __global \\\n	uint *x\n"
		"#define BODY(i) { STEP(x[i]); x[i] += 5u; }\n"
		"#if defined(UP) && UP > 1\n"
		"# define AT(i) (WORDS - 1 - (i))\n"
		"#else\n"
		"# define AT(i) (i)\n"
		"#endif\n"
		"#define NAME(a, b) a##_##b\n"
		"__kern\\\nel void NAME(f, 2)(ARGUMENTS\n#ifdef MORE\n, uint more\n#endif\n)\n"
		"/* what comes { is odd */ {\n"
		"	BODY(AT(get_global_id(0)))\n"
		"	x[0] += 0u * '\"' + 0u * '{'; // \"\\\n } }\n"
		"}\n",
		OPTIONS " -D UP=2 -DWORDS=4096", "f_2");
}

static void macro_arguments(struct conform *c)
{
	static const char source[] =
		"#define HEAD(name) __kernel void name\n"
		"__kernel void f(__global uint *x, uint z) { STEP(x[get_global_id(0)]); "
		"x[get_global_id(0)] ^= z; }\n"
		"HEAD(g)(__global uint *x) { STEP(x[get_global_id(0)]); }\n";
	struct run r = begin(c, source, OPTIONS, "f");
	cl_kernel g = ocl_kernel(r.program, "g");
	size_t global = WORDS, local = 32;

	/* What is set after the launch is the next one's. */
	for (cl_uint i = 0; i < 6; i++) {
		OCL(clSetKernelArg(r.kernel, 1, sizeof(i), &i));
		range_1d(&r, 64);
	}
	OCL(clSetKernelArg(g, 0, sizeof(r.x), &r.x));
	OCL(clEnqueueNDRangeKernel(r.q, g, 1, NULL, &global, &local, 0, NULL, NULL));
	OCL(clReleaseKernel(g));
	end(c, &r);
}

/* The header is changed and removed after the build: nobody may read it later. */
static void includes(struct conform *c)
{
	static const char source[] = "#include \"step.h\"\n"
				     "KERNEL void f(__global uint *x) { INCLUDED(x[AT]); }\n"
				     "__kernel void g(__global uint *x) { INCLUDED(x[AT]); }\n",
			  header[] = "#define KERNEL __kernel\n"
				     "#define AT get_global_id(0)\n"
				     "#define INCLUDED(y) do { STEP(y); (y) ^= 7u; } while (0)\n",
			  other[] = "#error changed\n";
	char dir[] = "/tmp/fermata-kernels-XXXXXX", path[64], options[128];
	struct run r;
	FILE *f;

	if (!mkdtemp(dir))
		die("mkdtemp failed");
	snprintf(path, sizeof(path), "%s/step.h", dir);
	snprintf(options, sizeof(options), OPTIONS " -I %s", dir);
	f = fopen(path, "w");
	if (!f || fputs(header, f) < 0 || fclose(f))
		die("cannot write %s", path);
	r = begin(c, source, options, "g");
	f = fopen(path, "w");
	if (!f || fputs(other, f) < 0 || fclose(f))
		die("cannot write %s", path);
	unlink(path);
	rmdir(dir);
	for (int i = 0; i < 3; i++)
		range_1d(&r, 16);
	end(c, &r);
}

static void attributes(struct conform *c)
{
	plain(c,
		"__kernel void f(__global uint *x) __attribute__((reqd_work_group_size(16, 1, "
		"1)));\n"
		"__attribute__((vec_type_hint(uint)))\n"
		"__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void\n"
		"f(__global uint *restrict x)\n"
		"{ STEP(x[get_global_id(0)]); if (get_global_id(0) & 1) return; "
		"STEP(x[get_global_id(0)]); }\n",
		OPTIONS, "f");
}

static void several(struct conform *c)
{
	static const char source[] =
		"__constant uint table[4] = {3, 5, 7, 11};\n"
		"typedef struct { uint add; float4 f; uchar3 b; } pair;\n"
		"static uint help(uint a, pair p) { return a + p.add + (uint)p.f.z + p.b.y; }\n"
		"kernel void one(global uint *x, pair p) { size_t i = get_global_id(0);"
		" STEP(x[i]); x[i] = help(x[i], p); }\n"
		"kernel void none(void) { }\n"
		"kernel void two(global uint *x, __constant uint *t) { size_t i = get_global_id(0);"
		" STEP(x[i]); x[i] += table[i & 3] * t[i & 1]; }\n";
	struct {
		cl_uint add;
		cl_float4 f;
		cl_uchar3 b;
	} p = {9, {{1, 2, 3, 4}}, {{1, 2, 3}}};
	struct run r = begin(c, source, OPTIONS, "one");
	const cl_uint t[2] = {13, 17};
	cl_mem table = ocl_buffer(&c->o, sizeof(t), t);
	cl_kernel all[8];
	cl_uint n = 0;
	size_t global = WORDS, local = 16;

	OCL(clSetKernelArg(r.kernel, 1, sizeof(p), &p));
	OCL(clCreateKernelsInProgram(r.program, 8, all, &n));
	note(c, "%u kernels", n);
	for (int round = 0; round < 2; round++) {
		range_1d(&r, 16);
		for (cl_uint i = 0; i < n; i++) {
			char name[16];

			OCL(clGetKernelInfo(
				all[i], CL_KERNEL_FUNCTION_NAME, sizeof(name), name, NULL));
			if (!strcmp(name, "one"))
				continue;
			if (!strcmp(name, "two")) {
				OCL(clSetKernelArg(all[i], 0, sizeof(r.x), &r.x));
				OCL(clSetKernelArg(all[i], 1, sizeof(table), &table));
			}
			OCL(clEnqueueNDRangeKernel(
				r.q, all[i], 1, NULL, &global, &local, 0, NULL, NULL));
		}
	}
	for (cl_uint i = 0; i < n; i++)
		OCL(clReleaseKernel(all[i]));
	OCL(clReleaseMemObject(table));
	end(c, &r);
}

static void local_memory(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x, __local uint *shared)\n"
		"{\n"
		"	__local uint more[16], last;\n"
		"	size_t l = get_local_id(0), i = get_global_id(0);\n"
		"	STEP(x[i]);\n"
		"	shared[l] = x[i];\n"
		"	more[15 - l] = x[i] >> 3;\n"
		"	barrier(CLK_LOCAL_MEM_FENCE);\n"
		"	for (uint n = 8; n; n >>= 1) {\n"
		"		if (l < n)\n"
		"			shared[l] = shared[l] * 31u + shared[l + n];\n"
		"		barrier(CLK_LOCAL_MEM_FENCE);\n"
		"	}\n"
		"	if (l == 3)\n"
		"		last = shared[0];\n"
		"	barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
		"	x[i] ^= last + more[l];\n"
		"}\n";
	struct run r = begin(c, source, OPTIONS, "f");

	OCL(clSetKernelArg(r.kernel, 1, 16 * sizeof(cl_uint), NULL));
	for (int i = 0; i < 3; i++)
		range_1d(&r, 16);
	end(c, &r);
}

static bool has(struct conform *c, const char *extension)
{
	char all[8192] = "";

	OCL(clGetDeviceInfo(c->o.dev, CL_DEVICE_EXTENSIONS, sizeof(all) - 1, all, NULL));
	return strstr(all, extension);
}

static void group_functions(struct conform *c)
{
	cl_bool can = false;

	clGetDeviceInfo(c->o.dev, CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, sizeof(can),
		&can, NULL);
	note(c, "supported %u", can);
	if (can)
		plain(c,
			"__kernel void f(__global uint *x)\n"
			"{\n"
			"	size_t i = get_global_id(0);\n"
			"	STEP(x[i]);\n"
			"	uint all = work_group_reduce_add(x[i]);\n"
			"	uint before = work_group_scan_exclusive_add(x[i] & 255u);\n"
			"	x[i] += work_group_broadcast(all, 5) ^ before;\n"
			"	if (work_group_any(x[i] == 0u)) x[i]++;\n"
			"}\n",
			"-DSPIN=1000 -cl-std=CL3.0", "f");
}

static void sub_groups(struct conform *c)
{
	bool can = has(c, "cl_khr_subgroups");

	note(c, "supported %d", can);
	if (can)
		plain(c,
			"#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
			"__kernel void f(__global uint *x)\n"
			"{\n"
			"	size_t i = get_global_id(0);\n"
			"	STEP(x[i]);\n"
			"	x[i] += sub_group_reduce_add(x[i]) + get_sub_group_local_id();\n"
			"}\n",
			"-DSPIN=1000 -cl-std=CL3.0", "f");
}

static void vectors(struct conform *c)
{
	plain(c,
		"__kernel void f(__global uint *x)\n"
		"{\n"
		"	size_t i = get_global_id(0);\n"
		"	STEP(x[i]);\n"
		"	uint4 v = (uint4)(x[i], x[i] >> 1, x[i] << 2, 9u);\n"
		"	v.s31 = v.yx + (uint2)(1u);\n"
		"	float8 g = convert_float8((uint8)(v, v.wzyx) & 1023u);\n"
		"	double2 d = (double2)(g.s0 * g.s7, g.s3);\n"
		"	int2 same = v.xy == v.zw;\n"
		"	x[i] = (uint)(same.x + same.y) + as_uint(g.hi.x) +\n"
		"		convert_uint_sat(d.x / (d.y + 1.0)) + v.s3;\n"
		"}\n",
		OPTIONS, "f");
}

static void dimensions(struct conform *c)
{
	static const char source[] = "__kernel void f(__global uint *x)\n"
				     "{\n"
				     "	size_t at = get_global_id(0) + 64 * (get_global_id(1) + 8 "
				     "* get_global_id(2));\n"
				     "	at %= 4096;\n"
				     "	STEP(x[at]);\n"
				     "	x[at] += (uint)(get_group_id(0) + 3 * get_group_id(1) + 5 "
				     "* get_group_id(2) +\n"
				     "		7 * get_global_offset(0) + 11 * "
				     "get_global_offset(2) + 13 * get_work_dim());\n"
				     "}\n";
	static const size_t global[3] = {32, 4, 8}, offset[3] = {32, 4, 0}, local[3] = {8, 2, 1},
			    wide[3] = {64, 8, 8}, line = 4000, back = 96, by = 20;
	struct run r = begin(c, source, OPTIONS, "f");

	range(&r, 3, NULL, wide, local);
	range(&r, 3, offset, global, local);
	range(&r, 2, offset, global, local);
	range(&r, 1, &back, &line, &by);
	range(&r, 1, &back, &line, NULL);
	range(&r, 3, offset, global, NULL);
	end(c, &r);
}

/* Who leaves the size of groups to the driver gets what the driver chooses. */
static void local_size(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x)\n"
		"{\n"
		"	size_t i = get_global_id(0) + get_global_size(0) * get_global_id(1);\n"
		"	STEP(x[i]);\n"
		"	x[i] += (uint)(get_local_size(0) * 64 + get_local_size(1) + "
		"get_local_id(0));\n"
		"}\n";
	static const size_t ranges[][2] = {{4096, 1}, {64, 64}, {1000, 4}, {37, 5}, {17, 1}};
	struct run r = begin(c, source, OPTIONS, "f");

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		range(&r, 2, NULL, ranges[i], NULL);
	end(c, &r);
}

static void images(struct conform *c)
{
	static const char source[] =
		"__constant sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | "
		"CLK_ADDRESS_CLAMP_TO_EDGE |"
		" CLK_FILTER_NEAREST;\n"
		"__kernel void f(__global uint *x, __read_only image2d_t in, __write_only "
		"image2d_t out,"
		" sampler_t s)\n"
		"{\n"
		"	int2 at = (int2)(get_global_id(0) & 63, get_global_id(0) >> 6);\n"
		"	STEP(x[get_global_id(0)]);\n"
		"	uint4 v = read_imageui(in, plain, at) + read_imageui(in, s, at.yx);\n"
		"	write_imageui(out, at, v ^ x[get_global_id(0)]);\n"
		"	x[get_global_id(0)] ^= v.x;\n"
		"}\n";
	static const size_t origin[3] = {0}, region[3] = {64, 64, 1};
	cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
	cl_image_desc desc = {
		.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 64};
	static cl_uint pixels[64 * 64 * 4];
	cl_sampler sampler;
	cl_mem in, out;
	struct run r = begin(c, source, OPTIONS, "f");

	for (cl_uint i = 0; i < 64 * 64 * 4; i++)
		pixels[i] = i * 2654435761u;
	OCL_NEW(in, clCreateImage(c->o.ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format,
			    &desc, pixels, &rc_));
	OCL_NEW(out, clCreateImage(c->o.ctx, CL_MEM_READ_WRITE, &format, &desc, NULL, &rc_));
	OCL_NEW(sampler,
		clCreateSampler(c->o.ctx, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &rc_));
	OCL(clSetKernelArg(r.kernel, 1, sizeof(in), &in));
	OCL(clSetKernelArg(r.kernel, 2, sizeof(out), &out));
	OCL(clSetKernelArg(r.kernel, 3, sizeof(sampler), &sampler));
	for (int i = 0; i < 2; i++)
		range_1d(&r, 32);
	OCL(clEnqueueReadImage(r.q, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
	note_data(c, "image", pixels, sizeof(pixels));
	OCL(clReleaseSampler(sampler));
	OCL(clReleaseMemObject(in));
	OCL(clReleaseMemObject(out));
	end(c, &r);
}

/* Everything is released, and a clone made, while launches are under way. */
static void released(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x, uint z) { STEP(x[get_global_id(0)]); "
		"x[get_global_id(0)] += z; }\n";
	struct run r = begin(c, source, OPTIONS, "f");
	cl_uint two = 2, three = 3;
	cl_mem own = new_words(c, 77);
	cl_kernel clone;
	cl_event e;

	OCL(clSetKernelArg(r.kernel, 1, sizeof(two), &two));
	range_1d(&r, 16);
	clone = clCloneKernel(r.kernel, NULL);
	if (!clone) { /* PoCL 3.1 has none */
		OCL(clRetainKernel(r.kernel));
		clone = r.kernel;
	}
	OCL(clSetKernelArg(r.kernel, 1, sizeof(three), &three));
	range_1d(&r, 16);
	OCL(clReleaseKernel(r.kernel));
	r.kernel = clone;
	OCL(clSetKernelArg(clone, 1, sizeof(two), &two));
	range_1d(&r, 16);
	OCL(clSetKernelArg(r.kernel, 0, sizeof(own), &own));
	OCL(clEnqueueNDRangeKernel(r.q, r.kernel, 1, NULL, (const size_t[]){WORDS},
		(const size_t[]){16}, 0, NULL, &e));
	OCL(clReleaseMemObject(own));
	note(c, "status %d", (clWaitForEvents(1, &e), event_status(e)));
	OCL(clReleaseEvent(e));
	end(c, &r);
}

/* A launch in the middle of everything: user events, wait lists of two queues, callbacks. */
static void CL_CALLBACK on_event(cl_event e, cl_int status, void *arg)
{
	*(_Atomic int *)arg = 1 + status;
}

static void events(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x) { STEP(x[get_global_id(0)]); }\n";
	struct run r = begin(c, source, OPTIONS, "f");
	cl_command_queue other = ocl_queue(&c->o, 0);
	cl_event user = user_event(c), e[3];
	const size_t global = WORDS, local = 16;
	_Atomic int called = 0;
	cl_command_type type;

	OCL(clEnqueueNDRangeKernel(r.q, r.kernel, 1, NULL, &global, &local, 1, &user, &e[0]));
	OCL(clFlush(r.q));
	OCL(clEnqueueNDRangeKernel(other, r.kernel, 1, NULL, &global, &local, 1, &e[0], &e[1]));
	OCL(clSetEventCallback(e[1], CL_COMPLETE, on_event, &called));
	OCL(clFlush(other));
	OCL(clEnqueueNDRangeKernel(r.q, r.kernel, 1, NULL, &global, &local, 2, e, &e[2]));
	note(c, "waits %d", event_status(e[0]) > CL_RUNNING);
	OCL(clSetUserEventStatus(user, CL_COMPLETE));
	OCL(clFinish(r.q));
	for (int i = 0; i < 3; i++) {
		OCL(clGetEventInfo(e[i], CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
		note(c, "%d: %d, type %x", i, event_status(e[i]), type);
	}
	while (!called)
		usleep(100);
	note(c, "called %d", called);
	note(c, "group too large %d",
		clEnqueueNDRangeKernel(
			r.q, r.kernel, 1, NULL, &global, (const size_t[]){1 << 20}, 0, NULL, NULL));
	OCL(clReleaseEvent(user));
	release_events(e, 3);
	OCL(clReleaseCommandQueue(other));
	end(c, &r);
}

static void svm(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x, __global uint *y) { size_t i = get_global_id(0);"
		" STEP(x[i]); STEP(y[i]); }\n";
	struct run r = begin(c, source, OPTIONS, "f");
	cl_uint *y = clSVMAlloc(c->o.ctx, CL_MEM_READ_WRITE, BYTES, 0);

	note(c, "supported %d", !!y);
	if (y) {
		OCL(clEnqueueSVMMap(r.q, CL_TRUE, CL_MAP_WRITE, y, BYTES, 0, NULL, NULL));
		memset(y, 5, BYTES);
		OCL(clEnqueueSVMUnmap(r.q, y, 0, NULL, NULL));
		OCL(clSetKernelArgSVMPointer(r.kernel, 1, y));
		OCL(clSetKernelExecInfo(r.kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof(y), &y));
		range_1d(&r, 16);
		OCL(clEnqueueSVMMap(r.q, CL_TRUE, CL_MAP_READ, y, BYTES, 0, NULL, NULL));
		note_data(c, "y", y, BYTES);
		OCL(clEnqueueSVMUnmap(r.q, y, 0, NULL, NULL));
		OCL(clFinish(r.q));
		clSVMFree(c->o.ctx, y);
	}
	end(c, &r);
}

/* Threads with queues of their own, kernels of one program. */
struct thread {
	struct conform *c;
	struct run r;
	pthread_t id;
};

static void *launches(void *arg)
{
	struct thread *t = arg;

	for (int i = 0; i < 4; i++)
		range_1d(&t->r, 16);
	OCL(clFinish(t->r.q));
	return NULL;
}

static void threads(struct conform *c)
{
	static const char source[] =
		"__kernel void f(__global uint *x) { STEP(x[get_global_id(0)]); }\n";
	struct thread t[3];

	for (int i = 0; i < 3; i++) {
		t[i].c = c;
		t[i].r = begin(c, source, OPTIONS, "f");
	}
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t[i].id, NULL, launches, &t[i]))
			die("no thread");
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i].id, NULL);
		end(c, &t[i].r);
	}
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"not idempotent", not_idempotent},
		{"counters", counters},
		{"macros", macros},
		{"macro arguments", macro_arguments},
		{"includes", includes},
		{"attributes", attributes},
		{"several kernels", several},
		{"local memory", local_memory},
		{"work-group functions", group_functions},
		{"sub-groups", sub_groups},
		{"vectors", vectors},
		{"dimensions", dimensions},
		{"local size", local_size},
		{"images", images},
		{"released", released},
		{"events", events},
		{"SVM", svm},
		{"threads", threads},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
