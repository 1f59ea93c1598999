/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with cuDLA: fm_api_cudla is their table.
 *
 * Owns: nothing that lasts: the library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "api/api.h"
#include "cmd/preload.h"
#include "doctor/doctor.h"

extern const struct preload tool_cudla_preload;

void tool_cudla_probe(FILE *out); /* in a probe's process */
