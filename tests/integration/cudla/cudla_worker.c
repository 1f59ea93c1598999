/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job for cuDLA, which the tests stop and question, as tests/fault/cuda_worker.c is one for
 * CUDA: tasks that mix a number into a tensor, each of which takes FAKE_CUDLA_US. It prints
 * "ready", then "at TASKS" after each few; on "stop" "done TASKS wrong N". At the end of stdin it
 * exits at once. With N it stops by itself after so many tasks, says what is in the tensor, and
 * waits for a line or the end of stdin.
 *
 * usage: hybrid | standalone [--dlsym] [N]
 */
#include "cudla.h"
#define CU_EXPORT extern
#include "cuda.h"
#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRIDE 4u /* tasks between two reports */

static struct {
#define MEMBER(symbol, params) cudlaStatus(*symbol) params;
	CUDLA_API(MEMBER)
#undef MEMBER
} dla;

#define OK(call)                                                                    \
	do {                                                                        \
		int rc_ = call;                                                     \
                                                                                    \
		if (rc_) {                                                          \
			fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, rc_); \
			exit(9);                                                    \
		}                                                                   \
	} while (0)

static uint64_t tensor[CUDLA_WORDS];
static const uint8_t loadable[] = {7};
static unsigned number;
static CUstream stream; /* NULL: standalone */
static cudlaDevHandle device;
static cudlaModule module;
static _Atomic uint64_t done[2];

static void load(bool looked_up)
{
	void *lib = dlopen("libcudla.so.1", RTLD_NOW);

#define ENTRY(symbol, params) \
	*(void **)&dla.symbol = looked_up && lib ? dlsym(lib, #symbol) : (void *)symbol;
	CUDLA_API(ENTRY)
#undef ENTRY
}

/* In standalone mode events that are submitted alone belong to the next task. */
static void enqueue(unsigned turn)
{
	uint64_t *const tensors[] = {tensor};
	cudla_fence fence = {(void *)&done[turn], 1};
	cudla_signals signals = {NULL, &fence, 1};
	cudla_task task = {module, tensors, 1, 1, (const uint64_t *const *)tensors, NULL, NULL},
		   events = {0};

	atomic_store(&done[turn], 0);
	for (unsigned i = 0; i < STRIDE; i++) {
		task.signals = !stream && i == STRIDE - 1 ? &signals : NULL;
		if (!stream && !i)
			OK(dla.cudlaSubmitTask(device, &events, 1, NULL, 0));
		OK(dla.cudlaSubmitTask(device, &task, 1, stream, 0));
	}
	number += STRIDE;
}

static void wait_for(unsigned turn)
{
	if (stream)
		OK(cuStreamSynchronize(stream));
	while (!stream && !atomic_load(&done[turn]))
		usleep(100);
}

static uint64_t expected(void)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < number; i++)
		v = 6364136223846793005u * v + loadable[0];
	return v;
}

/* 's': told to stop; 'e': the end of stdin. */
static char told(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char c;

	if (poll(&p, 1, 0) != 1)
		return 0;
	return read(0, &c, 1) == 1 ? 's' : 'e';
}

int main(int argc, char **argv)
{
	bool hybrid = argc > 1 && !strcmp(argv[1], "hybrid"),
	     looked_up = argc > 2 && !strcmp(argv[2], "--dlsym");
	unsigned most = argc > 2 + looked_up ? (unsigned)atoi(argv[2 + looked_up]) : 0, wrong = 0;
	CUcontext context;
	char c = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	load(looked_up);
	if (hybrid) {
		OK(cuInit(0));
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		OK(cuCtxSetCurrent(context));
		OK(cuStreamCreate(&stream, 1));
	}
	OK(dla.cudlaCreateDevice(1, &device, hybrid ? CUDLA_HYBRID : CUDLA_STANDALONE));
	OK(dla.cudlaModuleLoadFromMemory(device, loadable, sizeof(loadable), &module, 0));
	enqueue(0);
	wait_for(0);
	if (!most)
		puts("ready");
	for (unsigned turn = 0; !c && (!most || number < most); turn = !turn) {
		enqueue(turn);
		wait_for(turn);
		c = most ? 0 : told();
		if (c == 'e')
			_exit(0);
		if (!most)
			printf("at %u\n", number);
	}
	for (unsigned i = 0; i < CUDLA_WORDS; i++)
		wrong += tensor[i] != expected();
	printf("done %u wrong %u\n", number, wrong);
	if (most) {
		printf("refused %d, the tensor has %016llx\n",
			dla.cudlaSubmitTask(NULL, NULL, 1, NULL, 0), (unsigned long long)tensor[3]);
		getchar(); /* a line, or the end of stdin */
	}
	OK(dla.cudlaModuleUnload(module, 0));
	OK(dla.cudlaDestroyDevice(device));
	if (hybrid)
		OK(cuStreamDestroy_v2(stream));
	return wrong != 0;
}
