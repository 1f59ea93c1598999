/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VPI library that does nothing but look at what it is called with: it has every function of the
 * shim's own table (src/api/vpi/calls.def), and what else the shim needs to make queues. What a
 * program passes for a parameter is known by the parameter's name.
 */
#pragma once
#include "api/calls.h"
#include "api/vpi/core/core.h"
#include <stddef.h>

#define ON_other(kind, symbol, ...) REC_##symbol,
enum {
#include "api/vpi/calls.def"
	REC_CALLS
};

/* What is passed for a parameter of that name and size. */
const void *rec_canary(const char *name, size_t size);
/* From now on this call is expected, with that stream, and returns rc. */
void rec_expect(unsigned id, VPIStream stream, VPIStatus rc);
/* Since then: how often that call came, and with how many other arguments; calls of others that are
 * not for the shim itself. */
struct rec_seen {
	unsigned calls, differ, besides;
};
struct rec_seen rec_seen(void);
void *rec_own(unsigned id); /* the library's own function */
