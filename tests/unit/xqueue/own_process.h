/* SPDX-License-Identifier: Apache-2.0 */
/* Each case of a test program in a process of its own: the program runs itself with the case's name
 * as the argument. For what there is one of in a process. Waiting is for a condition, with a limit
 * that only a failure meets. */
#pragma once
#include "base/clock.h"
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Gives up after a minute in which this process was not stopped itself. */
#define eventually(condition)                                                          \
	do {                                                                           \
		uint64_t limit_ = fm_now() + 60 * FM_S;                                \
		unsigned naps_ = 0;                                                    \
		bool met_;                                                             \
		while (!(met_ = (condition)) && (fm_now() < limit_ || naps_ < 1000)) { \
			usleep(200);                                                   \
			naps_++;                                                       \
		}                                                                      \
		if (!met_)                                                             \
			fail_msg("never: %s", #condition);                             \
	} while (0)

static inline int run_own_process(char *self, const char *name)
{
	char *argv[] = {self, (char *)name, NULL};
	int status;
	pid_t pid;

	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ))
		return 1;
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	fprintf(stderr, "%s failed\n", name);
	return 1;
}

/* The body of main(): one case when it is named, else all. */
#define RUN_OWN_PROCESSES(tests, argc, argv)                                               \
	({                                                                                 \
		int failed_ = 0;                                                           \
		if ((argc) > 1) {                                                          \
			alarm(150); /* a case that hangs must not outlive its test */      \
			cmocka_set_test_filter((argv)[1]);                                 \
			failed_ = cmocka_run_group_tests(tests, NULL, NULL);               \
		} else {                                                                   \
			for (size_t i_ = 0; i_ < sizeof(tests) / sizeof((tests)[0]); i_++) \
				failed_ += run_own_process((argv)[0], (tests)[i_].name);   \
		}                                                                          \
		failed_ != 0;                                                              \
	})

/* The child of a program with threads may have threads of its own, save under sanitizers: one
 * refuses, the other leaves its allocator's locks as the fork found them. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NO_THREADS_AFTER_FORK 1
#endif

/* fn() in a forked child: what it returns, -1 when it was killed. */
static inline int in_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(50);
		_exit(fn(arg));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
