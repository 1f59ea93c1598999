/* SPDX-License-Identifier: Apache-2.0 */
#include "workload_json.h"
#include "base/util.h"
#include "ini/ini.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

#define VALUE 512 /* no value is longer */

/* Is this the wanted place? */
static bool at_place(struct workload_json *j)
{
	j->place++;
	return j->stop_at && j->place == j->stop_at;
}

static int add_text(char *out, size_t *len, const char *text, struct fm_err *err)
{
	int n = snprintf(out + *len, VALUE - *len, "%s%s", *len ? " " : "", text);

	if ((size_t)n >= VALUE - *len)
		return fm_err_set(err, -EINVAL, "the value is too long");
	*len += (size_t)n;
	return 0;
}

/* Appends a value that is no list, as INI would write it. */
static int add_value(char *out, size_t *len, const json_t *value, struct fm_err *err)
{
	char number[64];

	switch (json_typeof(value)) {
	case JSON_STRING:
		return add_text(out, len, json_string_value(value), err);
	case JSON_INTEGER:
		snprintf(
			number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return add_text(out, len, number, err);
	case JSON_REAL:
		/* Nine digits of milliseconds are finer than any time here. */
		snprintf(number, sizeof(number), "%.9f", json_real_value(value));
		return add_text(out, len, number, err);
	case JSON_TRUE:
	case JSON_FALSE:
		return add_text(out, len, json_is_true(value) ? "yes" : "no", err);
	default:
		fm_err_set(err, -EINVAL, "this is no value");
		return fm_err_hint(
			err, "values are texts, numbers, true, false, and lists of these");
	}
}

static int tell_key(struct workload_json *j, const char *section, const char *key,
	const char *value, struct fm_err *err)
{
	if (at_place(j))
		return -ECANCELED;
	return j->stop_at ? 0 : j->key(j->ctx, section, key, value, err);
}

/* Keys that may have several lines in INI: each member is a line. */
static bool has_lines(const char *key)
{
	return !strcmp(key, "commands") || !strcmp(key, "job") || !strcmp(key, "change");
}

static int walk_list(struct workload_json *j, const char *section, const char *key,
	const json_t *list, struct fm_err *err)
{
	bool lines = has_lines(key);
	size_t i, len = 0, path = strlen(j->path);
	char text[VALUE] = "";
	json_t *value;
	int rc = 0;

	json_array_foreach (list, i, value) {
		snprintf(j->path + path, sizeof(j->path) - path, "[%zu]", i);
		len = lines ? 0 : len;
		rc = add_value(text, &len, value, err);
		if (!rc && lines)
			rc = tell_key(j, section, key, text, err);
		if (rc)
			return rc;
	}
	j->path[path] = '\0';
	return lines ? 0 : tell_key(j, section, key, text, err);
}

static int walk_key(struct workload_json *j, const char *section, const char *key,
	const json_t *value, struct fm_err *err)
{
	size_t path = strlen(j->path), len = 0;
	char text[VALUE] = "";
	int rc;

	snprintf(j->path + path, sizeof(j->path) - path, ".%.60s", key);
	if (json_is_array(value)) {
		rc = walk_list(j, section, key, value, err);
	} else {
		rc = add_value(text, &len, value, err);
		rc = rc ? rc : tell_key(j, section, key, text, err);
	}
	if (!rc)
		j->path[path] = '\0';
	return rc;
}

static int no_object(struct fm_err *err)
{
	return fm_err_set(err, -EINVAL, "this is no object");
}

static int walk_section(
	struct workload_json *j, const char *section, json_t *keys, struct fm_err *err)
{
	const char *key;
	json_t *value;
	int rc;

	if (!json_is_object(keys))
		return no_object(err);
	if (at_place(j))
		return -ECANCELED;
	rc = j->stop_at ? 0 : j->section(j->ctx, section, err);
	if (rc)
		return rc;
	json_object_foreach (keys, key, value) {
		rc = walk_key(j, section, key, value, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Sections that have names. */
static int walk_sections(
	struct workload_json *j, const char *kind, json_t *sections, struct fm_err *err)
{
	char section[FM_INI_SECTION];
	const char *name;
	json_t *keys;
	int rc;

	if (!json_is_object(sections))
		return no_object(err);
	json_object_foreach (sections, name, keys) {
		snprintf(j->path, sizeof(j->path), "%s.%.60s", kind, name);
		if (snprintf(section, sizeof(section), "%s %s", kind, name) >= (int)sizeof(section))
			return fm_err_set(err, -EINVAL, "the name is too long");
		rc = walk_section(j, section, keys, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int unknown(const char *member, struct fm_err *err)
{
	fm_err_set(err, -EINVAL, "unknown section '%.60s'", member);
	return fm_err_hint(err,
		"sections are workload, memory, and device, group, policy, which have "
		"names: {\"device\": {\"NAME\": {...}}}");
}

static int walk(struct workload_json *j, struct fm_err *err)
{
	const char *member;
	json_t *value;
	int rc = 0;

	j->place = 0;
	if (!json_is_object(j->root))
		return no_object(err);
	json_object_foreach (j->root, member, value) {
		snprintf(j->path, sizeof(j->path), "%.60s", member);
		if (!strcmp(member, "workload") || !strcmp(member, "memory"))
			rc = walk_section(j, member, value, err);
		else if (!strcmp(member, "device") || !strcmp(member, "group") ||
			 !strcmp(member, "policy"))
			rc = walk_sections(j, member, value, err);
		else
			rc = unknown(member, err);
		if (rc)
			return rc;
	}
	j->path[0] = '\0';
	return 0;
}

/* Without the key's name, which the path has already. */
static const char *plain(const struct workload_json *j, const char *reason)
{
	const char *key = strrchr(j->path, '.');
	size_t len = key ? strcspn(++key, "[") : 0;

	return len && !strncmp(reason, key, len) && !strncmp(reason + len, ": ", 2)
		       ? reason + len + 2
		       : reason;
}

static int blame_path(const struct workload_json *j, int rc, struct fm_err *err)
{
	struct fm_err reason = *err;

	if (*j->path) {
		fm_err_set(err, rc, "%s: %s", j->path, plain(j, reason.text));
		if (reason.hint[0])
			fm_err_hint(err, "%s", reason.hint);
	}
	return fm_ini_blame(j->file, 0, rc, err);
}

int workload_json_read(struct workload_json *j, struct fm_err *err)
{
	json_error_t why;
	int rc;

	j->root = json_loadf(j->f, JSON_REJECT_DUPLICATES, &why);
	if (!j->root) {
		rc = ferror(j->f) ? -EIO : -EINVAL;
		fm_err_set(err, rc, "%.120s", ferror(j->f) ? "cannot be read" : why.text);
		return fm_ini_blame(j->file, why.line > 0 ? (uint32_t)why.line : 0, rc, err);
	}
	rc = walk(j, err);
	return rc ? blame_path(j, rc, err) : 0;
}

int workload_json_blame(struct workload_json *j, uint32_t place, int rc, struct fm_err *err)
{
	struct fm_err none = {0};

	j->path[0] = '\0';
	j->stop_at = place;
	if (place)
		walk(j, &none);
	return blame_path(j, rc, err);
}

void workload_json_free(struct workload_json *j)
{
	json_decref(j->root);
	j->root = NULL;
}
