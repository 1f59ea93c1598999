/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include "clock.h"
#include "size.h"
#include "util.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct hint_spec {
	const char *name, *unit;
	int64_t min, max;
};

static const struct hint_spec hint_specs[FM_HINT_COUNT] = {
#define SPEC(id, name, min, max, def, unit) [id] = {name, unit, min, max},
	FM_HINT_MAP(SPEC)
#undef SPEC
};

/* Quoted text in messages is cut: a value may be as long as a configuration line. */
#define SHOWN 40

int fm_parse_int(const char *s, int64_t min, int64_t max, int64_t *v, struct fm_err *err)
{
	long long n;
	char *end;
	int rc = 0;

	errno = 0;
	n = strtoll(s, &end, 10);
	if (end == s || *end || isspace((unsigned char)*s))
		rc = fm_err_set(err, -EINVAL, "'%.*s' is not a whole number", SHOWN, s);
	else if (errno == ERANGE || n < min || n > max)
		rc = fm_err_set(err, -ERANGE, "'%.*s' is out of range", SHOWN, s);
	else
		*v = n;
	if (rc)
		fm_err_hint(err, "give a number from %" PRId64 " to %" PRId64, min, max);
	return rc;
}

int fm_parse_bool(const char *s, bool *v, struct fm_err *err)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"yes", true}, {"true", true}, {"on", true}, {"1", true}, {"no", false},
		{"false", false}, {"off", false}, {"0", false}};

	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++) {
		if (!strcasecmp(s, words[i].word)) {
			*v = words[i].value;
			return 0;
		}
	}
	fm_err_set(err, -EINVAL, "'%.*s' is neither yes nor no", SHOWN, s);
	fm_err_hint(err, "write yes or no");
	return -EINVAL;
}

static int bad_time(const char *s, struct fm_err *err)
{
	fm_err_set(err, -EINVAL, "'%.*s' is not a time", SHOWN, s);
	fm_err_hint(err, "write a number and ns, us, ms, s, min or h, such as 20ms or 1m30s; "
			 "without a unit it is ms");
	return -EINVAL;
}

/* "m" is minutes where several parts leave no doubt; alone it could be meant for "ms". */
static uint64_t time_unit(const char *s, size_t len, bool several)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", FM_US}, {"ms", FM_MS}, {"s", FM_S}, {"min", 60 * FM_S},
		{"h", 3600 * FM_S}};

	if (!len)
		return several ? 0 : FM_MS;
	if (several && len == 1 && *s == 'm')
		return 60 * FM_S;
	for (size_t i = 0; i < FM_ARRAY_LEN(units); i++)
		if (strlen(units[i].name) == len && !strncmp(s, units[i].name, len))
			return units[i].ns;
	return 0;
}

/* Decimal digits by hand: strtod() would follow the locale's decimal point and take "nan" and
 * "0x1p9". */
static int scan_decimal(const char **s, uint64_t *whole, uint64_t *nano)
{
	const char *p = *s;
	uint64_t place = FM_S / 10;
	bool digits = false;

	*whole = *nano = 0;
	for (; isdigit((unsigned char)*p); p++, digits = true)
		if (__builtin_mul_overflow(*whole, UINT64_C(10), whole) ||
			__builtin_add_overflow(*whole, (uint64_t)(*p - '0'), whole))
			return -ERANGE;
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p); p++, place /= 10, digits = true)
			*nano += place * (uint64_t)(*p - '0');
	*s = p;
	return digits ? 0 : -EINVAL;
}

static int add_part(uint64_t *sum, uint64_t whole, uint64_t nano, uint64_t unit)
{
	uint64_t part = unit < FM_S ? nano * unit / FM_S : nano * (unit / FM_S);

	if (__builtin_mul_overflow(whole, unit, &whole) ||
		__builtin_add_overflow(*sum, whole, sum) || __builtin_add_overflow(*sum, part, sum))
		return -ERANGE;
	return *sum > INT64_MAX ? -ERANGE : 0;
}

