/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that decide on the device, under load. Each mode prints a line, "row" and numbers;
 * behind "graphs" it is the engine of that name:
 *
 * - overhead KIND N US JOBS: from the begin of the first chunk to the end of the last, of N tasks
 *   with JOBS jobs of one chunk of US each: ms as they stand in one stream, ms by a set, and by how
 *   many percent that takes longer
 * - processor SECONDS STOPS: a set of four tasks with periods: % of a processor that the process
 *   takes, P99 and maximum of the responses in us, and deadlines missed. If STOPS is 1, the process
 *   is stopped by SIGSTOP for 100 ms of each 400 ms, and the deadlines are the device's to keep
 * - random SETS MS SEED: random sets of 8 tasks with a utilisation of 0.5 to 0.95, each for so many
 *   ms by "edf" and by "fixed-priority" (rate monotonic): how many the analysis admits, deadlines
 *   missed in those, by "edf" in all, by "fixed-priority" in all, and jobs by "edf"
 * - jobs KIND PERIOD-US US SECONDS: jobs with a period: P50, P99 and maximum of the responses in
 *   us. KIND 0: the host releases the jobs of a set; 1: a set has the period; 2: no set
 */
#include "cuda_gpu_rows.h"

#include <math.h>
#include <sys/resource.h>

#define MS        UINT64_C(1000000)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

static void make_set(const char *policy, const struct fm_gpu_set_options *more)
{
	struct fm_gpu_set_options options = *more;
	int error;

	options.size = sizeof(options);
	options.policy = policy;
	options.slots = 1;
	options.engine = engine;
	set = fm_gpu_set_new(&options, &error);
	if (!set)
		die("no set: %d", error);
}

/* --- overhead --- */

static double log_ms(unsigned chunks)
{
	read_log();
	if (m.read.n < chunks)
		die("%llu chunks have begun, of %u", (unsigned long long)m.read.n, chunks);
	return (double)(m.read.at[chunks - 1][1] - m.read.at[0][0]) / 1e6;
}

static void overhead(bool has_resident, unsigned n, uint64_t ns, unsigned jobs)
{
	double in_order, by_set;

	MUST(n && jobs <= FM_GPU_BACKLOG && n * jobs <= LOG);
	for (unsigned i = 0; i < n * jobs; i++)
		MUST(!launch_chunk(m.stream, ns));
	MUST(!cuStreamSynchronize(m.stream));
	in_order = log_ms(n * jobs);
	forget_log();
	make_set("edf", &(struct fm_gpu_set_options){.resident = has_resident, .depth = 60});
	for (unsigned i = 0; i < n; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.enqueue = put_chunk,
			.ctx = &ns,
			.deadline_ns = 1000 * MS + 37000 * i};

		IS((int)i, fm_gpu_task_add(set, &t));
	}
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < n; i++)
		IS(0, fm_gpu_release(set, i, jobs));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	by_set = log_ms(n * jobs);
	printf("row overhead %.3f %.3f %.3f\n", in_order, by_set, (by_set / in_order - 1) * 100);
	fm_gpu_set_free(set);
}

/* --- processor time, and a process that stands still --- */

/* Ends with its parent, since nobody else holds the other end. */
static void stop_now_and_then(int go)
{
	pid_t parent = getppid();
	char c;

	if (read(go, &c, 1) != 1)
		_exit(0);
	for (struct pollfd end = {.fd = go}; !poll(&end, 1, 300);) {
		kill(parent, SIGSTOP);
		usleep(100000);
		kill(parent, SIGCONT);
	}
	_exit(0);
}

