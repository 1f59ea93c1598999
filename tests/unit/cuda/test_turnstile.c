/* SPDX-License-Identifier: Apache-2.0 */
/* Turnstiles while a process rests (xqueue/rest.h): who keeps whom out. */
#include "api/cuda/core/turnstile.h"
#include "base/clock.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define CTX(n) ((CUcontext)(uintptr_t)(16 * (n)))

static _Atomic bool inside;

static int begin_again(void **state)
{
	fm_cu_keep_out(false);
	fm_cu_turnstile_fork_child();
	inside = false;
	return 0;
}

static void test_what_is_inside_keeps_it_from_beginning(void **state)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(CTX(1), true),
			       *u = fm_cu_turnstile(CTX(2), true);

	assert_true(fm_cu_wait_begin(u, FM_NEVER));
	assert_false(fm_cu_keep_out(true));
	assert_false(fm_cu_kept_out());
	assert_true(fm_cu_push_begin(t, true)); /* nobody is kept out by half */
	fm_cu_wait_end(u);
	assert_false(fm_cu_keep_out(true));
	fm_cu_push_end(t);
	assert_true(fm_cu_keep_out(true));
	assert_true(fm_cu_kept_out());
}

static void *waits(void *arg)
{
	fm_cu_wait_begin(arg, FM_NEVER);
	inside = true;
	fm_cu_wait_end(arg);
	return NULL;
}

static void test_who_comes_waits_for_its_end(void **state)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(CTX(1), true), *late;
	pthread_t thread;

	assert_true(fm_cu_keep_out(true));
	assert_true(fm_cu_keep_out(true));
	late = fm_cu_turnstile(CTX(2), true);
	assert_false(fm_cu_wait_begin(late, 0)); /* a context that is made meanwhile */
	assert_false(fm_cu_push_begin(t, true));
	fm_cu_push_end(t);
	assert_int_equal(pthread_create(&thread, NULL, waits, late), 0);
	usleep(20000);
	assert_false(inside);
	assert_true(fm_cu_keep_out(false));
	pthread_join(thread, NULL);
	assert_true(inside);
	assert_true(fm_cu_keep_out(false)); /* it was over */
	assert_true(fm_cu_push_begin(t, true));
	fm_cu_push_end(t);
}

/* A stop of the guardian's in between is its own. */
static void test_stops_are_counted(void **state)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(CTX(1), true);

	assert_true(fm_cu_stop_begin(t));
	assert_true(fm_cu_keep_out(true));
	assert_true(fm_cu_keep_out(false));
	assert_false(fm_cu_wait_begin(t, 0));
	fm_cu_stop_end(t);
	assert_true(fm_cu_wait_begin(t, 0));
	fm_cu_wait_end(t);
}

static void test_a_context_without_a_turnstile(void **state)
{
	unsigned n = 1;

	while (fm_cu_turnstile(CTX(n), true))
		n++;
	assert_true(n > 8);
	assert_false(fm_cu_keep_out(true)); /* calls there pass unseen */
}

static void test_its_context_ends(void **state)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(CTX(1), true);

	assert_true(fm_cu_keep_out(true));
	fm_cu_turnstile_forget(CTX(1));
	fm_cu_keep_out(false);
	assert_ptr_equal(fm_cu_turnstile(CTX(3), true), t); /* its place, as new */
	assert_true(fm_cu_wait_begin(t, 0));
	fm_cu_wait_end(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_what_is_inside_keeps_it_from_beginning, begin_again),
		cmocka_unit_test_setup(test_who_comes_waits_for_its_end, begin_again),
		cmocka_unit_test_setup(test_stops_are_counted, begin_again),
		cmocka_unit_test_setup(test_a_context_without_a_turnstile, begin_again),
		cmocka_unit_test_setup(test_its_context_ends, begin_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
