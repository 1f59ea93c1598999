/* SPDX-License-Identifier: Apache-2.0 */
/* A trace from its file: a head, and an operation or more allocations on each line behind it. */
#include "read.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- lines --- */

struct lines {
	FILE *f;
	char *text;
	size_t size, at, room;
	bool over;
};

/* 1: a line, without its end; 0: there is none; -E2BIG; -ENOMEM; -EIO. */
static int next_line(struct lines *l, char **line, size_t *n)
{
	size_t looked = 0;

	for (;;) {
		char *end = l->size - l->at > looked ? memchr(l->text + l->at + looked, '\n',
							       l->size - l->at - looked)
						     : NULL;

		looked = l->size - l->at;
		if (end || (l->over && looked)) {
			*line = l->text + l->at;
			*n = end ? (size_t)(end - *line) : looked;
			l->at += *n + (end ? 1 : 0);
			return *n > FM_IDEM_LINE ? -E2BIG : 1;
		}
		if (l->over)
			return 0;
		if (looked > FM_IDEM_LINE)
			return -E2BIG;
		if (looked)
			memmove(l->text, l->text + l->at, looked);
		l->at = 0;
		l->size = looked;
		if (l->room - l->size < 65536) {
			char *more = realloc(l->text, l->room * 2 + 131072);

			if (!more)
				return -ENOMEM;
			l->text = more;
			l->room = l->room * 2 + 131072;
		}
		l->size += fread(l->text + l->size, 1, l->room - l->size, l->f);
		if (ferror(l->f))
			return -EIO;
		l->over = feof(l->f);
	}
}

/* --- members --- */

static int read_address(struct idem_reader *r, const json_t *from, uint64_t *base)
{
	const json_t *value = json_object_get(from, "base");
	const char *text = json_string_value(value);
	char *end;

	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*base = (uint64_t)json_integer_value(value);
		return 0;
	}
	if (!text || strncmp(text, "0x", 2) || !text[2])
		return fm_json_bad(&r->j, "base", "is neither a number nor \"0x...\"");
	errno = 0;
	*base = strtoull(text + 2, &end, 16);
	if (errno || *end || text[2] == '-' || text[2] == '+' || *base >= FM_IDEM_END)
		return fm_json_bad(&r->j, "base", "is no address below 2^63");
	return 0;
}

static int read_alloc(struct idem_reader *r, const json_t *from)
{
	struct idem_alloc a = {0};
	int64_t size = 0;
	int rc = fm_json_object(&r->j, from, NULL);

	rc = rc ? rc : fm_json_whole(&r->j, from, "id", 0, INT64_MAX, true, &a.id);
	rc = rc ? rc : read_address(r, from, &a.base);
	rc = rc ? rc : fm_json_whole(&r->j, from, "size", 1, INT64_MAX, true, &size);
	if (rc)
		return rc;
	a.size = (uint64_t)size;
	a.visible = json_is_true(json_object_get(from, "visible"));
	if (a.size > FM_IDEM_END - a.base)
		return fm_json_bad(&r->j, "size", "reaches beyond 2^63");
	return idem_alloc_add(r, &a);
}

static int read_allocs(struct idem_reader *r, const json_t *root)
{
	const json_t *list = json_object_get(root, "alloc"), *one;
	size_t i;
	int rc = 0;

	if (!json_is_array(list))
		return fm_json_bad(&r->j, "alloc", list ? "is no array" : "is missing");
	json_array_foreach (list, i, one) {
		fm_json_at(&r->j, "alloc[%zu]", i);
		rc = read_alloc(r, one);
		if (rc)
			return rc;
	}
	r->j.path[0] = '\0';
	return 0;
}

static int check_version(struct idem_reader *r, const json_t *root, bool required)
{
	int64_t v = FM_IDEM_VERSION;
	int rc = fm_json_whole(&r->j, root, "v", 1, INT64_MAX, required, &v);

	if (rc || v == FM_IDEM_VERSION)
		return rc;
	return fm_json_bad(&r->j, "v", "is version %lld; this program reads version %d",
		(long long)v, FM_IDEM_VERSION);
}

/* --- one after another --- */

static int parse_line(struct idem_reader *r, const char *line, size_t n, json_t **root)
{
	json_error_t why;

	r->j.path[0] = '\0';
	*root = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
	if (!*root)
		return fm_json_bad(&r->j, NULL, "column %d: %.90s", why.column, why.text);
	if (!json_is_object(*root))
		return fm_json_bad(&r->j, NULL, "is not an object");
	return 0;
}

static void free_json(json_t **root)
{
	json_decref(*root);
}

static int take_line(struct idem_reader *r, const char *line, size_t n)
{
	__attribute__((cleanup(free_json))) json_t *root = NULL;
	int rc = parse_line(r, line, n, &root);

	if (rc)
		return rc;
	if (!r->begun) {
		r->begun = true;
		rc = check_version(r, root, true);
		return rc ? rc : read_allocs(r, root);
	}
	if (json_object_get(root, "op"))
		return idem_read_op(r, root);
	rc = check_version(r, root, false);
	if (!rc && !json_object_get(root, "alloc"))
		return fm_json_bad(&r->j, NULL, "has neither \"op\" nor \"alloc\"");
	return rc ? rc : read_allocs(r, root);
}

/* The end of a long path, so that the line's number is there. */
static void name_line(struct idem_reader *r, const char *name)
{
	size_t n = strlen(name);

	snprintf(r->where, sizeof(r->where), "%s%s:%u", n > 90 ? "..." : "",
		n > 90 ? name + n - 87 : name, r->line);
}

static int no_line(struct idem_reader *r, int rc)
{
	if (rc == -E2BIG)
		return fm_json_bad(&r->j, NULL, "is longer than %zu MiB", FM_IDEM_LINE >> 20);
	if (rc == -ENOMEM)
		return fm_err_set(r->j.err, rc, "out of memory");
	return fm_err_set(r->j.err, rc, "%.120s: cannot be read: %s", r->where, strerror(-rc));
}

static int read_lines(struct idem_reader *r, FILE *f, const char *name)
{
	struct lines l = {.f = f};
	char *line;
	size_t n;
	int rc = 0;

	while (!rc) {
		int is;

		r->line++;
		name_line(r, name);
		is = next_line(&l, &line, &n);
		if (is < 0)
			rc = no_line(r, is);
		else if (!is)
			break;
		else if (r->line == UINT32_MAX)
			rc = no_line(r, -E2BIG);
		else if (n)
			rc = take_line(r, line, n);
	}
	free(l.text);
	if (!rc && !r->begun)
		rc = fm_json_bad(&r->j, NULL, "there is no head: {\"v\":1,\"alloc\":[...]}");
	return rc;
}

int fm_idem_read(struct fm_idem_trace *t, FILE *f, const char *name, struct fm_err *err)
{
	struct fm_err own = {0};
	struct idem_reader r = {.t = t};
	int rc;

	*t = (struct fm_idem_trace){0};
	r.j = (struct fm_json){.file = r.where,
		.hint = "docs/idempotence.md describes traces",
		.err = err ? err : &own};
	rc = read_lines(&r, f, name);
	rc = rc ? rc : fm_idem_share(t);
	if (rc == -ENOMEM)
		fm_err_set(r.j.err, rc, "out of memory");
	idem_reader_free(&r);
	if (rc)
		fm_idem_trace_free(t);
	return rc;
}

int fm_idem_load(struct fm_idem_trace *t, const char *path, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");

	if (!f)
		return fm_err_set(err, -errno, "%.120s: cannot be read: %s", path, strerror(errno));
	return fm_idem_read(t, f, path, err);
}
