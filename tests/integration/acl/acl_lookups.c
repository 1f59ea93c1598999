/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up functions in each way that a program has, and prints whether they were found, and what
 * dlerror() said: the same with and without Fermata. Whose object a function is in goes to stderr:
 * "own" where it is the library's, as it is natively.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"aclrtLaunchKernelWithArgsArray", "aclrtMemcpyAsync",
	"aclrtSynchronizeStream", "aclrtGetSocName", "aclnnInplaceZero",
	"aclnnInplaceZeroGetWorkspaceSize",
	/* of a library that has more */
	"aclrtRandomNumAsync", "aclnnAdd",
	/* no functions */
	"aclNonsense", "aclnnNonsense", "acl", "acllower", "strlen"};

static void say(const char *way, const char *name, void *fn)
{
	const char *error = dlerror();
	Dl_info info = {0};

	printf("%s %s: %s%s%s\n", way, name, fn ? "found" : "not found", error ? ", " : "",
		error ? error : "");
	if (fn && dladdr(fn, &info) && !strncmp(name, "acl", 3))
		fprintf(stderr, "%s %s %s\n", way, name,
			strstr(info.dli_fname, "fermata") ? "ours" : "own");
}

int main(void)
{
	int (*plan)(void *, void *, void *) = NULL, (*run)(void *, size_t, void *, void *) = NULL;
	void *handle[3], *self = dlopen(NULL, RTLD_NOW);
	static const char *const libraries[] = {
		"libascendcl.so", "libopapi.so", "libcust_opapi.so"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		say("before, default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		say("before, next", names[i], dlsym(RTLD_NEXT, names[i]));
	}
	for (size_t k = 0; k < 3; k++)
		if (!(handle[k] = dlopen(libraries[k], RTLD_NOW | RTLD_LOCAL)))
			return 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		for (size_t k = 0; k < 3; k++)
			say(libraries[k], names[i], dlsym(handle[k], names[i]));
		say("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		say("next", names[i], dlsym(RTLD_NEXT, names[i]));
		say("self", names[i], dlsym(self, names[i]));
	}
	/* An operator without a device: an error, of the library's own. */
	*(void **)&plan = dlsym(handle[1], "aclnnInplaceZeroGetWorkspaceSize");
	*(void **)&run = dlsym(handle[1], "aclrtMemsetD32Async");
	printf("planned %d, found %d\n", plan(NULL, NULL, NULL), run != NULL);
	return 0;
}
