/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HIP has and CUDA's driver has not, or has otherwise. Each answer is printed; they are the
 * same with and without Fermata, by whichever way the program has got at the runtime's functions.
 *
 * usage: [--via link|dlsym|proc] [--spt]
 */
#include "hip_load.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 1024

extern const char code[];
__asm__(".section .rodata\n"
	".type code, @object\n"
	"code: .incbin \"" CUDA_PTX "\"\n"
	".byte 0\n"
	".size code, . - code\n"
	".previous");

#define HIP(call)                                                              \
	do {                                                                   \
		hipError_t rc_ = hip.call;                                     \
		if (rc_) {                                                     \
			fprintf(stderr, "%d: " #call ": %d\n", __LINE__, rc_); \
			exit(1);                                               \
		}                                                              \
	} while (0)

static hipModule_t module;
static hipFunction_t mix;

static uint32_t *words(uint32_t value)
{
	void *p;

	HIP(hipHostMalloc(&p, WORDS * sizeof(uint32_t), 0));
	for (unsigned i = 0; i < WORDS; i++)
		((uint32_t *)p)[i] = value;
	return p;
}

static uint32_t sum(const uint32_t *w)
{
	uint32_t h = 2166136261u;

	for (unsigned i = 0; i < WORDS; i++)
		h = (h ^ w[i]) * 16777619u;
	return h;
}

/* mix<<<>>>, as a compiler has it: this address stands for the kernel. */
static void mix_stub(uint32_t *x, uint32_t n, uint32_t number, uint32_t rounds)
{
	void *args[] = {&x, &n, &number, &rounds};
	hip_dim3 grid, block;
	hipStream_t stream;
	size_t shared;

	HIP(__hipPopCallConfiguration(&grid, &block, &shared, &stream));
	HIP(hipLaunchKernel((const void *)mix_stub, grid, block, args, shared, stream));
}

static void register_code(void)
{
	static const struct hip_fat_binary fat = {HIP_FAT_BINARY_MAGIC, 1, code, NULL};
	void **m = __hipRegisterFatBinary(&fat);

	__hipRegisterFunction(
		m, (const void *)mix_stub, (char *)"mix", "mix", ~0u, NULL, NULL, NULL, NULL, NULL);
}

static void compiled(hipStream_t s)
{
	hip_dim3 grid = {WORDS / 128, 1, 1}, block = {128, 1, 1};
	uint32_t *x = words(1), n = WORDS, number = 7, rounds = 3;
	void *args[] = {&x, &n, &number, &rounds};

	HIP(__hipPushCallConfiguration(grid, block, 0, s));
	mix_stub(x, n, number, rounds);
	HIP(hipLaunchCooperativeKernel((const void *)mix_stub, grid, block, args, 0, s));
	HIP(hipConfigureCall(grid, block, 0, s || !hip_spt ? s : HIP_STREAM_PER_THREAD));
	HIP(hipSetupArgument(&x, sizeof(x), 0));
	HIP(hipSetupArgument(&n, sizeof(n), 8));
	HIP(hipSetupArgument(&number, sizeof(number), 12));
	HIP(hipSetupArgument(&rounds, sizeof(rounds), 16));
	HIP(hipLaunchByPtr((const void *)mix_stub));
	HIP(hipExtLaunchKernel((const void *)mix_stub, grid, block, args, 0,
		s || !hip_spt ? s : HIP_STREAM_PER_THREAD, NULL, NULL, 0));
	HIP(hipStreamSynchronize(s));
	printf("compiled kernels %08x\n", sum(x));
	printf("a function that is none %d\n",
		hip.hipLaunchKernel((const void *)words, grid, block, args, 0, s));
	printf("it is the last error %d", hip.hipPeekAtLastError());
	printf(", %d", hip.hipGetLastError());
	printf(", once %d\n", hip.hipGetLastError());
	HIP(hipHostFree(x));
}

/* A grid of threads, parameters in one buffer, events around it. */
static void extended(hipStream_t s)
{
	struct {
		uint32_t *x, n, number, rounds;
	} packed = {words(2), WORDS, 5, 4};
	size_t size = 20;
	void *extra[] = {HIP_PARAM_BUFFER, &packed, HIP_PARAM_SIZE, &size, HIP_PARAM_END};
	hipEvent_t start, stop;
	float ms = -1;

	HIP(hipEventCreate(&start));
	HIP(hipEventCreate(&stop));
	HIP(hipExtModuleLaunchKernel(
		mix, WORDS, 1, 1, 128, 1, 1, 0, s, NULL, extra, start, stop, 0));
	HIP(hipEventSynchronize(stop));
	HIP(hipEventElapsedTime(&ms, start, stop));
	printf("extended launch %08x, timed %s\n", sum(packed.x), ms >= 0 ? "yes" : "no");
	HIP(hipEventDestroy(start));
	HIP(hipEventDestroy(stop));
	HIP(hipHostFree(packed.x));
}

static void launch(hipStream_t s, uint32_t *x, uint32_t number)
{
	uint32_t n = WORDS, rounds = 3;
	void *params[] = {&x, &n, &number, &rounds};

	HIP(hipModuleLaunchKernel(mix, WORDS / 128, 1, 1, 128, 1, 1, 0, s, params, NULL));
}

/* Waits with a mask; one that never comes holds its own stream alone. */
static void values(void)
{
	uint32_t *x = words(3), *y = words(4);
	hipStream_t s, t;
	void *signal, *no;
	int can = -1;

	HIP(hipDeviceGetAttribute(&can, HIP_ATTRIBUTE_WAIT_VALUE, 0));
	printf("waits for values %d\n", can);
	if (!can)
		return;
	HIP(hipStreamCreateWithFlags(&s, HIP_STREAM_NON_BLOCKING));
	HIP(hipStreamCreateWithFlags(&t, HIP_STREAM_NON_BLOCKING));
	printf("signal memory of 4 bytes %d\n",
		hip.hipExtMallocWithFlags(&no, 4, HIP_SIGNAL_MEMORY));
	HIP(hipExtMallocWithFlags(&signal, 8, HIP_SIGNAL_MEMORY));
	HIP(hipStreamWaitValue32(s, signal, 0x30, HIP_WAIT_EQ, 0xf0));
	launch(s, x, 1);
	HIP(hipStreamWaitValue64(s, signal, UINT64_C(1) << 40, HIP_WAIT_GTE, UINT64_MAX));
	launch(s, x, 2);
	launch(t, y, 3);
	HIP(hipStreamSynchronize(t));
	printf("beside it %08x, it %d\n", sum(y), hip.hipStreamQuery(s));
	atomic_store((_Atomic uint64_t *)signal, 0x3f);
	usleep(2000);
	printf("the first has come, the second %d\n", hip.hipStreamQuery(s));
	HIP(hipStreamWriteValue64(t, signal, UINT64_C(1) << 41 | 0x30, 0));
	HIP(hipStreamSynchronize(s));
	printf("both %08x\n", sum(x));
	printf("pageable memory %d\n", hip.hipStreamWaitValue32(s, &can, 1, HIP_WAIT_EQ, ~0u));
	printf("no such comparison %d\n", hip.hipStreamWaitValue32(s, signal, 1, 9, ~0u));
	HIP(hipStreamDestroy(s));
	HIP(hipStreamDestroy(t));
	HIP(hipFree(signal));
	HIP(hipHostFree(x));
	HIP(hipHostFree(y));
}

static void at_end(void *arg)
{
	usleep(20000);
	atomic_store((atomic_int *)arg, 1);
}

static void forbidden(void *arg)
{
	atomic_store((atomic_int *)arg, hip.hipDeviceSynchronize());
}

/* A stream is destroyed when what it held is done; then it is none. */
static void lives(void)
{
	atomic_int done = 0, inside = -1;
	hipStream_t s;

	HIP(hipStreamCreate(&s));
	HIP(hipLaunchHostFunc(s, forbidden, &inside));
	HIP(hipLaunchHostFunc(s, at_end, &done));
	HIP(hipStreamDestroy(s));
	printf("destroyed when done: %s\n", atomic_load(&done) ? "yes" : "no");
	printf("a call from a host function %d\n", atomic_load(&inside));
	printf("a stream that is gone %d\n", hip.hipStreamSynchronize(s));
	printf("the NULL stream is not destroyed %d\n", hip.hipStreamDestroy(NULL));
	hip.hipGetLastError();
}

static void captures(void)
{
	uint32_t *x = words(5);
	hipGraph_t graph = NULL;
	hipGraphExec_t exec;
	hipStream_t s;
	int status;

	HIP(hipStreamCreateWithFlags(&s, HIP_STREAM_NON_BLOCKING));
	HIP(hipStreamBeginCapture(s, HIP_CAPTURE_GLOBAL));
	launch(s, x, 1);
	HIP(hipStreamIsCapturing(s, &status));
	printf("capturing %d\n", status);
	HIP(hipMemsetAsync(x, 0, 64, s));
	launch(s, x, 2);
	HIP(hipStreamEndCapture(s, &graph));
	printf("nothing has run %08x\n", sum(x));
	HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
	for (int i = 0; i < 5; i++)
		HIP(hipGraphLaunch(exec, s));
	HIP(hipStreamSynchronize(s));
	printf("five launches %08x\n", sum(x));
	HIP(hipGraphExecDestroy(exec));
	HIP(hipGraphDestroy(graph));
	HIP(hipStreamBeginCapture(s, HIP_CAPTURE_RELAXED));
	printf("a value in a capture %d", hip.hipStreamWriteValue32(s, x, 1, 0));
	printf(", which is over %d\n", hip.hipStreamEndCapture(s, &graph));
	hip.hipGetLastError();
	HIP(hipStreamDestroy(s));
	HIP(hipHostFree(x));
}

/* NULL is the device's or the thread's own; hipStreamPerThread is the latter in any case. */
static void *in_thread(void *arg)
{
	uint32_t *x = arg;

	for (uint32_t i = 0; i < 20; i++)
		launch(HIP_STREAM_PER_THREAD, x, i);
	HIP(hipMemcpyAsync(x + WORDS / 2, x, WORDS, HIP_COPY_DEFAULT, HIP_STREAM_PER_THREAD));
	HIP(hipStreamSynchronize(HIP_STREAM_PER_THREAD));
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];
	uint32_t *x[4];

	for (unsigned i = 0; i < 4; i++) {
		x[i] = words(10 + i);
		if (pthread_create(&t[i], NULL, in_thread, x[i]))
			exit(1);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		printf("thread %u %08x\n", i, sum(x[i]));
		HIP(hipHostFree(x[i]));
	}
}

