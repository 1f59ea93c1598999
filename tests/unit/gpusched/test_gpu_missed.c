// SPDX-License-Identifier: Apache-2.0
/* Which deadlines passed while the set was stopped, to the tick, in virtual time. The time of a
 * stop begins with its first tick, and ends before the first behind it. */
#include "gpu_world.h"

/* Of the task with the least priority, whose deadline is so many ticks behind its release. */
static unsigned add_late(struct fm_gpu_set *s, unsigned n, unsigned deadline)
{
	struct fm_gpu_task t = ticks(n);

	t.deadline_ns = deadline * TICK;
	return add(s, t);
}

static unsigned add_urgent(struct fm_gpu_set *s, unsigned n)
{
	struct fm_gpu_task t = ticks(n);

	t.priority = 1;
	return add(s, t);
}

static void stop_for(struct fm_gpu_set *s, unsigned n)
{
	assert_int_equal(fm_gpu_set_suspend(s), 0);
	pass_ticks(s, n);
	assert_int_equal(fm_gpu_set_resume(s), 0);
}

static void expect(struct fm_gpu_set *s, unsigned task, uint64_t missed, uint64_t stopped)
{
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(stats_of(s, task).missed, missed);
	assert_int_equal(stats_of(s, task).missed_stopped, stopped);
	assert_int_equal(stats_of(s, FM_GPU_SET).missed_stopped, stopped);
	fm_gpu_set_free(s);
}

static struct fm_gpu_set *started(unsigned deadline, unsigned urgent, unsigned *late)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);

	*late = add_late(s, 2, deadline);
	add_urgent(s, urgent);
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 3);
	return s;
}

static void a_deadline_in_a_stop_counts(void **state)
{
	unsigned late;
	struct fm_gpu_set *s = started(5, 1, &late);

	assert_int_equal(fm_gpu_set_suspend(s), 0);
	assert_int_equal(fm_gpu_release(s, late, 1), 0);
	pass_ticks(s, 10);
	assert_int_equal(fm_gpu_set_resume(s), 0);
	expect(s, late, 1, 1);
}

static void a_deadline_before_or_behind_a_stop_is_a_miss_like_any_other(void **state)
{
	for (unsigned deadline = 1; deadline < 30; deadline++) {
		unsigned late;
		struct fm_gpu_set *s = started(deadline, 8, &late);

		/* The stop is from 4 to 16, and the job is complete at 3 + 1 + 12 + 7 + 2. */
		assert_int_equal(fm_gpu_release(s, late, 1), 0);
		assert_int_equal(fm_gpu_release(s, 1, 1), 0);
		pass_ticks(s, 1);
		stop_for(s, 12);
		expect(s, late, deadline < 21, deadline >= 1 && deadline < 13);
	}
}

static void each_stop_counts_and_not_the_last_alone(void **state)
{
	unsigned late;
	struct fm_gpu_set *s = started(5, 20, &late);

	assert_int_equal(fm_gpu_release(s, late, 3), 0);
	assert_int_equal(fm_gpu_release(s, 1, 1), 0);
	stop_for(s, 10);
	for (unsigned i = 0; i < 3; i++) {
		pass_ticks(s, 2);
		stop_for(s, 4);
	}
	expect(s, late, 3, 3);
}

static void what_runs_when_a_stop_begins_counts_too(void **state)
{
	for (unsigned deadline = 2; deadline < 5; deadline++) {
		struct fm_gpu_set *s = make("edf", 1, false);
		struct fm_gpu_task t = ticks(5);
		unsigned number;

		t.n_chunks = 1;
		t.deadline_ns = deadline * TICK;
		number = add(s, t);
		assert_int_equal(fm_gpu_set_start(s), 0);
		assert_int_equal(fm_gpu_release(s, number, 1), 0);
		pass_ticks(s, 3);
		stop_for(s, 6); /* it ends in there */
		expect(s, number, 1, deadline >= 3);
	}
}

/* A place in the backlog that a job of a stop had is that of another one later. */
static void later_jobs_are_not_taken_for_those(void **state)
{
	unsigned late;
	struct fm_gpu_set *s = started(1, 1, &late);

	assert_int_equal(fm_gpu_set_suspend(s), 0);
	assert_int_equal(fm_gpu_release(s, late, FM_GPU_BACKLOG), 0);
	pass_ticks(s, 5);
	assert_int_equal(fm_gpu_set_resume(s), 0);
	pass_ticks(s, 2 * FM_GPU_BACKLOG);
	assert_int_equal(stats_of(s, late).missed_stopped, FM_GPU_BACKLOG);
	assert_int_equal(fm_gpu_release(s, late, FM_GPU_BACKLOG), 0); /* each takes 2 ticks */
	expect(s, late, 2 * FM_GPU_BACKLOG, FM_GPU_BACKLOG);
}

