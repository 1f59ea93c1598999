/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VPI programs that end, or do what they may not. Each prints "right" at its end.
 *
 *   exit    exits with work under way
 *   fork    a child uses a library of its own; another one, forked with work under way, has none;
 *           the parent goes on
 *   exec    becomes another such program
 *   late    ends its stream when the process exits
 *   cancel  a thread is cancelled while it submits
 */
#include "vpi_common.h"
#include <sys/wait.h>

static struct {
	VPIStream s;
	VPIImage x;
} own;

static void begin(void)
{
	own.s = stream_new(0);
	own.x = image_new(0);
}

static void some_work(void)
{
	for (uint32_t i = 0; i < 20; i++) {
		mix(own.s, own.x, i);
		mix(own.s, own.x, i);
		OK(vpiStreamSync(own.s));
	}
}

/* Where the parent has used the library the child's calls fail. */
static void in_child(bool used)
{
	pid_t pid = fork();
	VPIStream s;
	int status;

	if (!pid) {
		if (used && !vpi.vpiStreamCreate(0, &s))
			_exit(8);
		if (!used) {
			begin();
			some_work();
		}
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child ended with %#x", status);
}

static void end_late(void)
{
	vpi.vpiStreamDestroy(own.s);
	puts("right");
}

static void *submits(void *unused)
{
	for (uint32_t i = 0;; i++) {
		mix(own.s, own.x, i);
		OK(vpiStreamSync(own.s));
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled(void)
{
	pthread_t t;

	for (unsigned i = 0; i < 20; i++) {
		if (pthread_create(&t, NULL, submits, NULL))
			die("no thread");
		usleep(3000);
		pthread_cancel(t);
		pthread_join(t, NULL);
		OK(vpiStreamSync(own.s));
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "exit";

	setvbuf(stdout, NULL, _IOLBF, 0);
	load(false);
	if (!strcmp(how, "fork"))
		in_child(false);
	if (!strcmp(how, "late"))
		atexit(end_late);
	begin();
	some_work();
	if (!strcmp(how, "exec"))
		execl(argv[0], argv[0], "exit", NULL);
	if (!strcmp(how, "cancel"))
		cancelled();
	for (uint32_t i = 0; i < 20; i++)
		mix(own.s, own.x, i);
	if (!strcmp(how, "fork")) {
		in_child(true);
		some_work();
	}
	if (!strcmp(how, "late"))
		return 0;
	puts("right");
	return 0;
}
