/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files by which commands deal with HIP: fm_api_hip is their table. */
#pragma once
#include "api/api.h"
#include "cmd/preload.h"
#include "doctor/doctor.h"

extern const struct preload tool_hip_preload;

void tool_hip_probe(FILE *out); /* in a probe's process */
