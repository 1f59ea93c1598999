/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks with a resident warp (<fermata/gpu_sched.h>, engine "gates", `resident`), as a
 * program uses them: one case of those below, or "worker JOBS", which test_cuda_gpu_resident.py
 * drives. gpu_resident_rows.c measures.
 */
#include "cuda_gpu_set.h"

static CUstream stores; /* code of the device */
static uint64_t stored[TASKS];

/* The word of a task is added to. There is one that does it. */
static void add_to(uint64_t *word, unsigned of, unsigned jobs)
{
	stored[of] += jobs;
	MUST(!cuStreamWriteValue64_v2(stores, (CUdeviceptr)(uintptr_t)word, stored[of], 0));
	MUST(!cuStreamSynchronize(stores));
}

static int add_period(uint64_t period, unsigned chunks, int priority, const unsigned *after)
{
	struct fm_gpu_task t = {.size = sizeof(t),
		.enqueue = enqueue,
		.n_chunks = chunks,
		.period_ns = period,
		.priority = priority,
		.after = after,
		.n_after = after != NULL};
	static unsigned n;

	task[n] = (struct task){.number = n, .chunks = chunks};
	t.ctx = &task[n++];
	return fm_gpu_task_add(set, &t);
}

static void make_resident(const char *policy, unsigned slots)
{
	int error;

	resident = true;
	begin();
	MUST(!cuStreamCreate(&stores, 1));
	set = make(policy, slots, &error);
	if (!set)
		die("no set: %d", error);
}

static void await(unsigned of, uint64_t done)
{
	double end = seconds() + 120;

	while (stats(of).done < done) {
		MUST(seconds() < end);
		usleep(1000);
	}
}

static void check_counts(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		MUST(task[i].ran == stats(i).done * task[i].chunks && !task[i].wrong);
}

/* Jobs that stand in streams in advance run before a set ends, and then nothing is left there. */
static void periods(void)
{
	const unsigned after[] = {1};
	double from;

	make_resident("edf", 1);
	IS(0, add_period(5000000, 1, 0, NULL));
	IS(1, add_period(13000000, 2, 0, NULL));
	IS(2, add_period(0, 1, 0, after));
	IS(-EINVAL, add_period(5000000, 1, 0, after));
	MUST(strstr(why(), "comes after no others"));
	for (unsigned round = 1; round <= 2; round++) {
		uint64_t before = stats(1).done;

		from = seconds();
		IS(0, fm_gpu_set_start(set));
		await(1, before + 4);
		MUST(seconds() - from >= 3 * 0.013);
		IS(0, fm_gpu_release(set, 0, 3)); /* more than by period */
		IS(0, fm_gpu_set_drain(set, PATIENCE));
		check_counts(3);
		MUST(came_after(2, 1) && stats(0).spare <= 2 * round);
		MUST(!cuCtxSynchronize());
	}
	fm_gpu_set_free(set);
}

static _Atomic bool drains;

/* The set begins to end when half of the third job stands in the stream: the other half is to be
 * put all the same. (A device released the job later than the fake does, and the end waited.) */
static int enqueue_late(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	static unsigned jobs;

	if (!chunk && ++jobs == 3) {
		while (!drains)
			usleep(1000);
		usleep(50000);
	}
	return enqueue(stream, chunk, ctx);
}

static void halves(void)
{
	struct fm_gpu_task t = {.size = sizeof(t),
		.enqueue = enqueue_late,
		.ctx = &task[0],
		.n_chunks = 2,
		.period_ns = 2000000};

	make_resident("edf", 1);
	task[0] = (struct task){.chunks = 2};
	IS(0, fm_gpu_task_add(set, &t));
	IS(0, fm_gpu_set_start(set));
	await(0, 2);
	drains = true;
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	check_counts(1);
	MUST(!cuCtxSynchronize());
	fm_gpu_set_free(set);
}

static CUdeviceptr hold;

static int launch_held(struct CUstream_st *stream)
{
	return cuStreamWaitValue64_v2(stream, hold, 1, 0) /* at least 1 */ ? -EIO : 0;
}

/* What comes after a task with a period, and is slower than that, drops jobs, and counts them. */
static void slower(void)
{
	const unsigned after[] = {0};
	double end = seconds() + 120;

	make_resident("edf", 2);
	MUST(!cuMemAlloc_v2(&hold, 8) && !cuMemsetD8_v2(hold, 0, 8) && !cuCtxSynchronize());
	IS(0, add_period(1000000, 1, 0, NULL));
	IS(1, add_period(0, 1, 0, after));
	task[1].first = launch_held;
	IS(0, fm_gpu_set_start(set));
	while (stats(1).dropped < 3)
		MUST(seconds() < end && !usleep(1000));
	MUST(!stats(1).done);
	MUST(!cuStreamWriteValue64_v2(stores, hold, 1, 0));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(came_after(1, 0) && stats(1).done >= 64 && task[0].ran == stats(0).done);
	fm_gpu_set_free(set);
}

/* A task that comes after one with a period and one of the host's needs both, and the host may
 * release it, too. */
