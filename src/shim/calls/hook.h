/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the library's functions: it is linked to them (our exports come
 * first), or it uses dlsym. Each way gives it our functions for the calls of the table. This makes
 * fm_calls for a shim whose header includes rows.h; its hook.c includes it once. Before that it
 * defines fm_look_up_prefixes and
 *
 *   libraries         an array of struct fm_calls_library
 *   CALLS_NOT_THERE   the error of a function that nobody has
 *   CALLS_DRIVER, CALLS_OWN   the type of the driver, and its struct fm_owns; not if the shim calls
 *                             no function of the library for itself
 *   CALLS_SEVERAL     `several` of struct fm_calls, if it is true
 */

#ifndef CALLS_SEVERAL
#define CALLS_SEVERAL false
#endif

_Atomic(void *) fm_calls_next[CALLS];

static const struct fm_calls_call calls[CALLS] = {
#define ON_other(kind, symbol, ...) FM_CALLS_CALL(symbol)
#include CALLS_DEF
};

#ifdef CALLS_OWN
static CALLS_DRIVER filled;
#else
static char filled;
static const struct fm_owns none;
#define CALLS_OWN none
#endif

static CALLS_RESULT not_there(void)
{
	return CALLS_NOT_THERE;
}

const struct fm_calls fm_calls = {
	.libraries = libraries,
	.n_libraries = FM_ARRAY_LEN(libraries),
	.calls = calls,
	.n = CALLS,
	.several = CALLS_SEVERAL,
	.not_there = (void *)not_there,
	.own = &CALLS_OWN,
	.driver = &filled,
};
