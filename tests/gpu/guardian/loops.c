/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of one wave that runs for 50 ms has no second block to wait for: how soon it leaves the
 * device in the middle of its loop, whether it computes the same, and what that costs who is never
 * stopped. */
#include "measure.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STOPS = 60, UNSTOPPED = 5, THREADS = 256 };
#define WAVE_US 50000

struct wave {
	struct function f;
	const char *name;
	device_ptr x;
	unsigned blocks, n;
	uint32_t *start, *found, *expected;
	double us; /* guarded, not stopped */
};

static size_t bytes_of(const struct wave *v)
{
	return (size_t)v->blocks * THREADS * 4;
}

static void submit(struct world *w, const struct wave *v, struct function f, enum guard guard)
{
	CU(cuMemcpyHtoD_v2(v->x, v->start, bytes_of(v)));
	CU(cuCtxSynchronize());
	queue_begin(&w->q, guard);
	LAUNCH(&w->q, f, ((struct dims){.grid = {v->blocks}, .block = {THREADS}}), ARG(v->x),
		ARG(v->n));
	queue_end(&w->q);
}

/* Launched and not stopped: us. */
static double to_the_end(struct world *w, const struct wave *v, struct function f, enum guard guard)
{
	uint64_t from = now_ns();

	submit(w, v, f, guard);
	queue_finish(&w->q);
	return (double)(now_ns() - from) / 1e3;
}

/* All that run at once, and as many rounds as take so long. */
static void wave_new(struct world *w, struct wave *v, const char *name, const char *folder)
{
	struct function native = measured_kernel(w, folder, NATIVE, name);
	int at_once;

	*v = (struct wave){.f = measured_kernel(w, folder, LOOPS, name), .name = name, .n = 20000};
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, v->f.handle, THREADS, 0));
	v->blocks = (unsigned)(at_once * w->dev.multiprocessors);
	if ((size_t)v->blocks * THREADS > FM_LOOP_THREADS)
		v->blocks = FM_LOOP_THREADS / THREADS;
	measured_memory(w, &v->x, bytes_of(v));
	v->start = malloc(bytes_of(v));
	v->found = malloc(bytes_of(v));
	v->expected = malloc(bytes_of(v));
	if (!v->start || !v->found || !v->expected)
		fail("no memory");
	for (size_t i = 0; i < bytes_of(v) / 4; i++)
		v->start[i] = (uint32_t)(0x3f800000u + i * 31);
	to_the_end(w, v, v->f, GUARDED);
	v->us = to_the_end(w, v, v->f, GUARDED);
	v->n = (unsigned)(v->n * (WAVE_US / v->us));
	v->us = to_the_end(w, v, v->f, GUARDED);
	to_the_end(w, v, native, UNGUARDED);
	CU(cuMemcpyDtoH_v2(v->expected, v->x, bytes_of(v)));
}

static void compare(struct world *w, const struct wave *v)
{
	CU(cuMemcpyDtoH_v2(v->found, v->x, bytes_of(v)));
	for (size_t i = 0; i < bytes_of(v) / 4; i++)
		if (v->found[i] != v->expected[i])
			fail("%s: word %zu is %08x, not %08x", v->name, i, v->found[i],
				v->expected[i]);
}

struct seen {
	double urgent[STOPS], rest[STOPS], on[STOPS], more[STOPS];
};

/* Stopped at any time of its 50 ms; then it goes on, and is stopped once more on its way. */
static void stop_one(struct world *w, struct urgent *u, const struct wave *v, struct function f,
	struct seen *s, int i)
{
	uint64_t begun = now_ns(), stopped, rested, on;

	submit(w, v, f, GUARDED);
	spin_until(now_ns() + 2000000 + dice() % (uint64_t)(v->us * 900));
	stopped = now_ns();
	queue_stop(&w->q);
	urgent_launch(w, u);
	urgent_wait(w, u);
	s->urgent[i] = (double)(now_ns() - stopped) / 1e3;
	queue_rest(&w->q);
	rested = now_ns();
	s->rest[i] = (double)(rested - stopped) / 1e3;
	queue_restore(&w->q, 0);
	on = now_ns();
	queue_finish(&w->q);
	s->on[i] = (double)(on - rested) / 1e3;
	s->more[i] = (double)(now_ns() - begun) / 1e3 - v->us;
	compare(w, v);
	queue_check(&w->q);
}