static void a_set_that_starts_again_goes_on_counting(void **state)
{
	unsigned late;
	struct fm_gpu_set *s = started(5, 1, &late);

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fm_gpu_set_suspend(s), 0);
		assert_int_equal(fm_gpu_release(s, late, 1), 0);
		pass_ticks(s, 10);
		assert_int_equal(fm_gpu_set_resume(s), 0);
		assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
		assert_int_equal(fm_gpu_set_start(s), 0);
	}
	expect(s, late, 2, 2);
}

/* --- sets at random, and what the words say of each job --- */

#define TASKS 4
#define JOBS  512u
#define STOPS 256u

static struct {
	struct fm_gpu_set *set;
	unsigned chunks[TASKS], done[TASKS], parts[TASKS], released[TASKS];
	uint64_t deadline[TASKS], release[TASKS][JOBS], complete[TASKS][JOBS];
	uint64_t from[STOPS], to[STOPS];
	unsigned stops;
	bool stopped;
} world;

static void end_part(void *arg)
{
	unsigned task = (unsigned)(uintptr_t)arg;

	if (++world.parts[task] % world.chunks[task])
		return;
	world.complete[task][world.done[task]++] = fm_gpu_set_now(world.set);
}

static int put(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, (1 + any(3)) * TICK, end_part, ctx);
}

static void make_world(void)
{
	static const char *const policy[] = {"edf", "fifo", "fixed-priority", "fair"};

	memset(&world, 0, sizeof(world));
	world.set = make(policy[any(4)], 1 + (unsigned)any(2), false);
	for (unsigned i = 0; i < TASKS; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.n_chunks = 1 + (unsigned)any(3),
			.deadline_ns = any(5) ? (1 + any(60)) * TICK : 0,
			.priority = (int)any(3),
			.enqueue = put,
			.ctx = (void *)(uintptr_t)i};

		world.chunks[i] = t.n_chunks;
		world.deadline[i] = t.deadline_ns;
		add(world.set, t);
	}
	assert_int_equal(fm_gpu_set_start(world.set), 0);
}

static void release_some(unsigned task)
{
	unsigned n = 1 + (unsigned)any(4);

	if (world.released[task] - world.done[task] + n > FM_GPU_BACKLOG ||
		world.released[task] + n > JOBS)
		return;
	assert_int_equal(fm_gpu_release(world.set, task, n), 0);
	while (n--)
		world.release[task][world.released[task]++] = fm_gpu_set_now(world.set);
}

static void stop_or_go_on(void)
{
	uint64_t now = fm_gpu_set_now(world.set);

	if (world.stopped) {
		world.to[world.stops++] = now;
		assert_int_equal(fm_gpu_set_resume(world.set), 0);
	} else if (world.stops < STOPS) {
		world.from[world.stops] = now;
		assert_int_equal(fm_gpu_set_suspend(world.set), 0);
	} else {
		return;
	}
	world.stopped = !world.stopped;
}

static bool is_in_a_stop(uint64_t at)
{
	for (unsigned i = 0; i < world.stops; i++)
		if (at >= world.from[i] && at < world.to[i])
			return true;
	return false;
}

static unsigned compare(unsigned task)
{
	unsigned missed = 0, stopped = 0;

	assert_int_equal(world.done[task], world.released[task]);
	for (unsigned i = 0; i < world.done[task]; i++) {
		uint64_t deadline = world.release[task][i] + world.deadline[task];
		bool late = world.deadline[task] && world.complete[task][i] > deadline;

		missed += late;
		stopped += late && is_in_a_stop(deadline);
	}
	assert_int_equal(stats_of(world.set, task).missed, missed);
	assert_int_equal(stats_of(world.set, task).missed_stopped, stopped);
	return stopped;
}

static void each_miss_is_where_its_deadline_was(void **state)
{
	unsigned stopped = 0, missed = 0;

	for (unsigned run = 0; run < 200; run++) {
		seed = run;
		make_world();
		for (unsigned step = 0; step < 200; step++) {
			if (any(2))
				release_some((unsigned)any(TASKS));
			if (!any(8))
				stop_or_go_on();
			assert_int_equal(fm_gpu_set_advance(world.set, any(8) * TICK / 2), 0);
		}
		if (world.stopped)
			stop_or_go_on();
		assert_int_equal(fm_gpu_set_drain(world.set, FM_FOREVER), 0);
		for (unsigned i = 0; i < TASKS; i++)
			stopped += compare(i);
		missed += (unsigned)stats_of(world.set, FM_GPU_SET).missed;
		fm_gpu_set_free(world.set);
	}
	assert_true(stopped > 1000 && missed - stopped > 1000); /* else nothing was shown */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deadline_in_a_stop_counts),
		cmocka_unit_test(a_deadline_before_or_behind_a_stop_is_a_miss_like_any_other),
		cmocka_unit_test(each_stop_counts_and_not_the_last_alone),
		cmocka_unit_test(what_runs_when_a_stop_begins_counts_too),
		cmocka_unit_test(later_jobs_are_not_taken_for_those),
		cmocka_unit_test(a_set_that_starts_again_goes_on_counting),
		cmocka_unit_test(each_miss_is_where_its_deadline_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
