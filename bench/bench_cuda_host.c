/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch costs the program, which the device waits for:
 *   bench_cuda_host ROUNDS BURST GAP_NS CACHE_KIB
 * Bursts of launches, with so much of the program's own time and memory between two. Says "ready",
 * waits for a line "go 0 0", and answers in JSON. On the fake driver FAKE_CUDA_THIN leaves what is
 * in front of the driver.
 */
#include "cuda_driver.h"

static uint64_t gates(void)
{
	struct fm_board *b = own_board();

	return b ? atomic_load(&b->slot[0].gates) : 0;
}

/* As a program does that has more to look at than fits into the caches. */
static void look_around(size_t bytes)
{
	static volatile char memory[16 << 20];

	for (size_t i = 0; i < bytes && i < sizeof(memory); i += 64)
		memory[i]++;
}

/* The call alone, in a program that the device waits for: each launch, the clock's own time
 * included, so many at one time with so much between two, and what was in the caches forgotten. */
static void host(int rounds, int burst, uint64_t gap_ns, size_t forget)
{
	stream s = new_stream();
	double *v = calloc((size_t)rounds * (size_t)burst, sizeof(*v)), sum = 0;
	uint64_t begin, end, placed;
	int n = 0;

	empty(s);
	CU(cuStreamSynchronize(s));
	wait_for_go(&begin, &end);
	placed = gates();
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < burst; i++) {
			uint64_t start = now_ns();

			empty(s);
			v[n] = (double)(now_ns() - start);
			sum += v[n++];
			spend(gap_ns);
			look_around(forget);
		}
		CU(cuStreamSynchronize(s));
	}
	placed = gates() - placed;
	printf("{\"launch_mean_ns\": %.0f, \"launch_p50_ns\": %.0f, \"launch_p99_ns\": %.0f, "
	       "\"gates\": %" PRIu64 "}\n",
		sum / n, part(v, n, 0.5), part(v, n, 0.99), placed);
	free(v);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fputs("usage: bench_cuda_host ROUNDS BURST GAP_NS CACHE_KIB\n", stderr);
		return 2;
	}
	open_device();
	host(atoi(argv[1]), atoi(argv[2]), strtoull(argv[3], NULL, 10),
		strtoull(argv[4], NULL, 10) << 10);
	return 0;
}