static void stops(struct world *w, struct urgent *u, const struct wave *v, const char *folder)
{
	static struct seen s;
	struct function between = measured_kernel(w, folder, TEXT, v->name);

	doing = "stopping kernels of one wave between their blocks";
	for (int i = 0; i < UNSTOPPED; i++)
		stop_one(w, u, v, between, &s, i);
	printf("%-14s %4u blocks, %5.1f ms; between blocks   urgent P50 %8.1f max %8.1f\n", v->name,
		v->blocks, v->us / 1e3, part_of(s.urgent, UNSTOPPED, 0.5),
		part_of(s.urgent, UNSTOPPED, 1));
	w->q.in_loops = queue_head(&w->q).in_loops;
	w->q.inside = 0;
	doing = "stopping kernels of one wave in their loops";
	for (int i = 0; i < STOPS; i++)
		stop_one(w, u, v, v->f, &s, i);
	printf("%-14s %*s in loops         urgent P50 %8.1f P99 %8.1f max %8.1f   queue at rest "
	       "P50 "
	       "%7.1f P99 %7.1f   a stop in all: %+.1f us of run time P50   %llu of %d in a loop; "
	       "equal\n",
		"", 22, "", part_of(s.urgent, STOPS, 0.5), part_of(s.urgent, STOPS, 0.99),
		part_of(s.urgent, STOPS, 1), part_of(s.rest, STOPS, 0.5),
		part_of(s.rest, STOPS, 0.99), part_of(s.more, STOPS, 0.5),
		(unsigned long long)w->q.inside, STOPS);
	if (w->q.inside < STOPS / 2)
		fail("%s was hardly ever left in a loop", v->name);
}

static void cost(struct world *w, const struct job *j, const char *folder, event a, event b)
{
	enum { ROUNDS = 15, WAYS = 5 };
	static const enum form forms[WAYS] = {NATIVE, TEXT, TEXT, LOOPS, LOOPS};
	static const enum guard guards[WAYS] = {UNGUARDED, UNGUARDED, GUARDED, UNGUARDED, GUARDED};
	struct function f[WAYS];
	double us[WAYS][ROUNDS], ratio[WAYS][ROUNDS];

	for (int i = 0; i < WAYS; i++)
		f[i] = measured_kernel(w, folder, forms[i], j->kernel);
	for (int r = -2; r < ROUNDS; r++)
		for (int i = 0; i < WAYS; i++)
			us[i][r < 0 ? 0 : r] = measured_once(w, j, f[i], guards[i], a, b);
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < WAYS; i++)
			ratio[i][r] = us[i][r] / us[0][r];
	printf("%-34s %9.3f", j->name, part_of(us[0], ROUNDS, 0.5));
	for (int i = 1; i < WAYS; i++)
		printf("   %6.3fx", part_of(ratio[i], ROUNDS, 0.5));
	putchar('\n');
}

static void costs(struct world *w, const char *folder)
{
	enum { N = 1 << 18 };
	unsigned n = 20000, few = 300, mask = 15, rounds = 200, words = N;
	device_ptr x, y;
	event from, to;

	measured_memory(w, &x, N * 4 * 4);
	measured_memory(w, &y, N * 4 * 4);
	CU(cuEventCreate(&from, 0));
	CU(cuEventCreate(&to, 0));
	const struct job jobs[] = {
		{"four instructions, full", "k_loop_grind", 5, {.grid = {1024}, .block = {256}}, 2,
			{ARG(x), ARG(n)}},
		{"four instructions, 132 warps", "k_loop_grind", 5, {.grid = {132}, .block = {32}},
			2, {ARG(x), ARG(n)}},
		{"eight FMA, full", "k_loop_fma", 5, {.grid = {1024}, .block = {256}}, 2,
			{ARG(x), ARG(n)}},
		{"loop in a loop, full", "k_loop_nested", 5, {.grid = {1024}, .block = {256}}, 3,
			{ARG(x), ARG(few), ARG(mask)}},
		{"memory, one load and store", "k_loop_stride", 5, {.grid = {132}, .block = {1024}},
			4, {ARG(x), ARG(y), ARG(words), ARG(rounds)}},
		{"additions to shared words", "k_loop_red", 5, {.grid = {132}, .block = {256}}, 2,
			{ARG(x), ARG(rounds)}},
	};
	printf("\nnever stopped: us natively; then how often that: PTX rewritten, not guarded; "
	       "guarded; with loops, not guarded; guarded\n");
	doing = "measuring the cost of loops";
	for (unsigned i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
		cost(w, &jobs[i], folder, from, to);
}

void measure_loops(struct world *w, const char *folder)
{
	static const char *const names[] = {"k_loop_grind", "k_loop_fma"};
	struct urgent u;
	struct wave v;

	queue_loops(&w->q, true);
	queue_clear(&w->q);
	u = urgent_new(w, folder);
	printf("\nfrom the request until an urgent kernel that needs the whole device has ended, "
	       "us; the victim is one wave of %d ms\n",
		WAVE_US / 1000);
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		doing = names[i];
		wave_new(w, &v, names[i], folder);
		stops(w, &u, &v, folder);
	}
	costs(w, folder);
}