static void both(void)
{
	const unsigned after[] = {0, 1};
	struct fm_gpu_task t = {
		.size = sizeof(t), .enqueue = enqueue, .after = after, .n_after = 2};
	uint64_t *word;

	make_resident("edf", 1);
	IS(0, add_period(2000000, 1, 0, NULL));
	task[0].first = launch_nothing;
	IS(1, add_period(0, 1, 0, NULL));
	task[2] = (struct task){.number = 2, .chunks = 1};
	t.ctx = &task[2];
	IS(2, fm_gpu_task_add(set, &t));
	IS(-EINVAL, fm_gpu_release_word(set, 2, &word));
	MUST(strstr(why(), "for jobs that need both"));
	IS(0, fm_gpu_set_start(set));
	await(0, 5);
	MUST(stats(2).released == 0);
	IS(0, fm_gpu_release(set, 1, 3));
	await(2, 3);
	IS(0, fm_gpu_release(set, 2, 2));
	await(2, 5);
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(1).done == 3 && stats(2).done == 5 && task[2].ran == 5);
	fm_gpu_set_free(set);
}

static void words(void)
{
	uint64_t *word[2];

	make_resident("fixed-priority", 2);
	IS(0, add_period(0, 2, 1, NULL));
	IS(1, add_period(0, 1, 2, NULL));
	IS(0, fm_gpu_release_word(set, 0, &word[0])); /* before the start */
	add_to(word[0], 0, 1);
	IS(0, fm_gpu_set_start(set));
	await(0, 1);
	IS(0, fm_gpu_release_word(set, 1, &word[1])); /* and after it */
	for (unsigned i = 0; i < 20; i++) {
		add_to(word[i % 2], i % 2, 1 + i % 3);
		await(i % 2, stored[i % 2]);
	}
	IS(0, fm_gpu_set_suspend(set));
	add_to(word[0], 0, 2);
	IS(-EINVAL, fm_gpu_release_word(set, 7, &word[0]));
	IS(0, fm_gpu_set_resume(set));
	await(0, stored[0]);
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == stored[0] + stats(0).spare);
	MUST(stats(1).done == stored[1] + stats(1).spare);
	check_counts(2);
	add_to(word[1], 1, 1); /* while it is not started */
	IS(0, fm_gpu_set_start(set));
	await(1, stored[1] + stats(1).spare);
	IS(0, fm_gpu_set_suspend(set));
	stats(1); /* behind the news of that */
	add_to(word[1], 1, 2);
	IS(-ETIMEDOUT, fm_gpu_set_drain(set, 1000000));
	stats(1);
	stats(1); /* behind the news of the drain, and the decision about it */
	add_to(word[1], 1, 3);
	stats(1); /* and what was to be released is */
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(1).done == stored[1] - 3 + stats(1).spare);
	IS(0, fm_gpu_set_start(set));
	await(1, stored[1] + stats(1).spare);
	fm_gpu_set_free(set);
	MUST(!cuCtxSynchronize());
}

/* What waits for the device and holds a lock of the driver's waits for no resident, and for no job
 * that stands in a stream in advance. */
static void calls_that_wait(void)
{
	uint64_t *word;
	CUdeviceptr d;

	make_resident("fifo", 1);
	IS(0, add_period(3600000000000, 2, 0, NULL)); /* not in this hour, after the first */
	IS(1, add_period(2000000, 1, 0, NULL));
	IS(2, add_period(0, 3, 0, NULL));
	IS(0, fm_gpu_release_word(set, 2, &word));
	IS(0, fm_gpu_set_start(set));
	for (unsigned round = 0; round < 15; round++) {
		MUST(!cuMemAlloc_v2(&d, 4096));
		add_to(word, 2, 1);
		IS(0, fm_gpu_release(set, 0, 1));
		MUST(!cuMemFree_v2(d));
		MUST(round & 3 || !cuCtxSynchronize());
	}
	IS(0, fm_gpu_set_suspend(set));
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	check_counts(3);
	MUST(stats(0).done == 16 + stats(0).spare && stats(2).done == 15 + stats(2).spare);
	fm_gpu_set_free(set);
}

static void ends(void)
{
	uint64_t *word;
	CUcontext ctx;

	make_resident("fair", 2);
	MUST(!cuCtxGetCurrent(&ctx));
	IS(0, add_period(1000000, 1, 0, NULL));
	IS(1, add_period(0, 1, 0, NULL));
	IS(0, fm_gpu_release_word(set, 1, &word));
	IS(0, fm_gpu_set_start(set));
	await(0, 3);
	MUST(!cuCtxDestroy_v2(ctx));
	IS(-ENODEV, fm_gpu_set_drain(set, PATIENCE));
	IS(-ENODEV, fm_gpu_release_word(set, 1, &word));
	fm_gpu_set_free(set);
}

static void exits(void)
{
	uint64_t *word;

	make_resident("fair", 2);
	IS(0, add_period(1000000, 1, 0, NULL));
	IS(1, add_period(0, 1, 0, NULL));
	IS(0, fm_gpu_release_word(set, 1, &word));
	IS(0, fm_gpu_set_start(set));
	await(0, 3);
}

