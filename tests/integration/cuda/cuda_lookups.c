/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dlsym, dlvsym, dlerror and cuGetProcAddress answer about the driver, in all ways to ask and
 * all ways to have the driver or not. Functions are found or not, since where they are is the
 * loader's business; all else is printed as it comes. For the fake driver.
 *
 * usage: none|local|global|library|library-global
 *
 * library: one that is linked with the driver is opened for itself, and asks, too.
 */
#define CUDA_NO_LINK
#include "cuda_conform.h"
#include <limits.h>
#include <link.h>

typedef void *look_up_fn(void *handle, const char *symbol);

static const char *const symbols[] = {
#define SYMBOL(symbol, base, since, params)                    #symbol,
#define SYMBOL_BOTH(symbol, base, since, suffix, params, args) #symbol, #symbol #suffix,
	CUDA_API(SYMBOL, SYMBOL_BOTH)
	/* What no driver has, or this one alone; what others have; hardly a name. */
	"cuNoSuchCall",
	"cuLaunchKernel_v14", "cuMemAlloc", "fake_cuda_own", "printf", "dlsym", "no_such_function",
	"cu", "cuA", "cu0", "cua", "cuLaunchKernel ", ""};

static const char *const names[] = {
#define NAME(symbol, base, since, params)                    #base,
#define NAME_BOTH(symbol, base, since, suffix, params, args) #base,
	CUDA_API(NAME, NAME_BOTH) "cuNoSuchCall", "cuLaunchKernel_ptsz", "cuMemAlloc_v2",
	"cuMemAllocX", "cu", "malloc", ""};

static const int versions[] = {0, -1, 1000, 2000, 3020, 4000, 6050, 7000, 10000, 11000, 11030,
	11040, 12000, 12040, 12080, 13000, 13020, 99000, INT_MAX};

static struct place {
	const char *name;
	void *handle;
	look_up_fn *look_up;
} places[8];
static size_t n_places;

static void *look_up(void *handle, const char *symbol)
{
	void *volatile found = dlsym(handle, symbol); /* no jump: this program asks */

	return found;
}

static void place(const char *name, void *handle, look_up_fn *fn)
{
	places[n_places++] = (struct place){name, handle, fn};
}

static const char *error(void)
{
	const char *text = dlerror();

	return text ? text : "-";
}

static void said(const char *how, const char *what, const void *found)
{
	printf("%s %s: %s, %s", how, what, found ? "found" : "none", error());
	printf(", then %s\n", error());
}

static void by_dlsym(const struct place *p)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		said(p->name, symbols[i], p->look_up(p->handle, symbols[i]));
}

static void by_dlvsym(const struct place *p)
{
	static const char *const wanted[] = {
		"GLIBC_2.2.5", "GLIBC_2.34", "FERMATA", "libcuda.so.1"};

	for (size_t i = 0; p->look_up == look_up && i < sizeof(wanted) / sizeof(*wanted); i++)
		for (size_t k = 0; k < sizeof(symbols) / sizeof(*symbols); k += k < 300 ? 7 : 1) {
			printf("%s version %s ", p->name, wanted[i]);
			said("of", symbols[k], dlvsym(p->handle, symbols[k], wanted[i]));
		}
}

/* Several without a look at the error in between: the last one counts. */
static void in_order(const struct place *p)
{
	static const char *const some[] = {"cuLaunchKernel", "cuNoSuchCall", "cuModuleLoadData",
		"puts", "no_such_function", "cuGetProcAddress_v2"};
	const size_t n = sizeof(some) / sizeof(*some);

	for (size_t i = 0; i < n * n * n; i++) {
		p->look_up(p->handle, some[i / n / n]);
		p->look_up(p->handle, some[i / n % n]);
		printf("%s, %s, ", some[i / n / n], some[i / n % n]);
		said(p->name, some[i % n], p->look_up(p->handle, some[i % n]));
	}
	for (size_t i = 0; i < n; i++) {
		dlopen("no_such_library.so", RTLD_NOW);
		said("behind dlopen", some[i], p->look_up(p->handle, some[i]));
		p->look_up(p->handle, some[i]);
		dlopen("no_such_library.so", RTLD_NOW);
		said("dlopen behind", some[i], p);
		p->look_up(p->handle, some[i]);
		dlopen("libc.so.6", RTLD_NOW);
		said("libc behind", some[i], p);
		p->look_up(p->handle, some[i]);
		dlclose(dlopen(NULL, RTLD_NOW));
		said("dlclose behind", some[i], p);
	}
}

