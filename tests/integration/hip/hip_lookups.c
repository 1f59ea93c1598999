/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up functions in each way that a program has, and prints whether they were found, and what
 * dlerror() said: the same with and without Fermata. In front of a name that is found "own" stands
 * where its object is the runtime's, as it is natively; that line goes to stderr.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"hipLaunchKernel", "hipLaunchKernel_spt", "hipMemcpyAsync",
	"hipModuleLaunchKernel", "hipStreamGetFlags", "hipGetProcAddress", "hipGetDriverEntryPoint",
	"hipGetDriverEntryPoint_spt",
	/* of a runtime that is newer than this one */
	"hipDrvLaunchKernelEx", "hipGetProcAddress_spt", "hipMemset2DAsync_spt",
	/* no functions */
	"hipNonsense", "hip", "hiplower", "strlen"};

static void say(const char *way, const char *name, void *fn)
{
	const char *error = dlerror();
	Dl_info info = {0};

	printf("%s %s: %s%s%s\n", way, name, fn ? "found" : "not found", error ? ", " : "",
		error ? error : "");
	if (fn && dladdr(fn, &info) && !strncmp(name, "hip", 3))
		fprintf(stderr, "%s %s %s\n", way, name,
			strstr(info.dli_fname, "amdhip64") ? "own" : "ours");
}

int main(void)
{
	int (*get)(const char *, void **, int, uint64_t, int *) = NULL, (*wait)(void) = NULL;
	int (*copy)(void *, const void *, size_t, int, void *) = NULL;
	void *handle, *self = dlopen(NULL, RTLD_NOW);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		say("before, default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		say("before, next", names[i], dlsym(RTLD_NEXT, names[i]));
	}
	handle = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		say("handle", names[i], dlsym(handle, names[i]));
		say("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		say("next", names[i], dlsym(RTLD_NEXT, names[i]));
		say("self", names[i], dlsym(self, names[i]));
	}
	say("version 4.2", "hipLaunchKernel", dlvsym(handle, "hipLaunchKernel", "hip_4.2"));
	say("version 9.9", "hipLaunchKernel", dlvsym(handle, "hipLaunchKernel", "hip_9.9"));
	*(void **)&get = dlsym(handle, "hipGetProcAddress");
	/* The first call of the fake runtime looks for something itself. */
	*(void **)&wait = dlsym(handle, "hipDeviceSynchronize");
	*(void **)&copy = dlsym(handle, "hipMemcpyAsync");
	wait();
	dlopen("no_such_library.so", RTLD_NOW);
	copy(NULL, NULL, 0, 0, NULL);
	say("not read", "before the first command", NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (uint64_t flags = 0; flags < 4; flags++) {
			void *fn = NULL;
			int status = -1, rc = get(names[i], &fn, 601, flags, &status);

			printf("asked for %s, %d: %d, %d, %s\n", names[i], (int)flags, rc, status,
				fn ? "found" : "not found");
			if (fn && !strncmp(names[i], "hip", 3)) {
				Dl_info info;

				dladdr(fn, &info);
				fprintf(stderr, "asked %s %d %s\n", names[i], (int)flags,
					strstr(info.dli_fname, "amdhip64") ? "own" : "ours");
			}
		}
	return 0;
}