static _Atomic unsigned put;

static int put_one(struct CUstream_st *stream)
{
	put++;
	return cuLaunchHostFunc(stream, run_chunk, &task[0]) ? -EIO : 0;
}

/* The first job of the hour has run, and the next ones stand in the stream. */
static void run_first(void)
{
	static unsigned next = 1;
	double end = seconds() + 120;

	await(0, next);
	while (put < next + depth) {
		MUST(seconds() < end);
		usleep(1000);
	}
	next = put + 1;
}

/* Jobs in advance that are to run are work, for which the group is given the device. */
static void gets_a_turn(void)
{
	CUdeviceptr d;

	depth = 2;
	make_resident("edf", 1);
	IS(0, add_period(3600000000000, 1, 0, NULL)); /* not in this hour, after the first */
	task[0].first = put_one;
	IS(0, fm_gpu_set_start(set));
	drains_in_time(run_first);
	MUST(stats(0).spare == 3 * depth);
	run_first();
	idle();
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	MUST(stats(0).spare == 4 * depth);
	idle();
	fm_gpu_set_free(set);
}

/* Whichever call fails: an error is told, or nobody needs to know, and nothing hangs. */
static void each_call_fails(void)
{
	unsigned told = 0, n = 0;

	MUST(fake_cuda_fail);
	make_resident("fifo", 1);
	fm_gpu_set_free(set);
	for (unsigned nth = 1; !n || nth <= n; nth++) {
		uint64_t *word;
		int error = 0, rc;
		unsigned counted;

		fake_cuda_fail("*", nth, 999);
		set = make("fifo", 1, &error);
		MUST(set || error);
		if (!set) {
			told++;
			continue;
		}
		add(set, 2, 0, NULL);
		add(set, 1, 0, NULL);
		rc = fm_gpu_release_word(set, 1, &word);
		rc = rc ? rc : fm_gpu_set_start(set);
		if (!rc) {
			rc = fm_gpu_release(set, 0, 2);
			rc |= fm_gpu_set_drain(set, PATIENCE);
			MUST(rc || stats(0).done == 2);
		}
		told += rc != 0;
		fm_gpu_set_free(set);
		counted = fake_cuda_counted();
		fake_cuda_fail("", 0, 0);
		if (counted < nth)
			break;
		n = nth + 1;
		MUST(nth < 2000);
	}
	MUST(told > 10);
}

/* In strict mode; what it says to do instead is allowed. */
static void refused(void)
{
	static const char *const engines[] = {"graphs", "gates"};
	int error;

	for (unsigned i = 0; i < 2; i++) {
		engine = engines[i];
		make_resident("edf", 1);
		IS(0, add_period(5000000, 1, 0, NULL));
		IS(-EPERM, fm_gpu_set_start(set));
		MUST(strstr(why(), "the daemon is strict") && strstr(why(), "fm_gpu_release()"));
		IS(-ESHUTDOWN, fm_gpu_release(set, 0, 1));
		fm_gpu_set_free(set);
	}
	resident = false;
	set = make("edf", 1, &error);
	MUST(set);
	IS(0, add_period(0, 1, 0, NULL));
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_release(set, 0, 3));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == 3);
	fm_gpu_set_free(set);
}

/* As cuda_gpu_set.c: until it is told to stop, or so many jobs have come by word. */
static void worker(unsigned jobs)
{
	const unsigned after[] = {1};
	unsigned wrong = 0, told = 0;
	uint64_t *word;

	make_resident("edf", 2);
	IS(0, add_period(0, 2, 0, NULL));
	IS(1, add_period(10000000, 1, 0, NULL));
	IS(2, add_period(0, 1, 0, after));
	IS(0, fm_gpu_release_word(set, 0, &word));
	IS(0, fm_gpu_set_start(set));
	puts("ready");
	fflush(stdout);
	if (jobs && getchar() == EOF)
		return;
	for (unsigned n = 0; jobs ? n < jobs : !told_to_stop(); n++) {
		if (stored[0] + stats(0).spare - stats(0).done <
			32) /* beyond 64 they are dropped */
			add_to(word, 0, 1);
		if (ran != told)
			printf("at %u %f\n", told = ran, seconds());
		fflush(stdout);
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < 3; i++)
		wrong +=
			task[i].wrong + WRONG_UNLESS(task[i].ran == stats(i).done * task[i].chunks);
	wrong += WRONG_UNLESS(stats(0).done == stored[0] + stats(0).spare);
	wrong += WRONG_UNLESS(came_after(2, 1));
	fm_gpu_set_free(set);
	printf("done %u %f %u\n", ran, seconds(), wrong);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"periods", periods},
	{"halves", halves},
	{"slower", slower},
	{"both", both},
	{"words", words},
	{"waits", calls_that_wait},
	{"ends", ends},
	{"exits", exits},
	{"fails", each_call_fails},
	{"idles", gets_a_turn},
	{"refused", refused},
};

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (cuInit(0))
		return 77; /* no device */
	if (!strcmp(argv[1], "worker")) {
		worker(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
		return 0;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("ok");
			return 0;
		}
	return 2;
}
