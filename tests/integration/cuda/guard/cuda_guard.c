/* SPDX-License-Identifier: Apache-2.0 */
/* What must not change when launches are stopped between their blocks and go on later: kernels that
 * tell if a block ran twice or not at all, and all that can see whether a kernel has ended. */
#include "cuda_guard.h"

static void steps(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1);
	struct guard g;

	guard_open(&g);
	for (int i = 0; i < 300; i++)
		step(&g, s, x);
	for (int i = 0; i < 30; i++)
		toil(&g, s, x);
	note_words(c, "out[b] += 1", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void chains(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(2);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 400; i++) {
		chain(&g, s, x, i);
		if (i % 20 == 0)
			toil(&g, s, x);
		if (i % 50 == 0)
			mix(c, s, x, i); /* of another module */
	}
	note_words(c, "400 kernels over one buffer", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* More than anybody keeps a record of. */
static void deep_queue(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3);
	struct guard g;

	guard_open(&g);
	toil(&g, s, x);
	for (uint32_t i = 0; i < 3000; i++)
		chain(&g, s, x, i);
	note_words(c, "3000 kernels", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* More blocks than there are bits for; behind one that has them. */
static void many_blocks(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	const uint32_t blocks = 600000;
	uint64_t sum = 0;
	CUdeviceptr x;
	struct guard g;
	uint32_t *words = malloc(blocks * sizeof(*words));

	guard_open(&g);
	CU(cuMemAlloc_v2(&x, blocks * sizeof(*words)));
	CU(cuMemsetD32Async(x, 5, blocks, s));
	for (int i = 0; i < 3; i++) {
		if (i)
			step(&g, s, x);
		launch(g.step, blocks, 32, s, (void *[]){&x});
	}
	CU(cuMemcpyDtoHAsync_v2(words, x, blocks * sizeof(*words), s));
	CU(cuStreamSynchronize(s));
	for (uint32_t i = 0; i < blocks; i++)
		sum += words[i];
	note(c, "sum %llu", (unsigned long long)sum);
	free(words);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Each continues where the other is, by events. */
static void two_streams(struct conform *c)
{
	CUstream s[2] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(0)};
	CUdeviceptr x = new_words(4), y = new_words(5);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 60; i++) {
		CUstream a = s[i & 1], b = s[~i & 1];

		toil(&g, a, x);
		chain(&g, a, x, i);
		order(a, b);
		join(c, b, y, x, y);
		chain(&g, b, y, i);
		order(b, a);
	}
	note_words(c, "x", x, s[0]);
	note_words(c, "y", y, s[0]);
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuStreamDestroy_v2(s[1]));
}

static void copies_between(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(6), y = new_words(7);
	uint32_t words[64], *pinned;
	struct guard g;
	void *p;

	guard_open(&g);
	CU(cuMemAllocHost_v2(&p, BYTES));
	pinned = p;
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 20; i++) {
		toil(&g, s, x);
		CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
		chain(&g, s, x, i);
		CU(cuMemcpyDtoHAsync_v2(pinned, x, BYTES, s));
		step(&g, s, x);
		CU(cuMemcpyHtoDAsync_v2(x + BYTES / 2, pinned, BYTES / 2, s));
		chain(&g, s, y, i);
		for (uint32_t k = 0; k < 64; k++)
			words[k] = i * k;
		CU(cuMemcpyHtoDAsync_v2(y, words, sizeof(words), s));
		toil(&g, s, y);
		if (i % 5 == 0)
			CU(cuStreamSynchronize(s));
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	note_data(c, "in the host's memory", pinned, BYTES);
	guard_close(&g);
	CU(cuMemFreeHost(p));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

static void fills_between(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(8), sum = new_words(9);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 25; i++) {
		toil(&g, s, x);
		CU(cuMemsetD32Async(x + 4 * i, i, 40, s));
		toil(&g, s, x);
		join(c, s, sum, x, sum);
		CU(cuMemsetD8Async(x, 0, 64, s));
	}
	note_words(c, "x", x, s);
	note_words(c, "sum", sum, s);
	guard_close(&g);
	free_all((CUdeviceptr[]){x, sum}, 2);
	CU(cuStreamDestroy_v2(s));
}

struct witness {
	const _Atomic uint32_t *words;
	uint32_t calls, right;
};

/* All blocks of as many kernels as there were calls. */
static void on_host(void *arg)
{
	struct witness *w = arg;
	uint32_t all = 1;

	w->calls++;
	for (uint32_t i = 0; i < BLOCKS; i++)
		all &= w->words[i] == w->calls;
	w->right += all;
}

/* Kernels write the host's memory, which host functions look at. */
static void host_functions(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	struct witness w = {0};
	struct guard g;
	CUdeviceptr d;

	guard_open(&g);
	w.words = (void *)mapped_words(&d);
	for (int i = 0; i < 25; i++) {
		toil(&g, s, d);
		CU(cuLaunchHostFunc(s, on_host, &w));
	}
	CU(cuStreamSynchronize(s));
	note(c, "%u calls, %u saw all blocks", w.calls, w.right);
	guard_close(&g);
	CU(cuMemFreeHost((void *)(uintptr_t)w.words));
	CU(cuStreamDestroy_v2(s));
}

static uint32_t blocks_done(const _Atomic uint32_t *words, uint32_t value)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < BLOCKS; i++)
		n += atomic_load(&words[i]) == value;
	return n;
}

