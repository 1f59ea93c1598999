/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct calls cu;
struct memory_calls vm;
struct gpu gpu;

/* Copies n elements of 16 bytes from a texture. */
static const char texture_ptx[] =
	".version 6.4\n.target sm_75\n.address_size 64\n"
	".visible .entry through_texture(.param .u64 out, .param .u64 from, .param .u32 n)\n"
	"{\n.reg .pred %p;\n.reg .b32 %r<12>;\n.reg .b64 %rd<5>;\n"
	"ld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [from];\nld.param.u32 %r1, [n];\n"
	"cvta.to.global.u64 %rd1, %rd1;\n"
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
	"mad.lo.s32 %r5, %r2, %r3, %r4;\nmov.u32 %r6, %nctaid.x;\nmul.lo.s32 %r6, %r6, %r3;\n"
	"L: setp.ge.u32 %p, %r5, %r1;\n@%p bra E;\n"
	"tex.1d.v4.u32.s32 {%r7, %r8, %r9, %r10}, [%rd2, {%r5}];\n"
	"mul.wide.u32 %rd3, %r5, 16;\nadd.s64 %rd4, %rd1, %rd3;\n"
	"st.global.v4.u32 [%rd4], {%r7, %r8, %r9, %r10};\nadd.s32 %r5, %r5, %r6;\nbra L;\n"
	"E: ret;\n}\n";

const char *gpu_error(int rc)
{
	const char *name = NULL;

	if (rc == ABSENT)
		return "absent";
	if (!rc)
		return "ok";
	if (!cu.cuGetErrorName || cu.cuGetErrorName(rc, &name) || !name)
		return "?";
	return strncmp(name, "CUDA_ERROR_", 11) ? name : name + 11;
}

_Noreturn void gpu_fail(const char *call, int rc, const char *file, int line)
{
	printf("failed: %s = %d %s, %s:%d\n", call, rc, gpu_error(rc), file, line);
	fflush(stdout);
	_exit(3);
}

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void wait_us(double us)
{
	struct timespec t = {
		(time_t)(us / 1e6), (long)((us - (double)(time_t)(us / 1e6) * 1e6) * 1e3)};

	nanosleep(&t, NULL);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double part_of(double *v, int n, double p)
{
	if (n < 1)
		return -1;
	qsort(v, (size_t)n, sizeof(*v), by_size);
	return v[(int)(p * (n - 1) + 0.5)];
}

static _Noreturn void skip(const char *why)
{
	printf("skip: %s\n", why);
	fflush(stdout);
	_exit(77);
}

void gpu_find(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib)
		skip(dlerror());
#define FIND(symbol, base, since, params)                 *(void **)&cu.symbol = dlsym(lib, #symbol);
#define FIND_P(symbol, base, since, suffix, params, args) FIND(symbol, base, since, params)
#define FIND_M(symbol, params)                            *(void **)&vm.symbol = dlsym(lib, #symbol);
	CUDA_API(FIND, FIND_P)
	MEMORY_CALLS(FIND_M)
	if (!vm.cuMemCreate || !vm.cuMemAddressReserve || !vm.cuMemMap || !vm.cuMemUnmap ||
		!vm.cuMemSetAccess || !vm.cuMemRelease)
		skip("this driver has no chunks (cuMemCreate and its like)");
}

CUfunction gpu_function(CUmodule m, const char *name)
{
	CUfunction f;

	CK(cu.cuModuleGetFunction(&f, m, name));
	return f;
}

static char *contents(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) ||
		!(text = calloc(1, (size_t)size + 1)) ||
		fread(text, 1, (size_t)size, f) != (size_t)size) {
		printf("failed: cannot read %s\n", path);
		fflush(stdout);
		_exit(3);
	}
	fclose(f);
	return text;
}

CUmodule gpu_module(const char *path)
{
	char *text = contents(path);
	CUmodule m;

	CK(cu.cuModuleLoadData(&m, text));
	free(text);
	return m;
}

void gpu_open(bool lazy)
{
	enum { HOST_NUMA_ID = 134 };

	setenv("CUDA_MODULE_LOADING", lazy ? "LAZY" : "EAGER", 1);
	gpu_find();
	if (cu.cuInit(0) || cu.cuDeviceGet(&gpu.dev, 0))
		skip("no CUDA device");
	CK(cu.cuDevicePrimaryCtxRetain(&gpu.ctx, gpu.dev));
	CK(cu.cuCtxSetCurrent(gpu.ctx));
	gpu.kernels = gpu_module(CUDA_PTX);
	gpu.mix = gpu_function(gpu.kernels, "mix");
	gpu.spin = gpu_function(gpu.kernels, "spin");
	if (vm.cuTexObjectCreate && !cu.cuModuleLoadData(&gpu.textures, texture_ptx))
		gpu.through_texture = gpu_function(gpu.textures, "through_texture");
	if (cu.cuDeviceGetAttribute(&gpu.numa, HOST_NUMA_ID, gpu.dev) || gpu.numa < 0)
		gpu.numa = 0;
}

