/* SPDX-License-Identifier: Apache-2.0 */
#include "ini.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

int fm_ini_blame(const char *file, uint32_t line, int rc, struct fm_err *err)
{
	struct fm_err reason = *err;

	if (line)
		fm_err_set(err, rc, "%.150s:%u: %s", file, line, reason.text);
	else
		fm_err_set(err, rc, "%.150s: %s", file, reason.text);
	if (reason.hint[0])
		fm_err_hint(err, "%s", reason.hint);
	return rc;
}

static void fail(struct fm_ini *in, uint32_t line, int rc)
{
	in->rc = fm_ini_blame(in->file, line, rc, in->err);
}

/* Each key that was taken, behind its section, which has no bracket in its name. */
struct fm_ini_seen {
	uint32_t line;
	char *name;
};

static void forget(struct fm_ini *in)
{
	while (in->n_seen)
		free(in->seen[--in->n_seen].name);
}

static int remember(struct fm_ini *in, char *name)
{
	size_t room = FM_MAX(2 * in->room, (size_t)16);
	struct fm_ini_seen *more;

	if (in->n_seen == in->room) {
		more = realloc(in->seen, room * sizeof(*more));
		if (!more)
			return fm_err_set(in->err, -ENOMEM, "out of memory");
		in->seen = more;
		in->room = room;
	}
	in->seen[in->n_seen++] = (struct fm_ini_seen){in->line, name};
	return 0;
}

/* Once only. */
static int note(struct fm_ini *in, const char *section, const char *key)
{
	FM_CLEAN_FREE char *name = NULL;
	int rc;

	if (in->repeats && in->repeats(key))
		return 0;
	if (asprintf(&name, "%s]%s", section, key) < 0) {
		name = NULL;
		return fm_err_set(in->err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < in->n_seen; i++) {
		if (strcmp(in->seen[i].name, name) != 0)
			continue;
		fm_err_set(in->err, -EINVAL, "'%.60s' stands in [%s] already, in line %u", key,
			section, in->seen[i].line);
		return fm_err_hint(in->err, "keep one of the two");
	}
	rc = remember(in, name);
	if (!rc)
		fm_take_ptr(name);
	return rc;
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct fm_ini *in = user;
	int rc;

	if (in->rc)
		return 0;
	rc = in->key(in->ctx, section, key, value ? value : "", in->err);
	if (!rc)
		rc = note(in, section, key);
	if (rc)
		fail(in, in->line, rc);
	return !rc;
}

/* Its text is cut where inih cuts it. */
static int begin_section(struct fm_ini *in, const char *line)
{
	size_t len = strcspn(line, "]");
	char name[FM_INI_SECTION];
	const char *rest;

	if (line[len] != ']')
		return 0; /* inih has a word for it */
	if (len >= sizeof(name))
		return fm_err_set(in->err, -EINVAL, "the section's name is too long");
	rest = line + len + 1 + strspn(line + len + 1, " \t\r\n");
	if (*rest && !strchr("#;", *rest))
		return fm_err_set(
			in->err, -EINVAL, "behind [%.*s] there is something else", (int)len, line);
	snprintf(name, sizeof(name), "%.*s", (int)len, line);
	/* Two spellings would be two sections for us, and one for who looks up the name. */
	if (*name == ' ' || strstr(name, "  ") || strchr(name, '\t') ||
		(len && name[len - 1] == ' '))
		return fm_err_set(
			in->err, -EINVAL, "[%s] has blanks at an end, or several in a row", name);
	return in->section(in->ctx, name, in->err);
}

static int too_long(struct fm_ini *in)
{
	fm_err_set(in->err, -EINVAL, "line too long, or not text");
	return in->too_long ? fm_err_hint(in->err, "%s", in->too_long) : -EINVAL;
}

/* The next line, without a mark of the byte order and what inih takes for blanks in front of it: we
 * see a section where it sees one. No more of it is read than there is room for: a file may be one
 * line without an end. 0: there is none. */
static int next_line(struct fm_ini *in, char *line, size_t size)
{
	size_t n = 0, end;
	int c = 0;

	while (c != '\n' && (c = getc(in->f)) != EOF) {
		if (!n && c != '\n' && isspace(c))
			continue;
		if (!c || n + 1 == size)
			return -EINVAL;
		line[n++] = (char)c;
		if (!in->line && n == 3 && !memcmp(line, BYTE_ORDER_MARK, 3))
			n = 0;
	}
	line[n] = '\0';
	/* Lines that end so, without a newline, would be one: most of it may be a comment. */
	for (end = n; end && strchr("\r\n", line[end - 1]);)
		end--;
	return memchr(line, '\r', end) ? -EINVAL : n > 0;
}

static char *read_line(char *str, int num, void *stream)
{
	struct fm_ini *in = stream;
	int rc = in->rc ? 0 : next_line(in, str, (size_t)num);

	if (!rc && !in->rc && ferror(in->f)) {
		fm_err_set(in->err, -EIO, "cannot be read: %s", strerror(errno));
		fail(in, 0, -EIO);
	}
	if (!rc)
		return NULL;
	in->line++;
	rc = rc < 0 ? too_long(in) : *str == '[' ? begin_section(in, str + 1) : 0;
	if (!rc)
		return str;
	fail(in, in->line, rc);
	return NULL;
}

int fm_ini_read(struct fm_ini *in, struct fm_err *err)
{
	int bad_line;

	in->err = err;
	bad_line = ini_parse_stream(read_line, in, on_key, in);
	/* inih goes on after a line that it cannot read: the first mistake counts. */
	if (bad_line && (!in->rc || (bad_line > 0 && (uint32_t)bad_line < in->line))) {
		fm_err_set(err, -EINVAL, "neither [section], key = value nor a comment");
		fail(in, bad_line > 0 ? (uint32_t)bad_line : in->line, -EINVAL);
	}
	forget(in);
	free(in->seen);
	in->seen = NULL;
	in->room = 0;
	return in->rc;
}
