/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of keys: a head, and a kernel on each line behind it. The head says how many there are, so
 * that one that was cut is known; no key is there twice. A list says what may be killed: that of
 * somebody else, or one that others could have changed, is not believed.
 */
#include "base/cleanup.h"
#include "base/util.h"
#include "idem.h"
#include "json/json.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fm_idem_key_text(const uint8_t key[FM_HASH_BYTES], char text[FM_IDEM_KEY])
{
	for (unsigned i = 0; i < FM_HASH_BYTES; i++)
		sprintf(text + 2 * i, "%02x", key[i]);
}

void fm_idem_list_free(struct fm_idem_list *l)
{
	free(l->kernel);
	free(l->slot);
	free(l->names);
	*l = (struct fm_idem_list){0};
}

/* --- writing --- */

/* The file grows to no more than is read of it. */
static json_t *kills_of(const struct fm_idem_report *r, size_t kernel)
{
	uint32_t i = r->kills_of ? r->kills_of[kernel] : 0;
	json_t *all = i && r->kernel[kernel].class == FM_IDEM_IDEMPOTENT ? json_array() : NULL;

	for (; all && i; i = r->kill[i - 1].next)
		json_array_append_new(all, json_string(r->names + r->kill[i - 1].text));
	return all;
}

static int print_kernel(FILE *to, const struct fm_idem_report *r, size_t kernel, size_t *size)
{
	const struct fm_idem_verdict *v = &r->kernel[kernel];
	FM_CLEAN_FREE char *line = NULL;
	char key[FM_IDEM_KEY];
	json_t *one;

	fm_idem_key_text(v->key, key);
	one = json_pack("{s:s, s:o?, s:o?, s:[I,I,I], s:[I,I,I], s:s, s:i, s:i, s:I, s:s, s:o*}",
		"key", key, "kernel", fm_json_text(v->name), "hash", fm_json_text(v->hash), "grid",
		(json_int_t)v->grid[0], (json_int_t)v->grid[1], (json_int_t)v->grid[2], "block",
		(json_int_t)v->block[0], (json_int_t)v->block[1], (json_int_t)v->block[2], "class",
		fm_idem_class_name(v->class), "size", (int)v->size, "start", (int)v->start,
		"launches", (json_int_t)v->launches, "why", fm_idem_why_text(v->why), "kill",
		kills_of(r, kernel));
	line = json_dumps(one, JSON_COMPACT);
	json_decref(one);
	if (!line)
		return -ENOMEM;
	*size += strlen(line) + 1;
	if (*size > FM_IDEM_FILE)
		return -E2BIG;
	return fprintf(to, "%s\n", line) < 0 ? -EIO : 0;
}

int fm_idem_print(FILE *to, const struct fm_idem_report *r)
{
	size_t size;
	int rc;

	if (r->n > FM_IDEM_KERNELS)
		return -E2BIG;
	rc = fprintf(to, "{\"v\":%d,\"kernels\":%zu}\n", FM_IDEM_VERSION, r->n);
	size = rc < 0 ? 0 : (size_t)rc;
	rc = rc < 0 ? -EIO : 0;
	for (size_t i = 0; i < r->n && !rc; i++)
		rc = print_kernel(to, r, i, &size);
	return rc ? rc : ferror(to) ? -EIO : 0;
}

/* --- reading --- */

