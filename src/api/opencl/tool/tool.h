/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that deal with OpenCL for the commands. Their table is fm_api_opencl.
 *
 * Owns: nothing that lasts: a platform is loaded in a probe's process, or by the work's own struct
 * load.
 * Locks: none.
 * Threads: one for each probe and for each struct load.
 */
#pragma once
#include "api/api.h"
#include "doctor/doctor.h"
#include "load/load.h"
#include <limits.h>

#define TOOL_OPENCL_LAYER "libfermata-opencl.so"
#define LAYERS            "OPENCL_LAYERS" /* read by OpenCL's loaders: a list, separated by ':' */

/* The absolute path of the layer. -ENOENT: not found, the error says where it was looked for;
 * -ENOTSUP: the path has a ':', so the list cannot contain it. */
int tool_opencl_layer(char path[PATH_MAX], struct fm_err *err);
int tool_opencl_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err);

void tool_opencl_installed(struct doctor *d);
void tool_opencl_doctor(const struct fm_api *api, struct doctor *d);

/* For the process of a probe: without any layer, and with the layer of Fermata. */
void tool_opencl_probe(FILE *out);
void tool_opencl_probe_layer(FILE *out);

extern const struct load_ops tool_opencl_load;
