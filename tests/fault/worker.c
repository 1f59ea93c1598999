/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job (bench/batch.h) that the fault tests stop, kill and question. It prints "ready", then
 * "at KERNELS TIME" (CLOCK_MONOTONIC, ns) after each few kernels, and obeys lines on stdin:
 *
 *   stop         finish, print "done KERNELS wrong N", exit (0 if nothing is wrong)
 *   fork-exit    a child comes and goes:          "forked"
 *   fork-hold    a child stays, with all it has:  "child PID"
 *   spawn        a child runs this program, and obeys: "child PID", then "child ended STATUS"
 *   exec         become a program without OpenCL, which reads stdin to its end
 *
 * At the end of stdin it exits at once, so that it never outlives its test.
 */
#include "../../bench/batch.h"
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRIDE 4 /* kernels between two reports */

extern char **environ;

struct job {
	struct ocl ocl;
	cl_command_queue q;
	struct batch batch;
	char *self, *iters;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

static int stop(struct job *j)
{
	unsigned wrong = batch_check(&j->batch, j->q);
	unsigned n = j->batch.number;

	batch_close(&j->batch);
	OCL(clReleaseCommandQueue(j->q));
	OCL(clReleaseContext(j->ocl.ctx));
	say("done %u wrong %u\n", n, wrong);
	return wrong != 0;
}

static void fork_exit(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork failed");
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child did not end well");
	say("forked\n");
}

static void fork_hold(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork failed");
	if (!pid) {
		/* It must outlive its parent here; should the test die, it ends by itself. */
		alarm(120);
		for (;;)
			pause();
	}
	say("child %d\n", pid);
}

static void spawn(struct job *j)
{
	char *argv[] = {j->self, j->iters, NULL};
	posix_spawn_file_actions_t quiet;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawn(&pid, j->self, &quiet, NULL, argv, environ))
		die("posix_spawn failed");
	posix_spawn_file_actions_destroy(&quiet);
	say("child %d\n", pid);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid failed");
	say("child ended %d\n", status);
}

/* True: go on. Reads byte by byte: whatever follows the line belongs to the program that exec
 * starts. */
static bool obey(struct job *j, int *rc)
{
	char line[32];
	size_t n = 0;

	while (n < sizeof(line) - 1) {
		ssize_t got = read(STDIN_FILENO, line + n, 1);

		if (got <= 0)
			_exit(3);
		if (line[n] == '\n')
			break;
		n++;
	}
	line[n] = 0;
	if (!strcmp(line, "stop")) {
		*rc = stop(j);
		return false;
	}
	if (!strcmp(line, "fork-exit"))
		fork_exit();
	else if (!strcmp(line, "fork-hold"))
		fork_hold();
	else if (!strcmp(line, "spawn"))
		spawn(j);
	else if (!strcmp(line, "exec"))
		execl("/bin/cat", "cat", (char *)NULL);
	else
		die("unknown command: %s", line);
	return true;
}

static void stride(struct job *j)
{
	cl_event done;

	batch_enqueue(&j->batch, j->q, STRIDE, &done);
	OCL(clWaitForEvents(1, &done));
	OCL(clReleaseEvent(done));
	say("at %u %" PRIu64 "\n", j->batch.number, now_ns());
}

int main(int argc, char **argv)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	struct job j = {.self = argv[0], .iters = argc > 1 ? argv[1] : (char *)"64"};
	unsigned strides = argc > 2 ? (unsigned)atoi(argv[2]) : 0; /* 0: until told */
	int rc = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ocl_open(&j.ocl);
	j.q = ocl_queue(&j.ocl, 0);
	batch_open(&j.batch, &j.ocl, (cl_uint)atoi(j.iters));
	stride(&j);
	say("ready\n");
	for (unsigned n = 0; !strides || n < strides; n++) {
		stride(&j);
		if (!strides && poll(&in, 1, 0) > 0 && !obey(&j, &rc))
			return rc;
	}
	return stop(&j);
}
