/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real-time task: an ordinary program on plain OpenCL, which knows nothing of Fermata. A job
 * computes on its CPU, uses the device for a segment (input there, kernels, output back), and
 * computes again. `script/case-study` runs sets of them.
 *
 *   rt_task size KERNEL US        {"rounds", "us"} of one kernel that takes about so long here
 *   rt_task size cpu US           {"rounds", "us"} of the CPU's part
 *   rt_task measure TASK N        N jobs alone: the longest of each part, in us
 *   rt_task run TASK              prints "ready", reads "go FROM JOBS PERIOD UNTIL", prints a
 * report
 *
 * TASK is KERNEL ROUNDS KERNELS CPU_ROUNDS [WORD...], words being cpu=N, device-cpu=N, apart,
 * fifo=P and times=FILE: so many kernels of so many rounds each a job (KERNEL "none": no segment),
 * CPU rounds in two halves around them; to pin it to a CPU; by SCHED_FIFO, where that is allowed.
 * device-cpu: the device is a CPU, this one. The driver's threads, which are then the device, are
 * pinned to it, and come before other programs there (nice -20), where that is allowed: a device of
 * its own would not be slowed by those. apart: what else is made with a queue (threads of layers)
 * is on the task's CPU, as beside such a device. times: run writes there when each job was
 * released, and its response time, in ns.
 *
 * run: jobs are released at FROM, FROM + PERIOD, ... (ns on CLOCK_MONOTONIC), each that many, but
 * none begins after UNTIL. A response time is from the release, however late the job could begin.
 * The exit status is 0 only if all results were right.
 */
#include "ocl.h"
#include "rt_kernels.h"
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/resource.h>

#define JOBS_MAX 100000
#define BEST_OF  15
#define WARM_UP  5
#define REST_NS  2000000u /* between jobs that are measured: nothing of the last is left */

struct task {
	const char *kernel_name; /* NULL: no segment */
	cl_uint rounds, kernels;
	uint64_t cpu_rounds;
	int cpu, device_cpu, fifo; /* -1: not so */
	bool is_fifo, apart;
	const char *times; /* where each job's release and response are written; NULL: nowhere */

	struct ocl o;
	cl_command_queue q;
	cl_kernel kernel;
	cl_mem in, out;
	uint32_t input[RT_WORDS], output[RT_ITEMS], expected[RT_ITEMS];
	uint32_t cpu_sum;
};

/* What a job took, in ns. */
struct parts {
	uint64_t cpu, total, misc, gpu;
};

static uint64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* A matrix of 16 by 16 times itself, so many times. */
static __attribute__((noinline)) uint32_t compute(uint64_t rounds)
{
	uint32_t a[16][16], b[16][16], sum = 0;

	/* It stays where the clock is read around it. */
	__asm__ volatile("" : "+r"(rounds)::"memory");
	for (unsigned i = 0; i < 256; i++)
		a[i / 16][i % 16] = i * 2654435761u;
	for (uint64_t r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < 16; i++)
			for (unsigned j = 0; j < 16; j++) {
				b[i][j] = (uint32_t)r;
				for (unsigned k = 0; k < 16; k++)
					b[i][j] += a[i][k] * a[k][j];
			}
		memcpy(a, b, sizeof(a));
		sum = sum * 31 + a[r % 16][3];
	}
	__asm__ volatile("" : "+r"(sum)::"memory");
	return sum;
}

static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot be pinned to CPU %d: %s", cpu, strerror(errno));
}

