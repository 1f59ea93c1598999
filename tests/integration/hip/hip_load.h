/* SPDX-License-Identifier: Apache-2.0 */
/* The HIP runtime's functions by each of the ways on which programs get at them: linked, dlsym,
 * hipGetProcAddress; each in either kind: NULL is the device's stream, or the thread's own. */
#pragma once
#define HIP_EXPORT __attribute__((weak)) extern
#include "../../hip.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL if the runtime lacks one. */
struct hip_api {
#define HIP_MEMBER(symbol, node, params)                 hipError_t(*symbol) params;
#define HIP_MEMBER_BOTH(symbol, node, spt, params, args) hipError_t(*symbol) params;
	HIP_API(HIP_MEMBER, HIP_MEMBER_BOTH)
};

static struct hip_api hip;
static bool hip_spt; /* NULL is the thread's own stream */

static inline void *hip_handle(void)
{
	void *handle = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return handle;
}

static inline void hip_linked(void)
{
#define HIP_LINKED(symbol, node, params) hip.symbol = symbol;
#define HIP_LINKED_BOTH(symbol, node, spt, params, args) \
	hip.symbol = hip_spt ? symbol##_spt : symbol;
	HIP_API(HIP_LINKED, HIP_LINKED_BOTH)
}

static inline void hip_dlsym(void)
{
	void *handle = hip_handle();

#define HIP_FOUND(symbol, node, params) *(void **)&hip.symbol = dlsym(handle, #symbol);
#define HIP_FOUND_BOTH(symbol, node, spt, params, args) \
	*(void **)&hip.symbol = dlsym(handle, hip_spt ? #symbol "_spt" : #symbol);
	HIP_API(HIP_FOUND, HIP_FOUND_BOTH)
}

static inline void hip_proc(void)
{
	hipError_t (*get)(const char *, void **, int, uint64_t, int *);
	uint64_t flags = hip_spt ? HIP_PROC_PER_THREAD : HIP_PROC_DEFAULT;
	void *fn;

	*(void **)&get = dlsym(hip_handle(), "hipGetProcAddress");
#define HIP_PROC(symbol, node, params)                         \
	if (get && !get(#symbol, &fn, 600, flags, NULL) && fn) \
		*(void **)&hip.symbol = fn;
#define HIP_PROC_BOTH(symbol, node, spt, params, args) HIP_PROC(symbol, node, params)
	HIP_API(HIP_PROC, HIP_PROC_BOTH)
}

/* False: there is no such way. */
static inline bool hip_load(const char *via, bool spt)
{
	hip_spt = spt;
	if (!strcmp(via, "link"))
		hip_linked();
	else if (!strcmp(via, "dlsym"))
		hip_dlsym();
	else if (!strcmp(via, "proc"))
		hip_proc();
	else
		return false;
	return true;
}
