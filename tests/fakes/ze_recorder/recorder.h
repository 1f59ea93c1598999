/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader of Level Zero that does nothing but look at what it is called with: it has every
 * function of the shim's own table (src/api/ze/calls.def), and what little else the shim needs to
 * make queues of level 1. What a program passes for a parameter is known by the parameter's name.
 */
#pragma once
#include "api/calls.h"
#include "api/ze/core/types.h"
#include <stdbool.h>

#define ON_other(kind, symbol, ...) REC_##symbol,
enum {
#include "api/ze/calls.def"
	REC_CALLS
};

/* What is passed for a parameter of that name and size. */
const void *rec_canary(const char *name, size_t size);
/* From now on this call is expected, with that queue or list, and returns rc. */
void rec_expect(unsigned id, void *handle, ze_result_t rc);
/* Since then: how often that call came, and with how many other arguments; calls of others that are
 * not for the shim itself. */
struct rec_seen {
	unsigned calls, differ, besides;
};
struct rec_seen rec_seen(void);
