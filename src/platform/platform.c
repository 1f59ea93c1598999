/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"
#include "base/cleanup.h"
#include "json/json.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SIZE_LIMIT (1024 * 1024)

static int read_version(const struct fm_json *j, const json_t *root)
{
	const json_t *version = json_object_get(root, "fermata_platform");

	if (!json_is_integer(version))
		return fm_json_bad(j, "fermata_platform",
			version ? "is not a number" : "is missing: this is not a platform file");
	if (json_integer_value(version) != FM_PLATFORM_VERSION)
		return fm_json_bad(j, "fermata_platform", "is not 1, the version known here");
	return 0;
}

/* null, or nothing at all: it was not measured. */
static int read_time(
	const struct fm_json *j, const json_t *root, const char *key, int64_t min, int64_t *ns)
{
	const json_t *value = json_object_get(root, key);

	*ns = FM_PLATFORM_UNSET;
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value))
		return fm_json_bad(j, key, "is not a whole number of nanoseconds");
	if (json_integer_value(value) < min)
		return fm_json_bad(j, key, min ? "is not above 0" : "is negative");
	if (json_integer_value(value) > FM_PLATFORM_MAX)
		return fm_json_bad(j, key, "is more than an hour");
	*ns = json_integer_value(value);
	return 0;
}

/* --- sets of tasks --- */

static const char *const engines[FM_PLATFORM_ENGINES] = {"cpu", "gates", "graphs"};

const char *fm_platform_engine_name(unsigned engine)
{
	return engine < FM_PLATFORM_ENGINES ? engines[engine] : NULL;
}

int fm_platform_engine_find(const char *name, enum fm_platform_engine_id *engine)
{
	for (unsigned k = 0; k < FM_PLATFORM_ENGINES; k++) {
		if (strcmp(name, engines[k]))
			continue;
		*engine = (enum fm_platform_engine_id)k;
		return 0;
	}
	return -ENOENT;
}

const struct fm_platform_row *fm_platform_row(const struct fm_platform_engine *e, size_t tasks)
{
	for (unsigned k = 0; k < e->rows; k++)
		if ((size_t)e->row[k].tasks >= tasks)
			return &e->row[k];
	return NULL;
}

static int read_row(
	const struct fm_json *j, const json_t *from, int64_t more_than, struct fm_platform_row *row)
{
	int rc = fm_json_object(j, from, NULL);

	if (!rc)
		rc = fm_json_whole(j, from, "tasks", 1, FM_PLATFORM_TASKS_MAX, true, &row->tasks);
	if (!rc && row->tasks <= more_than)
		rc = fm_json_bad(j, "tasks", "is not more than that before it");
	if (!rc)
		rc = read_time(j, from, "decision_ns", 0, &row->decision);
	if (!rc && row->decision == FM_PLATFORM_UNSET)
		rc = fm_json_bad(j, "decision_ns", "is missing");
	if (!rc)
		rc = read_time(j, from, "start_ns", 0, &row->start);
	if (!rc && row->start == FM_PLATFORM_UNSET)
		rc = fm_json_bad(j, "start_ns", "is missing");
	return rc;
}

static int read_rows(
	struct fm_json *j, const json_t *rows, const char *name, struct fm_platform_engine *e)
{
	json_t *row;
	size_t k;
	int rc = 0;

	if (!json_is_array(rows) || !json_array_size(rows))
		return fm_json_bad(j, "rows", "is no array, or empty");
	if (json_array_size(rows) > FM_PLATFORM_ROWS)
		return fm_json_bad(j, "rows", "are %zu, more than %d", json_array_size(rows),
			FM_PLATFORM_ROWS);
	json_array_foreach (rows, k, row) {
		fm_json_at(j, "gpu_sched.engines.%s.rows[%zu]", name, k);
		rc = read_row(j, row, k ? e->row[k - 1].tasks : 0, &e->row[k]);
		if (rc)
			return rc;
		e->rows++;
	}
	return 0;
}

static int read_engine(
	struct fm_json *j, const json_t *from, const char *name, struct fm_platform_engine *e)
{
	const json_t *rows, *skipped;
	int rc;

	fm_json_at(j, "gpu_sched.engines.%s", name);
	rc = fm_json_object(j, from, NULL);
	if (rc)
		return rc;
	rows = json_object_get(from, "rows");
	skipped = json_object_get(from, "skipped");
	if (skipped && !json_is_string(skipped))
		return fm_json_bad(j, "skipped", "is not a string");
	if (!skipped == !rows)
		return fm_json_bad(j, NULL, "has neither rows nor skipped, or both");
	snprintf(e->skipped, sizeof(e->skipped), "%s", skipped ? json_string_value(skipped) : "");
	return rows ? read_rows(j, rows, name, e) : 0;
}

