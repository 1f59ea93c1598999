/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images loaded in every way, and refused, and what the driver tells of their kernels. Where
 * FERMATA_GUARDIAN=1 asks for images to be rewritten, the driver itself is asked whether it was
 * given them so; what is noted is the same as without.
 */
#include "cuda_images.h"

/* A log that the driver writes into, and how far. */
static CUmodule load_with_options(struct conform *c, const void *image)
{
	char log[256] = "";
	int options[] = {5, 6, 7}; /* error log, its size, level of optimization */
	void *values[] = {log, (void *)sizeof(log), (void *)3};
	CUmodule m;

	CU(cuModuleLoadDataEx(&m, image, 3, options, values));
	note(c, "log of %zu bytes", (size_t)values[1]);
	return m;
}

static void run_module(struct conform *c, const char *what, CUmodule m, bool text)
{
	struct run r = begin_run(c);

	functions_of(&r, m, text);
	all_kernels(&r, what, PARAMS);
	note_ticks(&r, m);
	CU(cuModuleUnload(m));
	end_run(&r);
}

static void modules(struct conform *c)
{
	static const char *const files[] = {
		IMAGE("sm90.cubin"), IMAGE("text.ptx"), IMAGE("all.fatbin"), IMAGE("text.fatbin")};
	void *image;
	CUmodule m;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		bool text = strstr(files[i], "/text.");

		CU(cuModuleLoad(&m, files[i]));
		run_module(c, "file", m, text);
		run_module(c, "data", load_module(files[i]), text);
		image = read_file(files[i]);
		run_module(c, "options", load_with_options(c, image), text);
		if (strstr(files[i], "fatbin")) {
			CU(cuModuleLoadFatBinary(&m, image));
			run_module(c, "fatbin", m, text);
		}
		free(image);
	}
}

/* A kernel is launched as it is, or as the function that it is in a context. */
static void run_library(struct conform *c, const char *what, CUlibrary library)
{
	struct run r = begin_run(c);
	CUmodule m;

	for (unsigned k = 0; k < KERNELS; k++) {
		CU(cuLibraryGetKernel((CUkernel *)&r.f[k], library, kernels[k].name));
		look(c, r.f[k], &kernels[k], true);
	}
	for (enum form form = PARAMS; form < SEVERAL; form++)
		all_kernels(&r, what, form);
	for (unsigned k = 0; k < KERNELS; k++)
		CU(cuKernelGetFunction(&r.f[k], (CUkernel)r.f[k]));
	for (enum form form = 0; form < FORMS; form++)
		all_kernels(&r, what, form);
	CU(cuLibraryGetModule(&m, library));
	functions_of(&r, m, false);
	all_kernels(&r, what, PARAMS);
	note_ticks(&r, m);
	end_run(&r);
}

static void libraries(struct conform *c)
{
	void *image = read_file(IMAGE("all.fatbin"));
	int options[] = {1}; /* the image stays */
	void *values[] = {(void *)1};
	CUcontext other;
	CUlibrary l;

	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, options, values, 1));
	run_library(c, "preserved", l);
	CU(cuCtxCreate_v2(&other, 0, c->dev));
	run_library(c, "in another context", l);
	CU(cuCtxDestroy_v2(other));
	CU(cuCtxSetCurrent(c->ctx));
	run_library(c, "in the first again", l);
	CU(cuLibraryUnload(l));
	free(image);
	CU(cuLibraryLoadFromFile(&l, IMAGE("sm90.cubin"), NULL, NULL, 0, NULL, NULL, 0));
	run_library(c, "file", l);
	CU(cuLibraryUnload(l));
}

/* Handles of which the shim has not seen where they come from. */
static void unseen(struct conform *c)
{
	fm_cu_result (*function)(CUfunction *, CUmodule, const char *) = own("cuModuleGetFunction");
	fm_cu_result (*of_kernel)(CUfunction *, CUkernel) = own("cuKernelGetFunction");
	fm_cu_result (*get_kernel)(CUkernel *, CUlibrary, const char *) = own("cuLibraryGetKernel");
	struct run r = begin_run(c);
	void *image = read_file(IMAGE("sm90.cubin"));
	CUmodule m = load_module(IMAGE("sm90.cubin"));
	CUlibrary l;
	CUkernel k;

	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	for (unsigned i = 0; i < KERNELS && function; i++)
		function(&r.f[i], m, kernels[i].name);
	all_kernels(&r, "of a module", PARAMS);
	for (unsigned i = 0; i < KERNELS && get_kernel; i++)
		get_kernel((CUkernel *)&r.f[i], l, kernels[i].name);
	all_kernels(&r, "kernels", EXTRA);
	for (unsigned i = 0; i < KERNELS && get_kernel; i++)
		if (!get_kernel(&k, l, kernels[i].name))
			of_kernel(&r.f[i], k);
	all_kernels(&r, "of a library", CONFIG);
	CU(cuModuleUnload(m));
	CU(cuLibraryUnload(l));
	free(image);
	end_run(&r);
}