static double processor_seconds(void)
{
	struct rusage u;

	MUST(!getrusage(RUSAGE_SELF, &u));
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* The deadline is the period. Jobs stand ready for longer than the process is stopped. */
static void processor(unsigned for_seconds, int go)
{
	static const unsigned periods_ms[] = {4, 8, 10, 20};
	static uint64_t ns = 500000;
	struct fm_gpu_stats all;
	double from;

	make_set("edf", &(struct fm_gpu_set_options){.resident = true, .depth = FM_GPU_DEPTH_MAX});
	for (unsigned i = 0; i < 4; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.enqueue = put_chunk,
			.ctx = &ns,
			.period_ns = periods_ms[i] * MS};

		IS((int)i, fm_gpu_task_add(set, &t));
	}
	IS(0, fm_gpu_set_start(set));
	MUST(go < 0 || write(go, "g", 1) == 1);
	usleep(200000);
	from = processor_seconds();
	for (unsigned i = 0; i < for_seconds * 100; i++)
		usleep(10000);
	from = processor_seconds() - from;
	all = stats(FM_GPU_SET);
	if (go >= 0)
		close(go);
	printf("row processor %.3f %.1f %.1f %llu\n", from / for_seconds * 100,
		(double)all.response_p99_ns / 1e3, (double)all.response_max_ns / 1e3,
		(unsigned long long)all.missed);
	fm_gpu_set_free(set);
}

/* --- random sets --- */

enum { N_RANDOM = 8, BETWEEN = 25000 /* ns from a decision to its chunk */ };

struct random_task {
	uint64_t period, wcet, spin;
	unsigned chunks;
};

static double uniform(unsigned *seed)
{
	return (rand_r(seed) + 0.5) / (RAND_MAX + 1.0);
}

/* UUniFast (Bini and Buttazzo 2005) divides the utilisation; periods of 4 to 40 ms, log-uniform.
 * Chunks are of 250 us at most. */
static void draw(struct random_task *tasks, unsigned *seed)
{
	double left = 0.5 + 0.45 * uniform(seed);

	for (unsigned i = 0; i < N_RANDOM; i++) {
		double rest =
			i + 1 < N_RANDOM ? left * pow(uniform(seed), 1.0 / (N_RANDOM - 1 - i)) : 0;
		struct random_task *t = &tasks[i];

		t->period = (uint64_t)(4e6 * pow(10, uniform(seed)));
		t->wcet = (uint64_t)((left - rest) * (double)t->period);
		t->wcet = t->wcet < 20000 ? 20000 : t->wcet;
		t->chunks = (unsigned)(t->wcet / 250000) + 1;
		/* What a launch takes is part of what is declared. */
		t->spin = t->wcet / t->chunks - MIN(t->wcet / t->chunks, 10000);
		left = rest;
	}
}

/* Returns the error of the start. */
static int start_drawn(const char *policy, struct random_task *tasks, bool admit)
{
	int rc;

	make_set(policy,
		&(struct fm_gpu_set_options){
			.resident = true, .admit = admit, .decision_ns = admit ? BETWEEN : 0});
	for (unsigned i = 0; i < N_RANDOM; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.enqueue = put_chunk,
			.ctx = &tasks[i].spin,
			.period_ns = tasks[i].period,
			.wcet_ns = tasks[i].wcet,
			.n_chunks = tasks[i].chunks,
			.priority = -(int32_t)(tasks[i].period / 1000)};

		IS((int)i, fm_gpu_task_add(set, &t));
	}
	rc = fm_gpu_set_start(set);
	if (rc)
		fm_gpu_set_free(set);
	return rc;
}

static struct fm_gpu_stats run_drawn(unsigned ms)
{
	struct fm_gpu_stats s;

	usleep(ms * 1000);
	s = stats(FM_GPU_SET);
	fm_gpu_set_free(set);
	return s;
}

static void random_sets(unsigned sets, unsigned ms, unsigned seed)
{
	unsigned long long admitted = 0, missed_there = 0, missed = 0, missed_fixed = 0, jobs = 0;

	for (unsigned i = 0; i < sets; i++) {
		struct random_task tasks[N_RANDOM];
		struct fm_gpu_stats edf;
		int rc;

		draw(tasks, &seed);
		rc = start_drawn("edf", tasks, true);
		if (rc == -EDQUOT)
			IS(0, start_drawn("edf", tasks, false));
		else
			IS(0, rc);
		edf = run_drawn(ms);
		admitted += !rc;
		missed_there += rc ? 0 : edf.missed;
		missed += edf.missed;
		jobs += edf.done;
		IS(0, start_drawn("fixed-priority", tasks, false));
		missed_fixed += run_drawn(ms).missed;
	}
	printf("row random %llu %llu %llu %llu %llu\n", admitted, missed_there, missed,
		missed_fixed, jobs);
}

