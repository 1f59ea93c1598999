/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the call of a launch costs the program, for script/lib/cuda_launch_cost:
 *   bench_cuda_host LAUNCHES KIB    of each launch the time, as JSON; between two it goes through
 * so much memory, and what was in the processor's caches is gone bench_cuda_host rest launches
 * once, says "ready", and rests until its input ends On the fake driver FAKE_CUDA_THIN leaves what
 * is in front of the driver.
 */
#include "cuda_driver.h"

enum { BURST = 50, MOST_KIB = 64 << 10 };

/* As a program does that has more to look at than fits into the caches. */
static void look_around(size_t bytes)
{
	static volatile char memory[(size_t)MOST_KIB << 10];

	for (size_t i = 0; i < bytes; i += 64)
		memory[i]++;
}

static void launches(int n, size_t bytes)
{
	stream s = new_stream();
	double *v = calloc((size_t)n, sizeof(*v)), p10, p50, p99;

	empty(s);
	CU(cuStreamSynchronize(s));
	for (int i = 0; i < n; i++) {
		uint64_t start;

		look_around(bytes);
		start = now_ns();
		empty(s);
		v[i] = (double)(now_ns() - start);
		if (i % BURST == BURST - 1)
			CU(cuStreamSynchronize(s));
	}
	p10 = part(v, n, 0.1);
	p50 = part(v, n, 0.5);
	p99 = part(v, n, 0.99);
	printf("{\"p10_ns\": %.0f, \"p50_ns\": %.0f, \"p99_ns\": %.0f}\n", p10, p50, p99);
	free(v);
}

static void rest(void)
{
	stream s = new_stream();

	empty(s);
	CU(cuStreamSynchronize(s));
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[1]) : 0, kib = argc == 3 ? atoi(argv[2]) : -1;

	if ((n < 1 || kib < 0 || kib > MOST_KIB) && (argc != 2 || strcmp(argv[1], "rest"))) {
		fputs("usage: bench_cuda_host LAUNCHES KIB | rest\n", stderr);
		return 2;
	}
	open_device();
	if (n)
		launches(n, (size_t)kib << 10);
	else
		rest();
	return 0;
}
