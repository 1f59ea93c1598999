/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of users and groups by name. /etc/passwd and /etc/group are read here. A child asks other
 * directories, for two reasons: they may take seconds, in which the daemon would not schedule, and
 * their C library modules would stay in the daemon's memory for good.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define PATIENCE_MS 5000

static bool in_passwd(const char *name, uint32_t *id)
{
	FM_CLEAN_FILE FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	while (f && (pw = fgetpwent(f)))
		if (!strcmp(pw->pw_name, name)) {
			*id = pw->pw_uid;
			return true;
		}
	return false;
}

static bool in_group(const char *name, uint32_t *id)
{
	FM_CLEAN_FILE FILE *f = fopen("/etc/group", "re");
	const struct group *gr;

	while (f && (gr = fgetgrent(f)))
		if (!strcmp(gr->gr_name, name)) {
			*id = gr->gr_gid;
			return true;
		}
	return false;
}

/* Runs in the child. Writes the number to the pipe, or nothing if it is not known. */
static void answer(const char *name, bool group, int pipe)
{
	const struct passwd *pw = group ? NULL : getpwnam(name);
	const struct group *gr = group ? getgrnam(name) : NULL;
	uint32_t id = pw ? pw->pw_uid : gr ? gr->gr_gid : 0;

	_exit((pw || gr) && write(pipe, &id, sizeof(id)) != sizeof(id));
}

static bool heard(int pipe, uint32_t *id)
{
	uint64_t end = fm_now() + PATIENCE_MS * FM_MS, now;
	struct pollfd p = {.fd = pipe, .events = POLLIN};
	int rc = -1;

	while (rc < 0 && (now = fm_now()) < end) {
		rc = poll(&p, 1, (int)((end - now) / FM_MS) + 1);
		if (rc < 0 && errno != EINTR)
			break;
	}
	return rc > 0 && read(pipe, id, sizeof(*id)) == sizeof(*id);
}

static bool by_child(const char *name, bool group, uint32_t *id)
{
	int pipes[2];
	bool found;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid)
		answer(name, group, pipes[1]);
	close(pipes[1]);
	found = pid > 0 && heard(pipes[0], id);
	close(pipes[0]);
	if (pid <= 0)
		return false;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return found;
}

bool lookup_id(const char *name, bool group, uint32_t *id)
{
	return (group ? in_group : in_passwd)(name, id) || by_child(name, group, id);
}
