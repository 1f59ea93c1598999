/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of the cache. */
#pragma once
#include <stdint.h>

/* A name: the key in hexadecimal digits, with the zero. Files in the making begin otherwise. */
#define FM_CACHE_NAME  65
#define FM_CACHE_FRESH ".new-"

/* Removes files until the others have no more than `keep` bytes, those used last being kept; and
 * what processes that are gone have left in the making. Another process that does so is not waited
 * for. */
void fm_cache_trim(int dir, uint64_t keep);
