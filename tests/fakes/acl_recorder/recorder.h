/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL that does nothing but look at what it is called with: it has every function of the
 * shim's own table (src/api/acl/calls.def), operators as well, and what little else the shim needs
 * to make queues. What a program passes for a parameter is known by the parameter's name.
 */
#pragma once
#include "api/acl/core/types.h"
#include "api/calls.h"
#include <stdbool.h>

#define ON_other(kind, symbol, ...) REC_##symbol,
enum {
#include "api/acl/calls.def"
	REC_CALLS
};

/* Rows of these kinds are WITH(symbol, params), or WITHOUT(symbol, params) if they have none. */
#define REC_PARAMS_aclrtSynchronizeStream            WITH
#define REC_PARAMS_aclrtSynchronizeStreamWithTimeout WITH
#define REC_PARAMS_aclrtStreamQuery                  WITH
#define REC_PARAMS_aclrtSynchronizeDevice            WITHOUT
#define REC_PARAMS_aclrtSynchronizeDeviceWithTimeout WITH
#define REC_PARAMS_aclrtDestroyStream                WITH
#define REC_PARAMS_aclrtDestroyStreamForce           WITH
#define REC_PARAMS_aclrtStreamAbort                  WITH
#define REC_PARAMS_aclrtDestroyContext               WITH
#define REC_PARAMS_aclrtResetDevice                  WITH
#define REC_PARAMS_aclrtResetDeviceForce             WITH
#define REC_PARAMS_aclrtDeviceTaskAbort              WITH
#define REC_PARAMS_aclFinalize                       WITHOUT

/* What is passed for a parameter of that name and size. */
const void *rec_canary(const char *name, size_t size);
/* From now on this call is expected, into that stream, and returns rc. */
void rec_expect(unsigned id, aclrtStream stream, aclError rc);
/* Since then: how often that call came, and with how many other arguments; calls of others that are
 * not for the shim itself. */
struct rec_seen {
	unsigned calls, differ, besides;
};
struct rec_seen rec_seen(void);
void *rec_own(unsigned id); /* the library's own function */
