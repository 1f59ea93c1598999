// SPDX-License-Identifier: Apache-2.0
/*
 * What a set promises, on random sets in virtual time: no slot is free while a task could run; with
 * no policy does a chunk begin before one that comes first; EDF on one slot keeps all deadlines
 * that can be kept, also where decisions cost something.
 */
#include "gpu_world.h"

#define MANY    6
#define HORIZON 200
#define RUNS    400

struct note {
	struct fm_gpu_set *set;
	unsigned task;
};

static struct {
	unsigned slots, n;
	unsigned chunks[MANY];
	uint64_t deadline[MANY];
	int32_t priority[MANY];
	/* By tick: how many jobs are released before it, and how many chunks end with it. */
	unsigned released[MANY][HORIZON + 1], ended[MANY][HORIZON + 1];
} past;

static void note_end(void *arg)
{
	const struct note *n = arg;

	past.ended[n->task][fm_gpu_set_now(n->set) / TICK]++;
}

static int one_tick(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, TICK, note_end, ctx);
}

static void run_random(const char *policy)
{
	struct fm_gpu_set *s;
	struct note notes[MANY];

	memset(&past, 0, sizeof(past));
	past.slots = 1 + (unsigned)any(3);
	past.n = past.slots + (unsigned)any(MANY - past.slots + 1);
	s = make(policy, past.slots, false);
	for (unsigned i = 0; i < past.n; i++) {
		struct fm_gpu_task t = ticks(1 + (unsigned)any(5));

		notes[i] = (struct note){s, i};
		t.enqueue = one_tick;
		t.ctx = &notes[i];
		t.priority = past.priority[i] = (int32_t)any(3);
		t.deadline_ns = past.deadline[i] = (1 + any(20)) * TICK;
		past.chunks[i] = t.n_chunks;
		add(s, t);
	}
	assert_int_equal(fm_gpu_set_suspend(s), 0);
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (unsigned at = 0; at < HORIZON; at++) {
		for (unsigned i = 0; i < past.n; i++) {
			unsigned jobs = any(12) ? 0 : 1 + (unsigned)any(2);

			past.released[i][at + 1] = past.released[i][at] + jobs;
			if (jobs)
				assert_int_equal(fm_gpu_release(s, i, jobs), 0);
		}
		/* One decision a tick, about all that was released at it. */
		assert_int_equal(fm_gpu_set_resume(s), 0);
		assert_int_equal(fm_gpu_set_suspend(s), 0);
		pass_ticks(s, 1);
	}
	assert_int_equal(stats_of(s, FM_GPU_SET).dropped, 0);
	fm_gpu_set_free(s);
}

/* When the first job of a task that is not complete was released. */
static unsigned first_release(unsigned task, unsigned jobs_done)
{
	unsigned at = 1;

	while (past.released[task][at] <= jobs_done)
		at++;
	return at - 1;
}

/* Smaller first. `done` chunks have ended, at tick `at`. */
static uint64_t urgency(const char *policy, unsigned task, unsigned done)
{
	unsigned since = first_release(task, done / past.chunks[task]);

	if (!strcmp(policy, "fixed-priority"))
		return (uint64_t)(100 - past.priority[task]);
	return !strcmp(policy, "fifo") ? since : since + past.deadline[task] / TICK;
}

/* Each chunk lasts a tick, so each tick is decided by itself. */
static void check_tick(const char *policy, unsigned at, const unsigned *done)
{
	unsigned running = 0, waiting = 0;

	for (unsigned i = 0; i < past.n; i++) {
		bool ready = done[i] < past.released[i][at + 1] * past.chunks[i];
		unsigned runs = past.ended[i][at + 1];

		assert_true(runs <=
			    ready); /* one chunk of a task at a time, of a job that is released */
		running += runs;
		waiting += ready && !runs;
		for (unsigned k = 0; k < past.n && ready && !runs; k++) {
			uint64_t mine, its;

			if (!past.ended[k][at + 1])
				continue;
			mine = urgency(policy, i, done[i]);
			its = urgency(policy, k, done[k]);
			if (mine < its || (mine == its && i < k))
				fail_msg("%s: task %u runs at %u before task %u", policy, k, at, i);
		}
	}
	assert_true(running <= past.slots);
	assert_true(running == past.slots || !waiting);
}

