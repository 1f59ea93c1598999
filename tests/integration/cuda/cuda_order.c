/* SPDX-License-Identifier: Apache-2.0 */
/* Order: streams of each kind, events, words of memory, host functions, threads, errors. */
#include "cuda_conform.h"

static void in_order(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(1);

	for (uint32_t i = 0; i < 200; i++)
		mix(c, s, x, i);
	note_words(c, "200 kernels", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Work for the legacy stream stands between that of blocking streams before and after it. */
static void legacy_stream(struct conform *c)
{
	CUstream a = new_stream(0), b = new_stream(0), legacy = FM_CU_STREAM_LEGACY;
	CUdeviceptr x = new_words(2);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 30; i++) {
		if (i % 10 == 0)
			spin(c, a, x, 2000000);
		mix(c, a, x, 3 * i);
		mix(c, legacy, x, 3 * i + 1);
		mix(c, b, x, 3 * i + 2);
		mix(c, FM_CU_STREAM_LEGACY, x, ~i);
	}
	note_words(c, "x", x, legacy);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(a));
	CU(cuStreamDestroy_v2(b));
}

/* NULL is the legacy stream or the thread's own; in order it is in any case. */
static void null_stream(struct conform *c)
{
	uint32_t words[WORDS];
	CUdeviceptr x = new_words(3);

	for (uint32_t i = 0; i < 50; i++)
		mix(c, NULL, x, i);
	CU(cuMemcpyDtoH_v2(words, x, BYTES));
	note_data(c, "50 kernels", words, BYTES);
	for (uint32_t i = 0; i < 50; i++) {
		words[0] = i;
		CU(cuMemcpyHtoD_v2(x, words, BYTES));
		mix(c, NULL, x, i);
		CU(cuMemsetD32_v2(x + 64, i, 16));
		CU(cuMemcpyDtoD_v2(x + BYTES / 2, x, BYTES / 2));
		CU(cuMemcpy((uintptr_t)words, x, BYTES));
	}
	CU(cuStreamSynchronize(NULL));
	note_data(c, "with copies", words, BYTES);
	note(c, "query %d", cu.cuStreamQuery(NULL));
	CU(cuMemFree_v2(x));
}

static void put(uint32_t *word, uint32_t value)
{
	atomic_store((_Atomic uint32_t *)word, value);
}

static bool soon(CUstream s)
{
	uint64_t until = now_ns() + UINT64_C(20000000000);
	fm_cu_result rc;

	while ((rc = cu.cuStreamQuery(s)) == FM_CU_ERROR_NOT_READY && now_ns() < until)
		usleep(200);
	return !rc;
}

/* A stream that waits for a word of memory holds up the legacy stream if it is blocking. */
static void stalled_streams(struct conform *c)
{
	CUstream blocking = new_stream(0), free_running = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(4), y = new_words(5), d;
	uint32_t *word = mapped_words(&d);

	CU(cuCtxSynchronize());
	CU(cuStreamWaitValue32_v2(free_running, d, 1, CU_WAIT_EQ));
	mix(c, free_running, x, 1);
	mix(c, FM_CU_STREAM_LEGACY, y, 2);
	note(c, "legacy beside a non-blocking stream: %s",
		soon(FM_CU_STREAM_LEGACY) ? "done" : "waits");
	note(c, "the non-blocking stream %d", cu.cuStreamQuery(free_running));
	put(word, 1);
	note_words(c, "x", x, free_running);
	CU(cuStreamWaitValue32_v2(blocking, d, 2, CU_WAIT_EQ));
	mix(c, blocking, x, 3);
	mix(c, FM_CU_STREAM_LEGACY, x, 4);
	usleep(3000);
	note(c, "legacy behind a blocking stream %d", cu.cuStreamQuery(FM_CU_STREAM_LEGACY));
	put(word, 2);
	note_words(c, "x", x, FM_CU_STREAM_LEGACY);
	note_words(c, "y", y, FM_CU_STREAM_LEGACY);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuMemFreeHost(word));
	CU(cuStreamDestroy_v2(blocking));
	CU(cuStreamDestroy_v2(free_running));
}

/* Each of two streams always waits for the other's latest command: a gate in one must not lock
 * both. */
