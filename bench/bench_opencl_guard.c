/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of some seconds whose work-groups take about as long as told.
 *
 *   time SECONDS GROUP_US [STEPS STEPS]
 *
 * Two kernels, with so many steps or as many as make up a group: [[steps, us], [steps, us]].
 *
 *   stop SECONDS GROUP_US N
 *
 * Under `fermata run`: suspends itself N times while a kernel runs, by the daemon's control socket;
 * each time from the request until the last work-group had ended, in ms: [ms, ...].
 *
 * script/lib/guard_cost compares and prints.
 */
#include "ocl.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCAL 64
#define QUIET UINT64_C(10000000) /* no group has begun for so long, ns: it stands */

/* The same work, without and with local memory and barriers. What a compiler makes of the former
 * may depend on what stands before: its ratio compares two compilations as well. */
static const char source[] =
	"#define WORK uint v = x[get_global_id(0)] + (uint)get_global_id(0); \\\n"
	"	for (uint k = 0; k < steps; k++) \\\n"
	"		v = v & 1u ? v * 3u + k : (v >> 1) ^ table[v & 255u];\n"
	"__kernel void plain(__global uint *x, __global uint *seen, __global const uint *table, "
	"uint "
	"steps)\n"
	"{\n"
	"	if (!get_local_id(0)) atomic_inc(&seen[0]);\n"
	"	WORK\n"
	"	x[get_global_id(0)] = v;\n"
	"	if (get_local_id(0) == get_local_size(0) - 1) atomic_inc(&seen[16]);\n"
	"}\n"
	"__kernel void shared(__global uint *x, __global uint *seen, __global const uint *table, "
	"uint "
	"steps)\n"
	"{\n"
	"	__local uint all[64];\n"
	"	if (!get_local_id(0)) atomic_inc(&seen[0]);\n"
	"	WORK\n"
	"	all[get_local_id(0)] = v;\n"
	"	barrier(CLK_LOCAL_MEM_FENCE);\n"
	"	x[get_global_id(0)] = all[63 - get_local_id(0)];\n"
	"	if (get_local_id(0) == get_local_size(0) - 1) atomic_inc(&seen[16]);\n"
	"}\n";

struct bench {
	struct ocl o;
	cl_command_queue q;
	cl_kernel k;
	cl_mem x, seen, table;
	uint32_t *count; /* groups that have begun; at 16, ended */
	size_t global;
	cl_uint steps;
};

static uint32_t seen(const struct bench *b, int at)
{
	return __atomic_load_n(&b->count[at], __ATOMIC_SEQ_CST);
}

static void launch(struct bench *b)
{
	const size_t local = LOCAL;

	OCL(clSetKernelArg(b->k, 3, sizeof(b->steps), &b->steps));
	OCL(clEnqueueNDRangeKernel(b->q, b->k, 1, NULL, &b->global, &local, 0, NULL, NULL));
	OCL(clFlush(b->q));
}

static double run_us(struct bench *b)
{
	uint64_t start = now_ns();

	launch(b);
	OCL(clFinish(b->q));
	return (double)(now_ns() - start) / 1e3;
}

static void open_bench(struct bench *b)
{
	uint32_t table[256], seed = 1;

	ocl_open(&b->o);
	b->q = ocl_queue(&b->o, 0);
	for (int i = 0; i < 256; i++)
		table[i] = xorshift32(&seed);
	b->table = ocl_buffer(&b->o, sizeof(table), table);
	b->count = aligned_alloc(4096, 4096);
	memset(b->count, 0, 4096);
	OCL_NEW(b->seen, clCreateBuffer(b->o.ctx, CL_MEM_USE_HOST_PTR, 4096, b->count, &rc_));
}

/* So many groups, each of about group_us on one of the device's units. */
static void set_up(struct bench *b, cl_program p, const char *name, double seconds, double group_us)
{
	cl_uint units = 1;

	OCL(clGetDeviceInfo(b->o.dev, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL));
	b->k = ocl_kernel(p, name);
	b->global = LOCAL * (size_t)(seconds * 1e6 / group_us * units);
	b->x = ocl_buffer(&b->o, b->global * sizeof(cl_uint), NULL);
	OCL(clEnqueueFillBuffer(b->q, b->x, &(cl_uint){1}, sizeof(cl_uint), 0,
		b->global * sizeof(cl_uint), 0, NULL, NULL));
	OCL(clSetKernelArg(b->k, 0, sizeof(b->x), &b->x));
	OCL(clSetKernelArg(b->k, 1, sizeof(b->seen), &b->seen));
	OCL(clSetKernelArg(b->k, 2, sizeof(b->table), &b->table));
}

