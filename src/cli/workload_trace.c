/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "workload.h"
#include <errno.h>
#include <string.h>

/* 0: an empty line. 1: a record. */
static int one_line(char *line, struct fm_sim_record *r, struct fm_err *err)
{
	char *save, *word = strtok_r(line, " \t\r\n", &save);
	int rc;

	*r = (struct fm_sim_record){0};
	if (!word || *word == '#')
		return 0;
	rc = workload_time(word, &r->at, err);
	word = rc ? NULL : strtok_r(NULL, " \t\r\n", &save);
	if (word && *word != '#') {
		rc = workload_time(word, &r->length, err);
		word = strtok_r(NULL, " \t\r\n", &save);
		if (!rc && word && *word != '#')
			rc = fm_err_set(err, -EINVAL, "more than a time and a length");
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

int workload_trace(
	FILE *f, const char *file, struct fm_sim_record **out, size_t *n, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_sim_record *at = NULL;
	FM_CLEAN_FREE char *line = NULL;
	struct fm_err why = {0};
	struct fm_sim_record r;
	unsigned long number = 0;
	size_t cap = 0, records = 0;
	int rc = 0;

	while (!rc && getline(&line, &cap, f) >= 0) {
		number++;
		rc = one_line(line, &r, &why);
		if (rc > 0)
			rc = append(&at, records++, r, &why);
	}
	if (!rc && ferror(f)) {
		number = 0;
		rc = fm_err_set(&why, -EIO, "cannot be read");
	}
	if (rc) {
		fm_err_set(err, rc, "%.100s:%lu: %.120s", file, number, why.text);
		fm_err_hint(err, "each line is a time, and perhaps the length of the job");
		return rc;
	}
	*out = fm_take_ptr(at);
	*n = records;
	return 0;
}
