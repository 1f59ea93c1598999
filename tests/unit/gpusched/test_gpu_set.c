// SPDX-License-Identifier: Apache-2.0
/* Sets of tasks with the engine "cpu" in virtual time: releases, order, counts, ends. */
#include "gpu_world.h"
#include <sys/wait.h>
#include <unistd.h>

static void a_job_runs_chunk_by_chunk(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	unsigned t = add(s, ticks(4));

	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 10);
	assert_int_equal(stats_of(s, t).decisions, 1); /* nothing happens by itself */
	assert_int_equal(fm_gpu_release(s, t, 1), 0);
	pass_ticks(s, 3);
	assert_int_equal(stats_of(s, t).done, 0);
	assert_int_equal(stats_of(s, t).running, 1);
	pass_ticks(s, 1);
	assert_int_equal(stats_of(s, t).done, 1);
	assert_int_equal(stats_of(s, t).running, 0);
	assert_int_equal(stats_of(s, t).response_max_ns, 4 * TICK);
	assert_int_equal(stats_of(s, t).response_p99_ns, 4 * TICK);
	assert_int_equal(stats_of(s, t).device_ns, 4 * TICK);
	assert_int_equal(stats_of(s, t).started, 4);
	assert_int_equal(fm_gpu_set_now(s), 14 * TICK);
	fm_gpu_set_free(s);
}

static void the_urgent_one_waits_for_a_chunk_at_most(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	struct fm_gpu_task low = ticks(10), high = ticks(1);
	unsigned l, h;

	low.n_chunks = 5; /* of two ticks each */
	high.priority = 1;
	l = add(s, low);
	h = add(s, high);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, l, 1), 0);
	pass_ticks(s, 3);
	assert_int_equal(fm_gpu_release(s, h, 1), 0);
	pass_ticks(s, 20);
	assert_int_equal(
		stats_of(s, h).response_max_ns, 2 * TICK); /* one of them is the chunk's rest */
	assert_int_equal(stats_of(s, l).response_max_ns, 11 * TICK);
	fm_gpu_set_free(s);
}

static void decisions_cost_what_is_said(void **state)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = "edf",
		.slots = 1,
		.engine = "cpu",
		.virtual_time = true,
		.decision_ns = 100};
	struct fm_gpu_set *s = fm_gpu_set_new(&o, NULL);
	struct fm_gpu_task task = ticks(3);
	unsigned t;

	task.deadline_ns = 3 * TICK + 299;
	t = add(s, task);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, t, 1), 0);
	pass_ticks(s, 10);
	assert_int_equal(stats_of(s, t).response_max_ns, 3 * TICK + 300);
	assert_int_equal(stats_of(s, t).missed, 1);
	assert_int_equal(stats_of(s, t).device_ns, 3 * TICK);
	assert_int_equal(stats_of(s, t).overruns, 0);
	assert_int_equal(stats_of(s, t).decision_max_ns, 100);
	fm_gpu_set_free(s);
}

static char trace[64];

static void mark(void *name)
{
	strcat(trace, name);
}

static int one_tick(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, TICK, mark, ctx);
}

static int no_work(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return 0;
}

static struct fm_gpu_task named(char *name)
{
	return (struct fm_gpu_task){
		.size = sizeof(struct fm_gpu_task), .name = name, .enqueue = one_tick, .ctx = name};
}

static void what_comes_after_others_waits_for_all_of_them(void **state)
{
	struct fm_gpu_set *s = make("fifo", 2, false);
	const unsigned both[] = {1, 2}, first[] = {3};
	struct fm_gpu_task d = named("d"), b = named("b"), c = named("c"), a = named("a");

	d.after = both; /* numbers of tasks that are yet to come */
	d.n_after = 2;
	b.after = c.after = first;
	b.n_after = c.n_after = 1;
	add(s, d);
	add(s, b);
	add(s, c);
	add(s, a);
	trace[0] = '\0';
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 3, 2), 0);
	/* a, a and b, b and c, c and d, d: each as it was released, and then by number. */
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_string_equal(trace, "ababcdcd");
	assert_int_equal(stats_of(s, 0).done, 2);
	fm_gpu_set_free(s);
}

/* With a period and others a task would have two rows of jobs, or jobs that need both. The second
 * is said by a task without work that has the period. */
