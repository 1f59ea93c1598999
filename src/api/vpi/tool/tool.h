/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with VPI: fm_api_vpi is their table.
 *
 * Owns: nothing that lasts: the library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "api/api.h"
#include "cmd/preload.h"
#include "doctor/doctor.h"

extern const struct preload tool_vpi_preload;

void tool_vpi_probe(FILE *out); /* in a probe's process */
