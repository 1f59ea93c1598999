/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers by name: those that are built in, and shared objects by their paths. */
#pragma once
#include "base/err.h"
#include <fermata/bench.h>
#include <stdbool.h>

struct bench_driver {
	const struct fm_bench_driver *ops;
	unsigned device;
	bool native;   /* programs share the device without Fermata, too */
	bool built_in; /* launches the kernels that models are described as */
	bool remote;   /* asks a server, which uses the device */
};

/* name: "sim", "opencl:1", "cuda", "kserve:http://HOST:PORT", or the path of a shared object, with
 * a
 * '/' in it, and after it ":NUMBER", if any, the device. -EINVAL, -ENOENT, -EPROTO with err. The
 * object stays loaded. */
int bench_driver_find(struct bench_driver *d, const char *name, struct fm_err *err);

/* One that asks a server (kserve.c); the same one each time. NULL, with err: that is no URL. */
const struct fm_bench_driver *bench_kserve(const char *url, struct fm_err *err);

struct load_ops;

/* The driver that is built in for an API's work. NULL: there are too many. Not from two threads. */
const struct fm_bench_driver *bench_synthetic(const struct load_ops *load);

/* "opencl:1"; the index is 0 if there is none. NULL: no API of that name that makes work. */
const struct load_ops *bench_load_find(const char *device, unsigned *index);
/* "cuda, opencl, sim" */
const char *bench_load_names(char *text, size_t size);
