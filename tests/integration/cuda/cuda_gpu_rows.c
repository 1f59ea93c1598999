/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sets of tasks cost that decide on the device, by kernels that note the device's clock. Each
 * mode prints a line, "row" and numbers in us; behind "graphs" it is the engine of that name:
 *
 * - decisions KIND N: from the end of a chunk to the begin of the next, P50, P99; N tasks on a slot
 * - release KIND: from the call that releases a job of an idle set to the host's seeing that it has
 *   begun, P50, P99
 * - word: from a store to a task's word to the begin of its job, P50, P99
 * - period US JOBS: how late jobs begin, the earliest being in time, P50, P99; and P99 of their
 *   response times
 * - other SECONDS: of a program without a set: kernels of 20 us, each waited for, P50, P99, a
 * second
 * - inside US BLOCKS: as "release", of an urgent job, while kernels of so many blocks of US run,
 *   which are stopped inside with "graphs" and the guardian; and how often they were, of how often
 *
 * KIND: 0 a set without, 1 with a resident. "hold KIND" has a set that is idle (KIND 2: with a
 * resident, suspended, and with jobs), says "ready", and ends when its input does.
 */
#include "cuda_gpu_rows.h"

#define ONES  400
#define CHUNK 10000 /* ns */

static void make_tasks(unsigned n, bool has_resident, uint64_t period, const uint64_t *ns)
{
	int error;

	resident = has_resident;
	depth = 60; /* so nothing waits for the thread that fills streams */
	set = make("edf", 1, &error);
	if (!set)
		die("no set: %d", error);
	for (unsigned i = 0; i < n; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.enqueue = put_chunk,
			.ctx = (void *)(uintptr_t)ns,
			.period_ns = period,
			.deadline_ns = period ? 0 : 1000000 + 37000 * i};

		IS((int)i, fm_gpu_task_add(set, &t));
	}
}

static void pause_a_little(unsigned i)
{
	usleep(200 + i * 7919 % 300);
}

static void decisions(bool has_resident, unsigned n)
{
	enum { JOBS = 60 };
	static const uint64_t ns = CHUNK;
	static double us[LOG];
	unsigned gaps = 0;

	make_tasks(n, has_resident, 0, &ns);
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < n; i++)
		IS(0, fm_gpu_release(set, i, JOBS));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	MUST(m.read.n >= (uint64_t)n * JOBS);
	for (unsigned i = 0; i + 1 < n * JOBS && i + 1 < LOG; i++)
		us[gaps++] = (double)(int64_t)(m.read.at[i + 1][0] - m.read.at[i][1]) / 1e3;
	print_row("decisions", us, gaps);
	printf(" %u\n", gaps);
	fm_gpu_set_free(set);
}

static void release(bool has_resident)
{
	static const uint64_t ns = 0;
	double us[ONES], from;

	make_tasks(2, has_resident, 0, &ns);
	IS(0, fm_gpu_set_start(set));
	for (unsigned i = 0; i < ONES; i++) {
		uint64_t before = *m.flag;

		pause_a_little(i);
		from = seconds();
		IS(0, fm_gpu_release(set, i % 2, 1));
		while (*m.flag == before)
			MUST(seconds() - from < 60);
		us[i] = (seconds() - from) * 1e6;
	}
	print_row("release", us, ONES);
	puts("");
	fm_gpu_set_free(set);
}

static void word(void)
{
	static const uint64_t ns = 0;
	uint64_t *word, stored;
	double us[ONES];
	void *params[] = {&word, &m.at};

	make_tasks(2, true, 0, &ns);
	IS(0, fm_gpu_release_word(set, 1, &word));
	IS(0, fm_gpu_set_start(set));
	for (unsigned i = 0; i < ONES; i++) {
		uint64_t before = *m.flag;
		double from = seconds();

		pause_a_little(i);
		MUST(!cuLaunchKernel(m.store, 1, 1, 1, 1, 1, 1, 0, m.stream, params, NULL));
		while (*m.flag == before)
			MUST(seconds() - from < 60);
		pause_a_little(i);
		MUST(!cuMemcpyDtoHAsync_v2(&stored, m.at, 8, m.stream));
		read_log();
		us[i] = (double)(int64_t)(m.read.at[before % LOG][0] - stored) / 1e3;
	}
	print_row("word", us, ONES);
	puts("");
	fm_gpu_set_free(set);
}

/* The device's clock goes another way than the host's, which periods follow: the straight line
 * through all begins is taken off. */
static void period(uint64_t period_ns, unsigned jobs)
{
	static const uint64_t ns = 0;
	static double late[LOG];
	double n, at = 0, x = 0, slope = 0, square = 0, least = 1e300;

	MUST(jobs > 2 && jobs <= LOG);
	make_tasks(1, true, period_ns, &ns);
	IS(0, fm_gpu_set_start(set));
	while (*m.flag < jobs)
		usleep(1000);
	read_log();
	n = jobs;
	for (unsigned i = 0; i < jobs; i++) {
		late[i] =
			(double)(m.read.at[i][0] - m.read.at[0][0]) - (double)i * (double)period_ns;
		x += late[i] / n;
		at += i / n;
	}
	for (unsigned i = 0; i < jobs; i++) {
		slope += (i - at) * (late[i] - x);
		square += (i - at) * (i - at);
	}
	for (unsigned i = 0; i < jobs; i++) {
		late[i] -= slope / square * i;
		least = late[i] < least ? late[i] : least;
	}
	for (unsigned i = 0; i < jobs; i++)
		late[i] = (late[i] - least) / 1e3;
	print_row("period", late, jobs);
	printf(" %.2f\n", (double)stats(0).response_p99_ns / 1e3);
	fm_gpu_set_free(set);
}

