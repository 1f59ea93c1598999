/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* FM_LIB_FROM_BIN: from the directory of programs to that of libraries, as installed. */
static const char *const lib_dirs[] = {"../lib", FM_LIB_FROM_BIN};

static int self_dir(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return -errno;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* base is "" or absolute and ends without '/'. */
static bool file_in(const char *base, const char *dir, const char *file, char path[PATH_MAX])
{
	char tried[PATH_MAX];
	const char *sep = *base && *dir != '/' ? "/" : "";
	int n = snprintf(tried, sizeof(tried), "%s%s%s/%s", *sep ? base : "", sep, dir, file);

	return n > 0 && (size_t)n < sizeof(tried) && realpath(tried, path) && !access(path, R_OK);
}

bool place_file(const char *file, char path[PATH_MAX], char self[PATH_MAX])
{
	const char *given = secure_getenv("FERMATA_LIBDIR");
	bool found = given && *given && file_in("", given, file, path);

	self[0] = '\0';
	if (!found && !self_dir(self))
		for (unsigned i = 0; !found && i < sizeof(lib_dirs) / sizeof(lib_dirs[0]); i++)
			found = file_in(self, lib_dirs[i], file, path);
	return found;
}

bool place_library(char path[PATH_MAX])
{
	char self[PATH_MAX];

	return place_file(PLACE_LIBRARY_FILE, path, self);
}

int place_program(const char *name, char path[PATH_MAX], struct fm_err *err)
{
	char dir[PATH_MAX];
	int rc = self_dir(dir), n;

	if (rc) {
		fm_err_set(err, rc, "cannot find %s: /proc/self/exe: %s", name, strerror(-rc));
		return fm_err_hint(err, "mount /proc, or run %s itself", name);
	}
	n = snprintf(path, PATH_MAX, "%s/%s", dir, name);
	if (n > 0 && n < PATH_MAX && !access(path, F_OK))
		return 0;
	fm_err_set(err, -ENOENT, "%s is not in %s, where it belongs", name, dir);
	return fm_err_hint(err, "install it again: all programs of Fermata lie in one directory");
}

void place_daemon(char path[PATH_MAX])
{
	size_t len;

	if (!self_dir(path)) {
		len = strlen(path);
		snprintf(path + len, PATH_MAX - len, "/fermatad");
		if (!access(path, X_OK))
			return;
	}
	strcpy(path, "fermatad");
}
