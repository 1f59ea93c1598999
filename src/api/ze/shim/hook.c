/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the loader's functions: it is linked to them (our exports come
 * first), or it uses dlsym; functions that a driver alone has come by
 * zeDriverGetExtensionFunctionAddress. Each way gives it our functions for the calls of the table.
 */
#include "ze.h"

const char *const fm_look_up_prefixes[] = {"ze", NULL};
_Atomic(void *) fm_calls_next[FM_ZE_CALLS];

static const struct fm_calls_call calls[FM_ZE_CALLS] = {
#define ON_other(kind, symbol, ...) FM_CALLS_CALL(symbol)
#include "api/ze/calls.def"
};

static struct fm_ze_driver filled;
static const struct fm_calls_own own[] = {
#define ENTRY(name, symbol, params) {symbol, offsetof(struct fm_ze_driver, name)},
	FM_ZE_DRIVER(ENTRY)
#undef ENTRY
};

static bool whole(const void *table)
{
	return fm_ze_driver_whole(table);
}

static ze_result_t not_there(void)
{
	return FM_ZE_UNINITIALIZED;
}

static const char *const loader[] = {FM_ZE_LOADER, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = loader}};

const struct fm_calls fm_calls = {
	.libraries = libraries,
	.n_libraries = FM_ARRAY_LEN(libraries),
	.calls = calls,
	.n = FM_ZE_CALLS,
	.not_there = (void *)not_there,
	.driver = &filled,
	.own = own,
	.n_own = FM_ARRAY_LEN(own),
	.whole = whole,
};

/* A driver's function takes the driver's own handles, which the loader's functions may not know: it
 * is ours only if the loader has none of that name, and no other driver has given one. */
static void *extension(const char *name, void *fn)
{
	size_t i = fm_calls_find(name);
	void *was = NULL;

	if (i == FM_ZE_CALLS || fm_look_up_own_quietly(name))
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