static void a_period_or_a_word_is_of_a_task_of_its_own(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, true);
	const unsigned first[] = {0}, both[] = {0, 1};
	struct fm_gpu_task camera = ticks(2), plan = ticks(1);
	struct fm_gpu_task clock = {.size = sizeof(clock), .enqueue = no_work};
	uint64_t *word;

	clock.period_ns = 10 * TICK;
	plan.after = both;
	plan.n_after = 2;
	plan.priority = 1;
	add(s, camera);
	add(s, clock);
	add(s, plan);
	clock.after = plan.after = first; /* what was given is copied */
	clock.n_after = 1;
	assert_int_equal(fm_gpu_task_add(s, &clock), -EINVAL);
	expect_why(s, "comes after no others: for jobs that need both");
	assert_int_equal(fm_gpu_release_word(s, 2, &word), -EINVAL);
	expect_why(s, "has no word: for jobs that need both");
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 5); /* of the clock 1 */
	assert_int_equal(stats_of(s, 2).done, 0);
	assert_int_equal(fm_gpu_release(s, 0, 2), 0);
	pass_ticks(s, 4); /* of the camera 2 */
	assert_int_equal(stats_of(s, 2).done, 1);
	pass_ticks(s, 1);
	assert_int_equal(stats_of(s, 2).done, 1);
	pass_ticks(s, 1); /* at 10 the clock's second is complete */
	assert_int_equal(stats_of(s, 2).done, 2);
	pass_ticks(s, 100);
	assert_int_equal(stats_of(s, 2).done, 2);
	assert_int_equal(fm_gpu_release(s, 2, 1), 0); /* by the host, one more */
	pass_ticks(s, 1);
	assert_int_equal(stats_of(s, 2).done, 3);
	fm_gpu_set_free(s);
}

static void periods_release_in_time(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, true);
	struct fm_gpu_task p = ticks(2), q = ticks(3);

	p.period_ns = 5 * TICK;
	p.phase_ns = 1 * TICK;
	q.period_ns = 10 * TICK;
	q.deadline_ns = 4 * TICK; /* it may begin before p, and is done by 3 */
	add(s, p);
	add(s, q);
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 1000);
	assert_int_equal(stats_of(s, 0).released, 200);
	assert_int_equal(stats_of(s, 0).missed, 0);
	assert_int_equal(stats_of(s, 0).response_max_ns, 4 * TICK);
	assert_int_equal(stats_of(s, 1).done, 100);
	assert_int_equal(stats_of(s, 1).response_max_ns, 3 * TICK);
	assert_int_equal(stats_of(s, FM_GPU_SET).done, 300);
	fm_gpu_set_free(s);
}

static void releases_beyond_what_may_wait_are_dropped(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, true);
	struct fm_gpu_task fast = ticks(100);
	uint64_t *word;

	add(s, fast);
	fast.period_ns = TICK; /* a hundred times faster than it is served */
	add(s, fast);
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fm_gpu_release(s, 0, UINT32_MAX), 0);
	assert_int_equal(stats_of(s, 0).released, FM_GPU_BACKLOG);
	assert_int_equal(stats_of(s, 0).dropped, 4 * (uint64_t)UINT32_MAX - FM_GPU_BACKLOG);
	assert_int_equal(fm_gpu_release_word(s, 0, &word), 0);
	*word = 17; /* whatever anybody writes there */
	pass_ticks(s, 1);
	*word = UINT64_MAX;
	pass_ticks(s, 1);
	assert_int_equal(stats_of(s, 0).released, FM_GPU_BACKLOG);
	pass_ticks(s, 100000);
	assert_true(stats_of(s, 1).released < 2000);
	assert_in_range(stats_of(s, 1).dropped + stats_of(s, 1).released, 99900, 100003);
	assert_true(stats_of(s, 1).missed > 0);
	fm_gpu_set_free(s);
}

static void a_job_longer_than_it_said_goes_on(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, false);
	struct fm_gpu_task task = named("x");
	unsigned t;

	task.wcet_ns = 2 * TICK;
	task.deadline_ns = 10 * TICK;
	task.n_chunks = 3; /* of one tick each */
	t = add(s, task);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, t, 2), 0);
	pass_ticks(s, 4);
	assert_int_equal(stats_of(s, t).overruns, 1);
	pass_ticks(s, 4);
	assert_int_equal(stats_of(s, t).overruns, 2);
	assert_int_equal(stats_of(s, t).done, 2);
	assert_int_equal(stats_of(s, t).device_ns, 6 * TICK);
	assert_int_equal(stats_of(s, t).missed, 0);
	fm_gpu_set_free(s);
}

