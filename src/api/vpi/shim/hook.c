/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the library's functions: it is linked to them (our exports come
 * first), or it uses dlsym. Each way gives it our functions for the calls of the table.
 */
#include "vpi.h"

const char *const fm_look_up_prefixes[] = {"vpi", NULL};
_Atomic(void *) fm_calls_next[FM_VPI_CALLS];

static const struct fm_calls_call calls[FM_VPI_CALLS] = {
#define ON_other(kind, symbol, ...) FM_CALLS_CALL(symbol)
#include "api/vpi/calls.def"
};

static struct fm_vpi_driver filled;
static const struct fm_calls_own own[] = {
#define ENTRY(name, result, symbol, params) {symbol, offsetof(struct fm_vpi_driver, name)},
	FM_VPI_DRIVER(ENTRY)
#undef ENTRY
};

static bool whole(const void *table)
{
	return fm_vpi_driver_whole(table);
}

static VPIStatus not_there(void)
{
	return FM_VPI_NOT_IMPLEMENTED;
}

static const char *const names[] = {FM_VPI_LIBRARIES, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

const struct fm_calls fm_calls = {
	.libraries = libraries,
	.n_libraries = FM_ARRAY_LEN(libraries),
	.calls = calls,
	.n = FM_VPI_CALLS,
	.not_there = (void *)not_there,
	.driver = &filled,
	.own = own,
	.n_own = FM_ARRAY_LEN(own),
	.whole = whole,
};
