/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions: a device's multiprocessors split between two green contexts, each with streams of its
 * own. Work in one never waits for work in the other.
 */
#pragma once
#include "driver.h"

/* CUdevResource, of multiprocessors. The driver's may be larger one day. */
union fm_cu_resource {
	struct {
		int type;
		unsigned char pad[92];
		unsigned count, least, aligned;
	} sm;
	uint64_t room[64];
};
enum { FM_CU_RESOURCE_SM = 1, FM_CU_GREEN_DEFAULT_STREAM = 1 };
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;

/* X(name here, symbol of the library, parameters): CUDA 12.5 has them all. */
/* clang-format off */
#define FM_CU_GREEN(X) \
	X(device_resource, "cuDeviceGetDevResource", (CUdevice dev, union fm_cu_resource *r, int type)) \
	X(split, "cuDevSmResourceSplitByCount", (union fm_cu_resource *parts, unsigned *n, const union fm_cu_resource *whole, union fm_cu_resource *rest, unsigned flags, unsigned least)) \
	X(describe, "cuDevResourceGenerateDesc", (CUdevResourceDesc *desc, union fm_cu_resource *r, unsigned n)) \
	X(create, "cuGreenCtxCreate", (CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)) \
	X(destroy, "cuGreenCtxDestroy", (CUgreenCtx green)) \
	X(stream_create, "cuGreenCtxStreamCreate", (CUstream *stream, CUgreenCtx green, unsigned flags, int priority))
/* clang-format on */

struct fm_cu_green {
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	FM_CU_GREEN(MEMBER)
#undef MEMBER
};
/* False: the driver lacks one. */
bool fm_cu_green_load(struct fm_cu_green *g, void *(*symbol)(const char *name));

struct fm_cu_partition {
	unsigned sms, rest_sms; /* in either */
	CUgreenCtx green, rest;
	union fm_cu_resource left; /* what `rest` was made of */
};
/* Splits off at least `sms` multiprocessors, as the device's granularity allows, and the rest. The
 * device's primary context is alive. 0; -EOPNOTSUPP; -ENOSPC: nothing would be left; -EIO. *rc: the
 * driver's result. */
int fm_cu_partition(struct fm_cu_partition *p, const struct fm_cu_green *g, CUdevice dev,
	unsigned sms, int *rc);
/* A green context of `sms` multiprocessors, no more and no fewer: of those outside of `beside`, or,
 * if that is NULL, of the whole device. *all: how many the device has. Otherwise as above. */
int fm_cu_partition_part(CUgreenCtx *part, const struct fm_cu_green *g, CUdevice dev,
	const struct fm_cu_partition *beside, unsigned sms, unsigned *all);
