/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with Level Zero: fm_api_ze is their table.
 *
 * Owns: nothing that lasts: a driver is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "api/api.h"
#include "cmd/preload.h"
#include "doctor/doctor.h"

extern const struct preload tool_ze_preload;

void tool_ze_probe(FILE *out); /* in a probe's process */
