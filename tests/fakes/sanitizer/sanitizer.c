/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for libsanitizer-public.so where the fake driver stands in for CUDA: the functions of
 * device/touched.cu are called for what the fake's kernels touch. What would go wrong on a device
 * in a way that nobody sees ends the program with a word here.
 *
 * FAKE_SANITIZER_REFUSE=subscribe, patches or module: that fails. FAKE_SANITIZER_BLIND=1: blocks
 * begin, but no access is seen.
 */
#include "../cuda/fake_cuda.h"
#include "device/touched.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { INVALID_PARAMETER = 1, INVALID_OPERATION = 6 };
enum { RESOURCE = 3, MODULE_LOADED = 9 };
enum { FATBIN = 0xba55ed50 };

typedef void callback(void *arg, int domain, uint32_t id, const void *data);

EXPORT int sanitizerSubscribe(void **subscriber, callback *fn, void *arg);
EXPORT int sanitizerEnableDomain(uint32_t yes, void *subscriber, int domain);
EXPORT int sanitizerAddPatches(const void *image, void *ctx);
EXPORT int sanitizerPatchInstructions(int instruction, void *module, const char *function);
EXPORT int sanitizerPatchModule(void *module);
EXPORT int sanitizerSetCallbackData(void *f, const void *data);

static struct {
	pthread_mutex_t lock;
	callback *fn;
	void *arg, *ctx; /* that has patches */
	bool enabled, access, blocks;
	struct module {
		struct module *next;
		void *module;
	} * patched;
	struct function {
		struct function *next;
		void *f, *data;
	} * functions;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool refuses(const char *what)
{
	const char *env = getenv("FAKE_SANITIZER_REFUSE");

	return env && !strcmp(env, what);
}

static void die(const char *why)
{
	fprintf(stderr, "fake sanitizer: %s\n", why);
	abort();
}

/* --- what the driver tells --- */

/* Without the lock: the tool calls us. */
static void loaded(void *ctx, void *module)
{
	void *data[] = {ctx, module, NULL, NULL, NULL};

	if (the.enabled)
		the.fn(the.arg, RESOURCE, MODULE_LOADED, data);
}

static void *launched(void *f, void *module)
{
	struct module *m;
	struct function *k;
	void *data = NULL;

	pthread_mutex_lock(&the.lock);
	for (m = the.patched; m && m->module != module; m = m->next)
		;
	for (k = the.functions; m && k; k = k->next)
		if (k->f == f)
			data = k->data;
	pthread_mutex_unlock(&the.lock);
	return data;
}

static void begins(void *told)
{
	((struct fm_touched *)told)->ran = 1;
}

static void touches(void *told, unsigned long long at, size_t bytes)
{
	if (!getenv("FAKE_SANITIZER_BLIND"))
		fm_touched_mark(told, at, bytes);
}

/* --- the interface --- */

int sanitizerSubscribe(void **subscriber, callback *fn, void *arg)
{
	static const struct fake_cuda_watch watch = {loaded, launched, begins, touches};
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	fake_cuda_watch_fn *set =
		driver ? (fake_cuda_watch_fn *)dlsym(driver, "fake_cuda_watch") : NULL;

	if (the.fn || refuses("subscribe"))
		return INVALID_OPERATION;
	if (!set)
		die("there is no fake driver");
	*subscriber = &the;
	the.fn = fn;
	the.arg = arg;
	set(&watch);
	return 0;
}

int sanitizerEnableDomain(uint32_t yes, void *subscriber, int domain)
{
	if (subscriber != &the)
		return INVALID_PARAMETER;
	the.enabled = yes && domain == RESOURCE;
	return 0;
}

int sanitizerAddPatches(const void *image, void *ctx)
{
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	if (magic != FATBIN || refuses("patches"))
		return INVALID_PARAMETER;
	the.ctx = ctx;
	return 0;
}

int sanitizerPatchInstructions(int instruction, void *module, const char *function)
{
	static const struct {
		int instruction;
		const char *function;
	} fits[] = {{1, FM_TOUCHED_BLOCK}, {3, FM_TOUCHED_ACCESS}, {14, FM_TOUCHED_ASYNC},
		{30, FM_TOUCHED_LOAD}, {35, FM_TOUCHED_STORE}, {37, FM_TOUCHED_STORE}};
	size_t i = 0;

	if (!the.ctx)
		return INVALID_PARAMETER;
	while (i < 6 && fits[i].instruction != instruction)
		i++;
	if (i == 6 || strcmp(fits[i].function, function))
		die("a function that takes other parameters than the instruction has");
	the.blocks |= instruction == 1;
	the.access |= instruction == 3;
	return 0;
}

int sanitizerPatchModule(void *module)
{
	struct module *m = calloc(1, sizeof(*m));

	if (refuses("module")) {
		free(m);
		return INVALID_PARAMETER;
	}
	if (!the.access || !the.blocks)
		die("a module is patched with nothing");
	pthread_mutex_lock(&the.lock);
	*m = (struct module){the.patched, module};
	the.patched = m;
	pthread_mutex_unlock(&the.lock);
	return 0;
}

int sanitizerSetCallbackData(void *f, const void *data)
{
	struct function *k;

	if (!f)
		return INVALID_PARAMETER;
	pthread_mutex_lock(&the.lock);
	for (k = the.functions; k && k->f != f; k = k->next)
		;
	if (!k) {
		k = calloc(1, sizeof(*k));
		*k = (struct function){the.functions, f, NULL};
		the.functions = k;
	}
	k->data = (void *)(uintptr_t)data;
	pthread_mutex_unlock(&the.lock);
	return 0;
}
