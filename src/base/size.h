/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of memory as people write and read them: 40G is 40 GiB. Pure. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

/* "40G", "512M", "1.5GiB", "4096"; a bare number is bytes. Units are powers of 1024, in either
 * case. In bytes; -EINVAL, or -ERANGE beyond INT64_MAX. */
int fm_parse_size(const char *s, int64_t *bytes, struct fm_err *err);

#define FM_SIZE_TEXT 24

/* The largest unit of which the amount is a multiple: "1536M", "40G", "4097". It can be parsed
 * again, and nothing is lost. */
const char *fm_size_exact(int64_t bytes, char buf[FM_SIZE_TEXT]);

/* For tables: at most one digit behind the point, "1.5G". */
const char *fm_size_short(uint64_t bytes, char buf[FM_SIZE_TEXT]);
