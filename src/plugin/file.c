/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are loaded. All checks are of descriptors, so nothing can be exchanged after them. */
#include "base/cleanup.h"
#include "plugin.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".so"

bool fm_plugin_name_ok(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");

	return len && !name[len] && len < FM_PLUGIN_NAME;
}

static int check_owner(int fd, mode_t type, const char *what, struct fm_err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return fm_err_set(err, -errno, "%s: %s", what, strerror(errno));
	if ((st.st_mode & S_IFMT) != type)
		return fm_err_set(err, -EINVAL, "%s is not a %s", what,
			type == S_IFDIR ? "folder" : "regular file");
	if (!(st.st_uid == 0 || st.st_uid == geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		fm_err_set(err, -EPERM, "%s can be written by other users", what);
		fm_err_hint(err, "it must belong to root or to user %u, mode 0755 or less",
			(unsigned)geteuid());
		return -EPERM;
	}
	return 0;
}

int fm_plugin_file(const char *folder, const char *name, struct fm_err *err)
{
	FM_CLEAN_FD int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FM_CLEAN_FD int file = -1;
	char what[FM_PLUGIN_NAME + sizeof(SUFFIX)];
	int rc;

	if (dir < 0)
		return fm_err_set(err, errno == ENOENT ? -EINVAL : -errno,
			"folder of policies %.120s: %s", folder, strerror(errno));
	rc = check_owner(dir, S_IFDIR, folder, err);
	if (rc)
		return rc;
	if (!fm_plugin_name_ok(name))
		return fm_err_set(err, -ENOENT, "there is no policy '%.40s'", name);
	snprintf(what, sizeof(what), "%s" SUFFIX, name);
	file = openat(dir, what, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return fm_err_set(err, -errno, "%s in %.120s: %s", what, folder,
			errno == ELOOP ? "a symbolic link is not followed" : strerror(errno));
	rc = check_owner(file, S_IFREG, what, err);
	return rc ? rc : fm_take_fd(&file);
}

void fm_plugin_each(const char *folder, void (*fn)(void *arg, const char *name), void *arg)
{
	FM_CLEAN_DIR DIR *dir = opendir(folder);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		size_t len = strlen(d->d_name);

		if (len <= strlen(SUFFIX) || strcmp(d->d_name + len - strlen(SUFFIX), SUFFIX))
			continue;
		d->d_name[len - strlen(SUFFIX)] = '\0';
		if (fm_plugin_name_ok(d->d_name))
			fn(arg, d->d_name);
	}
}
