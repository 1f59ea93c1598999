/* SPDX-License-Identifier: Apache-2.0 */
#include "outfile.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROC_FD 32

/* A descriptor of ours by name, or -1: those names are links, which lead to nobody else's file. */
static int own_descriptor(const char *path)
{
	static const char *const folder[] = {"/dev/fd/", "/proc/self/fd/"};
	int64_t fd;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < FM_ARRAY_LEN(folder); i++)
		if (!strncmp(path, folder[i], strlen(folder[i])) &&
			!fm_parse_int(path + strlen(folder[i]), 0, INT32_MAX, &fd, NULL))
			return (int)fd;
	return -1;
}

static bool is_stream(mode_t mode)
{
	return S_ISCHR(mode) || S_ISFIFO(mode);
}

static int refuse_existing(const char *path, mode_t mode, bool force, struct fm_err *err)
{
	bool link = S_ISLNK(mode);

	if (!link && !S_ISREG(mode))
		return fm_err_set(err, -EINVAL, "%.150s is not a regular file", path);
	if (force)
		return 0;
	fm_err_set(err, -EEXIST, "%.150s is %s", path, link ? "a symbolic link" : "there already");
	return fm_err_hint(
		err, link ? "--force replaces the link, not its target" : "--force replaces it");
}

/* *stream: it is one, to be written to as it is. */
static int look(const char *path, bool force, bool *stream, struct fm_err *err)
{
	struct stat st;

	*stream = !strcmp(path, "-") || own_descriptor(path) >= 0;
	if (*stream || lstat(path, &st))
		return 0;
	*stream = is_stream(st.st_mode);
	return *stream ? 0 : refuse_existing(path, st.st_mode, force, err);
}

int outfile_check(const char *path, bool force, struct fm_err *err)
{
	bool stream;

	return look(path, force, &stream, err);
}

static int cannot_write(const char *path, int rc, struct fm_err *err)
{
	return fm_err_set(err, rc, "%.150s: cannot write: %s", path, strerror(-rc));
}

