/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuDLA library that does nothing but look at what it is called with: it has every function of
 * the shim's own table (src/api/cudla/calls.def). What a program passes for a parameter is known by
 * the parameter's name.
 */
#pragma once
#include "api/calls.h"
#include "api/cudla/core/types.h"
#include <stddef.h>

#define ON_other(kind, symbol, ...) REC_##symbol,
enum {
#include "api/cudla/calls.def"
	REC_CALLS
};

/* What is passed for a parameter of that name and size. */
const void *rec_canary(const char *name, size_t size);
/* From now on this call is expected, for that handle, and returns rc. */
void rec_expect(unsigned id, cudlaDevHandle device, cudlaStatus rc);
/* Since then: how often that call came, and with how many other arguments; calls of others. */
struct rec_seen {
	unsigned calls, differ, besides;
};
struct rec_seen rec_seen(void);
void *rec_own(unsigned id); /* the library's own function */