/* The segment, up to its results. */
static void use_device(struct task *t, cl_uint kernels, cl_uint rounds)
{
	size_t items = RT_ITEMS;

	OCL(clEnqueueWriteBuffer(
		t->q, t->in, CL_FALSE, 0, sizeof(t->input), t->input, 0, NULL, NULL));
	OCL(clSetKernelArg(t->kernel, 2, sizeof(rounds), &rounds));
	for (cl_uint k = 0; k < kernels; k++)
		OCL(clEnqueueNDRangeKernel(t->q, t->kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
	OCL(clEnqueueReadBuffer(
		t->q, t->out, CL_TRUE, 0, sizeof(t->output), t->output, 0, NULL, NULL));
}

/* Threads that the driver makes inherit these from their maker. */
static void be_device(int cpu)
{
	pin(cpu);
	if (cpu >= 0)
		setpriority(PRIO_PROCESS, 0, -20);
}

static void be_host(int cpu)
{
	pin(cpu);
	setpriority(PRIO_PROCESS, 0, 0); /* of this thread alone */
}

static void open_device(struct task *t)
{
	uint32_t seed = 1;
	cl_program p;

	be_device(t->device_cpu);
	ocl_open(&t->o);
	if (t->apart)
		be_host(t->cpu);
	t->q = ocl_queue(&t->o, 0);
	p = ocl_program(&t->o, rt_source);
	t->kernel = ocl_kernel(p, t->kernel_name);
	for (unsigned i = 0; i < RT_WORDS; i++)
		t->input[i] = xorshift32(&seed);
	t->in = ocl_buffer(&t->o, sizeof(t->input), NULL);
	t->out = ocl_buffer(&t->o, sizeof(t->output), NULL);
	OCL(clSetKernelArg(t->kernel, 0, sizeof(t->in), &t->in));
	OCL(clSetKernelArg(t->kernel, 1, sizeof(t->out), &t->out));
	use_device(t, 1, t->rounds);
	memcpy(t->expected, t->output, sizeof(t->expected));
}

static bool job(struct task *t, struct parts *p)
{
	uint64_t half = t->cpu_rounds / 2, t0 = now_ns(), t1, t2, cpu;
	uint32_t sum = compute(half);
	bool right = true;

	t1 = t2 = now_ns();
	cpu = thread_ns();
	if (t->kernel_name) {
		use_device(t, t->kernels, t->rounds);
		t2 = now_ns();
		cpu = thread_ns() - cpu;
		right = !memcmp(t->output, t->expected, sizeof(t->output));
		p->total = t2 - t1;
		p->misc = cpu < p->total ? cpu : p->total;
		p->gpu = p->total - p->misc;
	}
	sum ^= compute(t->cpu_rounds - half);
	p->cpu = t1 - t0 + now_ns() - t2;
	return right && sum == t->cpu_sum;
}

static void begin_task(struct task *t)
{
	struct sched_param param = {.sched_priority = t->fifo};
	struct parts p = {0};

	if (t->kernel_name)
		open_device(t);
	be_host(t->cpu);
	t->cpu_sum = compute(t->cpu_rounds / 2) ^ compute(t->cpu_rounds - t->cpu_rounds / 2);
	for (int i = 0; i < WARM_UP; i++)
		job(t, &p);
	t->is_fifo = t->fifo > 0 && !sched_setscheduler(0, SCHED_FIFO, &param);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int measure(struct task *t, uint64_t jobs)
{
	struct parts max = {0}, p = {0};
	uint64_t wrong = 0;

	begin_task(t);
	for (uint64_t n = 0; n < jobs; n++) {
		sleep_until(now_ns() + REST_NS);
		wrong += !job(t, &p);
		max.cpu = most(max.cpu, p.cpu);
		max.total = most(max.total, p.total);
		max.misc = most(max.misc, p.misc);
		max.gpu = most(max.gpu, p.gpu);
	}
	printf("{\"jobs\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"cpu_us\": %.1f, "
	       "\"total_us\": %.1f, \"misc_us\": %.1f, \"gpu_us\": %.1f}\n",
		jobs, wrong, (double)max.cpu / 1e3, (double)max.total / 1e3, (double)max.misc / 1e3,
		(double)max.gpu / 1e3);
	return wrong != 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const struct task *t, uint64_t *response, size_t n, uint64_t asked, size_t wrong,
	uint64_t period)
{
	size_t missed = 0;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		missed += response[i] > period;
		sum += (double)response[i];
	}
	qsort(response, n, sizeof(response[0]), compare);
	printf("{\"asked\": %" PRIu64 ", \"jobs\": %zu, \"wrong\": %zu, \"missed\": %zu, "
	       "\"fifo\": %s, \"min_us\": %.1f, \"mean_us\": %.1f, \"p50_us\": %.1f, "
	       "\"p99_us\": %.1f, \"max_us\": %.1f}\n",
		asked, n, wrong, missed, t->is_fifo ? "true" : "false",
		n ? (double)response[0] / 1e3 : 0, n ? sum / (double)n / 1e3 : 0,
		n ? (double)response[(n - 1) / 2] / 1e3 : 0,
		n ? (double)response[(n * 99 + 99) / 100 - 1] / 1e3 : 0,
		n ? (double)response[n - 1] / 1e3 : 0);
}

static void write_times(
	const char *path, uint64_t from, uint64_t period, const uint64_t *response, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f)
		die("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%" PRIu64 " %" PRIu64 "\n", from + i * period, response[i]);
	if (fclose(f))
		die("%s: %s", path, strerror(errno));
}

static int run(struct task *t)
{
	static uint64_t response[JOBS_MAX];
	uint64_t from, jobs, period, until;
	size_t n = 0, wrong = 0;
	struct parts p = {0};
	char line[128];

	begin_task(t);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) ||
		sscanf(line, "go %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &from, &jobs,
			&period, &until) != 4 ||
		jobs > JOBS_MAX)
		die("expected: go FROM JOBS PERIOD UNTIL, with at most %d jobs", JOBS_MAX);
	for (uint64_t at = from; n < jobs; n++, at += period) {
		sleep_until(at);
		if (now_ns() > until)
			break;
		wrong += !job(t, &p);
		response[n] = now_ns() - at;
	}
	if (t->times)
		write_times(t->times, from, period, response, n);
	report(t, response, n, jobs, wrong, period);
	return wrong != 0;
}

