/* SPDX-License-Identifier: Apache-2.0 */
/* The software device in wall time, and with threads: what is asserted is order and presence, never
 * how long it took. */
#include "sim_world.h"

struct mailbox {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned n;
	int value[256];
};

struct letter {
	struct mailbox *box;
	int value;
};

static void post(void *arg)
{
	struct letter *l = arg;

	pthread_mutex_lock(&l->box->lock);
	l->box->value[l->box->n++ % 256] = l->value;
	pthread_cond_broadcast(&l->box->cond);
	pthread_mutex_unlock(&l->box->lock);
}

static void post_reached(void *arg, uint64_t now)
{
	post(arg);
}

static void await(struct mailbox *b, unsigned n)
{
	pthread_mutex_lock(&b->lock);
	while (b->n < n)
		pthread_cond_wait(&b->cond, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static unsigned count(struct mailbox *b)
{
	unsigned n;

	pthread_mutex_lock(&b->lock);
	n = b->n;
	pthread_mutex_unlock(&b->lock);
	return n;
}

#define MAILBOX                                                                     \
	{                                                                           \
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER \
	}

static int wall_launch(unsigned q, struct letter *l, uint64_t ns)
{
	struct fm_command c = {.device_ns = ns, .done = post, .arg = l};

	return ops->launch(w.q[q], &c);
}

static int setup_wall(void **state)
{
	setup_with((struct fm_sim_options){.interrupt_ns = 1000}, 4);
	return 0;
}

static void test_wall_order(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter letter[100];
	uint64_t start = fm_now();

	assert_int_equal(fm_simdev_advance(w.dev, 1), -EINVAL);
	for (int i = 0; i < 100; i++) {
		letter[i] = (struct letter){&box, i};
		assert_int_equal(wall_launch(0, &letter[i], 10 * FM_US), 0);
	}
	assert_int_equal(ops->sync(w.q[0]), 0);
	assert_int_equal(count(&box), 100); /* finished means that done has returned */
	assert_true(fm_now() - start >= FM_MS);
	for (int i = 0; i < 100; i++)
		assert_int_equal(box.value[i], i);
	assert_int_equal(ops->sync(w.q[1]), 0); /* nothing to wait for */
}

static void test_wall_gate_and_track(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter a = {&box, 'a'}, b = {&box, 'b'}, t = {&box, 't'}, x = {&box, 'x'};
	void *gate;

	wall_launch(0, &a, 1000);
	assert_int_equal(ops->host_gate.deactivate(w.q[0], &gate), 0);
	wall_launch(0, &b, 1000);
	assert_int_equal(ops->track(w.q[0], post_reached, &t), 0);
	await(&box, 1);
	wall_launch(1, &x, FM_MS); /* longer than all that stands behind the gate */
	assert_int_equal(ops->sync(w.q[1]), 0);
	assert_int_equal(count(&box), 2);
	ops->host_gate.reactivate(w.q[0], gate);
	await(&box, 4);
	assert_int_equal(box.value[0], 'a');
	assert_int_equal(box.value[1], 'x');
	assert_int_equal(box.value[2], 'b');
	assert_int_equal(box.value[3], 't');
}

static void test_wall_interrupt(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter a = {&box, 'a'}, x = {&box, 'x'};

	wall_launch(0, &a, 3600 * FM_S); /* an hour */
	assert_int_equal(ops->stop.interrupt(w.q[0]), 0);
	wall_launch(1, &x, 1000);
	assert_int_equal(ops->sync(w.q[1]), 0);
	assert_int_equal(count(&box), 1);
	assert_int_equal(ops->stop.restore(w.q[0]), 0);
}

static void test_wall_hang_and_reset(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter a = {&box, 'a'};

	fm_simdev_fault(w.dev, FM_SIM_FAULT_HANG, 1);
	wall_launch(0, &a, 1000);
	fm_simdev_reset(w.dev);
	assert_int_equal(ops->sync(w.q[0]), 0);
	assert_int_equal(count(&box), 1);
}

static void drop_device(void *arg)
{
	struct letter *l = arg;

	ops->release(w.q[0], false);
	fm_simdev_free(w.dev);
	post(l);
}

static void test_wall_dropped_from_its_own_callback(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter l = {&box, 1};
	struct fm_command c = {.device_ns = 1000, .done = drop_device, .arg = &l};

	for (int i = 1; i < 4; i++) {
		ops->release(w.q[i], false);
		w.q[i] = NULL;
	}
	ops->launch(w.q[0], &c);
	await(&box, 1);
	w.q[0] = NULL;
	w.dev = NULL;
}

#define THREADS 4
#define EACH    200

static void *hammer(void *arg)
{
	struct letter *l = arg;
	void *gate;

	for (int i = 0; i < EACH; i++) {
		assert_int_equal(wall_launch(i % 2, l, 500), 0);
		assert_int_equal(ops->track(w.q[i % 2], post_reached, l), 0);
		if (i % 10 == 3) {
			assert_int_equal(ops->host_gate.deactivate(w.q[0], &gate), 0);
			assert_int_equal(ops->stop.interrupt(w.q[1]), 0);
			assert_int_equal(ops->stop.restore(w.q[1]), 0);
			ops->host_gate.reactivate(w.q[0], gate);
		}
		if (i % 50 == 7)
			assert_int_equal(ops->sync(w.q[1]), 0);
	}
	return NULL;
}

static void test_wall_threads(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter l = {&box, 0};
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, &l), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	await(&box, 2 * THREADS * EACH);
}

static void *advance_some(void *arg)
{
	for (int i = 0; i < 500; i++)
		assert_int_equal(fm_simdev_advance(w.dev, 10), 0);
	return NULL;
}

static void test_virtual_threads_take_turns(void **state)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < 60; i++)
		launch(i % 4, "a", 100);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, advance_some, NULL), 0);
	for (int q = 0; q < 4; q++)
		assert_int_equal(ops->sync(w.q[q]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(w.n, 60);
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal(w.at[i], 100 * (i + 1));
	assert_int_equal(fm_simdev_now(w.dev), THREADS * 5000);
}

#define VIRTUAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WALL(test)    cmocka_unit_test_setup_teardown(test, setup_wall, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WALL(test_wall_order),
		WALL(test_wall_gate_and_track),
		WALL(test_wall_interrupt),
		WALL(test_wall_hang_and_reset),
		WALL(test_wall_dropped_from_its_own_callback),
		WALL(test_wall_threads),
		VIRTUAL(test_virtual_threads_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
