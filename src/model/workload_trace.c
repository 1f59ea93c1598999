/* SPDX-License-Identifier: Apache-2.0 */
/* Reads recorded jobs of groups, and changes of their hints. */
#include "base/cleanup.h"
#include "base/parse.h"
#include "workload.h"
#include <errno.h>
#include <string.h>

#define LINE      200
#define COMMANDS  1000000000
#define BLANKS    " \t\r\n"
#define JOB_WORDS 4

/* The next word. NULL: there is none, or a comment begins. */
static char *word_of(char *text, char **save)
{
	char *word = strtok_r(text, BLANKS, save);

	return word && *word != '#' ? word : NULL;
}

static int commands_of(const char *word, uint32_t *commands, struct fm_err *err)
{
	int64_t v = 0;
	int rc = fm_parse_int(word, 1, COMMANDS, &v, err);

	*commands = (uint32_t)v;
	return rc;
}

/* 0: an empty line. 1: a record. */
static int one_line(char *line, struct fm_sim_record *r, struct fm_err *err)
{
	char *save, *word = word_of(line, &save);
	int rc = 0;

	*r = (struct fm_sim_record){.pause = WORKLOAD_NO_PAUSE};
	if (!word)
		return 0;
	for (unsigned n = 0; word && !rc; n++, word = rc ? NULL : word_of(NULL, &save)) {
		if (n == 0)
			rc = workload_time(word, &r->at, err);
		else if (n == 1)
			rc = workload_time(word, &r->length, err);
		else if (n == 2)
			rc = commands_of(word, &r->commands, err);
		else if (n + 1 == JOB_WORDS)
			rc = workload_time(word, &r->pause, err);
		else
			rc = fm_err_set(
				err, -EINVAL, "more than a time, a length, commands and a pause");
	}
	return rc ? rc : 1;
}

static int append(struct fm_sim_record **at, size_t n, struct fm_sim_record r, struct fm_err *err)
{
	struct fm_sim_record *more;

	if (n == WORKLOAD_RECORDS)
		return fm_err_set(err, -E2BIG, "more than %d arrivals", WORKLOAD_RECORDS);
	if (n && r.at < (*at)[n - 1].at)
		return fm_err_set(err, -EINVAL, "it is before the arrival in front of it");
	if (!(n & (n - 1))) { /* full at each power of two */
		more = realloc(*at, FM_MAX(2 * n, (size_t)1) * sizeof(*more));
		if (!more)
			return fm_err_set(err, -ENOMEM, "out of memory");
		*at = more;
	}
	(*at)[n] = r;
	return 0;
}

int workload_job(const char *text, struct fm_sim_record **at, size_t *n, struct fm_err *err)
{
	struct fm_sim_record r;
	char line[LINE];
	int rc;

	if (snprintf(line, sizeof(line), "%s", text) >= (int)sizeof(line))
		return fm_err_set(err, -EINVAL, "the value is too long");
	rc = one_line(line, &r, err);
	if (!rc)
		return fm_err_set(err, -EINVAL, "there is no value");
	rc = rc < 0 ? rc : append(at, *n, r, err);
	*n += !rc;
	return rc;
}

int workload_change(const char *text, struct fm_sim_change **at, size_t *n, struct fm_err *err)
{
	char line[LINE], *save, *time, *hint, *value;
	struct fm_sim_change c = {0}, *more;
	int rc;

	if (snprintf(line, sizeof(line), "%s", text) >= (int)sizeof(line))
		return fm_err_set(err, -EINVAL, "the value is too long");
	time = word_of(line, &save);
	hint = time ? word_of(NULL, &save) : NULL;
	value = hint ? strchr(hint, '=') : NULL;
	if (!value || word_of(NULL, &save)) {
		fm_err_set(err, -EINVAL, "this is no change of a hint");
		return fm_err_hint(err, "write TIME HINT=VALUE");
	}
	*value++ = '\0';
	rc = workload_time(time, &c.at, err);
	rc = rc ? rc : fm_parse_hint(hint, value, &c.hint, &c.value, err);
	if (rc)
		return rc;
	if (*n == WORKLOAD_CHANGES)
		return fm_err_set(err, -E2BIG, "more than %d changes", WORKLOAD_CHANGES);
	if (*n && c.at < (*at)[*n - 1].at)
		return fm_err_set(err, -EINVAL, "it is before the change in front of it");
	more = *n & (*n - 1) ? *at : realloc(*at, FM_MAX(2 * *n, (size_t)1) * sizeof(*more));
	if (!more)
		return fm_err_set(err, -ENOMEM, "out of memory");
	*at = more;
	more[(*n)++] = c;
	return 0;
}

/* A line without its end and without a comment. The last line may have no end. 0: no line; 1: a
 * line; or an error. */
static int next_line(FILE *f, char line[LINE], struct fm_err *err)
{
	bool comment = false, cr = false;
	size_t n = 0;
	int c;

	while ((c = getc(f)) != EOF && c != '\n') {
		if (!c)
			return fm_err_set(err, -EINVAL, "this is not text");
		/* If lines ended so, the first comment would swallow the rest. */
		if (cr && c != '\r')
			return fm_err_set(err, -EINVAL, "lines end with a carriage return alone");
		cr = c == '\r';
		comment |= c == '#' && (!n || strchr(BLANKS, line[n - 1]));
		if (cr || comment)
			continue;
		if (n + 1 == LINE)
			return fm_err_set(err, -EINVAL, "the line is too long");
		line[n++] = (char)c;
	}
	line[n] = '\0';
	if (c == EOF && ferror(f))
		return fm_err_set(err, -EIO, "cannot be read");
	return n || c != EOF;
}

int workload_trace(
	FILE *f, const char *file, struct fm_sim_record **out, size_t *n, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_sim_record *at = NULL;
	struct fm_err why = {0};
	struct fm_sim_record r;
	unsigned long number = 0;
	size_t records = 0;
	char line[LINE];
	int rc = 0;

	do {
		number++;
		rc = next_line(f, line, &why);
		if (rc <= 0)
			break;
		rc = one_line(line, &r, &why);
		if (rc > 0)
			rc = append(&at, records++, r, &why);
	} while (!rc);
	if (rc < 0) {
		fm_err_set(err, rc, "%.100s:%lu: %.120s", file, number, why.text);
		fm_err_hint(err,
			"each line is a time, and perhaps the job's length, commands and pause");
		return rc;
	}
	*out = fm_take_ptr(at);
	*n = records;
	return 0;
}