/* --- jobs with a period --- */

static void sleep_to(double at)
{
	double left = at - seconds();

	if (left > 0)
		usleep((useconds_t)(left * 1e6));
}

/* By the host: each is waited for, as a program without a set does. */
static void jobs_by_host(bool in_set, double period, uint64_t ns, unsigned jobs)
{
	double *us = calloc(jobs, sizeof(*us)), from = seconds();

	MUST(us);
	for (unsigned i = 0; i < jobs; i++) {
		double release = from + i * period;

		sleep_to(release);
		if (in_set) {
			IS(0, fm_gpu_release(set, 0, 1));
			while (stats(0).done <= i)
				MUST(seconds() - release < 60);
		} else {
			MUST(!launch_chunk(m.stream, ns) && !cuStreamSynchronize(m.stream));
		}
		us[i] = (seconds() - release) * 1e6;
	}
	print_row("jobs", us, jobs);
	printf(" %.2f\n", us[jobs - 1]);
	free(us);
}

static void jobs(unsigned kind, unsigned period_us, uint64_t ns, unsigned for_seconds)
{
	unsigned n = (unsigned)(for_seconds * UINT64_C(1000000) / period_us);
	struct fm_gpu_task t = {.size = sizeof(t), .enqueue = put_chunk, .ctx = &ns};
	struct fm_gpu_stats s;

	if (kind < 2) {
		make_set("edf", &(struct fm_gpu_set_options){.resident = kind == 1, .depth = 16});
		t.period_ns = kind == 1 ? period_us * UINT64_C(1000) : 0;
		IS(0, fm_gpu_task_add(set, &t));
		IS(0, fm_gpu_set_start(set));
	}
	if (kind == 1) {
		for (double from = seconds(); stats(0).done < n;) {
			usleep(10000);
			MUST(seconds() - from < 60 + 10 * for_seconds);
		}
		s = stats(0);
		printf("row jobs - %.2f %.2f\n", (double)s.response_p99_ns / 1e3,
			(double)s.response_max_ns / 1e3);
	} else {
		jobs_by_host(!kind, period_us / 1e6, ns, n);
	}
	if (kind < 2)
		fm_gpu_set_free(set);
}

int main(int argc, char **argv)
{
	bool graphs = argc > 1 && !strcmp(argv[1], "graphs");
	const char *mode = argc > 1 + graphs ? argv[1 + graphs] : "";
	int go[2] = {-1, -1};
	unsigned arg[4] = {0};

	for (int i = 2 + graphs; i < argc && i < 6 + graphs; i++)
		arg[i - 2 - graphs] = (unsigned)atoi(argv[i]);
	if (!strcmp(mode, "processor") && arg[1]) {
		MUST(!pipe(go));
		if (!fork()) {
			close(go[1]);
			stop_now_and_then(go[0]);
		}
		close(go[0]);
	}
	if (cuInit(0))
		return 77; /* no device */
	engine = graphs ? "graphs" : engine;
	prepare();
	if (!strcmp(mode, "overhead") && arg[3])
		overhead(arg[0], arg[1], arg[2] * UINT64_C(1000), arg[3]);
	else if (!strcmp(mode, "processor") && arg[0])
		processor(arg[0], go[1]);
	else if (!strcmp(mode, "random") && arg[1])
		random_sets(arg[0], arg[1], arg[2]);
	else if (!strcmp(mode, "jobs") && arg[3])
		jobs(arg[0], arg[1], arg[2] * UINT64_C(1000), arg[3]);
	else
		return 2;
	return 0;
}
