/* SPDX-License-Identifier: Apache-2.0 */
/* Members of replies. If memory is short, members are missing: jansson's setters take a NULL value
 * and do nothing. */
#pragma once
#include "base/clock.h"
#include <jansson.h>

static inline void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

/* JSON integers are signed, and counters may be claims of clients. */
static inline json_t *number(uint64_t n)
{
	return json_integer((json_int_t)(n & INT64_MAX));
}

static inline json_t *ms(uint64_t ns)
{
	return json_real((double)ns / FM_MS);
}

static inline json_t *us(uint64_t ns)
{
	return json_real((double)ns / FM_US);
}