static void null_stream(void)
{
	uint32_t *x = words(6), copy[WORDS];
	hipStream_t s;
	unsigned flags = 9;

	HIP(hipStreamCreate(&s));
	for (uint32_t i = 0; i < 20; i++) {
		launch(s, x, i);
		HIP(hipMemset(x, (int)i, 16));
		HIP(hipMemsetD32Async(x + 4, (int)i, 4, NULL));
	}
	HIP(hipDeviceSynchronize());
	HIP(hipMemcpy(copy, x, sizeof(copy), HIP_COPY_D2H));
	HIP(hipStreamGetFlags(NULL, &flags));
	/* In order only where NULL is the device's. */
	if (!hip_spt)
		printf("between blocking streams %08x, ", sum(copy));
	printf("flags %u\n", flags);
	HIP(hipStreamDestroy(s));
	HIP(hipHostFree(x));
}

static void reset(hipStream_t s)
{
	uint32_t *x;

	HIP(hipDeviceReset());
	printf("after a reset: the stream %d, ", hip.hipStreamQuery(s));
	hip.hipGetLastError();
	HIP(hipModuleLoadData(&module, code));
	HIP(hipModuleGetFunction(&mix, module, "mix"));
	x = words(8);
	launch(NULL, x, 1);
	HIP(hipDeviceSynchronize());
	printf("it goes on %08x\n", sum(x));
}

/* The runtime does not survive it. */
static void forks(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(hip.hipDeviceSynchronize() ? 3 : 4);
	waitpid(pid, &status, 0);
	printf("in a child: %s\n", WEXITSTATUS(status) == 3 ? "an error" : "works");
}

int main(int argc, char **argv)
{
	const char *via = "link";
	bool spt = false;
	hipStream_t s;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--spt"))
			spt = true;
		else if (!strcmp(argv[i], "--via") && i + 1 < argc)
			via = argv[++i];
	}
	if (!hip_load(via, spt))
		return 2;
	register_code();
	HIP(hipInit(0));
	HIP(hipModuleLoadData(&module, code));
	HIP(hipModuleGetFunction(&mix, module, "mix"));
	HIP(hipStreamCreate(&s));
	compiled(s);
	compiled(NULL);
	extended(s);
	values();
	lives();
	captures();
	threads();
	null_stream();
	forks();
	reset(s);
	return 0;
}
