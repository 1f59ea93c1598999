/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"
#include "base/cleanup.h"
#include "base/runtime_dir.h"
#include "cli.h"
#include "inject.h"
#include "place.h"
#include "preload.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "fermata-attach"
#define NAMES  "FERMATA_PROFILE"
#define DIR_IN NAMES   /* FM_PROFILE_DIR of profile/profile.h */
#define TAKEN  "taken" /* in the folder of the records: the process's number */
#define MOST   16384   /* bytes of a request */

static const struct preload agent = {
	.file = "libfermata-profile.so", .name = "CUDA", .variable = "FERMATA_PROFILE_AGENT"};

/* NULL: there is none that nobody else can write to. */
static char *path_of(const char *group, bool make)
{
	const char *dir = fm_runtime_dir();
	FM_CLEAN_FREE char *folder = NULL;
	char *path;

	if (!dir || asprintf(&folder, "%s/" FOLDER, dir) < 0)
		return NULL;
	if (make && mkdir(folder, 0700) && errno != EEXIST)
		return NULL;
	return asprintf(&path, "%s/next-%s", folder, group) < 0 ? NULL : path;
}

static int no_folder(struct fm_err *err)
{
	fm_err_set(err, -ENOENT, "there is no folder for a request to `fermata run'");
	return fm_err_hint(err, "set XDG_RUNTIME_DIR to a directory that you alone can enter, the "
				"same for both");
}

int attach_ask(const char *group, const char *const *names, struct fm_err *err)
{
	FM_CLEAN_FREE char *path = path_of(group, true);
	FM_CLEAN_FREE char *ready = NULL;
	FILE *f;
	int fd, rc;

	if (!path || asprintf(&ready, "%s.%d", path, (int)getpid()) < 0)
		return no_folder(err);
	fd = open(ready, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return fm_err_set(err, -errno, "cannot write %.200s: %m", ready);
	for (; *names; names++)
		fprintf(f, "%s=%s\n", *names, getenv(*names) ?: "");
	rc = ferror(f) | fclose(f) ? -EIO : 0;
	if (!rc && link(ready, path)) /* whole from the first moment on */
		rc = -errno;
	unlink(ready);
	if (rc != -EEXIST)
		return rc ? fm_err_set(err, rc, "cannot write %.200s: %s", path, strerror(-rc)) : 0;
	fm_err_set(err, rc, "somebody waits for the next process of '%s' already", group);
	return fm_err_hint(err, "if nobody does, remove %.200s", path);
}

bool attach_withdraw(const char *group)
{
	FM_CLEAN_FREE char *path = path_of(group, false);

	return path && !unlink(path);
}

bool attach_waits(const char *group)
{
	FM_CLEAN_FREE char *path = path_of(group, false);

	return path && !access(path, F_OK);
}

pid_t attach_taken(const char *dir)
{
	FM_CLEAN_FREE char *path = NULL;
	char text[16] = "";
	FILE *f;

	if (asprintf(&path, "%s/" TAKEN, dir) < 0 || !(f = fopen(path, "re")))
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	return strchr(text, '\n') ? atoi(text) : 0;
}

/* --- the process --- */

static int set_variables(char *text, struct fm_err *err)
{
	char *rest = NULL;
	int rc = 0;

	for (char *line = strtok_r(text, "\n", &rest); line && !rc;
		line = strtok_r(NULL, "\n", &rest)) {
		char *equals = strchr(line, '=');

		if (!equals || strncmp(line, NAMES, strlen(NAMES)) != 0)
			return fm_err_set(err, -EINVAL, "the request makes no sense");
		*equals = 0;
		rc = inject_set(line, equals + 1, err);
	}
	return rc;
}

static int say_taken(struct fm_err *err)
{
	const char *dir = getenv(DIR_IN);
	FM_CLEAN_FREE char *path = NULL;
	struct stat st;
	int fd, n;

	/* It may have been left behind, and another user have a folder of that name. */
	if (dir && (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()))
		return fm_err_set(err, -ENOENT, "whoever asked for that is gone");
	if (!dir || asprintf(&path, "%s/" TAKEN, dir) < 0)
		return fm_err_set(err, -EINVAL, "the request makes no sense");
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	n = fd < 0 ? -1 : dprintf(fd, "%d\n", (int)getpid());
	if (fd >= 0)
		close(fd);
	return n < 0 ? fm_err_set(err, -errno, "whoever asked for that is gone") : 0;
}

static int take(int fd, struct fm_err *err)
{
	char text[MOST], path[PATH_MAX], self[PATH_MAX];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	struct stat st;
	int rc;

	if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 022) || n <= 0)
		return fm_err_set(err, -EPERM, "the request is not this user's");
	text[n] = 0;
	if (!place_file(agent.file, path, self))
		return fm_err_set(err, -ENOENT, "cannot find %s near %s", agent.file, self);
	rc = set_variables(text, err);
	rc = rc ? rc : preload_inject(&agent, true, err);
	return rc ? rc : say_taken(err);
}

void attach_take(const char *group)
{
	FM_CLEAN_FREE char *path = path_of(group, false);
	FM_CLEAN_FREE char *mine = NULL;
	struct fm_err err = {0};
	int fd;

	if (!path || asprintf(&mine, "%s.%d", path, (int)getpid()) < 0 || rename(path, mine))
		return;
	fd = open(mine, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	unlink(mine);
	if (fd < 0)
		return;
	if (take(fd, &err)) {
		unsetenv(DIR_IN);
		cli_report(&err);
	}
	close(fd);
}