/* The driver's own look-ups and first calls: what was not read of dlerror is still there. */
static void by_driver(look_up_fn *from, void *handle)
{
	fm_cu_result (*get)(const char *, void **, int, uint64_t) = (fm_cu_result(*)(
		const char *, void **, int, uint64_t))from(handle, "cuGetProcAddress");
	fm_cu_result (*get2)(const char *, void **, int, uint64_t, int *) = (fm_cu_result(*)(
		const char *, void **, int, uint64_t, int *))from(handle, "cuGetProcAddress_v2");
	void *const before = &n_places;
	bool fake = from(handle, "fake_cuda_own");

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
			for (uint64_t flags = 0; flags < 4; flags++) {
				void *fn = before;
				int status = -1,
				    rc = get ? get(names[i], &fn, versions[v], flags) : -1;

				printf("%s %d %d: %d %s", names[i], versions[v], (int)flags, rc,
					!fn            ? "none"
					: fn == before ? "as before"
						       : "found");
				fn = before;
				rc = get2 ? get2(names[i], &fn, versions[v], flags, &status) : -1;
				printf(", %d %d %s, %s\n", rc, status,
					!fn            ? "none"
					: fn == before ? "as before"
						       : "found",
					error());
			}
	for (int what = 0; what < 16; what++) {
		void *fn = before;
		int status = -1;
		const char *name = what & 1 ? "cuLaunchKernel" : what & 2 ? "cuNoSuchCall" : NULL;
		void **out = what & 4 ? &fn : NULL;
		int *told = what & 8 ? &status : NULL;

		/* A real driver ends a program that names nothing, or no place for it. */
		if ((!name || !out) && !fake)
			continue;
		dlopen("no_such_library.so", RTLD_NOW);
		printf("odd %d: %d", what, get ? (int)get(name, out, 12000, 0) : -1);
		printf(", %d %d, %d, ", get2 ? (int)get2(name, out, 12000, 0, told) : -1, status,
			!fn);
		said("then", "the error", fn);
	}
}

/* Calls that need the driver for the first time leave an error as it was; what they are found by
 * makes no difference. */
static void first_calls(look_up_fn *from, void *handle)
{
	fm_cu_result (*init)(unsigned) = (fm_cu_result(*)(unsigned))from(handle, "cuInit");
	fm_cu_result (*retain)(CUcontext *, CUdevice) =
		(fm_cu_result(*)(CUcontext *, CUdevice))from(handle, "cuDevicePrimaryCtxRetain");
	fm_cu_result (*current)(CUcontext) =
		(fm_cu_result(*)(CUcontext))from(handle, "cuCtxSetCurrent");
	fm_cu_result (*alloc)(CUdeviceptr *, size_t) =
		(fm_cu_result(*)(CUdeviceptr *, size_t))from(handle, "cuMemAlloc_v2");
	fm_cu_result (*put)(CUdeviceptr, unsigned, size_t, CUstream) = (fm_cu_result(*)(
		CUdeviceptr, unsigned, size_t, CUstream))from(handle, "cuMemsetD32Async");
	fm_cu_result (*wait)(void) = (fm_cu_result(*)(void))from(handle, "cuCtxSynchronize");
	CUcontext ctx = NULL;
	CUdeviceptr x = 0;

	dlopen("no_such_library.so", RTLD_NOW);
	printf("init %d\n", init ? (int)init(0) : -1);
	printf("retain %d\n", retain ? (int)retain(&ctx, 0) : -1);
	printf("current %d\n", current ? (int)current(ctx) : -1);
	printf("alloc %d\n", alloc ? (int)alloc(&x, 64) : -1);
	printf("fill %d\n", put ? (int)put(x, 1, 16, NULL) : -1);
	printf("wait %d\n", wait ? (int)wait() : -1);
	said("behind", "first calls", ctx);
}

static void open_library(int mode)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	void *library;
	look_up_fn *fn;

	if (n < 0)
		die("no /proc");
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/libcuda_plugin.so");
	library = dlopen(path, RTLD_NOW | mode);
	fn = library ? (look_up_fn *)dlsym(library, "plugin_look_up") : NULL;
	if (!fn)
		die("%s", dlerror());
	place("library", library, look_up);
	place("library's default", RTLD_DEFAULT, fn);
	place("library's next", RTLD_NEXT, fn);
}

#ifndef __SANITIZE_ADDRESS__ /* which asks before anything can be looked up */
/* Programs count calls of this one so (allocators, profilers): the first look-up may come from it.
 */
int dl_iterate_phdr(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return next ? next(fn, arg) : -1;
}
#endif

int main(int argc, char **argv)
{
	const char *how = argc == 2 ? argv[1] : "";
	void *driver = NULL;

	printf("at the start: %s\n", error());
	/* Before anything: the first look-up of all fails. */
	said("first", "cuLaunchKernel", look_up(RTLD_DEFAULT, "cuLaunchKernel"));
	if (!strcmp(how, "local") || !strcmp(how, "global"))
		driver = dlopen("libcuda.so.1",
			RTLD_NOW | (strcmp(how, "local") ? RTLD_GLOBAL : RTLD_LOCAL));
	else if (!strcmp(how, "library") || !strcmp(how, "library-global"))
		open_library(strcmp(how, "library") ? RTLD_GLOBAL : RTLD_LOCAL);
	else if (strcmp(how, "none") != 0)
		die("usage: none|local|global|library|library-global");
	said("the driver", how, driver);
	place("default", RTLD_DEFAULT, look_up);
	place("next", RTLD_NEXT, look_up);
	place("main", dlopen(NULL, RTLD_NOW), look_up);
	place("libc", dlopen("libc.so.6", RTLD_NOW), look_up);
	if (driver)
		place("driver", driver, look_up);
	for (size_t i = 0; i < n_places; i++) {
		by_dlsym(&places[i]);
		by_dlvsym(&places[i]);
		in_order(&places[i]);
	}
	for (size_t i = 0; i < n_places; i++)
		if (places[i].look_up(places[i].handle, "cuGetProcAddress_v2")) {
			first_calls(places[i].look_up, places[i].handle);
			by_driver(places[i].look_up, places[i].handle);
		}
	said("the driver in the end", how, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
	return 0;
}
