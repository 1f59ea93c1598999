/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "probe.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define OUTPUT_MAX (256 * 1024)
#define LIMIT_MS   30000u

/* In the child. No daemon may hold what is being tried, nor see it come and go. */
static void exec_probe(int out, const char *what, const char *variable, const char *value)
{
	char fd[16];
	char *argv[] = {"fermata", "_probe", fd, (char *)what, NULL};
	int null = open("/dev/null", O_RDWR);

	if (value)
		setenv(variable, value, 1);
	else if (variable)
		unsetenv(variable);
	setenv("FERMATA_SOCKET", "/nonexistent", 1);
	unsetenv("FERMATA_LOCAL");
	unsetenv("FERMATA_GROUP");
	unsetenv("FERMATA_HINTS");
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(fd, sizeof(fd), "%d", out);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0 || fcntl(out, F_SETFD, 0))
		_exit(CLI_FAILED);
	execv("/proc/self/exe", argv);
	_exit(CLI_CANNOT_EXECUTE);
}

/* All that the child writes until it ends or the time is over; false: it was not over in time. */
static bool collect(int fd, char *buf, size_t size, size_t *len, uint64_t end)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (*len < size) {
		uint64_t now = fm_now();
		ssize_t n;

		if (now >= end)
			return false;
		if (poll(&p, 1, (int)((end - now) / FM_MS) + 1) <= 0)
			continue;
		n = read(fd, buf + *len, size - *len);
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return true;
		*len += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static json_t *parse_lines(char *buf)
{
	json_t *lines = json_array();
	char *rest = NULL;

	for (char *l = strtok_r(buf, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		json_t *line = json_loads(l, 0, NULL);

		if (line)
			json_array_append_new(lines, line);
	}
	return lines;
}

/* The whole group of processes: a driver may have helpers. */
static void finish(pid_t pid, bool in_time, uint64_t limit, struct probe_result *result)
{
	siginfo_t info;
	int status = 0;

	if (!in_time)
		kill(-pid, SIGKILL);
	/* Unreaped, the process keeps its number, and with it the number of its group, from reuse.
	 */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!in_time)
		snprintf(result->died, sizeof(result->died), "hung for %u s",
			(unsigned)(limit / FM_S));
	else if (WIFSIGNALED(status))
		snprintf(result->died, sizeof(result->died), "crashed with signal %d (%s)",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (!probe_step(result, "end"))
		snprintf(result->died, sizeof(result->died), "left with exit code %d",
			WEXITSTATUS(status));
}

int probe_run_longer(const char *what, const char *variable, const char *value, uint64_t longer,
	struct probe_result *result)
{
	const uint64_t limit = LIMIT_MS * FM_MS + longer;
	FM_CLEAN_FREE char *buf = calloc(1, OUTPUT_MAX + 1);
	FM_CLEAN_FD int read_end = -1;
	FM_CLEAN_FD int write_end = -1;
	int fds[2];
	size_t len = 0;
	bool in_time;
	pid_t pid;

	*result = (struct probe_result){0};
	if (!buf || pipe2(fds, O_CLOEXEC))
		return buf ? -errno : -ENOMEM;
	read_end = fds[0];
	write_end = fds[1];
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_probe(write_end, what, variable, value);
	setpgid(pid, pid);
	close(fm_take_fd(&write_end));
	in_time = collect(read_end, buf, OUTPUT_MAX, &len, fm_now() + limit);
	result->lines = parse_lines(buf);
	finish(pid, in_time, limit, result);
	return 0;
}

int probe_run(
	const char *what, const char *variable, const char *value, struct probe_result *result)
{
	return probe_run_longer(what, variable, value, 0, result);
}

const json_t *probe_step(const struct probe_result *result, const char *step)
{
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line)
		if (!strcmp(cli_str(line, "step"), step))
			return line;
	return NULL;
}

void probe_tell(FILE *out, json_t *line)
{
	json_dumpf(line, out, JSON_COMPACT);
	fputc('\n', out);
	fflush(out);
	json_decref(line);
}
