/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of cases that use CUDA's driver API and note down what they saw: digests of buffers, error
 * codes; never times or addresses. A run prints its notes, which must be the same with and without
 * Fermata, however the program got at the driver's functions.
 *
 * usage: [--via link|dlsym|proc] [--ptds] [SECONDS [CASE...]] | --list
 * --ptds takes the variants for per-thread default streams. With SECONDS the set is repeated for so
 * long; each round must note the same as the first.
 */
#pragma once
#if !defined CUDA_NO_LINK && !defined CONFORM_HIP && !defined CONFORM_ACL
#define CU_EXPORT __attribute__((weak)) extern
#endif
#include "../../cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS 4096
#define BYTES (WORDS * sizeof(uint32_t))
#define BLOCK 128
#define GRID  (WORDS / BLOCK)

/* cuda_kernels.ptx, as text. CUDA_PTX: its path, from the build. */
extern const char cuda_ptx[];
__asm__(".section .rodata\n"
	".type cuda_ptx, @object\n"
	"cuda_ptx: .incbin \"" CUDA_PTX "\"\n"
	".byte 0\n"
	".size cuda_ptx, . - cuda_ptx\n"
	".previous");

/* The driver's functions, by the names of their symbols; NULL if it lacks one. */
struct cuda_api {
#define CU_MEMBER(symbol, base, since, params)                    fm_cu_result(*symbol) params;
#define CU_MEMBER_BOTH(symbol, base, since, suffix, params, args) fm_cu_result(*symbol) params;
	CUDA_API(CU_MEMBER, CU_MEMBER_BOTH)
};

static struct cuda_api cu;

struct conform {
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	CUfunction mix, join, fill, count, spin, relay;
	FILE *notes;
	const char *name;
};

struct conform_case {
	const char *name;
	void (*run)(struct conform *c);
};

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static inline void cu_check(fm_cu_result rc, const char *what, const char *file, int line)
{
	if (rc)
		die("%s:%d: %s: CUDA error %d", file, line, what, rc);
}

#define CU(call) cu_check(cu.call, #call, __FILE__, __LINE__)

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

#ifdef CONFORM_HIP
#include "../hip/hip_conform.h"
#elif defined CONFORM_ACL
#include "../acl/acl_conform.h"
#else
#ifdef CU_EXPORT
static inline void load_linked(bool ptds)
{
#define CU_LINKED(symbol, base, since, params) cu.symbol = symbol;
#define CU_LINKED_BOTH(symbol, base, since, suffix, params, args) \
	cu.symbol = ptds ? symbol##suffix : symbol;
	CUDA_API(CU_LINKED, CU_LINKED_BOTH)
}
#else
static inline void load_linked(bool ptds)
{
	die("this program is not linked with the driver");
}
#endif

static inline void *driver_handle(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		die("%s", dlerror());
	return handle;
}

/* The fake driver looks who waits for what may run still: this thread's own launches that may begin
 * early have data of their own. */
static inline void launches_apart(int yes)
{
	void (*apart)(int);

	*(void **)&apart = dlsym(driver_handle(), "fake_cuda_apart");
	if (apart)
		apart(yes);
}