static int fails_later(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	unsigned *left = ctx;

	return (*left)-- ? fm_gpu_cpu_launch(stream, TICK, NULL, NULL) : -ENXIO;
}

static void a_task_that_cannot_launch_is_off_and_others_live(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	struct fm_gpu_task bad = {.size = sizeof(bad), .enqueue = fails_later, .n_chunks = 2};
	unsigned left = 5, b, g;

	bad.ctx = &left;
	b = add(s, bad);
	g = add(s, ticks(1));
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, b, 8), 0);
	assert_int_equal(fm_gpu_release(s, g, 8), 0);
	assert_int_equal(fm_gpu_set_drain(s, 100 * TICK), 0);
	/* The third job cannot be queued behind the second, which waits. */
	assert_int_equal(stats_of(s, b).done, 1);
	assert_int_equal(stats_of(s, b).dropped, 7);
	assert_int_equal(stats_of(s, b).released, 1);
	assert_int_equal(stats_of(s, b).error, -ENXIO);
	assert_int_equal(stats_of(s, FM_GPU_SET).error, -ENXIO);
	assert_int_equal(stats_of(s, g).done, 8);
	assert_int_equal(stats_of(s, g).error, 0);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, b, 1), -ENXIO);
	expect_why(s, "enqueue of task 0 has failed");
	assert_int_equal(fm_gpu_release(s, g, 1), 0);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(stats_of(s, g).done, 9);
	fm_gpu_set_free(s);
}

static int fails_as_told(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return *(const int *)ctx;
}

/* Whatever the error is: it is the task's, not that of a device that is lost. */
static void a_task_may_fail_with_any_error(void **state)
{
	static const int errors[] = {-ENODEV, -ESHUTDOWN};
	struct fm_gpu_set *s = make("fixed-priority", 1, false);

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(add(s, (struct fm_gpu_task){.size = sizeof(struct fm_gpu_task),
						.enqueue = fails_as_told,
						.ctx = (void *)(uintptr_t)&errors[i]}),
			i);
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (unsigned i = 0; i < 2; i++) {
		fm_gpu_release(s, i, 1);
		assert_int_equal(fm_gpu_release(s, i, 1), errors[i]);
		expect_why(s, i ? "enqueue of task 1 has failed" : "enqueue of task 0 has failed");
	}
	fm_gpu_set_free(s);
}

static struct CUstream_st *kept;

static int nothing(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	kept = stream;
	return 0;
}

static void a_chunk_without_work_ends_at_once(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	struct fm_gpu_task t = {.size = sizeof(t), .enqueue = nothing, .n_chunks = 3};

	add(s, t);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 5), 0);
	pass_ticks(s, 0);
	assert_int_equal(stats_of(s, 0).done, 5);
	assert_int_equal(stats_of(s, 0).response_max_ns, 0);
	assert_int_equal(fm_gpu_cpu_launch(kept, TICK, NULL, NULL), -EINVAL); /* too late */
	fm_gpu_set_free(s);
}

static struct fm_gpu_set *busy_set;
static int busy_said[4];

static void tries_all(void *arg)
{
	busy_said[0] = fm_gpu_set_advance(busy_set, TICK);
	busy_said[1] = fm_gpu_set_drain(busy_set, TICK);
	busy_said[2] = fm_gpu_set_start(busy_set);
	busy_said[3] = fm_gpu_release(busy_set, 1, 1);
	fm_gpu_set_free(busy_set); /* does nothing */
}

static int from_within(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, 0, tries_all, NULL);
}

static void what_a_set_has_called_cannot_wait_for_it(void **state)
{
	struct fm_gpu_set *s = busy_set = make("fixed-priority", 1, false);
	struct fm_gpu_task t = {.size = sizeof(t), .enqueue = from_within};

	add(s, t);
	add(s, ticks(1));
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), 0);
	pass_ticks(s, 5);
	assert_int_equal(busy_said[0], -EBUSY);
	assert_int_equal(busy_said[1], -EBUSY);
	assert_int_equal(busy_said[2], -EBUSY);
	assert_int_equal(busy_said[3], 0);
	assert_int_equal(stats_of(s, 1).done, 1);
	fm_gpu_set_free(s);
}

static void again(void *set)
{
	assert_int_equal(fm_gpu_release(set, 0, 1), 0);
}

