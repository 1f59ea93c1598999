// SPDX-License-Identifier: Apache-2.0
/* The software device: time, order, turns, the three levels, faults, lifetimes. */
#include "backend/sim/sim.h"
#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* What happened, in order, and when. One at a time per device, so that it needs no lock in virtual
 * time. */
static struct {
	struct fm_simdev *dev;
	struct fm_simq *q[4];
	char names[64];
	uint64_t at[64];
	unsigned n;
} w;

static void happened(const char *name)
{
	assert_true(w.n < FM_ARRAY_LEN(w.at));
	w.names[w.n] = *name;
	w.at[w.n++] = fm_simdev_now(w.dev);
}

static void done(void *arg)
{
	happened(arg);
}

static void reached(void *arg, uint64_t now)
{
	happened(arg);
	assert_true(now && now <= fm_now());
}

static const struct fm_backend_ops *const ops = &fm_simq_ops;

static int launch(unsigned q, const char *name, uint64_t ns)
{
	struct fm_command c = {.device_ns = ns, .done = done, .arg = (void *)name};

	return ops->launch(w.q[q], &c);
}

static int track(unsigned q, const char *name)
{
	return ops->track(w.q[q], reached, (void *)name);
}

static void setup_with(struct fm_sim_options o, unsigned queues)
{
	memset(&w, 0, sizeof(w));
	assert_int_equal(fm_simdev_new(&w.dev, &o), 0);
	for (unsigned i = 0; i < queues; i++)
		assert_int_equal(fm_simq_new(&w.q[i], w.dev), 0);
}

static int setup(void **state)
{
	setup_with((struct fm_sim_options){.virtual_time = true}, 4);
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < FM_ARRAY_LEN(w.q); i++)
		if (w.q[i])
			ops->release(w.q[i]);
	fm_simdev_free(w.dev);
	return 0;
}

static void advance(uint64_t ns)
{
	assert_int_equal(fm_simdev_advance(w.dev, ns), 0);
}

static void assert_story(const char *names, ...)
{
	va_list ap;

	assert_string_equal(w.names, names);
	va_start(ap, names);
	for (unsigned i = 0; i < w.n; i++)
		assert_int_equal(w.at[i], va_arg(ap, int));
	va_end(ap);
}

static void test_time_passes_only_when_told(void **state)
{
	launch(0, "a", 100);
	advance(0);
	assert_int_equal(w.n, 0);
	advance(99);
	assert_int_equal(w.n, 0);
	advance(1);
	assert_story("a", 100);
	assert_int_equal(fm_simdev_now(w.dev), 100);
	advance(900);
	assert_int_equal(fm_simdev_now(w.dev), 1000);
	launch(0, "b", 0);
	advance(0);
	assert_story("ab", 100, 1000);
}

static void test_order_and_turns(void **state)
{
	launch(0, "a", 10);
	launch(0, "b", 10);
	launch(0, "c", 10);
	launch(1, "A", 5);
	launch(1, "B", 5);
	launch(2, "x", 1);
	advance(1000);
	assert_story("aAxbBc", 10, 15, 16, 26, 31, 41);
}

static void test_launch_cost(void **state)
{
	teardown(state);
	setup_with((struct fm_sim_options){.virtual_time = true, .launch_ns = 7}, 1);
	launch(0, "a", 3);
	launch(0, "b", 0);
	advance(100);
	assert_story("ab", 10, 17);
}

static void test_track(void **state)
{
	track(0, "0"); /* nothing is under way: reached at once */
	assert_story("0", 0);
	launch(0, "a", 10);
	track(0, "1");
	track(0, "2");
	launch(0, "b", 10);
	track(0, "3");
	advance(10);
	assert_story("0a12", 0, 10, 10, 10);
	advance(10);
	assert_story("0a12b3", 0, 10, 10, 10, 20, 20);
}

static void relaunch(void *arg)
{
	happened("r");
	assert_int_equal(launch(0, "b", 5), 0);
	assert_int_equal(track(0, "t"), 0);
	assert_int_equal(ops->sync(w.q[0]), -EDEADLK);
	assert_int_equal(fm_simdev_advance(w.dev, 1), -EDEADLK);
}

static void test_callbacks_may_use_the_device(void **state)
{
	struct fm_command c = {.device_ns = 10, .done = relaunch};

	ops->launch(w.q[0], &c);
	launch(1, "x", 1);
	advance(100);
	/* What the callback launches comes at the time of the callback, and takes its turn. */
	assert_story("rxbt", 10, 11, 16, 16);
}

