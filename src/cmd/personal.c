/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/runtime_dir.h"
#include "ctl.h"
#include "place.h"
#include "table.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IDLE_EXIT_S "60"
#define START_NS    (2 * FM_S)
#define POLL_NS     (10 * FM_MS)
#define LOG_MAX     (1 << 20)

/* A directory of ours that nobody else can write to. -ENOENT, or -EPERM. */
static int ours(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st))
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : -EPERM;
}

int personal_dir(char dir[CTL_PATH])
{
	const char *run = fm_runtime_dir();
	unsigned uid = geteuid();
	char user[32];
	int n, rc;

	snprintf(user, sizeof(user), "/run/user/%u", uid);
	if (!run)
		run = ours(user) ? NULL : user;
	if (run)
		n = snprintf(dir, CTL_PATH, "%s/fermata", run);
	else
		n = snprintf(dir, CTL_PATH, "/tmp/fermata-%u", uid);
	if (n < 0 || n >= CTL_PATH)
		return -ENAMETOOLONG;
	rc = ours(dir);
	return rc == -ENOENT ? 0 : rc;
}

static int make_dir(const char *dir, struct fm_err *err)
{
	int rc;

	if (mkdir(dir, 0700) && errno != EEXIST) {
		rc = fm_err_set(err, -errno, "cannot create %s: %m", dir);
		fm_err_hint(err, "set XDG_RUNTIME_DIR to a directory of yours with mode 0700");
		return rc;
	}
	rc = ours(dir);
	if (rc) {
		fm_err_set(err, rc, "%s is not a directory that you alone can write to", dir);
		fm_err_hint(err, "`ls -ld %s' shows whose it is; have it removed", dir);
	}
	return rc;
}

static int open_log(const char *dir)
{
	char path[CTL_PATH + 16];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/fermatad.log", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && !fstat(fd, &st) && st.st_size > LOG_MAX && ftruncate(fd, 0))
		fprintf(stderr, "%s: cannot empty %s\n", cli_name(), path);
	return fd;
}

/* Descriptors that this process inherited must not live on in the daemon: whoever reads from a pipe
 * of the caller's would wait for its end as long as the daemon runs. */
static void close_on_exec(void)
{
	FM_CLEAN_DIR DIR *fds = opendir("/proc/self/fd");
	struct dirent *e;

	while (fds && (e = readdir(fds))) {
		int fd = atoi(e->d_name);

		if (fd > STDERR_FILENO)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
}

/* In the grandchild. Returns the errno of what failed. */
static int become_daemon(const char *dir, int log)
{
	static const char *const service[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
		"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"};
	char path[PATH_MAX];
	char *argv[] = {"fermatad", "--dir", (char *)dir, "--idle-exit", IDLE_EXIT_S, NULL};
	FM_CLEAN_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	for (size_t i = 0; i < sizeof(service) / sizeof(service[0]); i++)
		unsetenv(service[i]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	place_daemon(path);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
		dup2(log, STDERR_FILENO) < 0 || chdir("/"))
		return errno;
	umask(077);
	close_on_exec();
	execvp(path, argv);
	return errno;
}

/* Twice forked, so that the daemon is nobody's child whom the user's program might wait for.
 * Returns 0 once it has executed. */
static int launch(const char *dir, int log)
{
	FM_CLEAN_FD int read_end = -1;
	FM_CLEAN_FD int write_end = -1;
	int fds[2], failure = 0, status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	read_end = fds[0];
	write_end = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		if (setsid() < 0 || (pid = fork()) != 0)
			_exit(pid < 0);
		failure = become_daemon(dir, log);
		_exit(write(write_end, &failure, sizeof(failure)) < 0);
	}
	close(fm_take_fd(&write_end));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (read(read_end, &failure, sizeof(failure)) != sizeof(failure))
		failure = 0;
	return -failure;
}

static int await_answer(const char *dir)
{
	struct timespec pause = fm_timespec(POLL_NS);
	uint64_t end = fm_now() + START_NS, now;
	int rc = -ETIMEDOUT;

	while ((now = fm_now()) < end) {
		CLI_CLEAN_JSON json_t *reply = NULL;
		unsigned wait_ms = (unsigned)((end - now) / FM_MS) + 1;

		rc = ctl_call_at(dir, json_pack("{s:s}", "cmd", "version"), wait_ms, &reply, NULL);
		if (!rc)
			return 0;
		nanosleep(&pause, NULL);
	}
	return rc;
}

/* The last line of what was logged from `start` on, if any: the daemon's own words. */
static void last_words(const char *dir, off_t start, char *text, size_t size)
{
	char path[CTL_PATH + 16];
	FM_CLEAN_FD int fd = -1;
	char *line;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/fermatad.log", dir);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	n = fd < 0 ? -1 : pread(fd, text, size - 1, start);
	text[n > 0 ? n : 0] = '\0';
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	if (line)
		memmove(text, line + 1, strlen(line));
	table_clean(text);
}

/* No lock of our own: of several daemons started at once, all but one find the daemon's lock taken
 * and leave; whoever started them then reaches the one that stayed. */
int personal_start(const char *dir, struct fm_err *err)
{
	FM_CLEAN_FD int log = -1;
	char words[160];
	off_t start;
	int rc = make_dir(dir, err);

	if (rc)
		return rc;
	log = open_log(dir);
	if (log < 0) {
		fm_err_set(err, -errno, "cannot write %s/fermatad.log: %m", dir);
		return fm_err_hint(err, "make room there, or remove the file");
	}
	start = lseek(log, 0, SEEK_END);
	rc = launch(dir, log);
	if (rc) {
		fm_err_set(err, rc, "cannot execute fermatad: %s", strerror(-rc));
		return fm_err_hint(err, "install it beside fermata, or in a directory of $PATH");
	}
	rc = await_answer(dir);
	if (rc) {
		last_words(dir, start, words, sizeof(words));
		fm_err_set(err, rc, "the daemon started in %s does not answer%s%s", dir,
			*words ? ": " : "", words);
		return fm_err_hint(err, "%s/fermatad.log may say more", dir);
	}
	return 0;
}
