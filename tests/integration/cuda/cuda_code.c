/* SPDX-License-Identifier: Apache-2.0 */
/* Code in all forms that the driver takes, what it tells of it, and launches with all kinds of
 * parameters, in all ways there are. */
#include "guard/cuda_guard.h"

static CUdeviceptr new_ones(void)
{
	CUdeviceptr x;

	CU(cuMemAlloc_v2(&x, BYTES));
	CU(cuMemsetD32_v2(x, 1, WORDS));
	CU(cuCtxSynchronize());
	return x;
}

/* --- images --- */

/* Loaded, launched, and gone. */
static void use_module(struct conform *c, const char *how, struct guard *g)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();

	guard_functions(g);
	for (uint32_t i = 0; i < 5; i++) {
		toil(g, s, x);
		chain(g, s, x, i);
	}
	note_words(c, how, x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static char *to_file(const void *data, size_t size)
{
	static char path[64];
	int fd;

	strcpy(path, "/tmp/cuda_code_XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
		die("cannot write %s", path);
	return path;
}

static void modules(struct conform *c)
{
	static const struct {
		const char *what, *image, *end;
	} images[] = {
		{"machine code", guard_cubin, guard_cubin_end},
		{"a fatbin", guard_fatbin, guard_fatbin_end},
		{"a fatbin with text alone", guard_text_fatbin, guard_text_fatbin_end},
		{"text", guard_text, guard_text_end},
	};
	struct guard g;

	for (int i = 0; i < 4; i++) {
		char *path = to_file(images[i].image, (size_t)(images[i].end - images[i].image));

		CU(cuModuleLoadData(&g.module, images[i].image));
		use_module(c, images[i].what, &g);
		CU(cuModuleUnload(g.module));
		CU(cuModuleLoadDataEx(&g.module, images[i].image, 0, NULL, NULL));
		use_module(c, "with options", &g);
		CU(cuModuleUnload(g.module));
		CU(cuModuleLoad(&g.module, path));
		unlink(path);
		use_module(c, "from a file", &g);
		CU(cuModuleUnload(g.module));
	}
	CU(cuModuleLoadFatBinary(&g.module, guard_fatbin));
	use_module(c, "as a fatbin", &g);
	CU(cuModuleUnload(g.module));
}

/* As what nvcc puts into programs: a wrapper that says where the fatbin is. */
static void wrapped(struct conform *c)
{
	const struct {
		uint32_t magic, version;
		const void *fatbin;
		void *file;
	} wrapper = {0x466243b1, 1, guard_fatbin, NULL};
	struct guard g;

	CU(cuModuleLoadData(&g.module, &wrapper));
	use_module(c, "wrapped", &g);
	CU(cuModuleUnload(g.module));
}

static void linked(struct conform *c)
{
	CUlinkState link;
	struct guard g;
	size_t size;
	void *cubin;

	CU(cuLinkCreate_v2(0, NULL, NULL, &link));
	CU(cuLinkAddData_v2(link, 1 /* text */, (void *)(uintptr_t)guard_text,
		strlen(guard_text) + 1, "guard", 0, NULL, NULL));
	CU(cuLinkComplete(link, &cubin, &size));
	CU(cuModuleLoadData(&g.module, cubin));
	CU(cuLinkDestroy(link));
	use_module(c, "linked", &g);
	CU(cuModuleUnload(g.module));
}

/* Each as often as one likes, at the same time. */
static void loaded_twice(struct conform *c)
{
	struct guard a, b;
	CUdeviceptr in[2];

	guard_open(&a);
	guard_open(&b);
	note(c, "other functions: %s", a.step != b.step ? "yes" : "no");
	CU(cuModuleGetGlobal_v2(&in[0], NULL, a.module, "ticks"));
	CU(cuModuleGetGlobal_v2(&in[1], NULL, b.module, "ticks"));
	note(c, "other variables: %s", in[0] != in[1] ? "yes" : "no");
	guard_close(&a);
	use_module(c, "the one that is left", &b);
	CU(cuModuleUnload(b.module));
}

static void refused(struct conform *c)
{
	struct guard g;
	CUfunction f;
	size_t size;

	note(c, "nonsense %d", cu.cuModuleLoadData(&g.module, "nonsense, and not an image") != 0);
	note(c, "no file %d", cu.cuModuleLoad(&g.module, "/nonexistent/image"));
	note(c, "no image %d", cu.cuModuleLoadData(&g.module, NULL));
	guard_open(&g);
	note(c, "no such kernel %d", cu.cuModuleGetFunction(&f, g.module, "nothing"));
	note(c, "no such variable %d", cu.cuModuleGetGlobal_v2(NULL, &size, g.module, "nothing"));
	use_module(c, "then", &g);
	CU(cuModuleUnload(g.module));
}

/* --- libraries --- */

static CUlibrary load_library(const char *image, const char *path)
{
	CUlibrary l;

	if (path)
		CU(cuLibraryLoadFromFile(&l, path, NULL, NULL, 0, NULL, NULL, 0));
	else
		CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	return l;
}

static void libraries(struct conform *c)
{
	char *path = to_file(guard_cubin, (size_t)(guard_cubin_end - guard_cubin));
	CUlibrary l[3] = {load_library(guard_cubin, NULL), load_library(guard_fatbin, NULL),
		load_library(NULL, path)};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();

	unlink(path);
	for (int i = 0; i < 3; i++) {
		struct guard g;
		CUkernel k, all[8];
		CUlibrary of;
		unsigned n;

		CU(cuLibraryGetModule(&g.module, l[i]));
		use_module(c, "its module", &g);
		CU(cuLibraryGetKernel(&k, l[i], "step"));
		CU(cuKernelGetFunction(&g.step, k));
		step(&g, s, x);
		/* A kernel serves as a function. */
		launch((CUfunction)(void *)k, BLOCKS, 32, s, (void *[]){&x});
		CU(cuKernelGetLibrary(&of, k));
		note(c, "its library: %s", of == l[i] ? "yes" : "no");
		CU(cuLibraryGetKernelCount(&n, l[i]));
		CU(cuLibraryEnumerateKernels(all, 8, l[i]));
		note(c, "%u kernels, one that there is not: %d", n,
			cu.cuLibraryGetKernel(&k, l[i], "nothing"));
	}
	note_words(c, "x", x, s);
	for (int i = 0; i < 3; i++)
		CU(cuLibraryUnload(l[i]));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* --- what the driver tells --- */

static void note_function(struct conform *c, CUfunction f, const char *want)
{
	size_t at = 0, size = 0, n = 0;
	const char *name;
	int threads;

	CU(cuFuncGetName(&name, f));
	note(c, "%s: %s", want, name);
	while (!cu.cuFuncGetParamInfo(f, n, &at, &size))
		note(c, "%s: parameter %zu: %zu bytes at %zu", want, n++, size, at);
	note(c, "%s: %zu parameters, then %d", want, n, cu.cuFuncGetParamInfo(f, n, &at, &size));
	CU(cuFuncGetAttribute(&threads, 0, f));
	note(c, "%s: up to %d threads", want, threads);
}

static int by_name(const void *a, const void *b)
{
	const char *x, *y;

	CU(cuFuncGetName(&x, *(const CUfunction *)a));
	CU(cuFuncGetName(&y, *(const CUfunction *)b));
	return strcmp(x, y);
}

static void functions(struct conform *c)
{
	CUfunction all[8];
	CUmodule of;
	struct guard g;
	unsigned n;

	guard_open(&g);
	note_function(c, g.step, "step");
	note_function(c, g.tick, "tick");
	note_function(c, g.odd, "odd");
	note_function(c, g.large, "large");
	note_function(c, g.beyond, "beyond");
	CU(cuModuleGetFunctionCount(&n, g.module));
	CU(cuModuleEnumerateFunctions(all, 8, g.module));
	note(c, "%u functions", n);
	qsort(all, 8, sizeof(*all), by_name);
	for (int i = 0; i < 8; i++)
		note_function(c, all[i], "one of all");
	CU(cuFuncGetModule(&of, g.meet));
	note(c, "its module: %s", of == g.module ? "yes" : "no");
	guard_close(&g);
}

static void kernels(struct conform *c)
{
	CUlibrary l = load_library(guard_cubin, NULL);
	static const char *const names[] = {"step", "chain", "odd", "tick", "beyond"};

	for (int i = 0; i < 5; i++) {
		size_t at = 0, size = 0, n = 0;
		const char *name;
		CUkernel k;
		CUfunction f;
		CUmodule m[2];

		CU(cuLibraryGetKernel(&k, l, names[i]));
		CU(cuKernelGetName(&name, k));
		while (!cu.cuKernelGetParamInfo(k, n, &at, &size))
			note(c, "%s: parameter %zu: %zu bytes at %zu", name, n++, size, at);
		CU(cuKernelGetFunction(&f, k));
		note_function(c, f, name);
		CU(cuFuncGetModule(&m[0], f));
		CU(cuLibraryGetModule(&m[1], l));
		note(c, "its module: %s", m[0] == m[1] ? "yes" : "no");
	}
	CU(cuLibraryUnload(l));
}

/* --- launches --- */

static void no_parameters(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr ticks;
	uint32_t n = 0;
	size_t size;
	struct guard g;

	guard_open(&g);
	CU(cuModuleGetGlobal_v2(&ticks, &size, g.module, "ticks"));
	note(c, "%zu bytes", size);
	CU(cuMemcpyHtoD_v2(ticks, &n, sizeof(n)));
	CU(cuStreamSynchronize(NULL));
	for (int i = 0; i < 40; i++) {
		void *none[] = {NULL};

		CU(cuLaunchKernel(g.tick, 8, 1, 1, 32, 1, 1, 0, s, i & 1 ? none : NULL, NULL));
	}
	CU(cuMemcpyDtoHAsync_v2(&n, ticks, sizeof(n), s));
	CU(cuStreamSynchronize(s));
	note(c, "%u ticks", n);
	guard_close(&g);
	CU(cuStreamDestroy_v2(s));
}

/* Parameters that are copied when the call is made, and changed right after. */
static void large_parameters(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones(), y = new_ones();
	uint32_t *words = malloc(1500 * sizeof(*words));
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 20; i++) {
		seed_words(words, 1500, i);
		toil(&g, s, x);
		launch(g.large, 7, 64, s, (void *[]){words, &x});
		launch(g.beyond, 7, 64, s, (void *[]){words, &y});
		memset(words, 0, 1500 * sizeof(*words));
	}
	note_words(c, "within 4 KB", x, s);
	note_words(c, "beyond", y, s);
	guard_close(&g);
	free(words);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

struct odd {
	CUdeviceptr out;
	uint32_t width;
	uint16_t by;
	int8_t sign;
} __attribute__((packed));

/* In all dimensions; by pointers, and as bytes. */
static void packed(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();
	struct guard g;

	guard_open(&g);
	for (uint16_t i = 0; i < 40; i++) {
		struct odd p = {x, 2, i, i & 1 ? -1 : 3};
		size_t size = sizeof(p);
		void *extra[] = {(void *)1, &p, (void *)2, &size, NULL};
		void *params[] = {&p.out, &p.width, &p.by, &p.sign};

		toil(&g, s, x);
		CU(cuLaunchKernel(g.odd, 4, 3, 2, 8, 2, 2, 0, s, i & 2 ? params : NULL,
			i & 2 ? NULL : extra));
		p.width = 0;
		p.by = 12345;
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Shape and parameters that belong to the function. */
static void old_launches(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();
	struct guard g;

	guard_open(&g);
	CU(cuFuncSetBlockShape(g.chain, BLOCK, 1, 1));
	CU(cuParamSetSize(g.chain, 16));
	CU(cuParamSetv(g.chain, 0, &x, sizeof(x)));
	CU(cuParamSeti(g.chain, 8, WORDS / 2));
	for (uint32_t i = 0; i < 30; i++) {
		CU(cuParamSeti(g.chain, 12, i));
		toil(&g, s, x);
		CU(cuLaunchGridAsync(g.chain, 8, 2, s));
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Programmatic dependent launch is an attribute that a kernel need not make use of; one that may
 * begin early has data of its own. */
static void attributes(struct conform *c)
{
	struct cu_launch_attribute attrs[2] = {
		{.id = CU_LAUNCH_SERIALIZATION, .value.serialization = 1},
		{.id = CU_LAUNCH_CLUSTER, .value.cluster = {2, 1, 1}}};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();
	struct cu_launch_config config = {
		.grid = {BLOCKS & ~1u, 1, 1}, .block = {32, 1, 1}, .stream = s, .attrs = attrs};
	size_t size = sizeof(x);
	void *extra[] = {(void *)1, &x, (void *)2, &size, NULL};
	int rc = 0;
	struct guard g;

	guard_open(&g);
	launches_apart(1);
	for (unsigned i = 0; i < 30; i++) {
		config.attrs = &attrs[i % 3 / 2];
		config.attr_count = i % 3 != 0;
		toil(&g, s, x + BYTES / 2);
		rc |= cu.cuLaunchKernelEx(
			&config, g.step, i & 1 ? (void *[]){&x} : NULL, i & 1 ? NULL : extra);
		CU(cuStreamSynchronize(s));
	}
	launches_apart(0);
	note(c, "launched %d", rc);
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* As much as a function, or a kernel of a library, was allowed. */
static void shared_memory(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();
	void *params[] = {&x};
	CUlibrary l = load_library(guard_cubin, NULL);
	CUfunction f[2];
	CUkernel k;
	struct guard g;
	int most = 0;

	guard_open(&g);
	CU(cuLibraryGetKernel(&k, l, "step"));
	f[0] = g.step;
	f[1] = (CUfunction)(void *)k;
	for (int i = 0; i < 2; i++) {
		for (unsigned kb = 40; kb <= 100; kb += 60)
			note(c, "%u KB %d", kb,
				cu.cuLaunchKernel(
					f[i], BLOCKS, 1, 1, 32, 1, 1, kb << 10, s, params, NULL));
		if (i)
			CU(cuKernelSetAttribute(8, 100 << 10, k, c->dev));
		else
			CU(cuFuncSetAttribute(f[i], 8, 100 << 10));
		note(c, "100 KB, allowed %d",
			cu.cuLaunchKernel(
				f[i], BLOCKS, 1, 1, 32, 1, 1, 100 << 10, s, params, NULL));
	}
	CU(cuFuncGetAttribute(&most, 8, g.step));
	note(c, "up to %d", most);
	note_words(c, "x", x, s);
	CU(cuLibraryUnload(l));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void wrong_launches(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_ones();
	void *params[] = {&x};
	struct guard g;

	guard_open(&g);
	step(&g, s, x);
	note(c, "no grid %d", cu.cuLaunchKernel(g.step, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
	note(c, "large block %d",
		cu.cuLaunchKernel(g.step, 1, 1, 1, 2048, 1, 1, 0, s, params, NULL));
	step(&g, s, x);
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"modules", modules},
		{"wrapped", wrapped},
		{"linked", linked},
		{"loaded twice", loaded_twice},
		{"refused", refused},
		{"libraries", libraries},
		{"functions", functions},
		{"kernels", kernels},
		{"no parameters", no_parameters},
		{"large parameters", large_parameters},
		{"packed", packed},
		{"old launches", old_launches},
		{"attributes", attributes},
		{"shared memory", shared_memory},
		{"wrong launches", wrong_launches},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