static void hold(unsigned kind)
{
	static const uint64_t ns = CHUNK;
	uint64_t *word;

	make_tasks(2, kind > 0, 0, &ns);
	if (kind)
		IS(0, fm_gpu_release_word(set, 0, &word));
	IS(0, fm_gpu_set_start(set));
	if (kind == 2) {
		IS(0, fm_gpu_set_suspend(set));
		IS(0, fm_gpu_release(set, 1, 5));
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	IS(0, fm_gpu_set_resume(set));
	fm_gpu_set_free(set);
}

static void other(double for_so_long)
{
	static double us[1 << 20];
	double end = seconds() + for_so_long, from;
	unsigned n = 0;

	while ((from = seconds()) < end && n < 1 << 20) {
		MUST(!launch_chunk(m.stream, 20000) && !cuStreamSynchronize(m.stream));
		us[n++] = (seconds() - from) * 1e6;
	}
	print_row("other", us, n);
	printf(" %.0f\n", n / for_so_long);
}

/* --- stops inside kernels --- */

enum { KERNELS = 10, THREADS = 1024, STOPS = 200 };

static struct {
	CUdeviceptr out;
	uint64_t ns;
	unsigned blocks;
} victim;

static int put_victim(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	void *params[] = {&victim.out, &victim.ns};
	int rc = 0;

	(void)chunk;
	(void)ctx;
	for (unsigned i = 0; i < KERNELS; i++)
		rc |= cuLaunchKernel(
			m.toil, victim.blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL);
	return rc ? -EIO : 0;
}

static void check_each_once(uint64_t jobs)
{
	unsigned *times = calloc(victim.blocks, sizeof(*times));

	MUST(times);
	MUST(!cuMemcpyDtoHAsync_v2(times, victim.out, victim.blocks * sizeof(*times), m.stream));
	MUST(!cuStreamSynchronize(m.stream));
	for (unsigned i = 0; i < victim.blocks; i++)
		if (times[i] != jobs * KERNELS)
			die("block %u ran %u times, not %llu", i, times[i],
				(unsigned long long)jobs * KERNELS);
	free(times);
}

static void make_victim(unsigned us, unsigned blocks)
{
	victim.ns = us * UINT64_C(1000);
	victim.blocks = blocks;
	MUST(!cuMemAlloc_v2(&victim.out, 4 * blocks));
	MUST(!cuMemsetD8_v2(victim.out, 0, 4 * blocks));
	MUST(!put_victim(m.stream, 0, NULL) && !cuStreamSynchronize(m.stream));
	MUST(!cuMemsetD8_v2(victim.out, 0, 4 * blocks) && !cuCtxSynchronize());
}

static void inside(unsigned us, unsigned blocks)
{
	static const uint64_t ns = 0;
	struct fm_gpu_task t = {.size = sizeof(t), .priority = 1};
	double took[STOPS], from;
	uint64_t done;
	int error;

	make_victim(us, blocks);
	set = make("fixed-priority", 1, &error);
	if (!set)
		die("no set: %d", error);
	t.enqueue = put_victim;
	IS(0, fm_gpu_task_add(set, &t));
	t.enqueue = put_chunk;
	t.ctx = (void *)(uintptr_t)&ns;
	t.priority = 5;
	IS(1, fm_gpu_task_add(set, &t));
	IS(0, fm_gpu_set_start(set));
	for (unsigned i = 0; i < STOPS; i++) {
		uint64_t before = *m.flag;

		if (stats(0).released == stats(0).done)
			IS(0, fm_gpu_release(set, 0, 2));
		pause_a_little(i);
		from = seconds();
		IS(0, fm_gpu_release(set, 1, 1));
		while (*m.flag == before)
			MUST(seconds() - from < 60);
		took[i] = (seconds() - from) * 1e6;
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	done = stats(0).done;
	print_row("inside", took, STOPS);
	printf(" %llu %u\n", (unsigned long long)(stats(FM_GPU_SET).started - done - STOPS), STOPS);
	fm_gpu_set_free(set);
	check_each_once(done);
}

int main(int argc, char **argv)
{
	bool graphs = argc > 1 && !strcmp(argv[1], "graphs");
	const char *const *arg = (const char *const *)argv + graphs;
	int n = argc - graphs;
	const char *mode = n > 1 ? arg[1] : "";
	unsigned first = n > 2 ? (unsigned)atoi(arg[2]) : 0;
	unsigned second = n > 3 ? (unsigned)atoi(arg[3]) : 0;

	if (cuInit(0))
		return 77; /* no device */
	engine = graphs ? "graphs" : engine;
	prepare();
	if (!strcmp(mode, "decisions"))
		decisions(first, second ? second : 2);
	else if (!strcmp(mode, "release"))
		release(first);
	else if (!strcmp(mode, "word"))
		word();
	else if (!strcmp(mode, "period"))
		period((uint64_t)first * 1000, second);
	else if (!strcmp(mode, "hold"))
		hold(first);
	else if (!strcmp(mode, "other"))
		other(first);
	else if (!strcmp(mode, "inside") && second)
		inside(first, second);
	else
		return 2;
	return 0;
}
