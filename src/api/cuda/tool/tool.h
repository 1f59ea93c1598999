/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with CUDA: fm_api_cuda is their table.
 *
 * Owns: nothing that lasts: a driver is loaded in a probe's process, or by the work's own struct
 * load.
 * Locks: none.
 * Threads: one for each probe and for each struct load.
 */
#pragma once
#include "api/api.h"
#include "doctor/doctor.h"
#include "load/load.h"
#include <limits.h>

#define TOOL_CUDA_NODE "/dev/nvidiactl" /* where NVIDIA's driver is */

extern const struct preload tool_cuda_preload;
int tool_cuda_inject(
	const struct fm_api *api, const struct fm_api_wishes *wishes, struct fm_err *err);

/* Can a device be scheduled? */
bool tool_cuda_doctor(struct doctor *d);
const char *tool_cuda_remedy(int code); /* CUresult */
/* The guardian, where they can. */
void tool_cuda_doctor_guard(struct doctor *d);
/* Memory that is managed. */
void tool_cuda_doctor_memory(struct doctor *d);

/* In a probe's process. */
void tool_cuda_probe(FILE *out);
void tool_cuda_probe_guard(FILE *out);
void tool_cuda_probe_memory(FILE *out);

extern const struct load_ops tool_cuda_load;
