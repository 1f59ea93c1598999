/* SPDX-License-Identifier: Apache-2.0 */
/* How soon a stopped queue leaves the device to others, and what the guardian costs who is never
 * stopped. */
#include "measure.h"
#include <stdio.h>
#include <string.h>

enum { MAX_DYNAMIC_SHARED = 8, URGENT = 2, GATE = 3, WAIT_EQ = 1 };

struct function measured_kernel(
	struct world *w, const char *folder, enum form form, const char *name)
{
	images_load(&w->images, folder, form);
	doing = name;
	return function_of(&w->images, form, name);
}

void measured_memory(struct world *w, device_ptr *at, size_t bytes)
{
	CU(cuMemAlloc_v2(at, bytes));
	CU(cuMemsetD8_v2(*at, 0, bytes));
	CU(cuCtxSynchronize());
}

void urgent_launch(struct world *w, struct urgent *u)
{
	void *params[] = {&u->count, &u->seen, &u->value};

	u->value++;
	CU(cuLaunchKernel(
		u->f.handle, u->blocks, 1, 1, 256, 1, 1, u->shared, w->q.urgent, params, NULL));
}

void urgent_wait(struct world *w, const struct urgent *u)
{
	uint64_t end = now_ns() + 5000000000;

	while (w->q.host[URGENT] != u->value)
		if (now_ns() > end)
			fail("the urgent kernel did not run in 5 s");
}

struct urgent urgent_new(struct world *w, const char *folder)
{
	struct urgent u = {.f = measured_kernel(w, folder, NATIVE, "k_urgent"),
		.seen = w->q.host_at + 4 * URGENT,
		.blocks = (unsigned)w->dev.multiprocessors,
		.shared = (unsigned)w->dev.shared_most};

	measured_memory(w, &u.count, 4);
	CU(cuFuncSetAttribute(u.f.handle, MAX_DYNAMIC_SHARED, w->dev.shared_most));
	for (int i = 0; i < 20; i++) {
		urgent_launch(w, &u);
		urgent_wait(w, &u);
	}
	return u;
}

static void urgent_alone(struct world *w, struct urgent *u)
{
	double v[SAMPLES];

	for (int i = 0; i < SAMPLES; i++) {
		uint64_t from = now_ns();

		urgent_launch(w, u);
		urgent_wait(w, u);
		v[i] = (double)(now_ns() - from) / 1e3;
		spin_until(now_ns() + 200000);
	}
	printf("%-42s urgent P50 %7.1f P99 %7.1f\n", "nothing else runs", part_of(v, SAMPLES, 0.5),
		part_of(v, SAMPLES, 0.99));
}

struct victim {
	struct function f;
	enum guard guard;
	unsigned launches, blocks, cycles;
	bool stop;
};

static void against(struct world *w, struct urgent *u, const struct victim *v, int samples)
{
	double urgent[SAMPLES], rest[SAMPLES];
	char name[64];

	for (int i = -2; i < samples; i++) {
		uint64_t from;

		queue_begin(&w->q, v->guard);
		for (unsigned k = 0; k < v->launches; k++)
			LAUNCH(&w->q, v->f, ((struct dims){.grid = {v->blocks}, .block = {1024}}),
				ARG(v->cycles));
		queue_end(&w->q);
		spin_until(now_ns() + 200000 + dice() % 200000);
		from = now_ns();
		if (v->stop)
			queue_stop(&w->q);
		urgent_launch(w, u);
		urgent_wait(w, u);
		urgent[i < 0 ? 0 : i] = (double)(now_ns() - from) / 1e3;
		queue_rest(&w->q);
		rest[i < 0 ? 0 : i] = (double)(now_ns() - from) / 1e3;
		queue_drop(&w->q);
	}
	snprintf(name, sizeof(name), "%u kernels of %u blocks%s", v->launches, v->blocks,
		!v->stop                   ? ", priority alone"
		: v->guard == GUARDED_GRID ? ", whole grids"
					   : "");
	printf("%-42s urgent P50 %7.1f P99 %7.1f", name, part_of(urgent, samples, 0.5),
		part_of(urgent, samples, 0.99));
	if (v->stop)
		printf("   queue at rest P50 %7.1f P99 %7.1f", part_of(rest, samples, 0.5),
			part_of(rest, samples, 0.99));
	putchar('\n');
}

void measure_latency(struct world *w, const char *folder)
{
	static const unsigned queued[] = {8, 100, 1000};
	struct victim v = {.guard = GUARDED, .stop = true};
	struct urgent u;

	queue_loops(&w->q, false);
	queue_clear(&w->q);
	u = urgent_new(w, folder);
	v.f = measured_kernel(w, folder, REWRITTEN, "k_spin");
	v.cycles = (unsigned)w->dev.khz / 10; /* 100 us */
	doing = "measuring the latency of stops";
	printf("\nfrom the request until an urgent kernel that needs the whole device has ended, "
	       "us; the victim's blocks take 100 us\n");
	urgent_alone(w, &u);
	for (unsigned blocks = 264; blocks <= 2640; blocks *= 10)
		for (unsigned i = 0; i < 3; i++) {
			v.launches = queued[i];
			v.blocks = blocks;
			against(w, &u, &v, i == 2 ? SAMPLES / 2 : SAMPLES);
		}
	v.guard = GUARDED_GRID;
	v.blocks = 264;
	v.launches = 100;
	against(w, &u, &v, SAMPLES / 2);
	v.guard = GUARDED;
	v.stop = false;
	v.blocks = 2640;
	v.launches = 8;
	against(w, &u, &v, SAMPLES / 4);
}

