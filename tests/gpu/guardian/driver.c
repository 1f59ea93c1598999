/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct driver cu;
const char *volatile doing = "nothing yet";
char whose[64] = "gpu_guardian";

_Noreturn void fail(const char *form, ...)
{
	va_list list;

	printf("failed %s; while: %s\n       ", whose, doing);
	va_start(list, form);
	vprintf(form, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
	_exit(1); /* without the driver's own end, which may hang after an error */
}

_Noreturn void fail_call(const char *call, int rc, const char *file, int line)
{
	const char *name = "?", *text = "?";

	if (cu.cuGetErrorName)
		cu.cuGetErrorName(rc, &name);
	if (cu.cuGetErrorString)
		cu.cuGetErrorString(rc, &text);
	fail("%s = %d %s (%s), %s:%d", call, rc, name, text, file, line);
}

static _Noreturn void skip(const char *why)
{
	printf("skip: %s\n", why);
	exit(77);
}

struct device open_device(void)
{
	enum { SHARED_OPTIN = 97, MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, CLOCK = 13 };
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	struct device d;

	doing = "opening the device";
	if (!lib)
		skip(dlerror());
#define FIND(name, params)                      \
	*(void **)&cu.name = dlsym(lib, #name); \
	if (!cu.name)                           \
		fail("the driver lacks " #name);
	DRIVER(FIND)
#undef FIND
	if (cu.cuInit(0) || cu.cuDeviceGet(&d.id, 0))
		skip("no CUDA device");
	CU(cuDeviceGetName(d.name, sizeof(d.name), d.id));
	CU(cuDeviceGetAttribute(&d.major, MAJOR, d.id));
	CU(cuDeviceGetAttribute(&d.minor, MINOR, d.id));
	CU(cuDeviceGetAttribute(&d.multiprocessors, MULTIPROCESSORS, d.id));
	CU(cuDeviceGetAttribute(&d.shared_most, SHARED_OPTIN, d.id));
	CU(cuDeviceGetAttribute(&d.khz, CLOCK, d.id));
	if (d.major != 9 || d.minor != 0)
		skip("the kernels are compiled for sm_90a");
	CU(cuDevicePrimaryCtxRetain(&ctx, d.id));
	CU(cuCtxSetCurrent(ctx));
	return d;
}

void *try_image(const void *image, char *log, size_t size, int *rc)
{
	enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 };
	int options[] = {ERROR_LOG, ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)size}, *module = NULL;

	*log = 0;
	*rc = cu.cuModuleLoadDataEx(&module, image, 2, options, values);
	return *rc ? NULL : module;
}

void *load_image(const char *what, const void *image)
{
	static char log[16384];
	const char *name = "?";
	int rc;
	void *module = try_image(image, log, sizeof(log), &rc);

	if (rc) {
		cu.cuGetErrorName(rc, &name);
		fail("cuModuleLoadDataEx of %s = %d %s; its log: %s", what, rc, name, log);
	}
	return module;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void spin_until(uint64_t ns)
{
	while (now_ns() < ns)
		;
}

uint64_t dice(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 8;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double part_of(double *v, int n, double p)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n ? v[(int)(p * (n - 1) + 0.5)] : 0;
}

void *file_contents(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	char *data;
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		fail("%s cannot be read", path);
	data = calloc(1, (size_t)n + 1);
	if (!data || fread(data, 1, (size_t)n, f) != (size_t)n)
		fail("%s cannot be read", path);
	fclose(f);
	*size = (size_t)n;
	return data;
}