static int open_stream(const char *path)
{
	int own = own_descriptor(path), fd;
	struct stat st;

	if (own >= 0) {
		fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && is_stream(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/* The folder that the path is in; to be freed. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* A name is needed in the end, which /proc lends. */
static int open_unnamed(const char *path)
{
	FM_CLEAN_FREE char *folder = folder_of(path);
	int fd;

	if (!folder)
		return -ENOMEM;
	if (access("/proc/self/fd", X_OK))
		return -EOPNOTSUPP;
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	return fd < 0 ? -errno : fd;
}

static char *fresh_name(const char *path)
{
	char *name;

	return asprintf(&name, "%s.XXXXXX", path) < 0 ? NULL : name;
}

static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int open_fresh(const char *path, char **name)
{
	int fd, rc;

	*name = fresh_name(path);
	if (!*name)
		return -ENOMEM;
	fd = mkostemp(*name, O_CLOEXEC);
	if (fd >= 0 && !fchmod(fd, usual_mode()))
		return fd;
	rc = -errno;
	if (fd >= 0) {
		close(fd);
		unlink(*name);
	}
	free(fm_take_ptr(*name));
	return rc;
}

/* A descriptor, by the first way that there is. */
static int open_file(struct outfile *o, bool live)
{
	int fd;

	if (live) {
		fd = open(o->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		o->kind = OUTFILE_LIVE;
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	fd = open_unnamed(o->path);
	o->kind = OUTFILE_UNNAMED;
	if (fd >= 0)
		return fd;
	o->kind = OUTFILE_FRESH;
	return open_fresh(o->path, &o->fresh);
}

static int open_as(struct outfile *o, const char *path, bool force, bool live, struct fm_err *err)
{
	bool stream;
	int fd, rc = look(path, force, &stream, err);

	*o = (struct outfile){.path = path, .force = force};
	if (!rc && stream && !strcmp(path, "-")) {
		o->f = stdout;
		return 0;
	}
	if (rc) {
		o->path = NULL;
		return rc;
	}
	fd = stream ? open_stream(path) : open_file(o, live);
	o->f = fd < 0 ? NULL : fdopen(fd, stream ? "w" : "w+");
	if (o->f)
		return 0;
	rc = fd < 0 ? fd : -ENOMEM;
	if (fd >= 0)
		close(fd);
	outfile_drop(o);
	return cannot_write(path, rc, err);
}

int outfile_open(struct outfile *o, const char *path, bool force, struct fm_err *err)
{
	return open_as(o, path, force, false, err);
}

int outfile_open_live(struct outfile *o, const char *path, bool force, struct fm_err *err)
{
	return open_as(o, path, force, true, err);
}

/* A name beside `path` that is free, for a file that has none. */
static int give_name(struct outfile *o, const char *proc)
{
	int rc;

	for (int i = 0; i < 100; i++) {
		uint32_t random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		if (asprintf(&o->fresh, "%s.%08x", o->path, random) < 0) {
			o->fresh = NULL;
			return -ENOMEM;
		}
		if (!linkat(AT_FDCWD, proc, AT_FDCWD, o->fresh, AT_SYMLINK_FOLLOW))
			return 0;
		rc = -errno;
		free(fm_take_ptr(o->fresh));
		if (rc != -EEXIST)
			return rc;
	}
	return -EEXIST;
}

/* In place of nothing. A link is made where that can be done: of a rename it is not certain that
 * the file system can keep it from replacing. */
static int put_new(const struct outfile *o)
{
	if (!link(o->fresh, o->path)) {
		unlink(o->fresh);
		return 0;
	}
	if (errno == EEXIST)
		return -errno;
	return renameat2(AT_FDCWD, o->fresh, AT_FDCWD, o->path, RENAME_NOREPLACE) ? -errno : 0;
}

static int put_in_place(struct outfile *o)
{
	char proc[PROC_FD];
	int rc;

	if (o->kind == OUTFILE_STREAM || o->kind == OUTFILE_LIVE)
		return 0;
	if (o->kind == OUTFILE_UNNAMED) {
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fileno(o->f));
		if (!o->force)
			return linkat(AT_FDCWD, proc, AT_FDCWD, o->path, AT_SYMLINK_FOLLOW) ? -errno
											    : 0;
		rc = give_name(o, proc);
		if (rc)
			return rc;
	}
	if (o->force)
		return rename(o->fresh, o->path) ? -errno : 0;
	return put_new(o);
}

/* Only what is still this file. */
static void remove_live(const struct outfile *o)
{
	struct stat own, there;

	if (!fstat(fileno(o->f), &own) && !lstat(o->path, &there) && own.st_dev == there.st_dev &&
		own.st_ino == there.st_ino)
		unlink(o->path);
}

static void forget(struct outfile *o)
{
	if (o->f && o->f != stdout)
		fclose(o->f);
	free(o->fresh);
	*o = (struct outfile){0};
}

void outfile_drop(struct outfile *o)
{
	if (o->fresh)
		unlink(o->fresh);
	if (o->path && o->f && o->kind == OUTFILE_LIVE)
		remove_live(o);
	forget(o);
}

/* Some file systems say only then that there is no room for it. A live one stays in any case. */
static bool is_on_disk(const struct outfile *o)
{
	if (o->kind == OUTFILE_STREAM || o->kind == OUTFILE_LIVE || !fsync(fileno(o->f)))
		return true;
	return errno == EINVAL || errno == ENOSYS; /* it cannot be known there */
}

int outfile_close(struct outfile *o, bool good, struct fm_err *err)
{
	const char *path = o->path;
	int rc;

	errno = good ? 0 : errno;
	good = !fflush(o->f) && !ferror(o->f) && good && is_on_disk(o);
	rc = good ? put_in_place(o) : errno ? -errno : -EIO;
	if (rc) {
		outfile_drop(o);
		return cannot_write(path, rc, err);
	}
	if (o->f != stdout && fclose(o->f))
		rc = -errno;
	o->f = NULL;
	forget(o);
	return rc ? cannot_write(path, rc, err) : 0;
}

void outfile_keep(struct outfile *o)
{
	fflush(o->f);
	if (put_in_place(o))
		outfile_drop(o);
	else
		forget(o);
}

int outfile_scratch(const char *path, FILE **f, struct fm_err *err)
{
	FM_CLEAN_FREE char *name = NULL;
	int fd = open_unnamed(path), rc;

	if (fd < 0) {
		fd = open_fresh(path, &name);
		if (fd >= 0)
			unlink(name);
	}
	*f = fd < 0 ? NULL : fdopen(fd, "w+");
	if (*f)
		return 0;
	rc = fd < 0 ? fd : -ENOMEM;
	if (fd >= 0)
		close(fd);
	return cannot_write(path, rc, err);
}

bool outfile_same(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
