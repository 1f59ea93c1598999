/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the library's functions: it is linked to them (our exports come
 * first), or it uses dlsym. Each way gives it our functions for the calls of the table.
 */
#include "cudla.h"

const char *const fm_look_up_prefixes[] = {"cudla", NULL};
_Atomic(void *) fm_calls_next[FM_CUDLA_CALLS];

static const struct fm_calls_call calls[FM_CUDLA_CALLS] = {
#define ON_other(kind, symbol, ...) FM_CALLS_CALL(symbol)
#include "api/cudla/calls.def"
};

/* The shim calls no function of the library for itself. */
static char none;

static bool whole(const void *table)
{
	return true;
}

static cudlaStatus not_there(void)
{
	return FM_CUDLA_UNSUPPORTED;
}

static const char *const names[] = {FM_CUDLA_LIBRARIES, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

const struct fm_calls fm_calls = {
	.libraries = libraries,
	.n_libraries = FM_ARRAY_LEN(libraries),
	.calls = calls,
	.n = FM_CUDLA_CALLS,
	.not_there = (void *)not_there,
	.driver = &none,
	.whole = whole,
};