static int for_ever(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, 0, again, ctx);
}

static void time_that_cannot_pass_is_told(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	struct fm_gpu_task t = {.size = sizeof(t), .enqueue = for_ever};

	t.ctx = s;
	add(s, t);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), 0);
	assert_int_equal(fm_gpu_set_advance(s, TICK), -ELOOP);
	expect_why(s, "at one time");
	assert_int_equal(fm_gpu_set_now(s), 0);
	fm_gpu_set_free(s);
}

static void a_suspended_set_begins_nothing(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, false);
	struct fm_gpu_task task = ticks(4);
	unsigned t;

	task.deadline_ns = 10 * TICK;
	t = add(s, task);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, t, 1), 0);
	pass_ticks(s, 1);
	assert_int_equal(fm_gpu_set_suspend(s), 0);
	assert_int_equal(fm_gpu_set_suspend(s), 0);
	pass_ticks(s, 100);
	assert_int_equal(stats_of(s, t).running, 0);
	assert_int_equal(stats_of(s, t).device_ns, 2 * TICK); /* the chunk that ran has ended */
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), -ETIMEDOUT);
	expect_why(s, "1 jobs are not complete");
	assert_int_equal(fm_gpu_set_resume(s), 0);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(stats_of(s, t).done, 1);
	assert_int_equal(stats_of(s, t).missed, 1);
	fm_gpu_set_free(s);
}

static void a_drained_set_starts_again(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, true);
	struct fm_gpu_task p = ticks(1);

	p.period_ns = 10 * TICK;
	add(s, p);
	assert_int_equal(fm_gpu_set_drain(s, 0), -EINVAL);
	assert_int_equal(fm_gpu_release(s, 0, 1), -ESHUTDOWN);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_set_start(s), -EBUSY);
	assert_int_equal(fm_gpu_task_add(s, &p), -EBUSY);
	pass_ticks(s, 95);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(fm_gpu_set_drain(s, 0), 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), -ESHUTDOWN);
	pass_ticks(s, 1000);
	assert_int_equal(stats_of(s, 0).done, 10);
	p.period_ns = 0;
	assert_int_equal(add(s, p), 1);
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 9);
	assert_int_equal(fm_gpu_release(s, 1, 1), 0);
	pass_ticks(s, 1);
	assert_int_equal(stats_of(s, 0).done, 11);
	assert_int_equal(stats_of(s, 1).done, 1);
	fm_gpu_set_free(s);
}

static void words_release_when_time_passes(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, true);
	uint64_t *word;

	add(s, ticks(2));
	assert_int_equal(fm_gpu_release_word(s, 1, &word), -EINVAL);
	assert_int_equal(fm_gpu_release_word(s, 0, &word), 0);
	assert_int_equal(fm_gpu_set_start(s), 0);
	__atomic_fetch_add(word, 3, __ATOMIC_SEQ_CST);
	pass_ticks(s, 6);
	assert_int_equal(stats_of(s, 0).done, 3);
	fm_gpu_set_free(s);
}

/* What came before the drain is released; what comes in it waits for the next start. */
static void a_drain_ends_what_words_and_periods_release(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, true);
	struct fm_gpu_task p = ticks(1);
	uint64_t *word;

	p.period_ns = 4 * TICK;
	add(s, ticks(3));
	add(s, p);
	assert_int_equal(fm_gpu_release_word(s, 0, &word), 0);
	assert_int_equal(fm_gpu_set_start(s), 0);
	__atomic_fetch_add(word, 2, __ATOMIC_SEQ_CST);
	assert_int_equal(fm_gpu_set_drain(s, 2 * TICK), -ETIMEDOUT);
	__atomic_fetch_add(word, 5, __ATOMIC_SEQ_CST);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(stats_of(s, 0).released, 2);
	assert_int_equal(stats_of(s, 0).done, 2);
	assert_int_equal(stats_of(s, 1).done, 1); /* that of the start */
	pass_ticks(s, 100);
	assert_int_equal(stats_of(s, FM_GPU_SET).done, 3);
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 40);
	assert_int_equal(stats_of(s, 0).done, 7);
	fm_gpu_set_free(s);
}

