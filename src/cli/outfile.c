/* SPDX-License-Identifier: Apache-2.0 */
#include "outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int outfile_check(const char *path, bool force, struct fm_err *err)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "%s is not a regular file", path);
	if (force)
		return 0;
	fm_err_set(err, -EEXIST, "%s is there already", path);
	return fm_err_hint(err, "--force replaces it");
}

static int cannot_write(const char *path, int rc, struct fm_err *err)
{
	return fm_err_set(err, rc, "%s: cannot write: %s", path, strerror(-rc));
}

int outfile_open(const char *path, char **fresh, FILE **f, struct fm_err *err)
{
	int fd, rc;

	if (asprintf(fresh, "%s.XXXXXX", path) < 0) {
		*fresh = NULL;
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	fd = mkostemp(*fresh, O_CLOEXEC);
	*f = fd < 0 ? NULL : fdopen(fd, "w+");
	if (*f)
		return 0;
	rc = -errno;
	if (fd >= 0) {
		close(fd);
		unlink(*fresh);
	}
	return cannot_write(path, rc, err);
}

static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int put_in_place(const char *path, const char *fresh, bool force)
{
	if (force)
		return rename(fresh, path) ? -errno : 0;
	if (link(fresh, path)) {
		if (errno == EEXIST || renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE))
			return -errno;
		return 0;
	}
	unlink(fresh);
	return 0;
}

int outfile_close(
	const char *path, const char *fresh, FILE *f, bool good, bool force, struct fm_err *err)
{
	int rc;

	errno = good ? 0 : errno;
	good = !fflush(f) && !ferror(f) && good && !fchmod(fileno(f), usual_mode());
	rc = good ? 0 : errno ? -errno : -EIO;
	if (fclose(f) && !rc)
		rc = -errno;
	rc = rc ? rc : put_in_place(path, fresh, force);
	if (!rc)
		return 0;
	unlink(fresh);
	return cannot_write(path, rc, err);
}

bool outfile_same(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
