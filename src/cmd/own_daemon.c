/* SPDX-License-Identifier: Apache-2.0 */
#include "own_daemon.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "place.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define POLL_NS (1 * FM_MS)
#define STOP_NS (10 * FM_S)
#define DIR_MAX (CTL_PATH - 16) /* the names of its sockets follow */

static const struct timespec poll_pause = {.tv_nsec = POLL_NS};

static void exec_daemon(const char *dir, const char *policy, const char *config)
{
	char path[PATH_MAX];
	char *argv[] = {"fermatad", "--dir", (char *)dir, "--policy", (char *)policy, "--config",
		(char *)(config ? config : "/dev/null"), NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	place_daemon(path);
	unsetenv("NOTIFY_SOCKET");
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0)
		_exit(CLI_FAILED);
	execvp(path, argv);
	_exit(CLI_CANNOT_EXECUTE);
}

static int did_not_start(const char *config, struct fm_err *err)
{
	fm_err_set(err, -ENOENT, "the daemon for this measurement did not start");
	if (!config)
		return fm_err_hint(err, "start `fermatad' by hand: it says why");
	return fm_err_hint(
		err, "`fermatad --check-config %.150s' tells what is wrong with it", config);
}

static int await_daemon(struct own_daemon *d, const char *config, struct fm_err *err)
{
	uint64_t end = fm_now() + STOP_NS;

	while (fm_now() < end) {
		CLI_CLEAN_JSON json_t *reply = NULL;

		if (!ctl_call_at(d->dir, json_pack("{s:s}", "cmd", "version"), 1000, &reply, NULL))
			return 0;
		if (waitpid(d->pid, NULL, WNOHANG) == d->pid) {
			d->pid = 0;
			return did_not_start(config, err);
		}
		nanosleep(&poll_pause, NULL);
	}
	return fm_err_set(err, -ETIMEDOUT, "the daemon for this measurement does not answer");
}

static const char *write_realtime(const struct own_daemon *d, char *path, size_t size)
{
	FM_CLEAN_FILE FILE *f = NULL;

	snprintf(path, size, "%s/calibrate.conf", d->dir);
	f = fopen(path, "we");
	if (f)
		fputs("[daemon]\nrealtime = yes\n", f);
	return f ? path : NULL;
}

int own_daemon_start(struct own_daemon *d, const char *policy, const char *config, bool realtime,
	struct fm_err *err)
{
	const char *tmp = secure_getenv("TMPDIR"), *settings = config;
	char dir[DIR_MAX], path[CTL_PATH + 32];

	*d = (struct own_daemon){0};
	snprintf(dir, sizeof(dir), "%s/fermata-calibrate-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return fm_err_set(err, -EIO, "no directory can be made for a daemon: %m");
	strcpy(d->dir, dir);
	d->own = true;
	if (realtime && !config)
		settings = write_realtime(d, path, sizeof(path));
	fflush(stdout);
	d->pid = fork();
	if (d->pid < 0) {
		d->pid = 0;
		return fm_err_set(err, -errno, "cannot start a process: %m");
	}
	if (!d->pid)
		exec_daemon(d->dir, policy, settings);
	return await_daemon(d, config, err);
}

static void remove_dir(const char *dir)
{
	FM_CLEAN_DIR DIR *files = opendir(dir);
	struct dirent *e;

	while (files && (e = readdir(files)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(files), e->d_name, 0);
	rmdir(dir);
}

void own_daemon_end(struct own_daemon *d)
{
	uint64_t end = fm_now() + STOP_NS;
	pid_t ended = 0;

	if (!d->own)
		return;
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		while (!(ended = waitpid(d->pid, NULL, WNOHANG)) && fm_now() < end)
			nanosleep(&poll_pause, NULL);
		if (!ended) {
			kill(d->pid, SIGKILL);
			waitpid(d->pid, NULL, 0);
		}
	}
	remove_dir(d->dir);
	*d = (struct own_daemon){0};
}
