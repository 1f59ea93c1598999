/* SPDX-License-Identifier: Apache-2.0 */
/* Values as people write them, in configuration, on the command line and in the environment. Pure.
 */
#pragma once
#include "err.h"
#include <fermata/hint.h>
#include <stdbool.h>
#include <stdint.h>

/* A whole number in [min, max], with an optional sign; nothing else in the string. -EINVAL or
 * -ERANGE. */
int fm_parse_int(const char *s, int64_t min, int64_t max, int64_t *v, struct fm_err *err);

/* "yes", "no", "true", "false", "on", "off", "1", "0". */
int fm_parse_bool(const char *s, bool *v, struct fm_err *err);

/* "20ms", "1.5 s", "250us", "10ns", "2min", "1h", and as long times are printed: "1m30s", "2h05m";
 * a bare number is milliseconds. In ns; -EINVAL or -ERANGE. */
int fm_parse_time(const char *s, int64_t *ns, struct fm_err *err);

/* "low", "normal", "high", "realtime", or a number within the hint's range. */
int fm_parse_priority(const char *s, int64_t *v, struct fm_err *err);

/* A hint by the name that FM_HINT_MAP gives it and the value in its unit: times as fm_parse_time(),
 * amounts of memory as fm_parse_size(), priorities as fm_parse_priority(), a share with or without
 * '%'. -ENOENT for an unknown name. */
int fm_parse_hint(
	const char *name, const char *value, enum fm_hint *h, int64_t *v, struct fm_err *err);

/* Name, unit ("", "%", "ns" or "B") and range of a hint; NULL, NULL and -ERANGE outside the enum.
 */
const char *fm_hint_name(enum fm_hint h);
const char *fm_hint_unit(enum fm_hint h);
bool fm_hint_is_time(enum fm_hint h);
bool fm_hint_is_size(enum fm_hint h);
/* What must stand behind a value in the hint's unit, so that fm_parse_hint() reads the same. */
const char *fm_hint_suffix(enum fm_hint h);
int fm_hint_check(enum fm_hint h, int64_t v, struct fm_err *err);
/* The next of the words between spaces at *at, copied to `word`, and *at is behind it. NULL: there
 * is none, and *at is the end; or it does not fit, and *at is where it begins. */
const char *fm_next_word(const char **at, char *word, size_t size);
/* For a value of FM_HINT_PAD that leaves the number to be found: by how many percent jobs of more
 * urgent groups may take longer; else 0. */
unsigned fm_pad_percent(int64_t v);