static void fair_shares_are_those_of_weights(void **state)
{
	struct fm_gpu_set *s = make("fair", 1, false);
	struct fm_gpu_task a = ticks(1), b = ticks(1);

	b.weight = 3 * 1024;
	add(s, a);
	add(s, b);
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(fm_gpu_release(s, 0, 2), 0);
		assert_int_equal(fm_gpu_release(s, 1, 2), 0);
		pass_ticks(s, 1);
	}
	assert_in_range(stats_of(s, 0).done, 248, 252);
	assert_in_range(stats_of(s, 1).done, 748, 752);
	/* A task that was away does not catch up. */
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	fm_gpu_set_free(s);
}

static void a_set_of_the_parent_is_nothing_to_a_child(void **state)
{
	struct fm_gpu_set *s = make("fixed-priority", 1, false);
	struct fm_gpu_stats stats = {.size = sizeof(stats)};
	int status;
	pid_t pid;

	add(s, ticks(1));
	assert_int_equal(fm_gpu_set_start(s), 0);
	pid = fork();
	if (!pid) {
		bool dead = fm_gpu_release(s, 0, 1) == -EBADF &&
			    fm_gpu_set_advance(s, 1) == -EBADF &&
			    fm_gpu_set_stats(s, 0, &stats) == -EBADF && !fm_gpu_set_now(s);

		fm_gpu_set_free(s);
		_exit(dead ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), 0);
	fm_gpu_set_free(s);
}

/* --- bad input --- */

static int error_of(struct fm_gpu_set_options o)
{
	int error = 0;
	struct fm_gpu_set *s = fm_gpu_set_new(&o, &error);

	assert_true(!s == !!error);
	fm_gpu_set_free(s);
	return error;
}

static void options_are_checked(void **state)
{
	const struct fm_gpu_set_options good = {
		.size = sizeof(good), .policy = "edf", .slots = 1, .engine = "cpu"};
	struct fm_gpu_set_options o = good;

	assert_int_equal(error_of(good), 0);
	assert_null(fm_gpu_set_new(NULL, NULL));
	o.size--;
	assert_int_equal(error_of(o), -EINVAL);
	o = good;
	o.policy = NULL;
	assert_int_equal(error_of(o), -EINVAL);
	o.policy = "lottery";
	assert_int_equal(error_of(o), -EINVAL);
	o = good;
	o.engine = "steam";
	assert_int_equal(error_of(o), -EINVAL);
	o.engine = NULL;
	assert_int_equal(error_of(o), -ENOSYS);
	o.engine = "graphs";
	assert_int_equal(error_of(o), -ENOSYS);
	o = good;
	o.slots = 0;
	assert_int_equal(error_of(o), -EINVAL);
	o.slots = FM_GPU_SLOTS_MAX + 1;
	assert_int_equal(error_of(o), -EINVAL);
	o = good;
	o.depth = FM_GPU_DEPTH_MAX + 1;
	assert_int_equal(error_of(o), -EINVAL);
	o = good;
	o.decision_ns = 1; /* in real time it costs what it costs */
	assert_int_equal(error_of(o), -EINVAL);
	o.admit = true;
	assert_int_equal(error_of(o), 0);
	o.decision_ns = FM_GPU_DECISION_MAX + 1;
	assert_int_equal(error_of(o), -EINVAL);
}

static void expect_task(struct fm_gpu_set *s, struct fm_gpu_task t, int rc, const char *why)
{
	assert_int_equal(fm_gpu_task_add(s, &t), rc);
	expect_why(s, why);
}

