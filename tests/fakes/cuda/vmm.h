/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses, and chunks of memory that are mapped into them (vmm.c). */
#pragma once
#include "fake.h"
#include <stdio.h>

/* What is at an address of a range. */
struct fk_mapped {
	uintptr_t range, range_size;
	bool there; /* else a hole, and nothing else is told */
	uintptr_t at, size;
	uintptr_t alias; /* where the driver takes the bytes of a chunk of the host to be */
	bool device;
	int access, fd;
	unsigned id;
	struct cu_chunk_prop prop;
};

/* With the lock. False: the address is in no range. */
bool fk_vmm_find(const void *p, struct fk_mapped *m);
/* Is there a byte of a hole among these? */
bool fk_vmm_hole(const void *p, size_t n);
/* Are all mapped? */
bool fk_vmm_whole(const void *p, size_t n);
/* With the lock. What touches a mapping that this device may not access; NULL: nothing. */
const char *fk_vmm_denied(
	CUdevice dev, const char *(*touches)(uintptr_t at, size_t n, void *arg), void *arg);
void fk_vmm_leaks(FILE *f);      /* a line for each chunk that there is */
extern _Atomic bool fk_vmm_used; /* there has been a range */

/* touch.c */
void fk_touch_init(void);
void fk_touch_check(uintptr_t at, size_t size); /* which is unmapped: ends the process if in use */