/* An engine that is not known here is ignored, like any member. */
static int read_sets(struct fm_json *j, const json_t *from, struct fm_platform *p)
{
	const json_t *list, *engine;
	int64_t version = 0;
	int rc;

	if (!from || json_is_null(from))
		return 0;
	fm_json_at(j, "gpu_sched");
	rc = fm_json_object(j, from, NULL);
	if (!rc)
		rc = fm_json_whole(j, from, "version", INT64_MIN, INT64_MAX, true, &version);
	if (!rc && version != FM_PLATFORM_SETS_VERSION)
		rc = fm_json_bad(j, "version", "is not 1, the version known here");
	if (rc)
		return rc;
	list = json_object_get(from, "engines");
	if (!json_is_object(list))
		return fm_json_bad(j, "engines", "is missing or not an object");
	for (unsigned k = 0; !rc && k < FM_PLATFORM_ENGINES; k++) {
		engine = json_object_get(list, engines[k]);
		rc = engine ? read_engine(j, engine, engines[k], &p->engine[k]) : 0;
	}
	p->has_sets = true;
	fm_json_at(j, "%s", "");
	return rc;
}

static bool has_rows(const struct fm_platform *p)
{
	for (unsigned k = 0; k < FM_PLATFORM_ENGINES; k++)
		if (p->engine[k].rows)
			return true;
	return false;
}

static int read_root(struct fm_json *j, struct fm_platform *out, const json_t *root)
{
	struct fm_platform p;
	int rc = read_version(j, root);

	memset(&p, 0, sizeof(p));

	if (!rc)
		rc = read_time(j, root, "epsilon_ns", 0, &p.epsilon);
	if (!rc)
		rc = read_time(j, root, "slice_ns", 1, &p.slice);
	if (!rc)
		rc = read_time(j, root, "theta_ns", 0, &p.theta);
	if (!rc)
		rc = read_sets(j, json_object_get(root, "gpu_sched"), &p);
	if (rc)
		return rc;
	if (p.epsilon == FM_PLATFORM_UNSET && p.slice == FM_PLATFORM_UNSET &&
		p.theta == FM_PLATFORM_UNSET && !has_rows(&p))
		return fm_json_bad(j, NULL,
			"has neither epsilon_ns, slice_ns nor theta_ns, and no measured engine of "
			"gpu_sched");
	*out = p;
	return 0;
}

static struct fm_json place(const char *file, struct fm_err *err)
{
	return (struct fm_json){.file = file,
		.hint = "`fermata calibrate -o FILE' writes such a file; "
			"fermata-calibrate(1) describes it",
		.err = err};
}

int fm_platform_parse(
	struct fm_platform *p, const char *name, const char *text, size_t size, struct fm_err *err)
{
	struct fm_json j = place(name, err);
	json_t *root;
	int rc = fm_json_parse(&j, text, size, &root);

	rc = rc ? rc : read_root(&j, p, root);
	json_decref(root);
	return rc;
}

/* The name is looked at before it is opened: opening a device may do something. */
static int open_plain(const char *file, size_t *size)
{
	FM_CLEAN_FD int fd = -1;
	struct stat st;

	if (stat(file, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > SIZE_LIMIT)
		return -EFBIG;
	*size = (size_t)st.st_size;
	return fm_take_fd(&fd);
}

int fm_platform_load(struct fm_platform *p, const char *file, struct fm_err *err)
{
	const struct fm_json j = place(file, err);
	FM_CLEAN_FREE char *text = NULL;
	FM_CLEAN_FD int fd = -1;
	size_t size = 0, got = 0;
	ssize_t n = 1;

	fd = open_plain(file, &size);
	if (fd < 0 && fd != -EINVAL)
		return fm_err_set(err, fd, "%.120s: cannot be read: %s", file, strerror(-fd));
	if (fd < 0)
		return fm_json_bad(&j, NULL, "is not a plain file");
	text = malloc(size + 1);
	if (!text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	while (n > 0 && got < size) {
		n = read(fd, text + got, size - got);
		got += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return fm_err_set(err, -errno, "%.120s: cannot be read: %m", file);
	return fm_platform_parse(p, file, text, got, err);
}