static void test_gates(void **state)
{
	void *g1, *g2;

	assert_int_equal(ops->levels(w.q[0]), 1 << 1 | 1 << 2 | 1 << 3);
	launch(0, "a", 10);
	assert_int_equal(ops->deactivate(w.q[0], &g1), 0);
	launch(0, "b", 10);
	assert_int_equal(ops->deactivate(w.q[0], &g2), 0);
	track(0, "t");
	launch(0, "c", 10);
	launch(1, "x", 10);
	advance(100); /* the others run on */
	assert_story("ax", 10, 20);
	ops->reactivate(w.q[0], g1);
	advance(100);
	assert_story("axb", 10, 20, 110);
	ops->reactivate(w.q[0], g2);
	advance(100);
	assert_story("axbtc", 10, 20, 110, 200, 210);
}

static void test_gates_opened_in_any_order(void **state)
{
	void *g1, *g2;

	ops->deactivate(w.q[0], &g1);
	launch(0, "a", 10);
	ops->deactivate(w.q[0], &g2);
	launch(0, "b", 10);
	ops->reactivate(w.q[0], g2); /* before the device comes to it */
	advance(50);
	assert_int_equal(w.n, 0);
	ops->reactivate(w.q[0], g1);
	advance(50);
	assert_story("ab", 60, 70);
}

static void test_interrupt_keeps_what_was_done(void **state)
{
	launch(0, "a", 100);
	launch(1, "x", 10);
	advance(40);
	assert_int_equal(ops->interrupt(w.q[0]), 0);
	assert_int_equal(ops->interrupt(w.q[0]), 0);
	launch(0, "b", 5);
	advance(1000);
	assert_story("x", 50);
	assert_int_equal(ops->restore(w.q[0]), 0);
	assert_int_equal(ops->restore(w.q[0]), 0);
	advance(59);
	assert_story("x", 50);
	advance(6);
	assert_story("xab", 50, 1100, 1105);
}

static void test_interrupt_takes_time(void **state)
{
	teardown(state);
	setup_with((struct fm_sim_options){.virtual_time = true, .interrupt_ns = 25}, 2);
	launch(0, "a", 100);
	advance(50);
	launch(1, "x", 10);
	ops->interrupt(w.q[0]);
	advance(24);
	ops->interrupt(w.q[0]); /* stopped already: costs nothing more */
	advance(100);
	assert_story("x", 85);
	/* A queue that does not run is stopped for nothing. */
	ops->interrupt(w.q[1]);
	ops->restore(w.q[0]);
	advance(100);
	assert_story("xa", 85, 174 + 50);
}

static void test_suspension_changes_no_result(void **state)
{
	uint64_t busy = 0;
	void *gate = NULL;

	for (int i = 0; i < 20; i++) {
		launch(0, "a", 30);
		track(0, "t");
	}
	for (int step = 0; w.n < 40 && step < 1000; step++) {
		if (step % 3 == 1)
			ops->interrupt(w.q[0]);
		else
			busy += 7;
		advance(7);
		if (step % 3 == 1)
			ops->restore(w.q[0]);
		if (gate)
			ops->reactivate(w.q[0], gate);
		gate = NULL;
		if (step % 5 == 0)
			assert_int_equal(ops->deactivate(w.q[0], &gate), 0);
	}
	assert_int_equal(w.n, 40);
	assert_true(busy >= 600 && busy < 600 + 7); /* no work is lost, none is done twice */
	for (unsigned i = 0; i < w.n; i++)
		assert_int_equal(w.names[i], i % 2 ? 't' : 'a');
}

static void test_lesser_devices(void **state)
{
	static const unsigned levels[] = {14, 2, 6, 14};
	void *gate = NULL;

	teardown(state);
	for (unsigned max = 0; max <= 3; max++) {
		setup_with((struct fm_sim_options){.virtual_time = true, .max_level = max}, 1);
		assert_int_equal(ops->levels(w.q[0]), levels[max]);
		assert_int_equal(ops->deactivate(w.q[0], &gate), max == 1 ? -EOPNOTSUPP : 0);
		assert_int_equal(ops->interrupt(w.q[0]), max % 3 ? -EOPNOTSUPP : 0);
		assert_int_equal(ops->restore(w.q[0]), max % 3 ? -EOPNOTSUPP : 0);
		assert_int_equal(launch(0, "a", 1), 0);
		teardown(state);
	}
	w.dev = (void *)1;
	assert_int_equal(fm_simdev_new(&w.dev, &(struct fm_sim_options){.max_level = 4}), -EINVAL);
	setup(state);
}

static void test_faults_are_reported_and_pass(void **state)
{
	void *gate;

	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_COUNT, 1), -EINVAL);
	assert_int_equal(fm_simdev_fault(w.dev, (enum fm_sim_fault) - 1, 1), -EINVAL);
	for (unsigned f = FM_SIM_FAULT_LAUNCH; f <= FM_SIM_FAULT_TRACK; f++)
		assert_int_equal(fm_simdev_fault(w.dev, f, 2), 0);
	launch(1, "X", 0);
	assert_int_equal(launch(0, "a", 1), -EIO);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ops->deactivate(w.q[0], &gate), -EIO);
		assert_int_equal(ops->interrupt(w.q[0]), -EIO);
		assert_int_equal(track(0, "t"), -EIO);
	}
	advance(10);
	assert_int_equal(w.n, 0); /* nothing was half done */
	assert_int_equal(launch(0, "b", 1), 0);
	assert_int_equal(ops->deactivate(w.q[0], &gate), 0);
	assert_int_equal(track(0, "t"), 0);
	launch(1, "x", 1);
	advance(10);
	assert_int_equal(w.n, 2);
	assert_int_equal(ops->interrupt(w.q[0]), 0);
	ops->restore(w.q[0]);
	ops->reactivate(w.q[0], gate);
	advance(1);
	assert_story("bxt", 11, 12, 20);
}