static int by_name(const void *a, const void *b)
{
	const char *x, *y;

	CU(cuFuncGetName(&x, *(const CUfunction *)a));
	CU(cuFuncGetName(&y, *(const CUfunction *)b));
	return strcmp(x, y);
}

static void enumerated(struct conform *c)
{
	struct run r = begin_run(c);
	CUmodule m = load_module(IMAGE("all.fatbin"));
	CUfunction f[32];
	const char *name;
	unsigned n;

	CU(cuModuleGetFunctionCount(&n, m));
	CU(cuModuleEnumerateFunctions(f, n + 2, m));
	qsort(f, n, sizeof(*f), by_name);
	for (unsigned i = 0; i < n; i++) {
		CU(cuFuncGetName(&name, f[i]));
		note(c, "has %s", name);
		for (unsigned k = 0; k < KERNELS; k++)
			if (!strcmp(kernels[k].name, name))
				r.f[k] = f[i];
	}
	all_kernels(&r, "enumerated", PARAMS);
	CU(cuModuleUnload(m));
	end_run(&r);
}

/* The driver may give the same handles again, for code that is another. */
static void again_and_again(struct conform *c)
{
	struct run r = begin_run(c);
	void *plain = read_file(IMAGE("text.ptx")), *image = read_file(IMAGE("sm90.cubin"));
	CUmodule m;

	for (uint32_t i = 0; i < 40; i++) {
		CU(cuModuleLoadData(&m, i % 3 ? image : plain));
		CU(cuModuleGetFunction(&r.f[STEP], m, "step"));
		CU(cuModuleGetFunction(&r.f[BEYOND], m, "beyond"));
		one(&r, STEP, i, i & 1 ? EXTRA : PARAMS);
		one(&r, BEYOND, i, PARAMS);
		CU(cuStreamSynchronize(r.s));
		CU(cuModuleUnload(m));
	}
	note_out(&r, "in the end");
	note(c, "unloaded twice: error %d", cu.cuModuleUnload(m));
	note(c, "no such function: error %d", cu.cuModuleGetFunction(&r.f[STEP], m, "step"));
	free(plain);
	free(image);
	end_run(&r);
}

#define THREADS 4

struct thread {
	pthread_t id;
	struct run r;
	CUcontext ctx;
	uint64_t digest;
};

static void *load_and_unload(void *arg)
{
	struct thread *t = arg;
	uint32_t words[WORDS];
	CUmodule m;

	CU(cuCtxSetCurrent(t->ctx));
	for (uint32_t i = 0; i < 12; i++) {
		m = load_module(i & 1 ? IMAGE("text.ptx") : IMAGE("sm90.cubin"));
		for (unsigned k = 0; k < KERNELS; k++)
			CU(cuModuleGetFunction(&t->r.f[k], m, kernels[k].name));
		for (unsigned k = 0; k < KERNELS; k++)
			one(&t->r, k, i, i % 3 ? PARAMS : EXTRA);
		CU(cuStreamSynchronize(t->r.s));
		CU(cuModuleUnload(m));
	}
	CU(cuMemcpyDtoHAsync_v2(words, t->r.out, BYTES, t->r.s));
	CU(cuStreamSynchronize(t->r.s));
	t->digest = digest(words, BYTES);
	return NULL;
}

