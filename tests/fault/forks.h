/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that forks just when a thread of it, or of Fermata's, has taken a lock: of all that
 * they take each once (fakes/libc/park.c, preloaded). The child, which has no such thread, must get
 * through whatever it does.
 */
#pragma once
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nothing that a child does takes long. */
#define CHILD_S 30
#define FRAMES  64
/* The work is over when nothing new was found in so many rounds of it. */
#define ROUNDS 5

static struct {
	bool (*next)(void), (*wants)(void);
	void (*go)(void), (*over)(void);
	unsigned (*times)(void);
	const void *(*place)(void);
} park;
/* Nobody is parked from now on: neither what takes a lock for the first time as its thread ends. */
static _Atomic bool forks_done;

static void forks_find(void)
{
	*(void **)&park.next = dlsym(RTLD_DEFAULT, "park_next");
	*(void **)&park.wants = dlsym(RTLD_DEFAULT, "park_wants");
	*(void **)&park.go = dlsym(RTLD_DEFAULT, "park_go");
	*(void **)&park.over = dlsym(RTLD_DEFAULT, "park_over");
	*(void **)&park.times = dlsym(RTLD_DEFAULT, "park_times");
	*(void **)&park.place = dlsym(RTLD_DEFAULT, "park_place");
	if (!park.next || !park.wants || !park.go || !park.over || !park.times || !park.place) {
		fprintf(stderr, "libfake_park.so is not preloaded\n");
		exit(2);
	}
}

static void *forks_work(void *round)
{
	for (unsigned in_vain = 0; in_vain < ROUNDS;) {
		bool wanted = park.wants();

		((void (*)(void))round)();
		if (!park.wants())
			in_vain = 0;
		else if (wanted)
			in_vain++;
	}
	park.over();
	while (!forks_done)
		usleep(100);
	return NULL;
}

/* The child stands still. It says where, and ends by the same signal. */
static void forks_stands(int sig)
{
	void *frame[FRAMES];

	alarm(CHILD_S); /* it may not even get through this */
	backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDOUT_FILENO);
	raise(sig);
}

/* As backtrace_symbols_fd() writes it. */
static void forks_print_place(const void *place)
{
	Dl_info in;

	if (place && dladdr(place, &in) && in.dli_fname)
		printf("%s(+0x%tx)\n", in.dli_fname, (const char *)place - (char *)in.dli_fbase);
}

/* 0: it has ended well. */
static int forks_child(void (*child)(void))
{
	struct sigaction stands = {
		.sa_handler = forks_stands, .sa_flags = SA_RESETHAND | SA_NODEFER};
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		sigaction(SIGALRM, &stands, NULL);
		alarm(CHILD_S);
		child();
		exit(0); /* with all exit handlers that are there */
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* `round` is what the threads do, over and over; each of the children is forked at each lock. The
 * program's status. */
static int forks_at_locks(void (*round)(void), void (*const *children)(void))
{
	unsigned failed = 0;
	pthread_t thread;
	void *frame;

	backtrace(&frame, 1); /* it loads a library the first time */
	if (pthread_create(&thread, NULL, forks_work, (void *)round))
		return 1;
	while (park.next()) {
		const void *place = park.place();

		for (unsigned i = 0; children[i]; i++) {
			int status = forks_child(children[i]);

			if (status) {
				printf("child %u, forked at lock %u, ends with status %x\nlock "
				       "taken at\n",
					i, park.times(), (unsigned)status);
				forks_print_place(place);
				failed++;
			}
		}
		park.go();
	}
	forks_done = true;
	pthread_join(thread, NULL);
	printf("%u locks\n", park.times());
	return failed ? 1 : 0;
}

static void forks_exec(void)
{
	execl("/bin/true", "true", (char *)NULL);
	_exit(127);
}
