/* SPDX-License-Identifier: Apache-2.0 */
#include "read.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void bench_at(struct bench_place *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->path, sizeof(p->path), fmt, ap);
	va_end(ap);
}

int bench_bad(const struct bench_place *p, const char *key, const char *fmt, ...)
{
	char reason[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	fm_err_set(p->err, -EINVAL, "%.80s: %.80s%s%s%s%s", p->file, p->path,
		p->path[0] && key ? "." : "", key ? key : "", p->path[0] || key ? ": " : "",
		reason);
	fm_err_hint(p->err, "fermata-bench(1) describes the file");
	return -EINVAL;
}

void bench_note_unknown(const struct bench_place *p, const json_t *object, const char *const *known)
{
	struct bench_workload *w = p->w;
	const char *key;
	json_t *value;

	if (w->unknown[0])
		return;
	json_object_foreach ((json_t *)object, key, value) {
		const char *const *k = known;

		while (*k && strcmp(*k, key))
			k++;
		if (*k)
			continue;
		snprintf(w->unknown, sizeof(w->unknown), "%.60s%s%.60s", p->path,
			p->path[0] ? "." : "", key);
		return;
	}
}

int bench_real(const struct bench_place *p, const json_t *from, const char *key, double min,
	double max, bool required, double *v)
{
	const json_t *value = json_object_get(from, key);
	double n = json_number_value(value);

	if (!value && !required)
		return 0;
	if (!json_is_number(value))
		return bench_bad(p, key, value ? "is not a number" : "is missing");
	if (!(n >= min && n <= max))
		return bench_bad(p, key, "is not from %g to %g", min, max);
	*v = n;
	return 0;
}

int bench_whole(const struct bench_place *p, const json_t *from, const char *key, int64_t min,
	int64_t max, bool required, int64_t *v)
{
	const json_t *value = json_object_get(from, key);
	int64_t n = json_integer_value(value);

	if (!value && !required)
		return 0;
	if (!json_is_integer(value))
		return bench_bad(p, key, value ? "is not a whole number" : "is missing");
	if (n < min || n > max)
		return bench_bad(p, key, "is not from %" PRId64 " to %" PRId64, min, max);
	*v = n;
	return 0;
}