static void each_tick_goes_to_the_first(void **state)
{
	static const char *const policies[] = {"fixed-priority", "edf", "k-edf", "fifo"};

	for (unsigned run = 0; run < RUNS; run++) {
		const char *policy = policies[run % 4];
		unsigned done[MANY] = {0};

		seed = run;
		run_random(policy);
		for (unsigned at = 0; at < HORIZON; at++) {
			check_tick(policy, at, done);
			for (unsigned i = 0; i < past.n; i++)
				done[i] += past.ended[i][at + 1];
		}
	}
}

/* Periods that divide 240 ticks: two of these show whatever there is to see. */
static const unsigned periods[] = {
	4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40, 48, 60, 80, 120, 240};
#define PERIODS (sizeof(periods) / sizeof(periods[0]))
#define AROUND  240

static uint64_t missed_of(const unsigned *length, const unsigned *period, unsigned n, uint64_t cost,
	const char *policy)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = policy,
		.slots = 1,
		.engine = "cpu",
		.resident = true,
		.virtual_time = true,
		.decision_ns = cost};
	struct fm_gpu_set *s = fm_gpu_set_new(&o, NULL);
	uint64_t missed;

	assert_non_null(s);
	for (unsigned i = 0; i < n; i++) {
		struct fm_gpu_task t = ticks(length[i]);

		t.period_ns = period[i] * TICK;
		t.phase_ns = cost ? any(period[i] * TICK) : any(period[i]) * TICK;
		add(s, t);
	}
	assert_int_equal(fm_gpu_set_start(s), 0);
	pass_ticks(s, 3 * AROUND);
	missed = stats_of(s, FM_GPU_SET).missed;
	assert_true(stats_of(s, FM_GPU_SET).done > 0);
	fm_gpu_set_free(s);
	return missed;
}

/* Tasks until the device is as full as it may be: each chunk costs a tick and a decision, and a
 * release may come when a chunk of another has just begun, or a decision been made. Utilisations in
 * parts of AROUND ticks. */
static unsigned fill(unsigned *length, unsigned *period, uint64_t cost)
{
	uint64_t full = AROUND * TICK, shortest = AROUND, used = 0;
	unsigned n = 0;

	for (unsigned tries = 0; tries < 60 && n < MANY; tries++) {
		unsigned p = periods[any(PERIODS)], c = 1 + (unsigned)any(p / 2);
		uint64_t more = AROUND / p * c * (TICK + cost), least = p < shortest ? p : shortest;
		uint64_t blocking = cost ? (TICK + 2 * cost) * AROUND / least : 0;

		if (used + more + blocking > full)
			continue;
		used += more;
		shortest = least;
		length[n] = c;
		period[n++] = p;
	}
	return n;
}

static void edf_keeps_what_can_be_kept(void **state)
{
	unsigned length[MANY], period[MANY], others = 0;

	for (unsigned run = 0; run < RUNS; run++) {
		uint64_t cost = run % 2 ? 20 + any(200) : 0;
		unsigned n;

		seed = 1000 + run;
		n = fill(length, period, cost);
		if (!n)
			continue;
		assert_int_equal(missed_of(length, period, n, cost, "edf"), 0);
		others += missed_of(length, period, n, cost, "fifo") > 0;
	}
	assert_true(others > RUNS / 10); /* sets that any order keeps would show nothing */
}

static void beyond_it_edf_misses(void **state)
{
	const unsigned length[] = {5, 6}, period[] = {10, 10};

	assert_true(missed_of(length, period, 2, 0, "edf") > 0);
	assert_true(missed_of((const unsigned[]){5, 5}, period, 2, 50, "edf") > 0);
	assert_int_equal(missed_of((const unsigned[]){5, 5}, period, 2, 0, "edf"), 0);
}

static void least_laxity_keeps_them_too(void **state)
{
	unsigned length[MANY], period[MANY];

	for (unsigned run = 0; run < RUNS / 4; run++) {
		unsigned n;

		seed = 5000 + run;
		n = fill(length, period, 0);
		if (n)
			assert_int_equal(missed_of(length, period, n, 0, "least-laxity"), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tick_goes_to_the_first),
		cmocka_unit_test(edf_keeps_what_can_be_kept),
		cmocka_unit_test(beyond_it_edf_misses),
		cmocka_unit_test(least_laxity_keeps_them_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
