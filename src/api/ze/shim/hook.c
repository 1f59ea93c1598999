/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the loader's functions: it is linked to them (our exports come
 * first), or it uses dlsym; functions that a driver alone has come by
 * zeDriverGetExtensionFunctionAddress. Each way gives it our functions for the calls of the table.
 */
#include "ze.h"

const char *const fm_look_up_prefixes[] = {"ze", NULL};

static const char *const names[] = {FM_ZE_LOADER, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

#define CALLS_NOT_THERE FM_ZE_UNINITIALIZED
#define CALLS_DRIVER    struct fm_ze_driver
#define CALLS_OWN       fm_ze_owns
#include "shim/calls/hook.h"

/* A driver's function takes the driver's own handles, which the loader's functions may not know: it
 * is ours only if the loader has none of that name, and no other driver has given one. */
static void *extension(const char *name, void *fn)
{
	size_t i = fm_calls_find(name);
	void *was = NULL;

	if (i == CALLS || fm_look_up_own_quietly(name))
		return fn;
	if (!atomic_compare_exchange_strong(&fm_calls_next[i], &was, fn) && was != fn)
		return fn;
	return calls[i].wrapper;
}

#define ON_own(symbol, per_thread, name_, since, note, params, ...) \
	ze_result_t symbol CALL_PARAMS(params)                      \
	{                                                           \
		ze_result_t rc = NEXT(symbol, params);              \
                                                                    \
		if (rc == FM_ZE_SUCCESS && name && fn && *fn)       \
			*fn = extension(name, *fn);                 \
		return rc;                                          \
	}
#include "api/ze/calls.def"
