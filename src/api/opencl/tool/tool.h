/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files by which commands deal with OpenCL: fm_api_opencl is their table. */
#pragma once
#include "api/api.h"
#include "doctor/doctor.h"
#include "load/load.h"
#include <limits.h>

#define TOOL_OPENCL_LAYER "libfermata-opencl.so"
#define LAYERS            "OPENCL_LAYERS" /* what OpenCL's loaders read: a list with ':' */

/* Absolute path of the layer. -ENOENT, with where it looked; -ENOTSUP: the list cannot name it. */
int tool_opencl_layer(char path[PATH_MAX], struct fm_err *err);
int tool_opencl_inject(const struct fm_api_wishes *wishes, struct fm_err *err);

void tool_opencl_installed(struct doctor *d);
void tool_opencl_doctor(struct doctor *d);

/* In a probe's process: without any layer, and with ours. */
void tool_opencl_probe(FILE *out);
void tool_opencl_probe_layer(FILE *out);

extern const struct load_ops tool_opencl_load;