static void ping_pong(struct conform *c)
{
	CUstream s[2] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(0)};
	CUdeviceptr x = new_words(6);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 120; i++) {
		mix(c, s[i & 1], x, i);
		order(s[i & 1], s[~i & 1]);
	}
	note_words(c, "120 kernels", x, s[0]);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuStreamDestroy_v2(s[1]));
}

/* join(mix(x), mix(y)) over three streams. */
static void diamond(struct conform *c)
{
	CUdeviceptr d[3] = {new_words(7), new_words(8), new_words(9)};
	CUstream s[3];

	for (int i = 0; i < 3; i++)
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 40; i++) {
		mix(c, s[0], d[0], i);
		mix(c, s[1], d[1], ~i);
		order(s[0], s[2]);
		order(s[1], s[2]);
		join(c, s[2], d[2], d[0], d[1]);
		order(s[2], s[0]);
		order(s[2], s[1]);
	}
	note_words(c, "x", d[0], s[2]);
	note_words(c, "y", d[1], s[2]);
	note_words(c, "z", d[2], s[2]);
	free_all(d, 3);
	for (int i = 0; i < 3; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

static void until_set(void *flag)
{
	while (!atomic_load((atomic_bool *)flag))
		usleep(100);
}

static void events(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(10);
	atomic_bool looked = false;
	CUevent e[3], plain = new_event();
	float ms = -1;

	for (int i = 0; i < 3; i++)
		CU(cuEventCreate(&e[i], 0));
	note(c, "never recorded %d, its time %d", cu.cuEventQuery(e[0]),
		cu.cuEventElapsedTime(&ms, e[0], e[1]));
	CU(cuEventRecord(e[0], s));
	CU(cuLaunchHostFunc(s, until_set, &looked));
	spin(c, s, x, 3000000);
	CU(cuEventRecord(e[1], s));
	CU(cuEventRecord(e[2], s));
	note(c, "pending %d", cu.cuEventQuery(e[1]));
	looked = true;
	CU(cuEventSynchronize(e[1]));
	note(c, "done %d", cu.cuEventQuery(e[1]));
	CU(cuEventSynchronize(e[2]));
	CU(cuEventElapsedTime(&ms, e[0], e[1]));
	note(c, "at least what it took: %s", ms >= 2.9f ? "yes" : "no");
	CU(cuEventElapsedTime(&ms, e[1], e[2]));
	note(c, "in order: %s", ms >= 0 ? "yes" : "no");
	CU(cuEventRecord(plain, s));
	CU(cuEventSynchronize(plain));
	note(c, "without timing %d", cu.cuEventElapsedTime(&ms, plain, e[1]));
	spin(c, s, x, 1000000);
	CU(cuEventRecord(e[0], s)); /* anew, and destroyed while it is pending */
	CU(cuEventDestroy_v2(e[0]));
	note_words(c, "x", x, s);
	CU(cuEventDestroy_v2(e[1]));
	CU(cuEventDestroy_v2(e[2]));
	CU(cuEventDestroy_v2(plain));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Two streams hand a word to and fro; the host begins. */
static void words_of_memory(struct conform *c)
{
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(11), d;
	uint32_t *word = mapped_words(&d);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 20; i++) {
		CU(cuStreamWaitValue32_v2(a, d, 2 * i + 1, CU_WAIT_GEQ));
		mix(c, a, x, i);
		CU(cuStreamWriteValue32_v2(a, d, 2 * i + 2, 0));
		CU(cuStreamWaitValue32_v2(b, d, 2 * i + 2, CU_WAIT_GEQ));
		mix(c, b, x, ~i);
		CU(cuStreamWriteValue32_v2(b, d, 2 * i + 3, 0));
	}
	usleep(1000);
	note(c, "before it begins %d %d", cu.cuStreamQuery(a), cu.cuStreamQuery(b));
	put(word, 1);
	CU(cuStreamSynchronize(b));
	note(c, "the word %u", atomic_load((_Atomic uint32_t *)word));
	note_words(c, "x", x, a);
	CU(cuMemFree_v2(x));
	CU(cuMemFreeHost(word));
	CU(cuStreamDestroy_v2(a));
	CU(cuStreamDestroy_v2(b));
}

/* The words need memory that is the program's own, registered. */
static void batch_of_words(struct conform *c)
{
	static uint32_t page[2048] __attribute__((aligned(4096)));
	union fm_cu_mem_op op[3];
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(12), d;

	memset(page, 0, sizeof(page));
	CU(cuMemHostRegister_v2(page, sizeof(page), 3));
	CU(cuMemHostGetDevicePointer_v2(&d, page, 0));
	memset(op, 0, sizeof(op));
	op[0].op.operation = FM_CU_OP_WRITE_VALUE_64;
	op[0].op.address = d + 8;
	op[0].op.value = UINT64_C(0x123456789);
	op[1].op.operation = FM_CU_OP_WAIT_VALUE_32;
	op[1].op.address = d;
	op[1].op.value = 6;
	op[1].op.flags = CU_WAIT_AND;
	op[2].op.operation = FM_CU_OP_WRITE_VALUE_32;
	op[2].op.address = d + 4;
	op[2].op.value = 77;
	mix(c, s, x, 1);
	CU(cuStreamBatchMemOp_v2(s, 3, op, 0));
	mix(c, s, x, 2);
	while (atomic_load((_Atomic uint64_t *)(page + 2)) != UINT64_C(0x123456789))
		usleep(100);
	note(c, "waits with %u", atomic_load((_Atomic uint32_t *)(page + 1)));
	put(page, 4);
	CU(cuStreamSynchronize(s));
	note(c, "leaves %u", page[1]);
	note_words(c, "x", x, s);
	CU(cuMemHostUnregister(page));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

struct witness {
	const uint32_t *seen; /* written by the device before */
	uint32_t sum;
	int calls;
};

static void on_host(void *arg)
{
	struct witness *w = arg;

	w->sum = w->sum * 31 + w->seen[0] + (uint32_t)++w->calls;
}

static void on_callback(CUstream s, fm_cu_result status, void *arg)
{
	on_host(arg);
	((struct witness *)arg)->sum += (uint32_t)status;
}

/* What a host function sees is what came before it; what comes after waits for it. */
static void host_functions(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(13), d;
	uint32_t *words = mapped_words(&d);
	struct witness w = {.seen = words};

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 60; i++) {
		mix(c, s, x, i);
		CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
		if (i % 3)
			CU(cuLaunchHostFunc(s, on_host, &w));
		else
			CU(cuStreamAddCallback(s, on_callback, &w, 0));
		fill(c, s, d, i); /* spoils what the function reads */
	}
	CU(cuStreamSynchronize(s));
	note(c, "%d calls saw %u", w.calls, w.sum);
	note_words(c, "x", x, s);
	CU(cuMemFreeHost(words));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* One waits for the thread that still launches what comes behind it. */
static void waited_for(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(16);
	atomic_bool launched = false;

	CU(cuLaunchHostFunc(s, until_set, &launched));
	for (uint32_t i = 0; i < 40; i++) {
		mix(c, s, x, i);
		usleep(1000);
	}
	launched = true;
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void cooperative(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(14), arrived = new_words(15);
	struct cu_launch_attribute attr = {.id = CU_LAUNCH_COOPERATIVE, .value.cooperative = 1};
	struct cu_launch_config config = {.grid = {8, 1, 1},
		.block = {BLOCK, 1, 1},
		.stream = s,
		.attrs = &attr,
		.attr_count = 1};
	uint32_t n = WORDS / 2, steps = 9;
	void *params[] = {&x, &n, &steps, &arrived};

	for (uint32_t i = 0; i < 20; i++) {
		mix(c, s, x, i);
		CU(cuMemsetD32Async(arrived, 0, 1, s));
		if (i & 1)
			CU(cuLaunchKernelEx(&config, c->relay, params, NULL));
		else
			CU(cuLaunchCooperativeKernel(c->relay, 8, 1, 1, BLOCK, 1, 1, 0, s, params));
	}
	note_words(c, "x", x, s);
	free_all((CUdeviceptr[]){x, arrived}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* Blocks in clusters; and a kernel that may begin before the one in front of it ends, whose data
 * are others. A device that has neither says so, under Fermata, too. */
static void clusters(struct conform *c)
{
	struct cu_launch_attribute cluster = {.id = CU_LAUNCH_CLUSTER, .value.cluster = {2, 1, 1}};
	struct cu_launch_attribute early = {
		.id = CU_LAUNCH_SERIALIZATION, .value.serialization = 1};
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(18), y = new_words(19);
	struct cu_launch_config config = {
		.grid = {GRID, 1, 1}, .block = {BLOCK, 1, 1}, .stream = s, .attr_count = 1};
	uint32_t n = WORDS, rounds = 40, number = 0;
	int rc[2] = {0};

	launches_apart(1);
	for (; number < 40; number++) {
		config.attrs = &cluster;
		rc[0] |= cu.cuLaunchKernelEx(
			&config, c->mix, (void *[]){&x, &n, &number, &rounds}, NULL);
		config.attrs = &early;
		rc[1] |= cu.cuLaunchKernelEx(
			&config, c->mix, (void *[]){&y, &n, &number, &rounds}, NULL);
	}
	launches_apart(0);
	note(c, "clusters %d, early %d", rc[0], rc[1]);
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* Each error is the call's own, and what follows works. */
static void errors(struct conform *c)
{
	CUstream s = new_stream(0), none;
	CUdeviceptr x = new_words(16);
	uint32_t n = WORDS, number = 1, rounds = 40;
	void *params[] = {&x, &n, &number, &rounds};
	CUfunction f;
	CUmodule m;

	mix(c, s, x, 0);
	note(c, "no grid %d", cu.cuLaunchKernel(c->mix, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
	note(c, "no block %d", cu.cuLaunchKernel(c->mix, 1, 1, 1, 0, 1, 1, 0, s, params, NULL));
	note(c, "large block %d",
		cu.cuLaunchKernel(c->mix, 1, 1, 1, 2048, 1, 1, 0, s, params, NULL));
	mix(c, s, x, 1);
	note(c, "no function %d", cu.cuModuleGetFunction(&f, c->module, "nonsense"));
	note(c, "nonsense for a module %d", cu.cuModuleLoadData(&m, "nonsense") != 0);
	note(c, "no kernel %d", cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	note(c, "flags of a stream %d", cu.cuStreamCreate(&none, 77));
	note(c, "no event %d", cu.cuEventRecord(NULL, s));
	note(c, "a host function that is none %d", cu.cuLaunchHostFunc(s, NULL, NULL));
	note(c, "no operations %d", cu.cuStreamBatchMemOp_v2(s, 0, NULL, 0));
	note(c, "to nowhere %d", cu.cuMemcpyHtoDAsync_v2(0, &n, 4, s));
	mix(c, s, x, 2);
	note(c, "free of nonsense %d", cu.cuMemFree_v2(x + 4));
	note(c, "what is left %d", cu.cuStreamSynchronize(s));
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void polling(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(17), d;
	uint32_t *words = mapped_words(&d);

	for (uint32_t i = 0; i < 80; i++)
		mix(c, s, x, i);
	CU(cuMemcpyAsync((uintptr_t)words, x, BYTES, s));
	note(c, "done: %s", soon(s) ? "yes" : "no");
	note_data(c, "x", words, BYTES);
	CU(cuMemFreeHost(words));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* All streams of the context, the default ones included. */
static void context_synchronize(struct conform *c)
{
	CUstream s[4] = {
		new_stream(0), new_stream(CU_STREAM_NON_BLOCKING), NULL, FM_CU_STREAM_PER_THREAD};
	CUdeviceptr x[4], d[4];
	uint32_t *words[4];

	for (int i = 0; i < 4; i++) {
		x[i] = new_words(20 + (uint32_t)i);
		words[i] = mapped_words(&d[i]);
	}
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 40; i++)
		mix(c, s[i & 3], x[i & 3], i);
	for (int i = 0; i < 4; i++)
		CU(cuMemcpyDtoHAsync_v2(words[i], x[i], BYTES, s[i]));
	CU(cuCtxSynchronize());
	for (int i = 0; i < 4; i++) {
		note(c, "stream %d: %d", i, cu.cuStreamQuery(s[i]));
		note_data(c, "words", words[i], BYTES);
		CU(cuMemFreeHost(words[i]));
	}
	free_all(x, 4);
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuStreamDestroy_v2(s[1]));
}

/* Streams come, get work, and go before it is done. */
static void churn(struct conform *c)
{
	CUdeviceptr x;
	uint32_t words[WORDS];

	CU(cuMemAlloc_v2(&x, BYTES));
	CU(cuMemsetD32_v2(x, 0, WORDS));
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 80; i++) {
		CUstream s = new_stream(i & 1);

		count(c, s, x);
		if (i % 20 == 0)
			spin(c, s, x + BYTES / 2 + 4 * i, 500000); /* a word of its own */
		count(c, s, x);
		CU(cuStreamDestroy_v2(s));
	}
	CU(cuCtxSynchronize());
	CU(cuMemcpyDtoH_v2(words, x, BYTES));
	note_data(c, "counts", words, BYTES);
	CU(cuMemFree_v2(x));
}

struct thread {
	struct conform *c;
	CUdeviceptr shared, own;
	uint64_t sum;
	uint32_t seed;
};

/* Its default stream, by name. */
static void *thread_main(void *arg)
{
	struct thread *t = arg;
	CUstream s = FM_CU_STREAM_PER_THREAD;
	uint32_t words[WORDS];

	CU(cuCtxSetCurrent(t->c->ctx));
	for (uint32_t i = 0; i < 40; i++) {
		count(t->c, s, t->shared);
		mix(t->c, s, t->own, t->seed + i);
		if (i % 8 == 0)
			CU(cuStreamSynchronize(s));
	}
	CU(cuMemcpyDtoHAsync_v2(words, t->own, BYTES, s));
	t->sum = digest(words, BYTES);
	return NULL;
}

static void threads(struct conform *c)
{
	CUdeviceptr shared = new_words(30);
	struct thread t[4];
	pthread_t id[4];

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 4; i++) {
		t[i] = (struct thread){c, shared, new_words(31 + i), 0, 1000 * i};
		CU(cuCtxSynchronize());
		if (pthread_create(&id[i], NULL, thread_main, &t[i]))
			die("no thread");
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(id[i], NULL);
		note(c, "thread %d: %016llx", i, (unsigned long long)t[i].sum);
		CU(cuMemFree_v2(t[i].own));
	}
	CU(cuCtxSynchronize());
	note_words(c, "shared", shared, NULL);
	CU(cuMemFree_v2(shared));
}

static void deep_queue(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(40);

	CU(cuCtxSynchronize());
	for (int i = 0; i < 3000; i++)
		spin(c, s, x, 0);
	note_words(c, "after 3000 kernels", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A context of its own, with streams and memory that go with it. */
static void contexts(struct conform *c)
{
	struct conform own = *c;
	CUdeviceptr x;
	CUcontext now;
	CUstream s;

	CU(cuCtxCreate_v2(&own.ctx, 0, c->dev));
	CU(cuCtxGetCurrent(&now));
	note(c, "current: %s", now == own.ctx ? "the new one" : "another");
	CU(cuModuleLoadData(&own.module, cuda_ptx));
	CU(cuModuleGetFunction(&own.mix, own.module, "mix"));
	x = new_words(50);
	s = new_stream(0);
	for (uint32_t i = 0; i < 30; i++)
		mix(&own, i % 3 ? s : FM_CU_STREAM_LEGACY, x, i);
	CU(cuCtxSynchronize());
	note_words(c, "x", x, s);
	mix(&own, s, x, 99);
	CU(cuCtxDestroy_v2(own.ctx));
	CU(cuCtxGetCurrent(&now));
	note(c, "current: %s", now == c->ctx ? "the first" : "another");
	in_order(c);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"in order", in_order},
		{"legacy stream", legacy_stream},
		{"null stream", null_stream},
		{"stalled streams", stalled_streams},
		{"ping pong", ping_pong},
		{"diamond", diamond},
		{"events", events},
		{"words of memory", words_of_memory},
		{"batch of words", batch_of_words},
		{"host functions", host_functions},
		{"waited for", waited_for},
		{"cooperative", cooperative},
		{"clusters", clusters},
		{"errors", errors},
		{"polling", polling},
		{"context synchronize", context_synchronize},
		{"churn", churn},
		{"threads", threads},
		{"deep queue", deep_queue},
		{"contexts", contexts},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
