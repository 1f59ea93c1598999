/* SPDX-License-Identifier: Apache-2.0 */
#include "size.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SHOWN 40
#define PLACE UINT64_C(1000000000) /* digits behind the point that count */

static const char units[] = "KMGTP";

/* How far a unit shifts, or -1. "GB" is none: it is a power of 1000 to some, and of 1024 to others.
 */
static int shift_of(const char *s)
{
	const char *unit = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;

	if (!*s || !strcasecmp(s, "B"))
		return 0;
	if (!unit || (s[1] && strcasecmp(s + 1, "iB") != 0))
		return -1;
	return 10 * (int)(unit - units + 1);
}

static int bad_size(const char *s, struct fm_err *err)
{
	fm_err_set(err, -EINVAL, "'%.*s' is not an amount of memory", SHOWN, s);
	fm_err_hint(err, "write a number and K, M, G, T or P, such as 40G, 512M or 1.5G; these are "
			 "powers of 1024, and without a unit it is bytes");
	return -EINVAL;
}

/* Digits by hand: strtod() would follow the locale's decimal point and take "nan" and "0x1p9". */
int fm_parse_size(const char *s, int64_t *bytes, struct fm_err *err)
{
	uint64_t whole = 0, part = 0, place = PLACE / 10;
	bool digits = false, over = false;
	const char *p = s;
	int shift;

	for (; isdigit((unsigned char)*p); p++, digits = true)
		over |= __builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
			__builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole);
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p); p++, place /= 10, digits = true)
			part += place * (uint64_t)(*p - '0');
	while (*p == ' ')
		p++;
	shift = digits ? shift_of(p) : -1;
	if (shift < 0)
		return bad_size(s, err);
	if (over || whole > (uint64_t)INT64_MAX >> shift)
		return fm_err_set(err, -ERANGE, "'%.*s' is more than there can be", SHOWN, s);
	/* The part is below 2^30, so a shift of 30 at a time cannot overflow. */
	part = shift <= 30 ? (part << shift) / PLACE : ((part << 30) / PLACE) << (shift - 30);
	*bytes = (int64_t)((whole << shift) + part);
	if (*bytes < 0)
		return fm_err_set(err, -ERANGE, "'%.*s' is more than there can be", SHOWN, s);
	return 0;
}

const char *fm_size_exact(int64_t bytes, char buf[FM_SIZE_TEXT])
{
	unsigned unit = 0;

	for (; bytes && bytes % 1024 == 0 && units[unit]; unit++)
		bytes /= 1024;
	snprintf(buf, FM_SIZE_TEXT, "%" PRId64 "%.1s", bytes, unit ? &units[unit - 1] : "");
	return buf;
}

const char *fm_size_short(uint64_t bytes, char buf[FM_SIZE_TEXT])
{
	double v = (double)bytes;
	unsigned unit = 0;

	for (; v >= 1023.5 && units[unit]; unit++)
		v /= 1024;
	/* A whole number needs no point, and neither do three digits. */
	snprintf(buf, FM_SIZE_TEXT, "%.*f%.1s", v >= 99.95 || v == (uint64_t)v ? 0 : 1, v,
		unit ? &units[unit - 1] : "");
	return buf;
}
