/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that stands in front of the driver's functions to look at what a program does, and
 * schedules nothing: `fermata-lab profile` and `fermata-lab idempotence record` preload one each.
 *
 * Owns: how the program comes to the library's functions: by linking to the driver, by dlsym, by
 * cuGetProcAddress; and the parameters of kernels.
 *
 * Locks: none.
 *
 * Threads: any of the program.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "shim/lookup/lookup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- of the library --- */

struct fm_tap_call {
	const char *symbol, *name, *absent;
	bool own_stream; /* the NULL stream is the thread's own */
	int since;       /* the version of the API */
	void *ours;
	_Atomic(void *) next;
};
#define FM_TAP_CALL(symbol, own_stream, name, since)                                             \
	{                                                                                        \
#symbol, #name, #symbol FM_LOOK_UP_MARK, own_stream, since, (void *)symbol, NULL \
	}
extern struct fm_tap_call fm_tap_calls[];
extern const size_t fm_tap_n_calls;
bool fm_tap_wanted(void); /* does it look at anything? */

/* --- calls --- */

/* Above 0: the library itself calls the driver, and is not looked at. */
extern _Thread_local int fm_tap_inside;
/* The driver's function, or one that says that there is none. */
void *fm_tap_next(size_t call);
/* What the driver has given for a name becomes the library's. */
void fm_tap_replace(const char *name, void **fn, int version, uint64_t flags);

/* Is the image that a library is loaded from one that the driver goes on reading? */
bool fm_tap_preserved(const int *options, void *const *values, unsigned n);

/* Of the current device, such as 90; 0: it is not known. Both are the driver's; NULL: it lacks it.
 */
unsigned fm_tap_capability(
	fm_cu_result (*attribute)(int *, int, CUdevice), fm_cu_result (*device)(CUdevice *));

/* --- parameters of a kernel --- */

struct fm_tap_params {
	unsigned n, bytes; /* how many, and how long they are together */
	struct fm_tap_param {
		uint16_t at, size;
	} * param;
};
/* info: cuFuncGetParamInfo, or that of kernels; NULL is false. False: they are not known. */
bool fm_tap_params_learn(struct fm_tap_params *p,
	fm_cu_result (*info)(CUfunction, size_t, size_t *, size_t *), CUfunction f);
/* Copies what a launch was given to `to', of p->bytes. False: it cannot be understood. */
bool fm_tap_params_take(
	const struct fm_tap_params *p, void *const *params, void *const *extra, uint8_t *to);
