/* SPDX-License-Identifier: Apache-2.0 */
/* The check of the order of locks, as builds for tests have it: what is in order goes by, and what
 * is not ends the process. */
#ifndef FERMATA_LOCK_ORDER
#define FERMATA_LOCK_ORDER 1
#endif
#include "base/lockorder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* The above are cmocka's. */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(order, XQ_ORDER);
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(cold, XQ);
static pthread_mutex_t client, other, kernel, twin, unranked = PTHREAD_MUTEX_INITIALIZER;

static int make(void **state)
{
	pthread_mutex_init(&client, NULL);
	fm_lock_rank(&client, CLIENT);
	pthread_mutex_init(&other, NULL);
	fm_lock_rank(&other, CLIENT);
	pthread_mutex_init(&kernel, NULL);
	fm_lock_rank(&kernel, CL_KERNEL);
	pthread_mutex_init(&twin, NULL);
	fm_lock_rank(&twin, CL_KERNEL);
	return 0;
}

/* What a child says that does this; "" if it ends well. */
static const char *said_by(void (*what)(void))
{
	static char text[1024];
	int status, pipes[2];
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(pipes[1], STDERR_FILENO);
		what();
		_exit(0);
	}
	close(pipes[1]);
	while (n < sizeof(text) - 1 && (got = read(pipes[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (n)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	else
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	return text;
}

static void take_in_order(void)
{
	pthread_mutex_lock(&order);
	pthread_mutex_lock(&cold);
	pthread_mutex_lock(&client);
	/* They may be left in any order. */
	pthread_mutex_unlock(&order);
	pthread_mutex_unlock(&client);
	pthread_mutex_unlock(&cold);
	/* Nothing is held any more. */
	pthread_mutex_lock(&order);
	pthread_mutex_unlock(&order);
}

static void take_out_of_order(void)
{
	pthread_mutex_lock(&client);
	pthread_mutex_lock(&cold);
}

static void take_two_of_one_rank(void)
{
	pthread_mutex_lock(&client);
	pthread_mutex_lock(&other);
}

static void take_two_kernels(void)
{
	pthread_mutex_lock(&kernel);
	pthread_mutex_lock(&twin);
}

static void try_out_of_order(void)
{
	pthread_mutex_lock(&cold);
	if (pthread_mutex_trylock(&order))
		return;
	pthread_mutex_unlock(&order);
	pthread_mutex_unlock(&cold);
}

static void take_after_trying(void)
{
	if (!pthread_mutex_trylock(&client))
		pthread_mutex_lock(&cold);
}

static void take_unranked(void)
{
	pthread_mutex_lock(&unranked);
}

static void wait_while_another_is_held(void)
{
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&cold);
	pthread_mutex_lock(&client);
	pthread_cond_wait(&never, &cold);
}

static void fork_while_held(void)
{
	int status;
	pid_t pid;

	pthread_mutex_lock(&client);
	pid = fork();
	if (!pid) { /* where locks are made anew */
		client = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		take_in_order();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	pthread_mutex_unlock(&client);
	if (status)
		_exit(1);
}

static void take_exempt(void)
{
	pthread_mutex_lock(&client);
	fm_lock_fork_begin();
	pthread_mutex_lock(&cold);
	fm_lock_fork_end();
	pthread_mutex_lock(&order);
}

static void test_in_order_goes_by(void **state)
{
	assert_string_equal(said_by(take_in_order), "");
	assert_string_equal(said_by(take_two_kernels), "");
}

static void test_out_of_order_aborts(void **state)
{
	const char *text = said_by(take_out_of_order);

	assert_non_null(strstr(text, "takes XQ, lock of struct fm_xq_cold"));
	assert_non_null(strstr(text, "has CLIENT, lock of struct fm_client"));
	assert_non_null(strstr(text, "test_lockorder.c:"));
	assert_non_null(strstr(said_by(take_two_of_one_rank), "takes CLIENT"));
}

static void test_trying_waits_for_nobody(void **state)
{
	assert_string_equal(said_by(try_out_of_order), "");
	assert_non_null(strstr(said_by(take_after_trying), "takes XQ"));
}

static void test_each_lock_has_a_rank(void **state)
{
	assert_non_null(strstr(said_by(take_unranked), "no rank"));
}

static void test_a_condition_takes_it_again(void **state)
{
	assert_non_null(strstr(said_by(wait_while_another_is_held), "takes XQ"));
}

static void test_forks(void **state)
{
	assert_string_equal(said_by(fork_while_held), "");
	assert_non_null(strstr(said_by(take_exempt), "takes XQ_ORDER"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_goes_by),
		cmocka_unit_test(test_out_of_order_aborts),
		cmocka_unit_test(test_trying_waits_for_nobody),
		cmocka_unit_test(test_each_lock_has_a_rank),
		cmocka_unit_test(test_a_condition_takes_it_again),
		cmocka_unit_test(test_forks),
	};

	return cmocka_run_group_tests(tests, make, NULL);
}
