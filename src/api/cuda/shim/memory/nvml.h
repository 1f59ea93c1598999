/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML in front of NVIDIA's: what it tells of a device's memory is what cuMemGetInfo() tells, where
 * the program's group has a limit. Everything else is the library's own, and so is this where there
 * is no limit.
 */
#pragma once
#include "shim/lookup/lookup.h"
#include <stdint.h>
#include <string.h>

#define FM_NVML_PREFIX "nvml"

/* Is it a name of NVML's? */
static inline bool fm_nvml_names(const char *symbol)
{
	return !strncmp(symbol, FM_NVML_PREFIX, strlen(FM_NVML_PREFIX));
}

/* As lookup.h asks for them, for such names. */
bool fm_nvml_loaded(void);
void *fm_nvml_own(const char *symbol);
void *fm_nvml_answer(struct fm_look_up *l);

/* What is free on the device of that key, by the library's own figures; it is loaded if need be.
 * False: there is no NVML, or it does not know the device. */
bool fm_nvml_free(const char *key, uint64_t *bytes);