CUstream gpu_stream(void)
{
	CUstream s;

	CK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

CUdeviceptr gpu_reserve(size_t size, size_t align)
{
	CUdeviceptr p;

	CK(vm.cuMemAddressReserve(&p, size, align, 0, 0));
	return p;
}

int chunk_new(handle *h, int where, size_t size)
{
	struct chunk_prop prop = {
		.type = 1, .where = {where, where == ON_DEVICE ? gpu.dev : gpu.numa}};

	return vm.cuMemCreate(h, size, &prop, 0);
}

int chunk_access(CUdeviceptr at, size_t size)
{
	struct chunk_access all = {{ON_DEVICE, gpu.dev}, 3};

	return vm.cuMemSetAccess(at, size, &all, 1);
}

int chunk_map(CUdeviceptr at, size_t size, handle h)
{
	int rc = vm.cuMemMap(at, size, 0, h, 0);

	return rc ? rc : chunk_access(at, size);
}

void *host_pinned(size_t size)
{
	enum { PORTABLE = 1, MAPPED = 2 };
	void *p;

	CK(cu.cuMemHostAlloc(&p, size, PORTABLE | MAPPED));
	return p;
}

void *host_registered(size_t size)
{
	int fd = memfd_create("fermata-probe", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)size))
		skip("no memory file");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		skip("no memory for a memory file");
	close(fd);
	CK(cu.cuMemHostRegister_v2(
		p, size, FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP));
	return p;
}

struct gate gate_new(void)
{
	struct gate g = {.word = host_pinned(4096)};

	CK(cu.cuMemHostGetDevicePointer_v2(&g.at, (void *)g.word, 0));
	atomic_store(g.word, 1);
	return g;
}

int gate_close(struct gate *g, CUstream s)
{
	atomic_store(g->word, 0);
	return cu.cuStreamWaitValue32_v2(s, g->at, 1, CU_WAIT_GEQ);
}

void gate_open(struct gate *g)
{
	atomic_store(g->word, 1);
}

/* --- threads that may stand inside the driver --- */

enum { HELPERS = 2 };
static struct helper {
	_Atomic int asked, done;
	bool begun;
	void (*fn)(void *);
	void *arg;
	double us;
} helpers[HELPERS];

static void *help(void *arg)
{
	struct helper *h = arg;

	cu.cuCtxSetCurrent(gpu.ctx);
	for (int n = 1;; n++) {
		double since = now_us();

		while (atomic_load(&h->asked) < n)
			if (now_us() - since > 300)
				wait_us(50);
		since = now_us();
		h->fn(h->arg);
		h->us = now_us() - since;
		atomic_store(&h->done, n);
	}
	return NULL;
}

void helper_start(int which, void (*fn)(void *), void *arg)
{
	struct helper *h = &helpers[which];
	pthread_t t;

	if (!h->begun && pthread_create(&t, NULL, help, h))
		skip("no thread");
	h->begun = true;
	h->fn = fn;
	h->arg = arg;
	atomic_fetch_add(&h->asked, 1);
}

double gpu_patience(void)
{
	const char *given = getenv("GPU_PATIENCE");

	return given && atof(given) > 0 ? atof(given) : 1;
}

bool helper_done(int which, double us)
{
	struct helper *h = &helpers[which];
	double since = now_us(), gone;

	us = us >= 1e6 ? us * gpu_patience() : us; /* what would be a failure, not a result */

	while (atomic_load(&h->done) < atomic_load(&h->asked)) {
		gone = now_us() - since;
		if (gone > us)
			return false;
		if (gone > 2000)
			wait_us(50);
	}
	return true;
}

double helper_took(int which)
{
	return helpers[which].us;
}

int gpu_health(void)
{
	static CUdeviceptr word;
	static CUstream s;
	uint64_t ns = 0;
	void *params[] = {&word, &ns};
	uint32_t seen = 0;
	int rc;

	if (!s && (rc = cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)))
		return rc;
	if (!word && (rc = cu.cuMemAlloc_v2(&word, 256)))
		return rc;
	if ((rc = cu.cuMemsetD32Async(word, 5, 1, s)) ||
		(rc = cu.cuLaunchKernel(gpu.spin, 1, 1, 1, 1, 1, 1, 0, s, params, NULL)) ||
		(rc = cu.cuMemcpyDtoHAsync_v2(&seen, word, 4, s)) ||
		(rc = cu.cuStreamSynchronize(s)))
		return rc;
	return seen == 16 ? 0 : CU_LAUNCH_FAILED;
}
