/* SPDX-License-Identifier: Apache-2.0 */
/* The program that is profiled: what it is given, and its end. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "cmd/inject.h"
#include "cmd/place.h"
#include "cmd/preload.h"
#include "cmd/progress.h"
#include "profile.h"
#include "profile_rooms.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SANITIZER "libsanitizer-public.so"

/* --- the toolkit --- */

static bool is_there(char path[PATH_MAX], const char *dir, const char *below)
{
	return (size_t)snprintf(path, PATH_MAX, "%s%s/" SANITIZER, dir, below) < PATH_MAX &&
	       *path == '/' && !access(path, R_OK);
}

/* The newest toolkit of several comes last in the order of their names. */
static bool in_folders(char path[PATH_MAX], const char *pattern)
{
	glob_t found;
	bool is = false;

	if (glob(pattern, 0, NULL, &found))
		return false;
	for (size_t i = found.gl_pathc; i-- && !is;)
		is = is_there(path, found.gl_pathv[i], "/compute-sanitizer") ||
		     is_there(path, found.gl_pathv[i], "/extras/compute-sanitizer") ||
		     is_there(path, found.gl_pathv[i], "");
	globfree(&found);
	return is;
}

static bool find_sanitizer(char path[PATH_MAX])
{
	static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
	static const char *const folders[] = {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda",
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		"/usr/lib/nvidia-cuda-toolkit"};
	const char *given = getenv(FM_PROFILE_SANITIZER);

	if (given && *given)
		return *given == '/' && strlen(given) < PATH_MAX && strcpy(path, given) &&
		       !access(path, R_OK);
	for (size_t i = 0; i < FM_ARRAY_LEN(variables); i++) {
		const char *dir = getenv(variables[i]);

		if (dir && *dir == '/' && is_there(path, dir, "/compute-sanitizer"))
			return true;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(folders); i++)
		if (in_folders(path, folders[i]))
			return true;
	return false;
}

/* --- the environment --- */

int profile_set_sources(const struct profile_options *o, struct fm_err *err)
{
	char path[PATH_MAX], names[64] = "";
	bool found = find_sanitizer(path);

	if (o->by == 1u << FM_SOURCE_SANITIZER && !found) {
		fm_err_set(err, -ENOENT, "no CUDA toolkit with the Compute Sanitizer was found");
		return fm_err_hint(err, "install it (package cuda-sanitizer), name its folder in "
					"CUDA_HOME, or its " SANITIZER " in " FM_PROFILE_SANITIZER
					"; or use --by marks or --by hash");
	}
	for (unsigned i = 0; i < FM_SOURCES; i++)
		if (o->by & 1u << i)
			sprintf(names + strlen(names), "%s%s", *names ? "," : "",
				fm_source_name(i));
	return inject_set(FM_PROFILE_BY, names, err) ? -1
	       : inject_set(FM_PROFILE_CHECK, o->check ? "1" : "0", err)
		       ? -1
		       : inject_set(FM_PROFILE_SANITIZER, found ? path : "", err);
}

int profile_preload(const struct preload *agent, struct fm_err *err)
{
	char path[PATH_MAX], self[PATH_MAX];

	if (!place_file(agent->file, path, self)) {
		fm_err_set(err, -ENOENT, "cannot find %s near %s", agent->file, self);
		return fm_err_hint(err,
			"install it beside Fermata's other libraries, or set FERMATA_LIBDIR to "
			"their directory");
	}
	if (strpbrk(path, ": ")) {
		fm_err_set(err, -EINVAL, "the path of the agent is %s", path);
		return fm_err_hint(err, "LD_PRELOAD is a list separated by ':' and spaces; install "
					"elsewhere");
	}
	return preload_inject(agent, true, err);
}

/* --- the program --- */

static volatile sig_atomic_t child;

static void pass_on(int sig)
{
	if (child > 0)
		kill(child, sig);
}

static void set_signals(void)
{
	struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	/* Of the keyboard: the program has them, too. */
	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGQUIT, &ignore, NULL);
	sigaction(SIGTERM, &pass, NULL);
	sigaction(SIGHUP, &pass, NULL);
}

static uint64_t bytes_in(const char *dir)
{
	FM_CLEAN_DIR DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	uint64_t bytes = 0;

	while (d && (e = readdir(d)))
		if (*e->d_name != '.' && !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			bytes += (uint64_t)st.st_size;
	return bytes;
}

static int wait_for(pid_t pid, const char *dir)
{
	const struct timespec second = {1, 0};
	uint64_t begun = fm_now();
	siginfo_t over = {0};
	int status = 0;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	/* It keeps its number until no signal is passed on to it any more. */
	while (waitid(P_PID, (id_t)pid, &over,
		       WEXITED | WNOWAIT | (progress_seen() ? WNOHANG : 0)) ||
		!over.si_pid) {
		if (!progress_seen())
			continue;
		progress_show("%s: %.0f s, %.1f MiB of records", cli_name(),
			(double)(fm_now() - begun) / 1e9, (double)bytes_in(dir) / 1048576);
		sigtimedwait(&chld, NULL, &second);
	}
	child = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	progress_clear();
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void become(char **command, const sigset_t *mask, int tell)
{
	int rc;

	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	rc = errno;
	_exit(write(tell, &rc, sizeof(rc)) == sizeof(rc) ? 127 : 126);
}

/* 0, and it runs; or the errno of execvp(). */
static int start(char **command, pid_t *pid, struct fm_err *err)
{
	FM_CLEAN_FD int read_end = -1;
	int fds[2], rc = 0;
	sigset_t chld, mask;

	if (pipe2(fds, O_CLOEXEC))
		return fm_err_set(err, -errno, "cannot make a pipe: %m");
	read_end = fds[0];
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &mask);
	set_signals();
	*pid = fork();
	if (!*pid)
		become(command, &mask, fds[1]);
	close(fds[1]);
	if (*pid < 0)
		return fm_err_set(err, -errno, "cannot start a process: %m");
	child = *pid;
	if (read(read_end, &rc, sizeof(rc)) != sizeof(rc))
		return 0;
	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	return rc;
}

int profile_execute(char **command, const char *name, const char *dir, struct fm_err *err)
{
	pid_t pid;
	int rc = start(command, &pid, err);

	if (rc > 0) {
		fm_err_set(err, -rc, "cannot run '%s': %s", name, strerror(rc));
		fm_err_hint(err, rc == ENOENT ? "check its name, or give its full path"
					      : "`ls -l' shows whether it may be executed");
		return rc == ENOENT || rc == ENOTDIR ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE;
	}
	return rc ? rc : wait_for(pid, dir);
}

int profile_run(const struct profile_options *o, const char *dir, struct fm_err *err)
{
	static const struct preload agent = {.file = "libfermata-profile.so",
		.name = "CUDA",
		.variable = "FERMATA_PROFILE_AGENT"};

	if (inject_set(FM_PROFILE_DIR, dir, err) ||
		(o->times ? profile_rooms_set(o, err) : profile_set_sources(o, err)) ||
		profile_preload(&agent, err))
		return err->code ? err->code : -EINVAL;
	return profile_execute(o->command, o->command[0], dir, err);
}
