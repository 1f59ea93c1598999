/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What padding costs the urgent stream, and what it gives the batch: one row of a table.
 *
 * usage: cuda_pad_probe ROW SECONDS IMAGE [URGENT_BLOCKS [BATCH_NS [PERIOD_US [BATCH_BLOCKS]]]]
 * ROW: alone       the urgent stream, and nothing beside it
 *      priorities  two streams of the driver's highest and lowest priority, without Fermata
 *      split       likewise, and the batch on 32 multiprocessors alone
 *      stop        the batch is stopped inside kernels, and stands
 *      N           likewise, and pads on N multiprocessors; auto
 *      ROW:high    stop, N or auto with an urgent stream of the driver's highest priority: blocks
 * of the pad, whose stream has the lowest, come behind its own PERIOD_US: a job of the urgent
 * stream begins so often; 0: when the one before has ended.
 *
 * It prints: row, jobs, mean, P50, P99 and longest of a job in us, launches of the batch a second.
 * Each block of the batch counts, and has to have run once for each launch.
 */
#include "../guard/cuda_guard.h"
#include "cuda_server.h"
#include <pthread.h>

#define KERNELS_A_JOB 40
#define JOBS_MOST     200000
#define BATCH_BLOCKS  1024u /* at most, and unless said otherwise */
#define BATCH_AHEAD   64

static struct {
	struct guard g;
	CUstream urgent, batch;
	CUdeviceptr x[2];
	unsigned urgent_blocks, batch_blocks;
	uint64_t batch_ns, launches;
	_Atomic bool over;
} probe;

static void toil_of(CUstream s, CUdeviceptr x, unsigned blocks, uint64_t ns)
{
	CUdeviceptr gate = 0;

	launch(probe.g.toil, blocks, 1024, s, (void *[]){&x, &ns, &gate});
}

static void *launch_batch(void *unused)
{
	CU(cuCtxSetCurrent(c.ctx));
	while (!probe.over) {
		for (unsigned i = 0; i < BATCH_AHEAD; i++, probe.launches++)
			toil_of(probe.batch, probe.x[1], probe.batch_blocks, probe.batch_ns);
		CU(cuStreamSynchronize(probe.batch));
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t one_job(void)
{
	uint64_t at = now_ns();

	for (unsigned i = 0; i < KERNELS_A_JOB; i++)
		toil_of(probe.urgent, probe.x[0], probe.urgent_blocks, 5000);
	CU(cuStreamSynchronize(probe.urgent));
	return now_ns() - at;
}

static unsigned run_jobs(uint64_t *took, double seconds, uint64_t period)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), next = now_ns();
	unsigned n = 0;

	for (; n < JOBS_MOST && now_ns() < end; n++) {
		while (period && now_ns() < next)
			usleep(20);
		next += period;
		took[n] = one_job();
	}
	return n;
}

static void print_row(const char *row, uint64_t *took, unsigned n, double seconds)
{
	uint64_t sum = 0;

	MUST(n > 0);
	for (unsigned i = 0; i < n; i++)
		sum += took[i];
	qsort(took, n, sizeof(*took), by_size);
	printf("%s %u %.1f %.1f %.1f %.1f %.0f\n", row, n, (double)sum / n / 1e3,
		(double)took[n / 2] / 1e3, (double)took[(uint64_t)n * 99 / 100] / 1e3,
		(double)took[n - 1] / 1e3, (double)probe.launches / seconds);
}

static CUstream on_a_part(unsigned sms)
{
	struct cu_resource whole, part, rest;
	CUdevResourceDesc desc;
	CUgreenCtx green;
	unsigned n = 1;
	CUstream s;

	CU(cuDeviceGetDevResource(c.dev, &whole, CU_RESOURCE_SM));
	CU(cuDevSmResourceSplitByCount(&part, &n, &whole, &rest, 0, sms));
	CU(cuDevResourceGenerateDesc(&desc, &part, 1));
	CU(cuGreenCtxCreate(&green, desc, c.dev, CU_GREEN_DEFAULT_STREAM));
	CU(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
	return s;
}

static void bind_row(const char *row)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH);
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW);

	b.pad = !strncmp(row, "auto", 4) ? FM_PAD_AUTO : atoi(row);
	if (!b.pad)
		b.pad = FM_CUDA_PAD_NEVER;
	IS(0, fm_cuda_bind(probe.urgent, &u));
	IS(0, fm_cuda_bind(probe.batch, &b));
}

static void check_blocks(void)
{
	uint32_t before[WORDS], is[WORDS];

	seed_words(before, WORDS, 2);
	CU(cuMemcpyDtoH_v2(is, probe.x[1], BYTES));
	for (unsigned i = 0; i < probe.batch_blocks; i++)
		MUST(is[i] == (uint32_t)(before[i] + probe.launches));
}

static bool is_native(const char *row)
{
	return !strcmp(row, "alone") || !strcmp(row, "priorities") || !strcmp(row, "split");
}

static bool is_high(const char *row)
{
	return is_native(row) || strstr(row, ":high");
}

static void open_probe(const char *row, const char *image)
{
	struct fm_cuda_options o = {
		.size = sizeof(o), .local_policy = "fixed-priority", .guardian = true};

	if (!is_native(row))
		IS(0, fm_cuda_init(&o));
	conform_options(&(int){1}, &(char **){(char *[]){"probe", NULL}});
	conform_open(&c);
	CU(cuModuleLoad(&probe.g.module, image));
	guard_functions(&probe.g);
	CU(cuStreamCreateWithPriority(
		&probe.urgent, CU_STREAM_NON_BLOCKING, is_high(row) ? -5 : 0));
	probe.batch = strcmp(row, "split") ? new_stream(CU_STREAM_NON_BLOCKING) : on_a_part(32);
	probe.x[0] = new_words(1);
	probe.x[1] = new_words(2);
	if (!is_native(row))
		bind_row(row);
	one_job();
	toil_of(probe.batch, probe.x[1], probe.batch_blocks, 1000);
	probe.launches = 1;
	CU(cuStreamSynchronize(probe.batch));
}

int main(int argc, char **argv)
{
	uint64_t *took = calloc(JOBS_MOST, sizeof(*took)), began;
	pthread_t t;
	unsigned n;

	if (argc < 4 || !took)
		die("usage: cuda_pad_probe ROW SECONDS IMAGE [URGENT_BLOCKS [BATCH_NS "
		    "[PERIOD_US]]]");
	probe.urgent_blocks = argc > 4 ? (unsigned)atoi(argv[4]) : 64;
	probe.batch_ns = argc > 5 ? (uint64_t)atoll(argv[5]) : 20000;
	probe.batch_blocks = argc > 7 ? (unsigned)atoi(argv[7]) : BATCH_BLOCKS;
	MUST(probe.batch_blocks && probe.batch_blocks <= BATCH_BLOCKS);
	open_probe(argv[1], argv[3]);
	began = now_ns();
	if (strcmp(argv[1], "alone") != 0)
		MUST(!pthread_create(&t, NULL, launch_batch, NULL));
	n = run_jobs(took, atof(argv[2]), argc > 6 ? (uint64_t)atoll(argv[6]) * 1000 : 0);
	probe.over = true;
	if (strcmp(argv[1], "alone") != 0)
		pthread_join(t, NULL);
	check_blocks();
	print_row(argv[1], took, n, (double)(now_ns() - began) / 1e9);
	free(took);
	return 0;
}