static bool in_time(uint64_t since)
{
	return now_ns() < since + UINT64_C(60000000000);
}

static void until_set(void *flag)
{
	while (!atomic_load((_Atomic bool *)flag))
		usleep(100);
}

/* One waits for the thread that still launches what comes behind it. */
static void waited_for(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(20);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 4; i++) {
		_Atomic bool launched = false;

		CU(cuLaunchHostFunc(s, until_set, &launched));
		for (uint32_t k = 0; k < 3; k++) {
			chain(&g, s, x, 3 * i + k);
			usleep(3000);
		}
		atomic_store(&launched, true);
		CU(cuStreamSynchronize(s));
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* By queries alone: what an event stands behind is done when it says so. */
static void event_queries(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = new_event();
	struct guard g;
	CUdeviceptr d;
	_Atomic uint32_t *words;

	guard_open(&g);
	words = (void *)mapped_words(&d);
	for (uint32_t i = 1; i <= 15; i++) {
		uint64_t since = now_ns();

		toil(&g, s, d);
		CU(cuEventRecord(e, s));
		while (cu.cuEventQuery(e) == FM_CU_ERROR_NOT_READY && in_time(since))
			usleep(100);
		note(c, "%d, %u blocks", cu.cuEventQuery(e), blocks_done(words, i));
		toil(&g, s, d + BYTES / 2);
		while (cu.cuStreamQuery(s) == FM_CU_ERROR_NOT_READY && in_time(since))
			usleep(100);
		note(c, "%d, %u blocks", cu.cuStreamQuery(s), blocks_done(words + WORDS / 2, i));
	}
	guard_close(&g);
	CU(cuMemFreeHost((void *)words));
	CU(cuEventDestroy_v2(e));
	CU(cuStreamDestroy_v2(s));
}

/* The driver is not asked at all. */
static void polled_memory(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	struct guard g;
	CUdeviceptr d;
	_Atomic uint32_t *words;

	guard_open(&g);
	words = (void *)mapped_words(&d);
	for (uint32_t i = 1; i <= 10; i++) {
		uint64_t since = now_ns();

		toil(&g, s, d);
		while (blocks_done(words, i) < BLOCKS && in_time(since))
			usleep(100);
		note(c, "%u blocks", blocks_done(words, i));
	}
	guard_close(&g);
	CU(cuMemFreeHost((void *)words));
	CU(cuStreamDestroy_v2(s));
}

/* Words of memory that streams wait for and write. */
static void words_of_memory(struct conform *c)
{
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(10), word = new_words(11);
	struct guard g;

	guard_open(&g);
	CU(cuMemsetD32_v2(word, 0, 1));
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 20; i++) {
		toil(&g, a, x);
		chain(&g, a, x, 2 * i);
		CU(cuStreamWriteValue32_v2(a, word, 2 * i + 1, 0));
		CU(cuStreamWaitValue32_v2(b, word, 2 * i + 1, CU_WAIT_GEQ));
		chain(&g, b, x, 2 * i + 1);
		CU(cuStreamWriteValue32_v2(b, word, 2 * i + 2, 0));
		CU(cuStreamWaitValue32_v2(a, word, 2 * i + 2, CU_WAIT_GEQ));
	}
	note_words(c, "x", x, a);
	guard_close(&g);
	free_all((CUdeviceptr[]){x, word}, 2);
	CU(cuStreamDestroy_v2(a));
	CU(cuStreamDestroy_v2(b));
}