static double best_us(struct bench *b, int runs)
{
	double best = run_us(b);

	while (--runs > 0) {
		double us = run_us(b);

		best = us < best ? us : best;
	}
	return best;
}

/* Steps that make up a group of that length, as natively measured. */
static cl_uint calibrate(struct bench *b, double group_us)
{
	size_t global = b->global;
	cl_uint units = 1;
	double want;

	OCL(clGetDeviceInfo(b->o.dev, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL));
	want = group_us * 256 / units;
	b->global = LOCAL * 256;
	b->steps = 100;
	for (int i = 0; i < 3; i++)
		b->steps = (cl_uint)(b->steps * want / best_us(b, 5)) + 1;
	b->global = global;
	return b->steps;
}

static void time_them(struct bench *b, cl_program p, double seconds, double group_us, char **steps)
{
	static const char *const names[2] = {"plain", "shared"};

	printf("[");
	for (int i = 0; i < 2; i++) {
		set_up(b, p, names[i], seconds, group_us);
		b->steps = steps[0] && steps[i] ? (cl_uint)atoi(steps[i]) : calibrate(b, group_us);
		run_us(b); /* compiles it, and makes it known for long */
		printf("%s[%u, %.0f]", i ? ", " : "", b->steps, best_us(b, 2));
	}
	printf("]\n");
}

static int control(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const char *dir = getenv("FERMATA_SOCKET");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (!dir)
		die("FERMATA_SOCKET is not set");
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/control.sock", dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("no daemon at %s", at.sun_path);
	return fd;
}

static void ask(int fd, const char *what)
{
	char text[128];
	int n = snprintf(
		text, sizeof(text), "{\"cmd\": \"%s\", \"target\": \"%d\"}\n", what, (int)getpid());

	if (write(fd, text, (size_t)n) != n)
		die("the daemon does not listen");
}

static void hear(int fd)
{
	char text[128];
	int n;

	do {
		n = (int)read(fd, text, sizeof(text) - 1);
	} while (n > 0 && text[n - 1] != '\n');
}

/* From a request until the last group has ended, ms; negative: the kernel ended by itself. */
static double stop_once(struct bench *b, int fd)
{
	uint32_t ended = seen(b, 16);
	uint64_t start, last, now;

	start = last = now_ns();
	ask(fd, "suspend"); /* which may be done before the answer is here */
	for (now = start; now - last < QUIET || seen(b, 0) != ended; now = now_ns()) {
		if (seen(b, 16) != ended) {
			ended = seen(b, 16);
			last = now;
		}
		usleep(20);
	}
	hear(fd);
	ask(fd, "resume");
	hear(fd);
	return ended % (b->global / LOCAL) ? (double)(last - start) / 1e6 : -1;
}

static void stop_it(struct bench *b, int n, uint32_t base)
{
	uint32_t seed = 7;
	int fd = control();

	printf("[");
	for (int done = 0; done < n;) {
		double ms;

		launch(b);
		while (seen(b, 0) == base)
			usleep(100);
		while (done < n) {
			usleep(10000 + xorshift32(&seed) % 20000);
			ms = stop_once(b, fd);
			if (ms < 0)
				break;
			printf("%s%.3f", done++ ? ", " : "", ms);
		}
		OCL(clFinish(b->q));
		base = seen(b, 0);
	}
	printf("]\n");
}

int main(int argc, char **argv)
{
	double seconds, group_us;
	struct bench b = {0};
	cl_program p;

	if (argc < 4)
		die("usage: bench_opencl_guard time SECONDS GROUP_US [STEPS STEPS] | stop SECONDS "
		    "GROUP_US N");
	seconds = atof(argv[2]);
	group_us = atof(argv[3]);
	open_bench(&b);
	p = ocl_program(&b.o, source);
	if (!strcmp(argv[1], "time")) {
		time_them(&b, p, seconds, group_us, argv + 4);
		return 0;
	}
	if (argc < 5)
		die("stop needs N");
	set_up(&b, p, "shared", seconds, group_us);
	calibrate(&b, group_us);
	memset(b.count, 0, 4096);
	stop_it(&b, atoi(argv[4]), 0);
	return 0;
}