int fm_parse_time(const char *s, int64_t *ns, struct fm_err *err)
{
	uint64_t whole, nano, unit, sum = 0, last = UINT64_MAX;
	const char *p = s;
	int rc;

	for (;; last = unit) {
		size_t len = 0;

		rc = scan_decimal(&p, &whole, &nano);
		if (rc)
			break;
		while (*p == ' ')
			p++;
		while (isalpha((unsigned char)p[len]))
			len++;
		unit = time_unit(p, len, last != UINT64_MAX || p[len]);
		p += len;
		rc = !unit || unit >= last ? -EINVAL : add_part(&sum, whole, nano, unit);
		if (rc || !*p)
			break;
	}
	if (rc == -ERANGE)
		return fm_err_set(err, -ERANGE, "'%.*s' is longer than 292 years", SHOWN, s);
	if (rc)
		return bad_time(s, err);
	*ns = (int64_t)sum;
	return 0;
}

int fm_parse_priority(const char *s, int64_t *v, struct fm_err *err)
{
	static const struct {
		const char *name;
		int64_t value;
	} names[] = {{"low", FM_PRIORITY_LOW}, {"normal", FM_PRIORITY_NORMAL},
		{"high", FM_PRIORITY_HIGH}, {"realtime", FM_PRIORITY_REALTIME}};
	int rc;

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		if (!strcmp(s, names[i].name)) {
			*v = names[i].value;
			return 0;
		}
	}
	rc = fm_parse_int(s, FM_PRIORITY_MIN, FM_PRIORITY_MAX, v, err);
	if (rc)
		fm_err_hint(err, "give low, normal, high, realtime, or a number from %d to %d",
			FM_PRIORITY_MIN, FM_PRIORITY_MAX);
	return rc;
}

const char *fm_hint_name(enum fm_hint h)
{
	return (unsigned)h < FM_HINT_COUNT ? hint_specs[h].name : NULL;
}

const char *fm_hint_unit(enum fm_hint h)
{
	return (unsigned)h < FM_HINT_COUNT ? hint_specs[h].unit : NULL;
}

bool fm_hint_is_time(enum fm_hint h)
{
	return (unsigned)h < FM_HINT_COUNT && !strcmp(hint_specs[h].unit, "ns");
}

bool fm_hint_is_size(enum fm_hint h)
{
	return (unsigned)h < FM_HINT_COUNT && !strcmp(hint_specs[h].unit, "B");
}

const char *fm_hint_suffix(enum fm_hint h)
{
	return fm_hint_is_time(h) ? "ns" : "";
}

#define PAD_PERCENT 3 /* of FM_PAD_AUTO */

unsigned fm_pad_percent(int64_t v)
{
	if (v >= FM_PAD_AUTO_AT(50) && v <= FM_PAD_AUTO_AT(1))
		return (unsigned)(FM_PAD_AUTO_AT(0) - v);
	return v == FM_PAD_AUTO ? PAD_PERCENT : 0;
}

/* Within its range, is it a value? */
static bool is_one(enum fm_hint h, int64_t v)
{
	return h != FM_HINT_PAD || v >= FM_PAD_DEVICE || fm_pad_percent(v);
}

int fm_hint_check(enum fm_hint h, int64_t v, struct fm_err *err)
{
	char low[FM_SIZE_TEXT], high[FM_SIZE_TEXT];
	const struct hint_spec *spec;
	int64_t scale;

	if ((unsigned)h >= FM_HINT_COUNT)
		return fm_err_set(err, -ERANGE, "unknown hint %d", (int)h);
	spec = &hint_specs[h];
	if (v >= spec->min && v <= spec->max && is_one(h, v))
		return 0;
	scale = fm_hint_is_time(h) ? (int64_t)FM_MS : 1;
	fm_err_set(err, -ERANGE, "%s out of range", spec->name);
	if (fm_hint_is_size(h))
		fm_err_hint(err, "give %s to %s", fm_size_exact(spec->min, low),
			fm_size_exact(spec->max, high));
	else
		fm_err_hint(err, "give %" PRId64 " to %" PRId64 "%s", spec->min / scale,
			spec->max / scale, scale == 1 ? spec->unit : " ms");
	return -ERANGE;
}

