/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that does what it is told, so that a test can see how each call is counted. It
 * prints "ready", obeys lines on stdin, and answers each by its first word when what it started
 * has finished:
 *
 *   kernels N     N launches of a kernel
 *   old N         the same by the call of before CUDA 4.0
 *   several N     the same by the call for several devices
 *   streams N     N more streams, a fill and two kernels on each
 *   newer 1       a fill by a function that cuGetProcAddress gives for a later version of CUDA
 *
 * At the end of stdin it ends.
 *
 * usage: [--via link|dlsym|proc] [--ptds]
 */
#include "cuda_conform.h"
#include <signal.h>
#include <sys/prctl.h>

struct job {
	struct conform c;
	CUstream s;
	CUdeviceptr x, arrived;
};

static void kernels(struct job *j, int n)
{
	for (int i = 0; i < n; i++)
		mix(&j->c, j->s, j->x, (uint32_t)i);
}

static void old(struct job *j, int n)
{
	struct {
		CUdeviceptr x;
		uint32_t n, number, rounds;
	} p = {j->x, WORDS, 0, 40};

	CU(cuFuncSetBlockShape(j->c.mix, BLOCK, 1, 1));
	CU(cuParamSetSize(j->c.mix, sizeof(p)));
	CU(cuParamSetv(j->c.mix, 0, &p, sizeof(p)));
	for (int i = 0; i < n; i++)
		CU(cuLaunchGridAsync(j->c.mix, GRID, 1, j->s));
}

static void several(struct job *j, int n)
{
	uint32_t words = WORDS / 2, steps = 9;
	struct cu_launch_params one = {.f = j->c.relay,
		.grid = {8, 1, 1},
		.block = {BLOCK, 1, 1},
		.stream = j->s,
		.params = (void *[]){&j->x, &words, &steps, &j->arrived}};

	for (int i = 0; i < n; i++) {
		CU(cuStreamSynchronize(j->s));
		CU(cuMemcpyHtoD_v2(j->arrived, (uint32_t[]){0}, sizeof(uint32_t)));
		CU(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
	}
}

static void streams(struct job *j, int n)
{
	for (int i = 0; i < n; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		CU(cuMemsetD32Async(j->arrived, 7, 1, s));
		mix(&j->c, s, j->x, 1);
		mix(&j->c, s, j->x, 2);
	}
}

static void newer(struct job *j, int n)
{
	fm_cu_result (*set)(CUdeviceptr, unsigned char, size_t, unsigned, CUstream);
	unsigned char byte = 0;
	void *fn = NULL;

	CU(cuGetProcAddress_v2("cuMemsetD8Async", &fn, 99000, 0, &(int){0}));
	*(void **)&set = fn;
	if (set(j->x, 0x5a, BYTES, 7, j->s))
		die("the newer function is called with other parameters");
	CU(cuMemcpyDtoHAsync_v2(&byte, j->x, 1, j->s));
	if (byte != 0x5a)
		die("the newer function did something else");
}

static const struct {
	const char *name;
	void (*run)(struct job *j, int n);
} commands[] = {{"kernels", kernels}, {"old", old}, {"several", several}, {"streams", streams},
	{"newer", newer}};

static void obey(struct job *j, const char *name, int n)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(commands[i].name, name))
			continue;
		commands[i].run(j, n);
		CU(cuCtxSynchronize());
		printf("%s\n", name);
		return;
	}
	die("unknown command '%s'", name);
}

int main(int argc, char **argv)
{
	struct job j = {0};
	char name[32];
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	conform_options(&argc, &argv);
	conform_open(&j.c);
	j.s = new_stream(CU_STREAM_NON_BLOCKING);
	j.x = new_words(1);
	j.arrived = new_words(2);
	kernels(&j, 1);
	CU(cuStreamSynchronize(j.s));
	puts("ready");
	while (scanf("%31s %d", name, &n) == 2)
		obey(&j, name, n);
	return 0;
}
