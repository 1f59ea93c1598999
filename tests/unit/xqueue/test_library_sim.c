// SPDX-License-Identifier: Apache-2.0
/* The public functions over the software device: the three levels, faults, threads, fork. */
#include "base/util.h"
#include "own_process.h"
#include <errno.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <string.h>

#define LONG (30 * FM_S)

static struct fm_xqueue_info query(fm_xqueue *q)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};

	assert_int_equal(fm_xqueue_query(q, &i), 0);
	return i;
}

static int launch_nothing(void *ctx, void *arg)
{
	return 0;
}

static fm_xqueue *sim_queue(fm_sim_device *dev, unsigned level)
{
	const struct fm_xqueue_options o = {.size = sizeof(o), .level = level};
	fm_hwqueue *h;
	fm_xqueue *q;

	assert_int_equal(fm_sim_hwqueue_create(&h, dev), 0);
	assert_int_equal(fm_xqueue_create(&q, h, &o), 0);
	return q;
}

static void count(void *arg)
{
	__atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_RELEASE);
}

static unsigned counted(const unsigned *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void test_sim_arguments(void **state)
{
	struct fm_sim_options o = {.size = sizeof(o), .max_level = 4};
	struct fm_command c = {.fn = launch_nothing};
	char name[200];
	fm_sim_device *dev;
	fm_hwqueue *h;
	fm_xqueue *q;

	memset(name, 'x', sizeof(name));
	name[96] = '\0';
	assert_int_equal(fm_sim_device_create(NULL, "sim", NULL), -EINVAL);
	assert_int_equal(fm_sim_device_create(&dev, NULL, NULL), -EINVAL);
	assert_int_equal(fm_sim_device_create(&dev, "", NULL), -EINVAL);
	assert_int_equal(fm_sim_device_create(&dev, name, NULL), -EINVAL);
	assert_int_equal(fm_sim_device_create(&dev, "sim", &o), -EINVAL);
	o.size = 1;
	assert_int_equal(fm_sim_device_create(&dev, "sim", &o), -EINVAL);
	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	assert_int_equal(fm_sim_advance(dev, 1), -EINVAL);
	assert_int_equal(fm_sim_fault(dev, FM_SIM_FAULT_COUNT, 1), -EINVAL);
	assert_true(fm_sim_now(dev) <= fm_now());
	assert_int_equal(fm_sim_hwqueue_create(NULL, dev), -EINVAL);
	assert_int_equal(fm_sim_hwqueue_create(&h, dev), 0);
	assert_int_equal(fm_xqueue_create(&q, h, NULL), 0);
	assert_int_equal(fm_xqueue_submit(q, &c, NULL), -EINVAL); /* has a fn */
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(fm_sim_hwqueue_create(&h, dev), 0);
	assert_int_equal(fm_hwqueue_destroy(h), 0);
	fm_sim_device_destroy(dev);
	assert_int_equal(fm_sim_device_create(&dev, "a\tb", NULL), 0);
	assert_int_equal(fm_sim_hwqueue_create(&h, dev), -EINVAL); /* no device key */
	fm_sim_device_destroy(dev);
	fm_sim_device_destroy(NULL);
}

static void test_sim_virtual_time(void **state)
{
	const struct fm_sim_options o = {.size = sizeof(o), .virtual_time = true};
	unsigned n = 0;
	const struct fm_command c = {.device_ns = 1000, .done = count, .arg = &n};
	fm_sim_device *dev;
	fm_xqueue *q;
	uint64_t seq;

	assert_int_equal(fm_sim_device_create(&dev, "sim", &o), 0);
	q = sim_queue(dev, 1);
	assert_int_equal(fm_xqueue_submit(q, &c, &seq), 0);
	assert_int_equal(fm_sim_advance(dev, 999), 0);
	assert_int_equal(fm_xqueue_wait(q, seq, FM_MS), -ETIMEDOUT);
	assert_int_equal(n, 0);
	assert_int_equal(fm_sim_advance(dev, 1), 0);
	assert_int_equal(n, 1);
	eventually(fm_sim_advance(dev, 0) == 0 && fm_xqueue_wait(q, seq, 0) == 0);
	assert_int_equal(fm_sim_now(dev), 1000);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	fm_sim_device_destroy(dev);
}

static void suspend_and_resume(unsigned level)
{
	unsigned n = 0, before;
	const struct fm_command c = {.device_ns = 20 * FM_US, .done = count, .arg = &n};
	const struct fm_command other = {.device_ns = 20 * FM_US};
	fm_sim_device *dev;
	fm_xqueue *q, *control;

	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	q = sim_queue(dev, level);
	control = sim_queue(dev, level);
	for (unsigned round = 1; round <= 5; round++) {
		for (unsigned i = 0; i < 200; i++)
			assert_int_equal(fm_xqueue_submit(q, &c, NULL), 0);
		assert_int_equal(fm_xqueue_suspend(q, true, LONG), 0);
		assert_true(query(q).suspended && query(q).stalled);
		/* Callbacks come in the order of the device: after this one none of q's is under
		 * way. */
		fm_xqueue_submit(control, &other, NULL);
		assert_int_equal(fm_xqueue_wait_all(control, LONG), 0);
		before = counted(&n);
		for (unsigned i = 0; i < 50; i++)
			assert_int_equal(fm_xqueue_submit(control, &other, NULL), 0);
		assert_int_equal(fm_xqueue_wait_all(control, LONG), 0);
		assert_int_equal(counted(&n), before);
		assert_int_equal(fm_xqueue_resume(q), 0);
		assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
		assert_int_equal(counted(&n), 200 * round);
	}
	assert_int_equal(fm_xqueue_suspend(q, false, 0), 0);
	assert_int_equal(fm_xqueue_destroy(q), 0); /* a suspended queue can be destroyed */
	assert_int_equal(fm_xqueue_destroy(control), 0);
	fm_sim_device_destroy(dev);
}

static void test_suspend_level_1(void **state)
{
	suspend_and_resume(1);
}

static void test_suspend_level_2(void **state)
{
	suspend_and_resume(2);
}

static void test_suspend_level_3(void **state)
{
	suspend_and_resume(3);
}

static void test_suspend_running_command(void **state)
{
	const struct fm_command c = {.device_ns = FM_US};
	fm_sim_device *dev;
	fm_xqueue *q, *other;

	for (unsigned level = 2; level <= 3; level++) {
		const struct fm_sim_options o = {.size = sizeof(o), .max_level = level};

		assert_int_equal(fm_sim_device_create(&dev, "sim", &o), 0);
		q = sim_queue(dev, 3);
		other = sim_queue(dev, 3);
		assert_int_equal(query(q).level, level);
		assert_int_equal(fm_sim_fault(dev, FM_SIM_FAULT_HANG, 1), 0);
		fm_xqueue_submit(q, &c, NULL);
		if (level == 2) { /* it would stop behind the command */
			assert_int_equal(fm_xqueue_suspend(q, true, FM_MS), -ETIMEDOUT);
			fm_sim_reset(dev);
		}
		assert_int_equal(fm_xqueue_suspend(q, true, LONG), 0);
		fm_xqueue_submit(other, &c, NULL);
		assert_int_equal(fm_xqueue_wait_all(other, LONG), 0);
		assert_int_equal(query(q).completed, level == 2);
		fm_sim_reset(dev);
		assert_int_equal(fm_xqueue_destroy(q), 0);
		assert_int_equal(fm_xqueue_destroy(other), 0);
		fm_sim_device_destroy(dev);
	}
}

static void test_sim_faults(void **state)
{
	unsigned n = 0;
	const struct fm_command c = {.device_ns = 10 * FM_US, .done = count, .arg = &n};
	fm_sim_device *dev;
	fm_xqueue *q, *other;
	unsigned failed = 0;

	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	q = sim_queue(dev, 3);
	other = sim_queue(dev, 2);
	for (unsigned f = FM_SIM_FAULT_LAUNCH; f <= FM_SIM_FAULT_TRACK; f++)
		assert_int_equal(fm_sim_fault(dev, f, 5), 0);
	for (unsigned i = 0; i < 300; i++) {
		failed += fm_xqueue_submit(i % 2 ? q : other, &c, NULL) == -EIO;
		if (i % 100 == 50)
			assert_int_equal(fm_xqueue_suspend(q, false, 0), 0);
		if (i % 100 == 60)
			assert_int_equal(fm_xqueue_resume(q), 0);
	}
	assert_int_equal(failed, 5);
	assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
	assert_int_equal(fm_xqueue_wait_all(other, LONG), 0);
	assert_int_equal(counted(&n), 295);
	assert_int_equal(fm_sim_fault(dev, FM_SIM_FAULT_HANG, 1), 0);
	fm_xqueue_submit(q, &c, NULL);
	assert_int_equal(fm_xqueue_wait_all(q, FM_MS), -ETIMEDOUT);
	fm_sim_reset(dev);
	assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
	assert_int_equal(counted(&n), 296);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	assert_int_equal(fm_xqueue_destroy(other), 0);
	fm_sim_device_destroy(dev);
}

struct submitter {
	pthread_t thread;
	fm_xqueue *q;
	unsigned *n, own;
};

static void count_own(void *arg)
{
	struct submitter *s = arg;

	s->own++; /* one callback at a time */
	count(s->n);
}

static void *submit_many(void *arg)
{
	struct submitter *s = arg;
	const struct fm_command c = {.device_ns = 2 * FM_US, .done = count_own, .arg = s};
	uint64_t seq;

	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(fm_xqueue_submit(s->q, &c, &seq), 0);
		if (i % 50 != 49)
			continue;
		/* What was waited for includes this thread's own commands, whatever the others do.
		 */
		assert_int_equal(fm_xqueue_wait(s->q, seq, LONG), 0);
		assert_int_equal(__atomic_load_n(&s->own, __ATOMIC_ACQUIRE), i + 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct submitter s[4];
	unsigned n = 0;
	fm_sim_device *dev;
	fm_xqueue *q;

	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	q = sim_queue(dev, 0);
	for (unsigned i = 0; i < 4; i++) {
		s[i] = (struct submitter){.q = q, .n = &n};
		assert_int_equal(pthread_create(&s[i].thread, NULL, submit_many, &s[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(s[i].thread, NULL);
	assert_int_equal(fm_xqueue_wait_all(q, LONG), 0);
	assert_int_equal(counted(&n), 1200);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	fm_sim_device_destroy(dev);
}

static void test_many_queues(void **state)
{
	unsigned n = 0;
	const struct fm_command c = {.device_ns = FM_US, .done = count, .arg = &n};
	fm_xqueue *q[128];
	fm_sim_device *dev;
	fm_hwqueue *h;
	fm_xqueue *extra;

	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	for (unsigned i = 0; i < 300; i++) {
		q[0] = sim_queue(dev, i % 4);
		assert_int_equal(fm_xqueue_submit(q[0], &c, NULL), 0);
		assert_int_equal(fm_xqueue_destroy(q[0]), 0);
		assert_int_equal(counted(&n), i + 1);
	}
	for (unsigned i = 0; i < FM_ARRAY_LEN(q); i++)
		q[i] = sim_queue(dev, 0);
	assert_int_equal(fm_sim_hwqueue_create(&h, dev), 0);
	assert_int_equal(fm_xqueue_create(&extra, h, NULL), -ENOSPC);
	assert_int_equal(fm_xqueue_destroy(q[5]), 0);
	assert_int_equal(fm_xqueue_create(&q[5], h, NULL), 0);
	for (unsigned i = 0; i < FM_ARRAY_LEN(q); i++)
		assert_int_equal(fm_xqueue_destroy(q[i]), 0);
	fm_sim_device_destroy(dev);
}

struct family {
	fm_sim_device *dev;
	fm_xqueue *q;
	fm_hwqueue *h;
	fm_group *g;
};

#define expect(condition)                          \
	do {                                       \
		if (!(condition))                  \
			return __LINE__ % 251 + 1; \
	} while (0)

static int dead_handles(void *arg)
{
	struct fm_xqueue_info info = {.size = sizeof(info)};
	struct fm_xqueue_options o = {.size = sizeof(o)};
	const struct fm_command c = {.device_ns = 1};
	struct family *f = arg;
	fm_hwqueue *h;
	fm_xqueue *q;

	expect(fm_xqueue_submit(f->q, &c, NULL) == -EBADF);
	expect(fm_xqueue_wait(f->q, 1, FM_FOREVER) == -EBADF);
	expect(fm_xqueue_wait_all(f->q, FM_FOREVER) == -EBADF);
	expect(fm_xqueue_suspend(f->q, true, FM_FOREVER) == -EBADF);
	expect(fm_xqueue_resume(f->q) == -EBADF);
	expect(fm_xqueue_query(f->q, &info) == -EBADF);
	expect(fm_xqueue_destroy(f->q) == -EBADF);
	expect(fm_xqueue_create(&q, f->h, NULL) == -EBADF);
	expect(fm_hwqueue_destroy(f->h) == -EBADF);
	expect(fm_sim_hwqueue_create(&h, f->dev) == -EBADF);
	expect(fm_sim_advance(f->dev, 1) == -EBADF);
	expect(fm_sim_fault(f->dev, FM_SIM_FAULT_TRACK, 1) == -EBADF);
	expect(fm_sim_now(f->dev) == 0);
	fm_sim_reset(f->dev);
	fm_sim_device_destroy(f->dev);
	expect(fm_group_hint(f->g, FM_HINT_PRIORITY, 1) == -EBADF);
	expect(fm_segment_begin(f->g, FM_SEGMENT_KEEP) == -EBADF);
	expect(fm_segment_end(f->g) == -EBADF);
	return 0;
}

#ifndef NO_THREADS_AFTER_FORK
static int new_handles(void *arg)
{
	const struct fm_xqueue_options o = {.size = sizeof(o), .group = ((struct family *)arg)->g};
	unsigned n = 0;
	const struct fm_command c = {.device_ns = 10 * FM_US, .done = count, .arg = &n};
	fm_sim_device *dev;
	fm_hwqueue *h;
	fm_xqueue *q;
	fm_group *g;

	expect(fm_init(NULL) == 0);
	expect(fm_group_create(&g, "child") == 0);
	expect(fm_sim_device_create(&dev, "sim", NULL) == 0);
	expect(fm_sim_hwqueue_create(&h, dev) == 0);
	expect(fm_xqueue_create(&q, h, &o) == -EBADF); /* the parent's group */
	expect(fm_xqueue_create(&q, h, NULL) == 0);
	for (unsigned i = 0; i < 100; i++)
		expect(fm_xqueue_submit(q, &c, NULL) == 0);
	expect(fm_xqueue_suspend(q, true, LONG) == 0);
	expect(fm_xqueue_resume(q) == 0);
	expect(fm_xqueue_destroy(q) == 0);
	expect(counted(&n) == 100);
	fm_sim_device_destroy(dev);
	return 0;
}
#endif

static void test_fork(void **state)
{
	unsigned n = 0;
	const struct fm_command c = {.device_ns = 10 * FM_US, .done = count, .arg = &n};
	struct family f;

	assert_int_equal(fm_group_create(&f.g, "parent"), 0);
	assert_int_equal(fm_sim_device_create(&f.dev, "sim", NULL), 0);
	assert_int_equal(fm_sim_hwqueue_create(&f.h, f.dev), 0);
	f.q = sim_queue(f.dev, 0);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < 200; i++)
			fm_xqueue_submit(f.q, &c, NULL);
		assert_int_equal(in_child(dead_handles, &f), 0);
#ifndef NO_THREADS_AFTER_FORK
		assert_int_equal(in_child(new_handles, &f), 0);
#endif
		assert_int_equal(fm_xqueue_wait_all(f.q, LONG), 0);
		assert_int_equal(counted(&n), 200 * round);
	}
	assert_int_equal(fm_hwqueue_destroy(f.h), 0);
	assert_int_equal(fm_xqueue_destroy(f.q), 0);
	fm_sim_device_destroy(f.dev);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sim_arguments),
	cmocka_unit_test(test_sim_virtual_time),
	cmocka_unit_test(test_suspend_level_1),
	cmocka_unit_test(test_suspend_level_2),
	cmocka_unit_test(test_suspend_level_3),
	cmocka_unit_test(test_suspend_running_command),
	cmocka_unit_test(test_sim_faults),
	cmocka_unit_test(test_threads),
	cmocka_unit_test(test_many_queues),
	cmocka_unit_test(test_fork),
};

int main(int argc, char **argv)
{
	unsetenv("FERMATA_LOCAL");
	setenv("FERMATA_SOCKET", "/nowhere", 1);
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
