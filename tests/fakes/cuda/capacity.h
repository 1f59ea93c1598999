/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory devices have, and who has it (capacity.c). Needs nothing of the driver: the fake
 * NVML looks as well. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FK_MACHINE_DEVICES 8
#define FK_SHARED_BYTES    65536 /* of FAKE_CUDA_DEVICE's file; turns.c has the first page */

/* which: a device of the machine. False: there is not so much left. */
bool fk_capacity_take(unsigned which, uint64_t bytes);
void fk_capacity_give(unsigned which, uint64_t bytes);
uint64_t fk_capacity_total(void);
uint64_t fk_capacity_free(unsigned which);
/* Of the n-th process that has any: how much. False: there are no more. */
bool fk_capacity_user(unsigned which, unsigned n, pid_t *pid, uint64_t *bytes);
/* Those of the device that processes share; NULL: there is none. */
struct fk_engines;
struct fk_engines *fk_capacity_engines(void);
/* "64M", as bytes. */
uint64_t fk_bytes(const char *text);