struct reading {
	struct fm_idem_list *l;
	struct fm_json j;
	char where[128];
	unsigned line;
	size_t names, expected;
	bool begun;
};

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_key(struct reading *r, const json_t *root, uint8_t key[FM_HASH_BYTES])
{
	const char *text = json_string_value(json_object_get(root, "key"));

	if (!text || strlen(text) != 2 * FM_HASH_BYTES)
		return fm_json_bad(&r->j, "key", "is not 64 hexadecimal digits");
	for (unsigned i = 0; i < FM_HASH_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return fm_json_bad(&r->j, "key", "is not 64 hexadecimal digits");
		key[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int read_dims(struct reading *r, const json_t *root, const char *key, uint32_t dim[3])
{
	const json_t *list = json_object_get(root, key);

	for (unsigned i = 0; i < 3; i++) {
		const json_t *one = json_array_get(list, i);
		json_int_t n = json_integer_value(one);

		if (json_array_size(list) != 3 || n < 1 || n > UINT32_MAX)
			return fm_json_bad(&r->j, key, "is not three numbers above 0");
		dim[i] = (uint32_t)n;
	}
	return 0;
}

/* Into the names, which have room for all texts of the file. */
static int read_name(struct reading *r, const json_t *root, const char *key, const char **name)
{
	const char *text = json_string_value(json_object_get(root, key));

	if (!text || strlen(text) > FM_IDEM_NAME)
		return fm_json_bad(&r->j, key, "is missing, no text, or too long");
	*name = strcpy(r->l->names + r->names, text);
	r->names += strlen(text) + 1;
	return 0;
}

static int read_class(struct reading *r, const json_t *root, struct fm_idem_verdict *v)
{
	const char *class = json_string_value(json_object_get(root, "class"));
	const char *why = json_string_value(json_object_get(root, "why"));
	unsigned c = 0, w = 0;

	while (class && c < FM_IDEM_CLASSES && strcmp(class, fm_idem_class_name(c)))
		c++;
	while (why && w < FM_IDEM_WHYS && strcmp(why, fm_idem_why_text(w)))
		w++;
	if (!class || c == FM_IDEM_CLASSES)
		return fm_json_bad(&r->j, "class", "is none of idempotent, group and never");
	if (!why || w == FM_IDEM_WHYS)
		return fm_json_bad(&r->j, "why", "is none");
	v->class = (uint8_t)c;
	v->why = (uint8_t)w;
	return 0;
}

static int check_group(
	struct reading *r, const struct fm_idem_verdict *v, int64_t size, int64_t start)
{
	bool good = v->class == FM_IDEM_NEVER        ? !size && !start
		    : v->class == FM_IDEM_IDEMPOTENT ? size == 1 && !start
						     : size && size <= 1 - start;

	return good && (v->class == FM_IDEM_IDEMPOTENT) == (v->why == FM_IDEM_WHY_NONE)
		       ? 0
		       : fm_json_bad(&r->j, NULL, "its class, size, start and why do not fit");
}

static int read_verdict(struct reading *r, const json_t *root, struct fm_idem_verdict *v)
{
	int64_t size = 0, start = 0, launches = 0;
	int rc = read_key(r, root, v->key);

	rc = rc ? rc : read_name(r, root, "kernel", &v->name);
	rc = rc ? rc : read_name(r, root, "hash", &v->hash);
	rc = rc ? rc : read_dims(r, root, "grid", v->grid);
	rc = rc ? rc : read_dims(r, root, "block", v->block);
	rc = rc ? rc : read_class(r, root, v);
	rc = rc ? rc : fm_json_whole(&r->j, root, "size", 0, FM_IDEM_GROUP, true, &size);
	rc = rc ? rc : fm_json_whole(&r->j, root, "start", 1 - (int)FM_IDEM_GROUP, 0, true, &start);
	rc = rc ? rc : fm_json_whole(&r->j, root, "launches", 1, INT64_MAX, true, &launches);
	rc = rc ? rc : check_group(r, v, size, start);
	v->size = (uint16_t)size;
	v->start = (int32_t)start;
	v->launches = (uint64_t)launches;
	return rc;
}

static uint32_t slot_of(const struct fm_idem_list *l, const uint8_t key[FM_HASH_BYTES])
{
	uint64_t h;
	uint32_t at;

	memcpy(&h, key, sizeof(h));
	for (at = (uint32_t)h & l->mask; l->slot[at]; at = (at + 1) & l->mask)
		if (!memcmp(l->kernel[l->slot[at] - 1].key, key, FM_HASH_BYTES))
			break;
	return at;
}

const struct fm_idem_verdict *fm_idem_find(
	const struct fm_idem_list *l, const uint8_t key[FM_HASH_BYTES])
{
	uint32_t at = l->slot ? l->slot[slot_of(l, key)] : 0;

	return at ? &l->kernel[at - 1] : NULL;
}

static int begin_list(struct reading *r, const json_t *root, size_t size)
{
	struct fm_idem_list *l = r->l;
	int64_t v = 0, n = 0;
	int rc = fm_json_whole(&r->j, root, "v", 1, INT64_MAX, true, &v);

	if (!rc && v != FM_IDEM_VERSION)
		rc = fm_json_bad(&r->j, "v",
			"is version %" PRId64 "; this program reads version %d", v,
			FM_IDEM_VERSION);
	rc = rc ? rc : fm_json_whole(&r->j, root, "kernels", 0, FM_IDEM_KERNELS, true, &n);
	if (rc)
		return rc;
	r->begun = true;
	r->expected = (size_t)n;
	l->mask = 15;
	while (l->mask < 2 * r->expected)
		l->mask = l->mask * 2 + 1;
	l->kernel = calloc(r->expected + 1, sizeof(*l->kernel));
	l->slot = calloc((size_t)l->mask + 1, sizeof(*l->slot));
	l->names = malloc(3 * size + 1);
	return l->kernel && l->slot && l->names ? 0 : -ENOMEM;
}

static int take_kernel(struct reading *r, const json_t *root)
{
	struct fm_idem_list *l = r->l;
	struct fm_idem_verdict *v = &l->kernel[l->n];
	uint32_t slot;
	int rc;

	if (l->n == r->expected)
		return fm_json_bad(&r->j, NULL, "is one more than the head says");
	rc = read_verdict(r, root, v);
	if (rc)
		return rc;
	slot = slot_of(l, v->key);
	if (l->slot[slot])
		return fm_json_bad(&r->j, "key", "is there twice");
	l->slot[slot] = (uint32_t)++l->n;
	return 0;
}

static int take_line(struct reading *r, const char *line, size_t n, size_t size)
{
	json_error_t why;
	json_t *root = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
	int rc;

	if (!root)
		return fm_json_bad(&r->j, NULL, "column %d: %.90s", why.column, why.text);
	rc = fm_json_object(&r->j, root, NULL);
	rc = rc ? rc : r->begun ? take_kernel(r, root) : begin_list(r, root, size);
	json_decref(root);
	return rc;
}

static int read_list(struct reading *r, const char *name, const char *text, size_t size)
{
	int rc = 0;

	for (size_t at = 0; at < size && !rc;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = end ? (size_t)(end - text) - at : size - at;

		snprintf(r->where, sizeof(r->where), "%.100s:%u", name, ++r->line);
		rc = n ? take_line(r, text + at, n, size) : 0;
		at += n + 1;
	}
	if (!rc && !r->begun)
		rc = fm_json_bad(&r->j, NULL, "there is no head: {\"v\":1,\"kernels\":...}");
	if (!rc && r->l->n != r->expected)
		rc = fm_json_bad(
			&r->j, NULL, "it ends behind %zu of %zu kernels", r->l->n, r->expected);
	return rc;
}

int fm_idem_parse(
	struct fm_idem_list *l, const char *name, const char *text, size_t size, struct fm_err *err)
{
	struct fm_err own = {0};
	struct reading r = {.l = l};
	int rc;

	*l = (struct fm_idem_list){0};
	snprintf(r.where, sizeof(r.where), "%.100s:1", name);
	r.j = (struct fm_json){.file = r.where,
		.hint = "`fermata-lab idempotence check -o FILE' writes such files",
		.err = err ? err : &own};
	if (size > FM_IDEM_FILE)
		rc = fm_json_bad(&r.j, NULL, "is larger than %zu MiB", FM_IDEM_FILE >> 20);
	else
		rc = read_list(&r, name, text, size);
	if (rc == -ENOMEM)
		fm_err_set(r.j.err, rc, "out of memory");
	if (rc)
		fm_idem_list_free(l);
	return rc;
}

/* --- files --- */

static int check_owner(int fd, const char *path, struct fm_err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return fm_err_set(err, -errno, "%.120s: %m", path);
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "%.120s is not a file", path);
	if (st.st_uid && st.st_uid != geteuid()) {
		fm_err_set(err, -EACCES, "%.120s belongs to another user, so it is not believed",
			path);
		return fm_err_hint(err, "copy it if you trust it: cp '%.120s' own.idem", path);
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		fm_err_set(err, -EACCES, "%.120s can be written by others, so it is not believed",
			path);
		return fm_err_hint(err, "if its contents are yours: chmod go-w '%.120s'", path);
	}
	return 0;
}

static int read_text(int fd, const char *path, char **text, size_t *size, struct fm_err *err)
{
	size_t room = 65536;
	ssize_t n = 1;

	*size = 0;
	*text = malloc(room);
	while (*text && n > 0 && *size <= FM_IDEM_FILE) {
		n = read(fd, *text + *size, room - *size);
		*size += n > 0 ? (size_t)n : 0;
		if (*size == room) {
			char *more = realloc(*text, room *= 2);

			if (!more)
				return fm_err_set(err, -ENOMEM, "out of memory");
			*text = more;
		}
	}
	if (!*text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	return n < 0 ? fm_err_set(err, -errno, "%.120s: cannot be read: %m", path) : 0;
}

int fm_idem_list_load(struct fm_idem_list *l, const char *path, struct fm_err *err)
{
	FM_CLEAN_FREE char *text = NULL;
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t size;
	int rc;

	*l = (struct fm_idem_list){0};
	if (fd < 0)
		return fm_err_set(err, -errno, "%.120s: cannot be read: %s", path, strerror(errno));
	rc = check_owner(fd, path, err);
	rc = rc ? rc : read_text(fd, path, &text, &size, err);
	return rc ? rc : fm_idem_parse(l, path, text, size, err);
}
