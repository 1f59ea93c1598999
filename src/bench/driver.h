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
};

/* name: "sim", "opencl:1", "cuda", or the path of a shared object, with a '/' in it, and after it
 * ":NUMBER", if any, the device. -EINVAL, -ENOENT, -EPROTO with err. The object stays loaded. */
int bench_driver_find(struct bench_driver *d, const char *name, struct fm_err *err);

/* The drivers that are built in are these over the table of load.h. */
extern const struct fm_bench_driver *const bench_synthetic[]; /* ends with NULL */
