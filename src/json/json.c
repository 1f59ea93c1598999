/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"
#include "base/cleanup.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void fm_json_at(struct fm_json *j, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(j->path, sizeof(j->path), fmt, ap);
	va_end(ap);
}

int fm_json_bad(const struct fm_json *j, const char *key, const char *fmt, ...)
{
	char reason[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	fm_err_set(j->err, -EINVAL, "%.120s: %s%s%s%s%s", j->file, j->path,
		j->path[0] && key ? "." : "", key ? key : "", j->path[0] || key ? ": " : "",
		reason);
	fm_err_hint(j->err, "%s", j->hint);
	return -EINVAL;
}

static int finish(struct fm_json *j, const json_error_t *why, json_t **root)
{
	int rc;

	j->path[0] = '\0';
	if (!*root) {
		fm_json_at(j, "line %d, column %d", why->line, why->column);
		return fm_json_bad(j, NULL, "%.100s", why->text);
	}
	rc = fm_json_object(j, *root, NULL);
	if (rc) {
		json_decref(*root);
		*root = NULL;
	}
	return rc;
}

int fm_json_parse(struct fm_json *j, const char *text, size_t size, json_t **root)
{
	json_error_t why;

	*root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
	return finish(j, &why, root);
}

int fm_json_read(struct fm_json *j, FILE *f, json_t **root)
{
	json_error_t why;

	*root = json_loadf(f, JSON_REJECT_DUPLICATES, &why);
	j->path[0] = '\0';
	if (!*root && ferror(f))
		return fm_err_set(j->err, errno ? -errno : -EIO, "%.120s: cannot be read: %s",
			j->file, strerror(errno));
	return finish(j, &why, root);
}

int fm_json_load(struct fm_json *j, json_t **root)
{
	FM_CLEAN_FILE FILE *f = fopen(j->file, "re");

	*root = NULL;
	if (!f)
		return fm_err_set(
			j->err, -errno, "%.120s: cannot be read: %s", j->file, strerror(errno));
	return fm_json_read(j, f, root);
}

int fm_json_object(const struct fm_json *j, const json_t *from, const char *const *known)
{
	const char *key;
	json_t *value;

	if (!json_is_object(from))
		return fm_json_bad(j, NULL, from ? "is not an object" : "is missing");
	if (!known || !j->unknown || j->unknown[0])
		return 0;
	json_object_foreach ((json_t *)from, key, value) {
		const char *const *k = known;

		while (*k && strcmp(*k, key))
			k++;
		if (*k)
			continue;
		snprintf(j->unknown, FM_JSON_UNKNOWN, "%.60s%s%.60s", j->path,
			j->path[0] ? "." : "", key);
		return 0;
	}
	return 0;
}

int fm_json_real(const struct fm_json *j, const json_t *from, const char *key, double min,
	double max, bool required, double *v)
{
	const json_t *value = json_object_get(from, key);
	double n = json_number_value(value);

	if (!value && !required)
		return 0;
	if (!json_is_number(value))
		return fm_json_bad(j, key, value ? "is not a number" : "is missing");
	if (!(n >= min && n <= max))
		return fm_json_bad(j, key, "is not from %g to %g", min, max);
	*v = n;
	return 0;
}

int fm_json_whole(const struct fm_json *j, const json_t *from, const char *key, int64_t min,
	int64_t max, bool required, int64_t *v)
{
	const json_t *value = json_object_get(from, key);
	int64_t n = json_integer_value(value);

	if (!value && !required)
		return 0;
	if (!json_is_integer(value))
		return fm_json_bad(j, key, value ? "is not a whole number" : "is missing");
	if (n < min || n > max)
		return fm_json_bad(j, key, "is not from %" PRId64 " to %" PRId64, min, max);
	*v = n;
	return 0;
}

/* The bytes of the character that begins here; 0: none does. */
static size_t character(const char *s)
{
	for (size_t n = 1; n <= 4 && s[n - 1]; n++) {
		json_t *v = json_stringn(s, n);

		json_decref(v);
		if (v)
			return n;
	}
	return 0;
}

json_t *fm_json_text(const char *s)
{
	FM_CLEAN_FREE char *clean = NULL;
	json_t *v = json_string(s);

	if (v)
		return v;
	clean = strdup(s);
	for (char *p = clean; p && *p;) {
		size_t n = character(p);

		if (!n)
			*p = '?';
		p += n ? n : 1;
	}
	return clean ? json_string(clean) : NULL;
}

json_t *fm_json_histogram(const struct fm_hist *h)
{
	json_t *o = json_object();
	uint64_t n, upto;
	char key[24];

	for (unsigned i = 0; i < FM_HIST_BUCKETS && h->count; i++) {
		n = fm_hist_bucket(h, i, &upto);
		snprintf(key, sizeof(key), "%llu", (unsigned long long)upto);
		if (n && json_object_set_new(o, key, json_integer((json_int_t)n))) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}