static int find_hint(const char *name, enum fm_hint *h, struct fm_err *err)
{
	char known[256] = "";

	for (unsigned i = 0; i < FM_HINT_COUNT; i++) {
		if (!strcmp(name, hint_specs[i].name)) {
			*h = (enum fm_hint)i;
			return 0;
		}
		strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, hint_specs[i].name, sizeof(known) - strlen(known) - 1);
	}
	fm_err_set(err, -ENOENT, "unknown hint '%.*s'", SHOWN, name);
	fm_err_hint(err, "hints are %s", known);
	return -ENOENT;
}

static int parse_percent(
	const char *s, const struct hint_spec *spec, int64_t *v, struct fm_err *err)
{
	char digits[24];
	size_t len = strlen(s);
	int rc;

	if (len > 0 && s[len - 1] == '%')
		len--;
	if (len >= sizeof(digits)) {
		rc = fm_err_set(err, -EINVAL, "'%.*s' is not a whole number", SHOWN, s);
	} else {
		memcpy(digits, s, len);
		digits[len] = '\0';
		rc = fm_parse_int(digits, spec->min, spec->max, v, err);
	}
	if (rc)
		fm_err_hint(err, "give %" PRId64 "%% to %" PRId64 "%%", spec->min, spec->max);
	return rc;
}

/* auto:5% */
static int parse_pad_target(const char *s, int64_t *v, struct fm_err *err)
{
	static const struct hint_spec percent = {.min = 1, .max = 50, .unit = "%"};
	int rc = parse_percent(s, &percent, v, err);

	if (!rc)
		*v = FM_PAD_AUTO_AT(*v);
	return rc;
}

static int parse_pad(const char *s, int64_t *v, struct fm_err *err)
{
	int rc = 0;

	if (!strncmp(s, "auto:", 5))
		return parse_pad_target(s + 5, v, err);
	if (!strcmp(s, "auto"))
		*v = FM_PAD_AUTO;
	else if (!strcmp(s, "device"))
		*v = FM_PAD_DEVICE;
	else
		rc = fm_parse_int(s, FM_PAD_AUTO_AT(50), 64, v, err);
	if (!rc)
		rc = fm_hint_check(FM_HINT_PAD, *v, err);
	if (!rc && *v > 0 && *v % 8)
		rc = fm_err_set(err, -EINVAL, "%s multiprocessors are not a multiple of 8", s);
	if (rc)
		fm_err_hint(err, "give auto, auto:5%%, device, 0, or 8, 16, 24 and so on to 64");
	return rc;
}

int fm_parse_hint(
	const char *name, const char *value, enum fm_hint *h, int64_t *v, struct fm_err *err)
{
	const struct hint_spec *spec;
	int rc = find_hint(name, h, err);

	if (rc)
		return rc;
	spec = &hint_specs[*h];
	if (*h == FM_HINT_PRIORITY)
		return fm_parse_priority(value, v, err);
	if (*h == FM_HINT_PAD)
		return parse_pad(value, v, err);
	if (!strcmp(spec->unit, "%"))
		return parse_percent(value, spec, v, err);
	if (!fm_hint_is_time(*h) && !fm_hint_is_size(*h))
		return fm_parse_int(value, spec->min, spec->max, v, err);
	rc = fm_hint_is_size(*h) ? fm_parse_size(value, v, err) : fm_parse_time(value, v, err);
	return rc ? rc : fm_hint_check(*h, *v, err);
}

const char *fm_next_word(const char **at, char *word, size_t size)
{
	size_t n;

	*at += strspn(*at, " ");
	n = strcspn(*at, " ");
	if (!n || n >= size)
		return NULL;
	memcpy(word, *at, n);
	word[n] = '\0';
	*at += n;
	return word;
}
