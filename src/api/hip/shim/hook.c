/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the runtime's functions: it is linked to them (our exports come
 * first), or it uses dlsym or hipGetProcAddress. Each way gives it our functions for the calls of
 * the table, and tells us the runtime's.
 */
#include "hip.h"
#include <stdio.h>

const char *const fm_look_up_prefixes[] = {"hip", NULL};

static const char *const names[] = {FM_HIP_RUNTIMES, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

#define CALLS_NOT_THERE FM_HIP_NOT_INITIALIZED
#define CALLS_DRIVER    struct fm_hip_driver
#define CALLS_OWN       fm_hip_owns
#include "shim/calls/hook.h"

/* The runtime returns its own function for the name, or for its variant. If it means anything else
 * by a name, the call is not ours. */
static void replace(const char *name, void **fn, bool per_thread)
{
	char variant[64];

	for (int spt = per_thread; spt >= 0; spt--) {
		size_t i;

		snprintf(variant, sizeof(variant), spt ? "%s_spt" : "%s", name);
		i = fm_calls_find(variant);
		if (i < CALLS &&
			(*fn == calls[i].wrapper || *fn == fm_look_up_own_quietly(variant))) {
			*fn = fm_calls_use(i, *fn);
			return;
		}
	}
}

static hipError_t given(hipError_t rc, const char *name, void **fn, uint64_t flags, bool per_thread)
{
	if (rc == FM_HIP_SUCCESS && name && fn && *fn)
		replace(name, fn, per_thread ? flags != 1 : flags == FM_HIP_PROC_PER_THREAD);
	return rc;
}

#define OWN_MULTI(...) /* calls.c has these two */
#define OWN_CONFIGURE(...)
#define OWN_LOOKUP(symbol, per_thread, params) \
	CALLS_RETURN(symbol, params, given(NEXT(symbol, params), name, fn, flags, per_thread))
#define ON_own(symbol, per_thread, name_, since, note, params, how) \
	OWN_##how(symbol, per_thread, params)
#include "api/hip/calls.def"
