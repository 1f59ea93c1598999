/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The less usual ways to the driver: a library of the program's that is linked with it, opened as
 * the mode says; a run path; names that the driver has and nobody else knows. For the fake driver.
 *
 * It stays until its input ends.
 *
 * usage: driver|plugin local|deepbind | names
 */
#define CUDA_NO_LINK
#include "../../fakes/cuda/fake_cuda.h"
#include "cuda_conform.h"
#include <limits.h>

#define KERNELS 100

/* What the library does, by the driver's functions as it has them (cuda_plugin.c). */
typedef int plugin_work_fn(uint32_t *words, unsigned n, unsigned times);

static int mode_of(const char *name)
{
	return RTLD_NOW | (strcmp(name, "deepbind") ? RTLD_LOCAL : RTLD_LOCAL | RTLD_DEEPBIND);
}

static void by_driver(const char *mode)
{
	void *handle = dlopen("libcuda.so.1", mode_of(mode));
	struct conform c = {.notes = stdout, .name = "driver"};
	CUdeviceptr x;

	if (!handle)
		die("%s", dlerror());
	load_dlsym(false);
	conform_open(&c);
	x = new_words(1);
	for (uint32_t i = 0; i < KERNELS; i++)
		mix(&c, NULL, x, i);
	note_words(&c, "words", x, NULL);
	conform_close(&c);
}

static void by_plugin(const char *mode)
{
	char path[PATH_MAX];
	uint32_t words[WORDS];
	plugin_work_fn *work;
	void *plugin;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);

	if (n < 0)
		die("no /proc");
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/libcuda_plugin.so");
	plugin = dlopen(path, mode_of(mode));
	work = plugin ? (plugin_work_fn *)dlsym(plugin, "plugin_work") : NULL;
	if (!work)
		die("%s", dlerror());
	if (work(words, WORDS, KERNELS))
		die("the library fails");
	printf("words %016llx\n", (unsigned long long)digest(words, BYTES));
}

static fake_cuda_own_fn *own;
static fm_cu_result (*get)(const char *, void **, int, uint64_t, int *);

static void name(const char *what, int version, uint64_t flags, const char *symbol)
{
	void *fn = NULL;
	int rc = get(what, &fn, version, flags, &(int){0});

	printf("%s %d %d: %d %s\n", what, version, (int)flags, rc,
		!fn                 ? "none"
		: fn == own(symbol) ? "the driver's"
				    : "another");
}

/* A known call in a form that nobody knows yet, and a call that nobody knows. */
static void names(void)
{
	void *handle = driver_handle();
	fm_cu_result (*newer)(void) = NULL;

	*(void **)&get = dlsym(handle, "cuGetProcAddress_v2");
	own = (fake_cuda_own_fn *)dlsym(handle, "fake_cuda_own");
	if (!get || !own)
		die("another driver than the fake one");
	for (uint64_t flags = 0; flags < 3; flags += 2) {
		name("cuLaunchKernel", 12000, flags,
			flags ? "cuLaunchKernel_ptsz" : "cuLaunchKernel");
		name("cuLaunchKernel", 14000, flags, "cuLaunchKernel_v14");
		name("cuMemcpyHtoD", 14000, flags,
			flags ? "cuMemcpyHtoD_v2_ptds" : "cuMemcpyHtoD_v2");
		name("cuFermataNovelty", 14000, flags, "cuFermataNovelty");
		name("cuFermataNovelty", 13000, flags, "cuFermataNovelty");
		name("cuMemAlloc", 14000, flags, "cuMemAlloc_v2");
		name("cuNoSuchCall", 14000, flags, "cuNoSuchCall");
	}
	get("cuLaunchKernel", (void **)&newer, 14000, 0, &(int){0});
	printf("called: %d\n", newer ? newer() : -1);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "driver"))
		by_driver(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "plugin"))
		by_plugin(argv[2]);
	else if (argc == 2 && !strcmp(argv[1], "names"))
		names();
	else
		die("usage: driver|plugin local|deepbind | names");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