static uint64_t best_kernel(struct task *t, cl_uint rounds)
{
	uint64_t best = UINT64_MAX;

	use_device(t, 1, rounds);
	for (int i = 0; i < BEST_OF; i++) {
		uint64_t t0 = now_ns(), one, five;

		use_device(t, 1, rounds);
		one = now_ns() - t0;
		use_device(t, 5, rounds);
		five = now_ns() - t0 - one;
		if (five > one && (five - one) / 4 < best)
			best = (five - one) / 4;
	}
	return best;
}

static uint64_t best_compute(uint64_t rounds)
{
	uint64_t best = UINT64_MAX;
	volatile uint32_t kept;

	for (int i = 0; i < BEST_OF; i++) {
		uint64_t t0 = now_ns(), ns;

		kept = compute(rounds);
		ns = now_ns() - t0;
		best = ns < best ? ns : best;
	}
	(void)kept;
	return best;
}

/* Doubled until it is long enough to be told, then in proportion. */
static int size(struct task *t, uint64_t wish)
{
	uint64_t rounds = 16, ns;

	if (t->kernel_name)
		open_device(t);
	while ((ns = t->kernel_name ? best_kernel(t, (cl_uint)rounds) : best_compute(rounds)) <
			wish / 2 &&
		rounds < 1u << 30)
		rounds *= 2;
	rounds = (uint64_t)((double)rounds * (double)wish / (double)ns);
	rounds = rounds ? rounds : 1;
	printf("{\"rounds\": %" PRIu64 ", \"us\": %.1f}\n", rounds, (double)wish / 1e3);
	return 0;
}

static uint64_t number(const char *s, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);

	if (end == s || *end || v < min || v > max)
		die("%s: not a number from %" PRIu64 " to %" PRIu64, s, min, max);
	return v;
}

static void option(struct task *t, const char *word)
{
	if (!strncmp(word, "cpu=", 4))
		t->cpu = (int)number(word + 4, 0, CPU_SETSIZE - 1);
	else if (!strncmp(word, "device-cpu=", 11))
		t->device_cpu = (int)number(word + 11, 0, CPU_SETSIZE - 1);
	else if (!strncmp(word, "fifo=", 5))
		t->fifo = (int)number(word + 5, 1, 99);
	else if (!strcmp(word, "apart"))
		t->apart = true;
	else if (!strncmp(word, "times=", 6))
		t->times = word + 6;
	else
		die("%s: neither cpu=N, device-cpu=N, apart, fifo=P nor times=FILE", word);
}

/* KERNEL ROUNDS KERNELS CPU_ROUNDS and options. */
static void take_task(struct task *t, char **word, int n)
{
	if (n < 4)
		die("a task is KERNEL ROUNDS KERNELS CPU_ROUNDS [cpu=N] [device-cpu=N] [apart] "
		    "[fifo=P] [times=FILE]");
	t->kernel_name = strcmp(word[0], "none") ? word[0] : NULL;
	t->rounds = (cl_uint)number(word[1], 0, UINT32_MAX);
	t->kernels = (cl_uint)number(word[2], 0, 1000000);
	t->cpu_rounds = number(word[3], 0, UINT64_C(1) << 40);
	for (int i = 4; i < n; i++)
		option(t, word[i]);
}

int main(int argc, char **argv)
{
	static struct task t = {.cpu = -1, .device_cpu = -1, .fifo = -1};

	if (argc >= 4 && !strcmp(argv[1], "size")) {
		t.kernel_name = strcmp(argv[2], "cpu") ? argv[2] : NULL;
		for (int i = 4; i < argc; i++)
			option(&t, argv[i]);
		if (!t.kernel_name)
			pin(t.cpu);
		return size(&t, 1000 * number(argv[3], 1, 10000000));
	}
	if (argc >= 7 && !strcmp(argv[1], "measure")) {
		take_task(&t, argv + 2, argc - 3);
		return measure(&t, number(argv[argc - 1], 1, JOBS_MAX));
	}
	if (argc >= 6 && !strcmp(argv[1], "run")) {
		take_task(&t, argv + 2, argc - 2);
		return run(&t);
	}
	die("usage: rt_task size KERNEL|cpu US | measure TASK JOBS | run TASK");
}