static inline void load_dlsym(bool ptds)
{
	void *handle = driver_handle();

#define CU_FOUND(symbol, base, since, params) *(void **)&cu.symbol = dlsym(handle, #symbol);
#define CU_FOUND_BOTH(symbol, base, since, suffix, params, args) \
	*(void **)&cu.symbol = dlsym(handle, ptds ? #symbol #suffix : #symbol);
	CUDA_API(CU_FOUND, CU_FOUND_BOTH)
}

/* As the runtime library does: one function by its name, and from it all others. */
static inline void load_proc(bool ptds)
{
	fm_cu_result (*get)(const char *, void **, int, uint64_t, int *);
	uint64_t flags = ptds ? CU_PROC_PER_THREAD : 0;
	void *fn;

	*(void **)&get = dlsym(driver_handle(), "cuGetProcAddress_v2");
	if (!get)
		die("no cuGetProcAddress_v2");
/* The variants for threads came with version 7000. */
#define CU_PROC(symbol, base, since, params)                 \
	if (!get(#base, &fn, since, flags, &(int){0}) && fn) \
		*(void **)&cu.symbol = fn;
#define CU_PROC_BOTH(symbol, base, since, suffix, params, args) \
	CU_PROC(symbol, base, ptds &&since < 7000 ? 7000 : since, params)
	CUDA_API(CU_PROC, CU_PROC_BOTH)
}
#endif

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

static inline void seed_words(uint32_t *words, size_t n, uint32_t seed)
{
	seed = seed * 2654435761u | 1;
	for (size_t i = 0; i < n; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 17;
		seed ^= seed << 5;
		words[i] = seed;
	}
}

/* Memory of the device whose content follows from the seed, ready for any stream. */
static inline CUdeviceptr new_words(uint32_t seed)
{
	uint32_t words[WORDS];
	CUdeviceptr d;

	seed_words(words, WORDS, seed);
	CU(cuMemAlloc_v2(&d, BYTES));
	CU(cuMemcpyHtoD_v2(d, words, BYTES));
	CU(cuStreamSynchronize(NULL));
	return d;
}

/* Memory of the host that the device sees, of zeros. */
static inline uint32_t *mapped_words(CUdeviceptr *d)
{
	void *p;

	CU(cuMemHostAlloc(&p, BYTES, 2 /* mapped */));
	memset(p, 0, BYTES);
	CU(cuMemHostGetDevicePointer_v2(d, p, 0));
	return p;
}

/* The copy is of the stream itself; into pageable memory it returns with the data. */
static inline void note_words(struct conform *c, const char *what, CUdeviceptr d, CUstream s)
{
	uint32_t words[WORDS];

	CU(cuMemcpyDtoHAsync_v2(words, d, BYTES, s));
	note_data(c, what, words, BYTES);
}

static inline void launch(CUfunction f, unsigned grid, unsigned block, CUstream s, void **params)
{
	CU(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, params, NULL));
}

static inline void mix(struct conform *c, CUstream s, CUdeviceptr x, uint32_t number)
{
	uint32_t n = WORDS, rounds = 40;

	launch(c->mix, GRID, BLOCK, s, (void *[]){&x, &n, &number, &rounds});
}

static inline void join(
	struct conform *c, CUstream s, CUdeviceptr out, CUdeviceptr a, CUdeviceptr b)
{
	uint32_t n = WORDS;

	launch(c->join, GRID, BLOCK, s, (void *[]){&out, &a, &b, &n});
}

static inline void fill(struct conform *c, CUstream s, CUdeviceptr x, uint32_t value)
{
	uint32_t n = WORDS;

	launch(c->fill, GRID, BLOCK, s, (void *[]){&x, &n, &value});
}

static inline void count(struct conform *c, CUstream s, CUdeviceptr x)
{
	uint32_t n = WORDS;

	launch(c->count, GRID, BLOCK, s, (void *[]){&x, &n});
}

static inline void spin(struct conform *c, CUstream s, CUdeviceptr x, uint64_t ns)
{
	launch(c->spin, 1, 1, s, (void *[]){&x, &ns});
}

static inline CUstream new_stream(unsigned flags)
{
	CUstream s;

	CU(cuStreamCreate(&s, flags));
	return s;
}

static inline CUevent new_event(void)
{
	CUevent e;

	CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	return e;
}

/* `after` continues when what `before` has now is done. */
static inline void order(CUstream before, CUstream after)
{
	CUevent e = new_event();

	CU(cuEventRecord(e, before));
	CU(cuStreamWaitEvent(after, e, 0));
	CU(cuEventDestroy_v2(e));
}

static inline void free_all(CUdeviceptr *d, int n)
{
	for (int i = 0; i < n; i++)
		CU(cuMemFree_v2(d[i]));
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

/* The kernels, for the current context. */
static inline void conform_load(struct conform *c)
{
	CU(cuModuleLoadData(&c->module, cuda_ptx));
	CU(cuModuleGetFunction(&c->mix, c->module, "mix"));
	CU(cuModuleGetFunction(&c->join, c->module, "join"));
	CU(cuModuleGetFunction(&c->fill, c->module, "fill"));
	CU(cuModuleGetFunction(&c->count, c->module, "count"));
	CU(cuModuleGetFunction(&c->spin, c->module, "spin"));
	CU(cuModuleGetFunction(&c->relay, c->module, "relay"));
}

static inline CUdevice last_device(int *n)
{
	CUdevice last;

	CU(cuDeviceGetCount(n));
	CU(cuDeviceGet(&last, *n - 1));
	return last;
}

static inline void conform_open_on(struct conform *c, int device)
{
	CU(cuDeviceGet(&c->dev, device));
	CU(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
	CU(cuCtxSetCurrent(c->ctx));
	conform_load(c);
}

static inline void conform_open(struct conform *c)
{
	CU(cuInit(0));
	conform_open_on(c, 0);
}

/* After a reset: the primary context has ended, whoever retains it, and stays current as one that
 * is destroyed until it is retained again. What the driver says to the release is returned. */
static inline int conform_again(struct conform *c)
{
	int released = cu.cuDevicePrimaryCtxRelease_v2(c->dev);

	CU(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
	CU(cuCtxSetCurrent(c->ctx));
	return released;
}

static inline void conform_close(struct conform *c)
{
	CU(cuModuleUnload(c->module));
	CU(cuCtxSetCurrent(NULL));
	CU(cuDevicePrimaryCtxRelease_v2(c->dev));
}

/* Takes the options off the arguments. */
static inline void conform_options(int *argc, char ***argv)
{
	const char *via = "dlsym";
	bool ptds = false;

	while (*argc > 1) {
		int used = 1;

		if (!strcmp((*argv)[1], "--ptds"))
			ptds = true;
		else if (!strcmp((*argv)[1], "--via") && *argc > 2)
			via = (*argv)[used = 2];
		else
			break;
		*argc -= used;
		*argv += used;
	}
	if (!strcmp(via, "link"))
		load_linked(ptds);
	else if (!strcmp(via, "dlsym"))
		load_dlsym(ptds);
	else if (!strcmp(via, "proc"))
		load_proc(ptds);
	else
		die("no way '%s' to the driver", via);
}

static inline int conform_main(int argc, char **argv, const struct conform_case *cases)
{
	char *const none[] = {NULL}, *const * only;
	struct conform c = {0};
	uint64_t until;
	char *first;
	int rounds = 1;

	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (; cases->name; cases++)
			puts(cases->name);
		return 0;
	}
	conform_options(&argc, &argv);
	until = now_ns() + (argc > 1 ? (uint64_t)(atof(argv[1]) * 1e9) : 0);
	only = argc > 2 ? argv + 2 : none;
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