/* Memory that comes and goes in the stream's order, the same again and again. */
static void memory_in_order(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr sum = new_words(12);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 25; i++) {
		CUdeviceptr x;

		CU(cuMemAllocAsync(&x, BYTES, s));
		fill(c, s, x, i);
		toil(&g, s, x);
		join(c, s, sum, x, sum);
		toil(&g, s, x);
		CU(cuMemFreeAsync(x, s));
		chain(&g, s, sum, i);
	}
	note_words(c, "sum", sum, s);
	guard_close(&g);
	CU(cuMemFree_v2(sum));
	CU(cuStreamDestroy_v2(s));
}

/* Memory, streams and code that are given back right behind the launches that use them. */
static void given_back(struct conform *c)
{
	CUdeviceptr sum = new_words(13);

	for (uint32_t i = 0; i < 8; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
		CUdeviceptr x = new_words(20 + i);
		struct guard g;

		CU(cuCtxSynchronize());
		guard_open(&g);
		toil(&g, s, x);
		chain(&g, s, x, 0);
		join(c, s, sum, x, sum);
		CU(cuMemFree_v2(x));
		toil(&g, s, sum);
		CU(cuModuleUnload(g.module));
		count(c, s, sum);
		CU(cuStreamDestroy_v2(s));
		CU(cuCtxSynchronize());
	}
	note_words(c, "sum", sum, NULL);
	CU(cuMemFree_v2(sum));
}

/* Work of the legacy stream waits for the blocking streams', and they for it. */
static void legacy_stream(struct conform *c)
{
	CUstream a = new_stream(0), b = new_stream(0), legacy = FM_CU_STREAM_LEGACY;
	CUdeviceptr x = new_words(14);
	uint32_t words[WORDS];
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 15; i++) {
		toil(&g, a, x);
		chain(&g, legacy, x, 2 * i);
		toil(&g, b, x);
		CU(cuMemsetD32_v2(x, i, 1));
		chain(&g, a, x, 2 * i + 1);
		CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, legacy));
	}
	note_data(c, "words", words, BYTES);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(a));
	CU(cuStreamDestroy_v2(b));
}

/* Blocks that wait for each other, among others that do not. */
static void cooperative(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(15), arrived = new_words(16);
	struct cu_launch_attribute attr = {.id = CU_LAUNCH_COOPERATIVE, .value.cooperative = 1};
	struct cu_launch_config config = {.grid = {8, 1, 1},
		.block = {BLOCK, 1, 1},
		.stream = s,
		.attrs = &attr,
		.attr_count = 1};
	uint32_t n = WORDS / 2, rounds = 5;
	void *params[] = {&x, &n, &rounds, &arrived};
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 20; i++) {
		toil(&g, s, x);
		CU(cuMemsetD32Async(arrived, 0, 1, s));
		if (i & 1)
			CU(cuLaunchKernelEx(&config, g.meet, params, NULL));
		else
			CU(cuLaunchCooperativeKernel(g.meet, 8, 1, 1, BLOCK, 1, 1, 0, s, params));
		chain(&g, s, x, i);
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	free_all((CUdeviceptr[]){x, arrived}, 2);
	CU(cuStreamDestroy_v2(s));
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	CU(cuCtxSetCurrent(t->c->ctx));
	for (uint32_t i = 0; i < 15; i++) {
		toil(t->g, FM_CU_STREAM_PER_THREAD, t->x);
		chain(t->g, FM_CU_STREAM_PER_THREAD, t->x, i);
		if (i % 5 == 0)
			CU(cuStreamSynchronize(FM_CU_STREAM_PER_THREAD));
	}
	CU(cuStreamSynchronize(FM_CU_STREAM_PER_THREAD));
	return NULL;
}

/* Several threads launch kernels of one module at once, each on its own stream. */
static void threads(struct conform *c)
{
	in_threads(c, 4, thread_main);
}

/* More of them are said to be there than there are. */
static void no_attributes(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	struct cu_launch_config config = {
		.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = s, .attr_count = 1};
	CUdeviceptr x = new_words(12);
	struct guard g;

	guard_open(&g);
	for (int i = 0; i < 3; i++) {
		step(&g, s, x);
		note(c, "%d", cu.cuLaunchKernelEx(&config, g.step, (void *[]){&x}, NULL));
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"steps", steps},
		{"no attributes", no_attributes},
		{"chains", chains},
		{"deep queue", deep_queue},
		{"many blocks", many_blocks},
		{"two streams", two_streams},
		{"copies between", copies_between},
		{"fills between", fills_between},
		{"host functions", host_functions},
		{"waited for", waited_for},
		{"event queries", event_queries},
		{"polled memory", polled_memory},
		{"words of memory", words_of_memory},
		{"memory in order", memory_in_order},
		{"given back", given_back},
		{"legacy stream", legacy_stream},
		{"cooperative", cooperative},
		{"threads", threads},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