static void threads(struct conform *c)
{
	struct thread t[THREADS];

	for (int i = 0; i < THREADS; i++) {
		t[i] = (struct thread){.r = begin_run(c), .ctx = c->ctx};
		if (pthread_create(&t[i].id, NULL, load_and_unload, &t[i]))
			die("no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i].id, NULL);
		note(c, "%016llx", (unsigned long long)t[i].digest);
		end_run(&t[i].r);
	}
}

/* With a context ends what was loaded there; the next one gets its own. */
static void contexts(struct conform *c)
{
	CUcontext ctx;

	for (int i = 0; i < 6; i++) {
		CU(cuCtxCreate_v2(&ctx, 0, c->dev));
		run_module(c, "in a context", load_module(IMAGE("sm90.cubin")), false);
		load_module(i & 1 ? IMAGE("all.fatbin") : IMAGE("text.ptx"));
		CU(cuCtxDestroy_v2(ctx));
	}
	CU(cuCtxSetCurrent(c->ctx));
}

static void linked(struct conform *c)
{
	char *text = read_file(IMAGE("text.ptx"));
	CUlinkState state;
	CUmodule m;
	void *cubin;
	size_t size;

	CU(cuLinkCreate_v2(0, NULL, NULL, &state));
	CU(cuLinkAddData_v2(state, 1, text, strlen(text) + 1, "text", 0, NULL, NULL));
	CU(cuLinkComplete(state, &cubin, &size));
	CU(cuModuleLoadData(&m, cubin));
	CU(cuLinkDestroy(state));
	run_module(c, "linked", m, true);
	free(text);
}

/* --- what cannot be loaded --- */

static void note_log(struct conform *c, const void *image)
{
	char log[64] = "";
	int options[] = {6, 5};
	void *values[] = {(void *)sizeof(log), log};
	CUmodule m;

	note(c, "with a log: error %d", cu.cuModuleLoadDataEx(&m, image, 2, options, values));
	note(c, "log: %zu bytes: %s", (size_t)values[0], log);
}

static void refused(struct conform *c)
{
	static const char garbage[4096] = "no image at all";
	CUmodule m;
	CUlibrary l;

	note(c, "garbage: error %d", cu.cuModuleLoadData(&m, garbage));
	note(c, "nothing: error %d", cu.cuModuleLoadData(&m, NULL));
	note(c, "nowhere: error %d", cu.cuModuleLoadData(NULL, garbage));
	note(c, "no file: error %d", cu.cuModuleLoad(&m, IMAGE("none")));
	note(c, "not one: error %d", cu.cuModuleLoad(&m, IMAGE("guard.cu")));
	note(c, "library: error %d",
		cu.cuLibraryLoadData(&l, garbage, NULL, NULL, 0, NULL, NULL, 0));
	note(c, "its file: error %d",
		cu.cuLibraryLoadFromFile(&l, IMAGE("none"), NULL, NULL, 0, NULL, NULL, 0));
	note_log(c, garbage);
}

/* Functions of code that is gone, whose handles may be those of others now, unseen. */
static void same_handles(struct conform *c, bool context)
{
	fm_cu_result (*function)(CUfunction *, CUmodule, const char *) = own("cuModuleGetFunction");
	CUcontext ctx;
	struct run r;
	CUmodule m;

	if (context)
		CU(cuCtxCreate_v2(&ctx, 0, c->dev));
	r = begin_run(c);
	m = load_module(IMAGE("sm90.cubin"));
	for (unsigned i = 0; i < KERNELS && function; i++)
		function(&r.f[i], m, kernels[i].name);
	all_kernels(&r, "the same handles", PARAMS);
	if (!context)
		CU(cuModuleUnload(m));
	end_run(&r);
	if (context)
		CU(cuCtxDestroy_v2(ctx));
	CU(cuCtxSetCurrent(c->ctx));
}

/* The driver takes the program's image alone, and says what it says of that. */
static void ours_refused(struct conform *c)
{
	static const char garbage[4096] = "no image at all";
	fake_cuda_refuse_fn *refuse;
	void *image = read_file(IMAGE("text.fatbin"));
	CUlibrary l;

	*(void **)&refuse = dlsym(driver_handle(), "fake_cuda_refuse");
	refuses = refuse;
	if (refuse)
		refuse(FAKE_CUDA_GUARDED, true);
	run_module(c, "options", load_with_options(c, image), false);
	run_module(c, "data", load_module(IMAGE("all.fatbin")), false);
	CU(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	run_library(c, "library", l);
	CU(cuLibraryUnload(l));
	note_log(c, garbage);
	for (int i = 0; i < 80; i++) {
		refuses = refuse && (i % 40 < 12 || 0x9e3779b1u >> i % 32 & 1);
		if (refuse)
			refuse(FAKE_CUDA_GUARDED, refuses);
		same_handles(c, i >= 40);
	}
	refuses = false;
	free(image);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"modules", modules},
		{"libraries", libraries},
		{"unseen", unseen},
		{"enumerated", enumerated},
		{"again and again", again_and_again},
		{"threads", threads},
		{"contexts", contexts},
		{"linked", linked},
		{"refused", refused},
		{"ours refused", ours_refused},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
