/* SPDX-License-Identifier: Apache-2.0 */
/* What a segment's time says of its commands: what the device takes, where it was launched ahead of
 * the device; no more than a bound, where the device may have waited for the program. */
#include "xqueue_world.h"

#include "xqueue/segment.h"

/* The end of a segment comes when this test says so, and at the time that it says. */
static struct {
	_Atomic bool own;
	_Atomic unsigned n;
	struct {
		fm_reached_fn *reached;
		void *cookie;
	} at[64];
} ends;

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	const struct fm_track *t = cookie;
	unsigned n = ends.n;

	if (!ends.own || !t->index)
		return fm_simq_ops.track(hwq, reached, cookie);
	ends.at[n].reached = reached;
	ends.at[n].cookie = cookie;
	ends.n = n + 1;
	return 0;
}

static struct fm_xq *start(void)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	setenv("FERMATA_WINDOW_US", "10", 1); /* each command is a segment */
	start_device(1);
	ops = fm_simq_ops;
	ops.track = track;
	memset(&ends, 0, sizeof(ends));
	ends.own = true;
	q = new_queue_by(&ops, false, 0);
	pause_device();
	return q;
}

static void end(struct fm_xq *q)
{
	ends.own = false;
	w.pause = false;
	wait_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	unsetenv("FERMATA_WINDOW_US");
	stop_device();
}

/* The next command, with which the segment of the one before it ends: in the tracker that it puts.
 */
static void seal(struct fm_xq *q)
{
	unsigned n = ends.n;

	launch(q, 0);
	assert_int_equal(ends.n, n + 1);
}

/* Whoever has the lock just then learns from it: this thread, or the agent when it leaves it, for
 * which this thread does it after all. */
static void reach(struct fm_xq *q, unsigned i, uint64_t at)
{
	ends.at[i].reached(ends.at[i].cookie, at);
	pthread_mutex_lock(&q->cold->lock);
	fm_xq_leave(q);
}

static uint64_t estimate(void)
{
	return fm_xq_estimate(COMMAND_NS);
}

/* The program launches, and does something else for a millisecond or three before it launches
 * again: that the device was done just before then is all that is known. */
static void test_device_that_waits(void **state)
{
	struct fm_xq *q = start();
	uint64_t before, first, then;

	assert_true(estimate() == UINT64_MAX);
	launch(q, 0);
	usleep(1000);
	before = fm_now();
	seal(q);
	reach(q, 0, before);
	first = before - atomic_load(&q->edge_at);
	assert_int_equal(estimate(), first | 1);
	assert_true(fm_xq_weight(estimate()) <= first / 2);
	do { /* longer: it is a bound all the same */
		usleep(1000);
		then = fm_now();
	} while (then - before <= 2 * first);
	seal(q);
	reach(q, 1, then);
	assert_int_equal(estimate(), first | 1);
	usleep(1000);
	seal(q);
	reach(q, 2, then + first / 2);                             /* less: a better one */
	assert_in_range(estimate(), first / 2 - 2, first / 2 + 1); /* that is rounded */
	assert_true(estimate() & 1);
	end(q);
}

/* It launches the next one while the device still has the one before: what that takes is known, and
 * a bound gives way to it. */
static void test_device_that_is_behind(void **state)
{
	struct fm_xq *q = start();
	uint64_t before, bound;

	launch(q, 0);
	usleep(1000);
	before = fm_now();
	seal(q);
	seal(q);
	reach(q, 0, before);
	bound = estimate();
	assert_true(bound & 1);
	reach(q, 1, before + 2 * bound);
	assert_int_equal(estimate(), 2 * bound);
	end(q);
}

/* Or the program has waited for most of its time. */
static void test_program_that_waits(void **state)
{
	struct fm_xq *q = start();
	uint64_t since;

	launch(q, 0);
	usleep(1000);
	since = fm_now();
	seal(q);
	reach(q, 0, since);
	fm_xq_synced(q, fm_xq_mark(q));
	assert_true(estimate() & 1);
	launch(q, 0);
	since = atomic_load(&q->edge_at);
	usleep(2000);
	fm_xq_waited(q, fm_xq_mark(q), since);
	assert_in_range(estimate(), 2 * FM_MS - 1, fm_now() - since);
	assert_false(estimate() & 1);
	end(q);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_device_that_waits),
	cmocka_unit_test(test_device_that_is_behind),
	cmocka_unit_test(test_program_that_waits),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