static void tasks_are_checked(void **state)
{
	struct fm_gpu_set *s = make("edf", 1, true), *plain = make("edf", 1, false);
	struct fm_gpu_task t = ticks(1);
	struct CUgraphExec_st *graph = NULL;

	assert_int_equal(fm_gpu_task_add(NULL, &t), -EINVAL);
	assert_int_equal(fm_gpu_task_add(s, NULL), -EINVAL);
	t.graph = &graph;
	expect_task(s, t, -EOPNOTSUPP, "give enqueue instead");
	t = ticks(1);
	t.name = "two words";
	expect_task(s, t, -EINVAL, "printable");
	t.name = "";
	expect_task(s, t, -EINVAL, "printable");
	t = ticks(0);
	expect_task(s, t, -EINVAL, "what is its work");
	t = ticks(FM_GPU_CHUNKS_MAX + 1);
	expect_task(s, t, -EINVAL, "at most 4096");
	t = ticks(1);
	t.deadline_ns = UINT64_C(1) << 63;
	expect_task(s, t, -EINVAL, "2^62");
	t.deadline_ns = 11 * TICK;
	t.period_ns = 10 * TICK;
	expect_task(s, t, -EINVAL, "beyond the period");
	t.deadline_ns = 0;
	t.period_ns = 999;
	expect_task(s, t, -EINVAL, "at least 1000");
	t.period_ns = TICK;
	expect_task(plain, t, -EINVAL, "`resident'");
	t = ticks(1);
	t.phase_ns = 1;
	expect_task(s, t, -EINVAL, "without a period");
	t = ticks(1);
	t.weight = (1u << 20) + 1;
	expect_task(s, t, -EINVAL, "weight");
	t = ticks(1);
	t.n_after = 1;
	expect_task(s, t, -EINVAL, "in an array");
	for (unsigned i = 0; i < FM_GPU_TASKS_MAX; i++)
		assert_int_equal(add(s, ticks(1)), i);
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(
			fm_gpu_task_add(s, &(struct fm_gpu_task){.size = sizeof(t), .wcet_ns = 1}),
			-E2BIG);
	expect_why(s, "1024 tasks at most");
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (unsigned i = 0; i < FM_GPU_TASKS_MAX; i++)
		assert_int_equal(fm_gpu_release(s, i, 1), 0);
	pass_ticks(s, FM_GPU_TASKS_MAX);
	assert_int_equal(stats_of(s, FM_GPU_SET).done, FM_GPU_TASKS_MAX);
	fm_gpu_set_free(s);
	fm_gpu_set_free(plain);
}

static void a_start_is_checked(void **state)
{
	struct fm_gpu_set *s = make("edf", 2, false);
	struct fm_gpu_task t = ticks(1);
	unsigned next = 1;
	uint64_t *word;

	assert_int_equal(fm_gpu_set_start(s), -EINVAL);
	expect_why(s, "no tasks");
	t.after = &next;
	t.n_after = 1;
	add(s, t); /* 0 after 1 */
	assert_int_equal(fm_gpu_set_start(s), -EINVAL);
	expect_why(s, "2 slots for 1 tasks");
	next = 2;
	add(s, t); /* 1 after 2 */
	assert_int_equal(fm_gpu_set_start(s), -EINVAL);
	expect_why(s, "after task 2: there are 2");
	next = 0;
	t.name = "last";
	add(s, t); /* 2 after 0 */
	assert_int_equal(fm_gpu_set_start(s), -EINVAL);
	expect_why(s, "circle");
	assert_int_equal(fm_gpu_release_word(s, 0, &word), -EINVAL);
	expect_why(s, "`resident'");
	assert_int_equal(fm_gpu_release(s, 3, 1), -EINVAL);
	expect_why(s, "no task 3");
	assert_int_equal(fm_gpu_release(s, 0, 0), -EINVAL);
	assert_int_equal(fm_gpu_set_advance(s, UINT64_MAX), -EINVAL);
	fm_gpu_set_free(s);
	fm_gpu_set_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_runs_chunk_by_chunk),
		cmocka_unit_test(the_urgent_one_waits_for_a_chunk_at_most),
		cmocka_unit_test(decisions_cost_what_is_said),
		cmocka_unit_test(what_comes_after_others_waits_for_all_of_them),
		cmocka_unit_test(a_period_or_a_word_is_of_a_task_of_its_own),
		cmocka_unit_test(periods_release_in_time),
		cmocka_unit_test(releases_beyond_what_may_wait_are_dropped),
		cmocka_unit_test(a_job_longer_than_it_said_goes_on),
		cmocka_unit_test(a_task_that_cannot_launch_is_off_and_others_live),
		cmocka_unit_test(a_task_may_fail_with_any_error),
		cmocka_unit_test(a_chunk_without_work_ends_at_once),
		cmocka_unit_test(what_a_set_has_called_cannot_wait_for_it),
		cmocka_unit_test(time_that_cannot_pass_is_told),
		cmocka_unit_test(a_suspended_set_begins_nothing),
		cmocka_unit_test(a_drained_set_starts_again),
		cmocka_unit_test(words_release_when_time_passes),
		cmocka_unit_test(a_drain_ends_what_words_and_periods_release),
		cmocka_unit_test(fair_shares_are_those_of_weights),
		cmocka_unit_test(a_set_of_the_parent_is_nothing_to_a_child),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(tasks_are_checked),
		cmocka_unit_test(a_start_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