/* --- cost --- */

double measured_once(
	struct world *w, const struct job *j, struct function f, enum guard guard, event a, event b)
{
	static uint32_t gate;
	float ms;

	gate++;
	queue_begin(&w->q, guard);
	CU(cuStreamWaitValue32_v2(w->q.s, w->q.host_at + 4 * GATE, gate, WAIT_EQ));
	CU(cuEventRecord(a, w->q.s));
	for (unsigned i = 0; i < j->launches; i++)
		queue_launch(&w->q, f, j->d, j->n, j->args);
	CU(cuEventRecord(b, w->q.s));
	w->q.host[GATE] = gate;
	CU(cuStreamSynchronize(w->q.s));
	CU(cuEventElapsedTime(&ms, a, b));
	return ms * 1e3 / j->launches;
}

/* Registers and a barrier more might leave room for fewer blocks. */
static void say_fewer(const struct job *j, struct function native, struct function ours)
{
	int threads = (int)(j->d.block[0]), was, is;

	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&was, native.handle, threads, 0));
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&is, ours.handle, threads, 0));
	if (was != is)
		printf("   %d blocks at a time on a multiprocessor, not %d", is, was);
}

static void cost(
	struct world *w, const struct job *j, const char *folder, enum form form, event a, event b)
{
	enum { ROUNDS = 15, WAYS = 6 };
	static const enum guard guards[WAYS] = {
		UNGUARDED, UNGUARDED, GUARDED, GUARDED_GRID, UNGUARDED | EARLY, GUARDED | EARLY};
	struct function native = measured_kernel(w, folder, NATIVE, j->kernel),
			ours = measured_kernel(w, folder, form, j->kernel);
	double us[WAYS][ROUNDS], ratio[WAYS][ROUNDS], median;

	for (int r = -2; r < ROUNDS; r++)
		for (int i = 0; i < WAYS; i++)
			us[i][r < 0 ? 0 : r] =
				measured_once(w, j, i ? ours : native, guards[i], a, b);
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < WAYS; i++)
			ratio[i][r] = us[i][r] / us[0][r];
	median = part_of(us[0], ROUNDS, 0.5);
	printf("%-34s %9.3f", j->name, median);
	for (int i = 1; i < WAYS; i++)
		printf("   %6.3fx %+8.3f", part_of(ratio[i], ROUNDS, 0.5),
			part_of(us[i], ROUNDS, 0.5) - median);
	say_fewer(j, native, ours);
	putchar('\n');
}

void measure_cost(struct world *w, const char *folder, enum form form)
{
	enum { N = 2048 };
	unsigned none = 0, n = N, loads = 6, us2 = (unsigned)w->dev.khz / 500, us10 = us2 * 5,
		 us100 = us2 * 50;
	device_ptr m[3], big[2];
	float a = 1;
	event from, to;

	queue_loops(&w->q, false);
	queue_clear(&w->q);
	for (int i = 0; i < 3; i++)
		measured_memory(w, &m[i], (size_t)N * N * 4);
	for (int i = 0; i < 2; i++)
		measured_memory(w, &big[i], 256u << 20);
	CU(cuEventCreate(&from, 0));
	CU(cuEventCreate(&to, 0));
	const struct job jobs[] = {
		{"empty, 1 block", "k_empty", 500, {.block = {64}}, 0, {{0}}},
		{"empty, 132 blocks", "k_empty", 500, {.grid = {132}, .block = {256}}, 0, {{0}}},
		{"empty, 2,112 blocks", "k_empty", 500, {.grid = {2112}, .block = {128}}, 0, {{0}}},
		{"2 us, 132 blocks", "k_spin", 500, {.grid = {132}, .block = {256}}, 1, {ARG(us2)}},
		{"2 us, 2,112 blocks", "k_spin", 300, {.grid = {2112}, .block = {128}}, 1,
			{ARG(us2)}},
		{"10 us, 132 blocks", "k_spin", 300, {.grid = {132}, .block = {256}}, 1,
			{ARG(us10)}},
		{"100 us, 264 blocks of 1,024", "k_spin", 50, {.grid = {264}, .block = {1024}}, 1,
			{ARG(us100)}},
		{"2,112 blocks that end at once", "k_spin", 300, {.grid = {2112}, .block = {256}},
			1, {ARG(none)}},
		{"matrices, 2,048 x 2,048", "k_gemm", 5, {.grid = {N / 64, N / 64}, .block = {256}},
			4, {ARG(m[0]), ARG(m[1]), ARG(m[2]), ARG(n)}},
		{"memory, 768 MB, 65,536 blocks", "k_saxpy", 20, {.grid = {65536}, .block = {256}},
			3, {ARG(big[0]), ARG(big[1]), ARG(a)}},
		{"memory, 3 MB, 256 blocks", "k_saxpy", 300, {.grid = {256}, .block = {256}}, 3,
			{ARG(big[0]), ARG(big[1]), ARG(a)}},
		{"6 loads in a row, 2,112 blocks", "k_chase", 300, {.grid = {2112}, .block = {128}},
			2, {ARG(big[0]), ARG(loads)}},
	};
	doing = "measuring the cost";
	printf("\nqueued launches, %s: us natively; then by what it is more: rewritten, not "
	       "guarded; guarded; guarded as a whole grid; not guarded, and guarded, where each "
	       "may begin early\n",
		form_name[form]);
	for (unsigned i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
		cost(w, &jobs[i], folder, form, from, to);
}
