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

static int read_root(const struct fm_json *j, struct fm_platform *out, const json_t *root)
{
	struct fm_platform p;
	int rc = read_version(j, root);

	if (!rc)
		rc = read_time(j, root, "epsilon_ns", 0, &p.epsilon);
	if (!rc)
		rc = read_time(j, root, "slice_ns", 1, &p.slice);
	if (!rc)
		rc = read_time(j, root, "theta_ns", 0, &p.theta);
	if (rc)
		return rc;
	if (p.epsilon == FM_PLATFORM_UNSET && p.slice == FM_PLATFORM_UNSET &&
		p.theta == FM_PLATFORM_UNSET)
		return fm_json_bad(j, NULL, "has neither epsilon_ns, slice_ns nor theta_ns");
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
