/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls cost the program, for script/lib/cuda_launch_cost:
 *   bench_cuda_host LAUNCHES KIB         of each launch the time, as JSON; between two it goes
 *                                        through so much memory, and what was in the processor's
 *                                        caches is gone
 *   bench_cuda_host pong ROUNDS KIB      likewise of rounds of six calls: two streams launch in
 *                                        turn, and wait for each other by events
 *   bench_cuda_host rest                 launches once, says "ready", and rests until its input
 *                                        ends
 * On the fake driver FAKE_CUDA_THIN leaves what is in front of the driver.
 */
#include "cuda_driver.h"

enum { BURST = 50, MANY = 5, MOST_KIB = 64 << 10 };

/* As a program does that has more to look at than fits into the caches. */
static void look_around(size_t bytes)
{
	static volatile char memory[(size_t)MOST_KIB << 10];

	for (size_t i = 0; i < bytes; i += 64)
		memory[i]++;
}

static void print(double *v, int n)
{
	double p10 = part(v, n, 0.1), p50 = part(v, n, 0.5), p99 = part(v, n, 0.99);

	printf("{\"p10_ns\": %.1f, \"p50_ns\": %.1f, \"p99_ns\": %.1f}\n", p10, p50, p99);
}

static void launches(int n, size_t bytes)
{
	stream s = new_stream();
	double *v = calloc((size_t)n, sizeof(*v));

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
	print(v, n);
	free(v);
}

/* As ping_pongs_us() of bench_cuda.c. */
static void round_of(stream a, stream b, event ea, event eb)
{
	empty(a);
	CU(cuEventRecord(ea, a));
	CU(cuStreamWaitEvent(b, ea, 0));
	empty(b);
	CU(cuEventRecord(eb, b));
	CU(cuStreamWaitEvent(a, eb, 0));
}

/* Without other memory the clock is read once for some. */
static void pong(int n, size_t bytes)
{
	const int many = bytes ? 1 : MANY, times = n / many;
	stream a = new_stream(), b = new_stream();
	double *v = calloc((size_t)times, sizeof(*v));
	event ea, eb;

	CU(cuEventCreate(&ea, 2));
	CU(cuEventCreate(&eb, 2));
	round_of(a, b, ea, eb);
	for (int i = 0; i < times; i++) {
		uint64_t start;

		if (i * many % BURST == 0) {
			CU(cuStreamSynchronize(a));
			round_of(a, b, ea, eb);
		}
		look_around(bytes);
		start = now_ns();
		for (int k = 0; k < many; k++)
			round_of(a, b, ea, eb);
		v[i] = (double)(now_ns() - start) / many;
	}
	CU(cuStreamSynchronize(a));
	print(v, times);
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
	bool pongs = argc == 4 && !strcmp(argv[1], "pong"),
	     rests = argc == 2 && !strcmp(argv[1], "rest");
	int n = pongs ? atoi(argv[2]) : argc == 3 ? atoi(argv[1]) : 0;
	int kib = pongs || argc == 3 ? atoi(argv[argc - 1]) : 0;

	if (!rests && (n < (pongs ? BURST : 1) || kib < 0 || kib > MOST_KIB)) {
		fputs("usage: bench_cuda_host [pong] LAUNCHES KIB | rest\n", stderr);
		return 2;
	}
	open_device();
	if (rests)
		rest();
	else
		(pongs ? pong : launches)(n, (size_t)kib << 10);
	return 0;
}
