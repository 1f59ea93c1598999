/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's Compute Sanitizer, whose library is loaded if a toolkit is there: it puts calls of the
 * functions of device/touched.cu in front of each access to global memory, in machine code, as a
 * module is loaded. What is declared here is from its manual, the pages "Sanitizer Callback API"
 * and "Sanitizer Patching API" of docs.nvidia.com/compute-sanitizer/api; a test on a device
 * compares the numbers with the toolkit's own headers.
 */
#include "sanitizer.h"
#include "agent.h"
#include "base/lockorder.h"
#include "base/util.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct Sanitizer_Subscriber_st *subscriber;
typedef void callback(void *arg, int domain, uint32_t id, const void *data);

struct module_data { /* Sanitizer_ResourceModuleData, what we read of it */
	CUcontext context;
	CUmodule module;
};

/* X(name here, symbol, parameters); each returns a SanitizerResult, 0 for good */
/* clang-format off */
#define CALLS(X) \
	X(subscribe, "sanitizerSubscribe", (subscriber *s, callback *fn, void *arg)) \
	X(enable, "sanitizerEnableDomain", (uint32_t yes, subscriber s, int domain)) \
	X(add_patches, "sanitizerAddPatches", (const void *image, CUcontext ctx)) \
	X(patch, "sanitizerPatchInstructions", (int instruction, CUmodule module, const char *function)) \
	X(patch_module, "sanitizerPatchModule", (CUmodule module)) \
	X(set_data, "sanitizerSetCallbackData", (CUfunction f, const void *data))
/* clang-format on */

static struct {
#define MEMBER(name, symbol, params) int(*name) params;
	CALLS(MEMBER)
#undef MEMBER
	subscriber s;
	_Atomic bool works;
} the;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, PROFILE_PATCH);

/* --- modules --- */

#define CONTEXTS 64u
static CUcontext patched[CONTEXTS]; /* those that have our functions */

static int add_patches(CUcontext ctx)
{
	unsigned i = 0;
	int rc;

	while (i < CONTEXTS && patched[i] && patched[i] != ctx)
		i++;
	if (i < CONTEXTS && patched[i])
		return 0;
	rc = the.add_patches(fm_touched_image, ctx);
	if (!rc && i < CONTEXTS)
		patched[i] = ctx;
	return rc;
}

static int patch(const struct module_data *m)
{
	static const struct {
		int instruction;
		const char *function;
		bool needed;
	} points[] = {
		{FM_SANITIZER_BLOCK_ENTER, FM_TOUCHED_BLOCK, true},
		{FM_SANITIZER_ACCESS, FM_TOUCHED_ACCESS, true},
		{FM_SANITIZER_ASYNC, FM_TOUCHED_ASYNC, false},
		{FM_SANITIZER_BULK_LOAD, FM_TOUCHED_LOAD, false},
		{FM_SANITIZER_BULK_STORE, FM_TOUCHED_STORE, false},
		{FM_SANITIZER_BULK_REDUCE, FM_TOUCHED_STORE, false},
	};
	int rc = add_patches(m->context);

	for (unsigned i = 0; !rc && i < FM_ARRAY_LEN(points); i++) {
		rc = the.patch(points[i].instruction, m->module, points[i].function);
		if (!points[i].needed)
			rc = 0; /* an older toolkit does not know it */
	}
	return rc ? rc : the.patch_module(m->module);
}

static _Thread_local bool ours;

void fm_profile_sanitizer_ours(bool yes)
{
	ours = yes;
}

/* Our own modules stay as they are, and so does the one with the functions. */
static void on_callback(void *arg, int domain, uint32_t id, const void *data)
{
	(void)arg;
	if (domain != FM_SANITIZER_RESOURCE || ours)
		return;
	if (id == FM_SANITIZER_CONTEXT_ENDED) {
		pthread_mutex_lock(&lock);
		for (unsigned i = 0; i < CONTEXTS; i++)
			if (patched[i] == *(const CUcontext *)data)
				patched[i] = (CUcontext)-1;
		pthread_mutex_unlock(&lock);
	}
	if (id != FM_SANITIZER_MODULE_LOADED)
		return;
	pthread_mutex_lock(&lock);
	ours = true;
	fm_profile_count_module(patch(data));
	ours = false;
	pthread_mutex_unlock(&lock);
}

/* --- the library --- */

static bool find(void *library)
{
	bool all = true;

#define FIND(name, symbol, params)                        \
	the.name = (int(*) params)dlsym(library, symbol); \
	all = all && the.name;
	CALLS(FIND)
#undef FIND
	return all;
}

static int start(const char *path, char *why, size_t size)
{
	void *library;
	int rc;

	if (!path) {
		snprintf(why, size, "no toolkit with the Compute Sanitizer was found");
		return -1;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library || !find(library)) {
		const char *error = library ? "it is too old" : dlerror();

		snprintf(why, size, "%s: %s", path, error ? error : "cannot be loaded");
		return -1;
	}
	rc = the.subscribe(&the.s, on_callback, NULL);
	rc = rc ? rc : the.enable(1, the.s, FM_SANITIZER_RESOURCE);
	if (rc)
		snprintf(why, size,
			"the Compute Sanitizer refuses (error %d): is another tool attached?", rc);
	return rc;
}

void fm_profile_sanitizer_start(const char *path)
{
	char why[112] = "";
	int rc;

	fm_tap_inside++;
	rc = start(path, why, sizeof(why));
	fm_tap_inside--;
	atomic_store(&the.works, !rc);
	fm_profile_began(fm_profile_wish()->by & ~(rc ? 1u << FM_SOURCE_SANITIZER : 0), rc, why);
}

bool fm_profile_sanitizer_works(void)
{
	return atomic_load_explicit(&the.works, memory_order_relaxed);
}

bool fm_profile_sanitizer_table(struct fm_profile_context *c, CUfunction f, CUdeviceptr table)
{
	(void)c;
	return !the.set_data(f, (const void *)(uintptr_t)table);
}
