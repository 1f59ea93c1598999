/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with AscendCL: fm_api_acl is their table.
 *
 * Owns: nothing that lasts: a library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "api/api.h"
#include "cmd/preload.h"
#include "doctor/doctor.h"

extern const struct preload tool_acl_preload;

void tool_acl_probe(FILE *out); /* in a probe's process */
