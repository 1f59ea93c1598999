/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher (api/watch.h): events come in order, and a forked child has a watcher of its own. */
#include "api/watch.h"
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic bool asked, go;
static _Atomic unsigned reached_n;

static void nap(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	nanosleep(&ms, NULL);
}

static bool waits(struct fm_watched *q, void *event)
{
	atomic_store(&asked, true);
	while (!atomic_load(&go))
		nap();
	return true;
}

static bool comes(struct fm_watched *q, void *event)
{
	return true;
}

static void drop(struct fm_watched *q, void *event)
{
}

static void reached(void *cookie, uint64_t now)
{
	assert_int_equal((uintptr_t)cookie, atomic_load(&reached_n));
	atomic_fetch_add(&reached_n, 1);
}

static void watch(struct fm_watched *q, const struct fm_watch_ops *ops, unsigned n)
{
	fm_watch_init(q, ops);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fm_watch_event(q, NULL, reached, (void *)(uintptr_t)i), 0);
}

static void await(unsigned n)
{
	while (atomic_load(&reached_n) < n)
		nap();
}

/* The parent's watcher is inside the driver meanwhile, with its lock. */
static void test_fork(void **state)
{
	static const struct fm_watch_ops slow = {waits, drop}, fast = {comes, drop};
	static struct fm_watched q, own;
	int status;
	pid_t pid;

	watch(&q, &slow, 1);
	while (!atomic_load(&asked))
		nap();
	pid = fork();
	if (!pid) {
		alarm(60);
		watch(&own, &fast, 3);
		await(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	atomic_store(&go, true);
	await(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_fork)};

#ifdef __SANITIZE_THREAD__
	return 0; /* it allows no thread after a fork */
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