static void test_hang(void **state)
{
	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_HANG, 1), 0);
	launch(0, "h", 1);
	launch(0, "a", 10);
	launch(1, "x", 10);
	advance(1000);
	assert_int_equal(w.n, 0);
	ops->interrupt(w.q[0]); /* the others get the device */
	advance(1000);
	assert_story("x", 1010);
	ops->restore(w.q[0]); /* it hangs on */
	launch(1, "y", 10);
	advance(1000);
	assert_story("x", 1010);
	fm_simdev_reset(w.dev);
	advance(1000);
	assert_story("xhya", 1010, 3000, 3010, 3020);
}

static void test_release_lets_work_finish(void **state)
{
	void *gate;

	launch(0, "a", 10);
	ops->deactivate(w.q[0], &gate);
	launch(0, "b", 10);
	track(0, "t");
	ops->interrupt(w.q[0]);
	ops->release(w.q[0]);
	w.q[0] = NULL;
	advance(100);
	assert_story("abt", 10, 20, 20);
}

static void test_device_goes_before_its_queues(void **state)
{
	launch(0, "a", 10);
	launch(1, "x", 10);
	ops->release(w.q[0]); /* its work is dropped with the device */
	w.q[0] = NULL;
	fm_simdev_free(w.dev);
	w.dev = NULL;
	assert_int_equal(launch(1, "y", 10), 0);
	assert_int_equal(w.n, 0);
}

static void test_odd_times(void **state)
{
	launch(0, "a", UINT64_MAX);
	launch(1, "x", 5);
	advance(FM_S);
	ops->interrupt(w.q[0]);
	advance(10);
	assert_story("x", (int)(FM_S + 5));
	assert_int_equal(fm_simdev_advance(w.dev, UINT64_MAX), -EOVERFLOW);
	assert_int_equal(fm_simdev_now(w.dev), FM_S + 10);
}

/* From here on wall time: what is asserted is order and presence, never how long it took. */

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
	assert_int_equal(ops->deactivate(w.q[0], &gate), 0);
	wall_launch(0, &b, 1000);
	assert_int_equal(ops->track(w.q[0], post_reached, &t), 0);
	await(&box, 1);
	wall_launch(1, &x, FM_MS); /* longer than all that stands behind the gate */
	assert_int_equal(ops->sync(w.q[1]), 0);
	assert_int_equal(count(&box), 2);
	ops->reactivate(w.q[0], gate);
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
	assert_int_equal(ops->interrupt(w.q[0]), 0);
	wall_launch(1, &x, 1000);
	assert_int_equal(ops->sync(w.q[1]), 0);
	assert_int_equal(count(&box), 1);
	assert_int_equal(ops->restore(w.q[0]), 0);
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

	ops->release(w.q[0]);
	fm_simdev_free(w.dev);
	post(l);
}

static void test_wall_dropped_from_its_own_callback(void **state)
{
	struct mailbox box = MAILBOX;
	struct letter l = {&box, 1};
	struct fm_command c = {.device_ns = 1000, .done = drop_device, .arg = &l};

	for (int i = 1; i < 4; i++) {
		ops->release(w.q[i]);
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
			assert_int_equal(ops->deactivate(w.q[0], &gate), 0);
			assert_int_equal(ops->interrupt(w.q[1]), 0);
			assert_int_equal(ops->restore(w.q[1]), 0);
			ops->reactivate(w.q[0], gate);
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
		VIRTUAL(test_time_passes_only_when_told),
		VIRTUAL(test_order_and_turns),
		VIRTUAL(test_launch_cost),
		VIRTUAL(test_track),
		VIRTUAL(test_callbacks_may_use_the_device),
		VIRTUAL(test_gates),
		VIRTUAL(test_gates_opened_in_any_order),
		VIRTUAL(test_interrupt_keeps_what_was_done),
		VIRTUAL(test_interrupt_takes_time),
		VIRTUAL(test_suspension_changes_no_result),
		VIRTUAL(test_lesser_devices),
		VIRTUAL(test_faults_are_reported_and_pass),
		VIRTUAL(test_hang),
		VIRTUAL(test_release_lets_work_finish),
		VIRTUAL(test_device_goes_before_its_queues),
		VIRTUAL(test_odd_times),
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
