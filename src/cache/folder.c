/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"
#include "base/cleanup.h"
#include "cache.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK ".lock"
/* Nobody writes a file for so long, in seconds. */
#define STALE 3600

/* Makes the last part of a path; what is above it has to be there. */
static int make(const char *path)
{
	return !mkdir(path, 0700) || errno == EEXIST ? 0 : -errno;
}

static int default_place(const char *name, char path[PATH_MAX])
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int n, rc = 0;

	if (base && *base == '/') {
		n = snprintf(path, PATH_MAX, "%s", base);
	} else {
		if (!home || *home != '/')
			return -ENOENT;
		n = snprintf(path, PATH_MAX, "%s/.cache", home);
	}
	if (n + 32 > PATH_MAX)
		return -ENAMETOOLONG;
	rc = make(path);
	strcat(path, "/fermata");
	if (!rc)
		rc = make(path);
	strcat(strcat(path, "/"), name);
	return rc;
}

int fm_cache_open_as(struct fm_cache *c, const char *dir, const char *name, uint64_t max)
{
	char path[PATH_MAX];
	struct stat st;
	int rc;

	*c = (struct fm_cache){.dir = -1, .max = max};
	rc = dir ? 0 : default_place(name, path);
	if (rc)
		return rc;
	dir = dir ? dir : path;
	rc = make(dir);
	if (rc)
		return rc;
	c->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (c->dir < 0)
		return -errno;
	if (fstat(c->dir, &st) || st.st_uid != geteuid() || (st.st_mode & 022)) {
		fm_cache_close(c);
		return -EPERM;
	}
	/* The first file that is written has the folder looked at. */
	c->unchecked = max;
	return 0;
}

void fm_cache_close(struct fm_cache *c)
{
	if (c->dir >= 0)
		close(c->dir);
	c->dir = -1;
}

struct kept {
	char name[FM_CACHE_NAME];
	struct timespec used;
	uint64_t size;
};

static int by_use(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

struct list {
	struct kept *file;
	size_t n, room;
	uint64_t total;
};

static void add(struct list *l, const char *name, const struct stat *st)
{
	struct kept *more;

	if (l->n == l->room) {
		more = realloc(l->file, (2 * l->room + 64) * sizeof(*more));
		if (!more)
			return;
		l->file = more;
		l->room = 2 * l->room + 64;
	}
	memcpy(l->file[l->n].name, name, FM_CACHE_NAME);
	l->file[l->n].used = st->st_mtim;
	l->file[l->n].size = (uint64_t)st->st_size;
	l->total += (uint64_t)st->st_size;
	l->n++;
}

static void look(int dir, DIR *d, struct list *l)
{
	time_t now = time(NULL);
	struct dirent *e;
	struct stat st;

	while ((e = readdir(d))) {
		if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		if (!strncmp(e->d_name, FM_CACHE_FRESH, strlen(FM_CACHE_FRESH))) {
			if (st.st_mtime < now - STALE)
				unlinkat(dir, e->d_name, 0);
		} else if (strlen(e->d_name) == FM_CACHE_NAME - 1) {
			add(l, e->d_name, &st);
		}
	}
}

void fm_cache_trim(int dir, uint64_t keep)
{
	FM_CLEAN_FD int lock =
		openat(dir, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	FM_CLEAN_DIR DIR *d = NULL;
	struct list l = {0};
	int again;

	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB))
		return;
	/* One of its own: the place in it is not to be shared with others. */
	again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = again < 0 ? NULL : fdopendir(again);
	if (!d) {
		if (again >= 0)
			close(again);
		return;
	}
	look(dir, d, &l);
	if (l.n)
		qsort(l.file, l.n, sizeof(*l.file), by_use);
	for (size_t i = 0; i < l.n && l.total > keep; i++)
		if (!unlinkat(dir, l.file[i].name, 0) || errno == ENOENT)
			l.total -= l.file[i].size;
	free(l.file);
}
