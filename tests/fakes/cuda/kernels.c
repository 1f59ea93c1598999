/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of tests/integration/cuda/cuda_kernels.cu as the fake device executes them: what all
 * threads of one block do. */
#include "device/digest.h"
#include "fake.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t *pointer(CUdeviceptr d)
{
	return (uint32_t *)(uintptr_t)d;
}

/* The elements of a block, where the grid strides through n of them. */
#define FOR_EACH(i, b, count)                                               \
	for (uint64_t at_ = (uint64_t)(b)->x * (b)->threads; at_ < (count); \
		at_ += (uint64_t)(b)->n * (b)->threads)                     \
		for (uint32_t i = (uint32_t)at_; i < (count) && i < at_ + (b)->threads; i++)

/* Many steps of v = v * 1664525 + c are one: a test's machine has few processors for them. */
struct steps {
	uint32_t a, c;
};

static void one_more(struct steps *s, uint32_t c)
{
	s->a *= 1664525u;
	s->c = s->c * 1664525u + c;
}

static void mix(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n, number, rounds;
	} p;
	struct steps all = {.a = 1};

	memcpy(&p, b->params, 20);
	for (uint32_t k = 0; k < p.rounds; k++)
		one_more(&all, 1013904223u);
	FOR_EACH(i, b, p.n)
	pointer(p.x)[i] = (pointer(p.x)[i] ^ (p.number + i)) * all.a + all.c;
}

static void join(const struct fk_block *b)
{
	struct {
		CUdeviceptr out, a, b;
		uint32_t n;
	} p;

	memcpy(&p, b->params, 28);
	FOR_EACH(i, b, p.n)
	pointer(p.out)[i] = pointer(p.a)[i] * 31u + (pointer(p.b)[i] ^ 0x9e3779b9u);
}

static void fill(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n, value;
	} p;

	memcpy(&p, b->params, sizeof(p));
	FOR_EACH(i, b, p.n)
	pointer(p.x)[i] = p.value + i;
}

static void count(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n;
	} p;

	memcpy(&p, b->params, 12);
	FOR_EACH(i, b, p.n)
	atomic_fetch_add((_Atomic uint32_t *)&pointer(p.x)[i & 63], i + 1);
}

static void take(uint64_t ns)
{
	uint64_t lost = 0;

	fk_take(ns, &lost);
}

static void spin(const struct fk_block *b)
{
	struct {
		CUdeviceptr out;
		uint64_t ns;
	} p;

	memcpy(&p, b->params, sizeof(p));
	take(p.ns);
	if (fk_touches(p.out))
		pointer(p.out)[0] = pointer(p.out)[0] * 3u + 1u;
}

/* That of bench/bench_cuda_time.c. */
static void noting(const struct fk_block *b)
{
	uint64_t *w, begin = fk_now(), lost = 0;
	struct {
		CUdeviceptr out;
		uint64_t ns;
	} p;

	memcpy(&p, b->params, sizeof(p));
	if (!fk_touches(p.out))
		return;
	w = (uint64_t *)pointer(p.out);
	w[0] += fk_take(p.ns, &lost);
	w[1]++;
	w[2] += begin - w[3] < 15000 ? begin - w[3] : 0;
	w[3] = fk_now();
	w[4] += lost;
}

static void relay(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n, steps;
		CUdeviceptr arrived;
	} p;
	_Atomic uint32_t *arrived;

	memcpy(&p, b->params, sizeof(p));
	arrived = (_Atomic uint32_t *)pointer(p.arrived);
	for (uint32_t s = 0; s < p.steps; s++) {
		const uint32_t *from = pointer(p.x) + (s & 1) * p.n;
		uint32_t *to = pointer(p.x) + (~s & 1) * p.n;

		FOR_EACH(i, b, p.n)
		to[i] = from[(i + 17) % p.n] * 31u + from[(i + p.n / 2) % p.n] + s;
		atomic_fetch_add(arrived, 1);
		while (atomic_load(arrived) < (s + 1) * b->n)
			if (!fk_block_pause(b))
				return;
	}
}

/* --- those of tests/data/guard/guard.cu --- */

static void step(const struct fk_block *b)
{
	CUdeviceptr out;

	memcpy(&out, b->params, sizeof(out));
	pointer(out)[b->x] += 1;
}

static void chain(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n, number;
	} p;
	const uint32_t *from;
	uint32_t *to;

	memcpy(&p, b->params, sizeof(p));
	from = pointer(p.x) + (p.number & 1) * p.n;
	to = pointer(p.x) + (~p.number & 1) * p.n;
	FOR_EACH(i, b, p.n)
	to[i] = from[(i + 17) % p.n] * 31u + from[(i + p.n / 2) % p.n] + p.number;
}

/* A gate lets the blocks before gate[1] pass, and those that have begun
 * when the launch is to stop: how far a launch gets between two stops is known. */
static void toil(const struct fk_block *b)
{
	struct {
		CUdeviceptr out;
		uint64_t ns;
		CUdeviceptr gate;
	} p;
	_Atomic uint32_t *gate, *out;

	memcpy(&p, b->params, sizeof(p));
	out = (_Atomic uint32_t *)pointer(p.out) + b->x;
	gate = (_Atomic uint32_t *)pointer(p.gate);
	if (gate) {
		atomic_fetch_add(&gate[0], 1);
		while (atomic_load(&gate[1]) <= b->x && !fk_block_stopped(b))
			if (!fk_block_pause(b))
				return;
	}
	take(p.ns);
	/* The host may look at it meanwhile; a block that runs twice at once is not helped. */
	atomic_store(out, atomic_load_explicit(out, memory_order_relaxed) + 1);
}

/* That of tests/integration/cuda/guard/cuda_guard_green.c. */
static void place(const struct fk_block *b)
{
	struct {
		CUdeviceptr out, seen;
		uint64_t ns;
	} p;

	memcpy(&p, b->params, sizeof(p));
	atomic_store((_Atomic uint32_t *)pointer(p.seen) + fk_block_sm(b), 1);
	take(p.ns);
	pointer(p.out)[b->x] += 1;
}

/* That of `fermata doctor` (src/device/trial.cu), which can be made to be at fault. */
static void fermata_trial(const struct fk_block *b)
{
	const char *fault = fk_env("FAKE_CUDA_TRIAL");
	struct {
		CUdeviceptr out;
		uint64_t ns;
	} p;
	_Atomic uint32_t *out;

	memcpy(&p, b->params, sizeof(p));
	out = (_Atomic uint32_t *)pointer(p.out) + b->x;
	if (fault && !strcmp(fault, "crash"))
		abort();
	while (fault && !strcmp(fault, "hang") && b->x > 7)
		if (!fk_block_pause(b))
			return;
	take(p.ns / 20); /* one block at a time runs here */
	atomic_fetch_add(out, fault && !strcmp(fault, "wrong") && b->x == 7 ? 2 : 1);
}

/* That of tests/data/loops, where it looks at the stop word seldom. */
static void grind(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t n;
	} p;
	uint32_t v[1024], *x, i;

	memcpy(&p, b->params, 12);
	x = pointer(p.x) + b->number * b->threads;
	memcpy(v, x, b->threads * sizeof(*v));
	i = fk_loop_begin(b, v);
	while (i < p.n) {
		struct steps all = {.a = 1};

		if (i % 1024 == 0) {
			if (fk.lost || fk_loop_leaves(b, i, v))
				return;
			take(20000);
		}
		do {
			one_more(&all, i);
		} while (++i < p.n && i % 1024);
		for (unsigned t = 0; t < b->threads; t++)
			v[t] = v[t] * all.a + all.c;
	}
	memcpy(x, v, b->threads * sizeof(*v));
}

static void tick(const struct fk_block *b)
{
	atomic_fetch_add((_Atomic uint32_t *)fk_variable(b->launch, "ticks"), 1);
}

static void odd(const struct fk_block *b)
{
	struct {
		CUdeviceptr out;
		uint32_t width;
		uint16_t step;
		int8_t sign;
	} p;

	memcpy(&p, b->params, 15);
	pointer(p.out)[b->number * p.width] += (uint32_t)(p.step * p.sign);
}

/* The array begins the parameters, the pointer ends them. */
static void add_array(const struct fk_block *b, uint32_t n)
{
	const unsigned char *params = b->params;
	CUdeviceptr out;

	memcpy(&out, params + (n * sizeof(uint32_t) + 7) / 8 * 8, sizeof(out));
	FOR_EACH(i, b, n)
	{
		uint32_t v;

		memcpy(&v, params + i * sizeof(v), sizeof(v));
		pointer(out)[i] = pointer(out)[i] * 3u + v;
	}
}

static void large(const struct fk_block *b)
{
	add_array(b, 1010);
}

static void beyond(const struct fk_block *b)
{
	add_array(b, 1500);
}

/* Fermata's own: what the head of a control block says. */
static void look(const struct fk_block *b)
{
	CUdeviceptr p[2];

	memcpy(p, b->params, sizeof(p));
	for (unsigned i = 0; i < 7; i += i == 1 ? 5 : 1)
		atomic_store((_Atomic uint64_t *)(uintptr_t)p[1] + i,
			atomic_load((_Atomic uint64_t *)(uintptr_t)p[0] + i));
}

static void spread(const struct fk_block *b)
{
}

/* Blocks add to the same words, in any order: here the first one does it all. It can be made to be
 * at fault, as the trial. */
static void digest(const struct fk_block *b)
{
	const char *fault = fk_env("FAKE_CUDA_TRIAL");
	struct {
		CUdeviceptr p;
		uint64_t tiles;
		CUdeviceptr out;
		struct fm_digest_key key;
	} p;

	memcpy(&p, b->params, sizeof(p));
	for (unsigned i = 0; !b->number && i < b->launch->grid[1]; i++)
		fm_digest_add((struct fm_digest *)(uintptr_t)p.out + i, &p.key,
			(char *)pointer(p.p) + i * p.tiles * FM_DIGEST_TILE,
			p.tiles * FM_DIGEST_TILE);
	if (fault && !strcmp(fault, "digest") && p.tiles && !b->number)
		((struct fm_digest *)(uintptr_t)p.out)->lane[0]++;
}

/* That of tests/gpu/memory: n elements of 16 bytes. */
static void through_texture(const struct fk_block *b)
{
	struct {
		CUdeviceptr out;
		uint64_t from;
		uint32_t n;
	} p;
	CUdeviceptr from;

	memcpy(&p, b->params, 20);
	from = fk_texture_rows(p.from);
	FOR_EACH(i, b, p.n)
	memcpy(pointer(p.out) + 4 * (size_t)i, pointer(from) + 4 * (size_t)i, 16);
}

/* Those of tests/integration/cuda/cuda_sets.c. */
static void in_struct(const struct fk_block *b)
{
	struct {
		uint32_t before, number;
		CUdeviceptr x;
		uint64_t behind;
	} p;

	memcpy(&p, b->params, sizeof(p));
	if (!b->number)
		*pointer(p.x) = *pointer(p.x) * 3u + p.number;
}

static void through_table(const struct fk_block *b)
{
	struct {
		CUdeviceptr table;
		uint32_t n, number;
	} p;
	CUdeviceptr x;

	memcpy(&p, b->params, sizeof(p));
	for (uint32_t i = 0; !b->number && i < p.n; i++) {
		memcpy(&x, (char *)pointer(p.table) + 8 * (size_t)i, sizeof(x));
		*pointer(x) = *pointer(x) * 3u + p.number;
	}
}

/* That of tests/integration/cuda/cuda_foretold.c. */
static void in_part(const struct fk_block *b)
{
	struct {
		CUdeviceptr x;
		uint32_t part, number;
	} p;

	memcpy(&p, b->params, sizeof(p));
	p.x += (CUdeviceptr)p.part << 20;
	if (!b->number)
		*pointer(p.x) = *pointer(p.x) * 3u + p.number;
}

/* Of a map of the fake's own. */
static void through_map(const struct fk_block *b)
{
	CUdeviceptr x;
	uint32_t number;

	memcpy(&x, b->params, sizeof(x));
	memcpy(&number, (const char *)b->params + 128, sizeof(number));
	x ^= FK_MAP_MASK;
	if (!b->number)
		*pointer(x) = *pointer(x) * 3u + number;
}

const struct fk_kernel *fk_kernel_find(const char *name)
{
	static const struct fk_kernel kernels[] = {
		{"mix", {8, 4, 4, 4}, mix, false, {{0, 1, 4, 0}}},
		{"join", {8, 8, 8, 4}, join, false, {{0, 3, 4, 0}, {1, 3, 4, 0}, {2, 3, 4, 0}}},
		{"fill", {8, 4, 4}, fill, false, {{0, 1, 4, 0}}},
		{"count", {8, 4}, count, false, {{0, 0, 0, 256}}},
		{"spin", {8, 8}, spin, false, {{0}}},
		{"noting", {8, 8}, noting, false, {{0, 0, 0, 40}}},
		{"relay", {8, 4, 4, 8}, relay, true, {{0, 1, 8, 0}}},
		{"step", {8}, step, false, {{0}}},
		{"chain", {8, 4, 4}, chain, false, {{0, 1, 8, 0}}},
		{"toil", {8, 8, 8}, toil, false, {{0}}},
		{"meet", {8, 4, 4, 8}, relay, true, {{0, 1, 8, 0}}},
		{"place", {8, 8, 8}, place, false, {{0}}},
		{"fermata_trial", {8, 8}, fermata_trial, false, {{0}}},
		{"grind", {8, 4}, grind, false, {{0}}},
		{"tick", {0}, tick, false, {{0}}},
		{"odd", {8, 4, 2, 1}, odd, false, {{0}}},
		{"fermata_look", {8, 8}, look, false, {{0}}},
		{"fermata_set", {8, 8, 8, 8, 4, 4}, fk_set, false, {{0}}},
		{"rows_chunk", {8, 8, 8}, fk_rows_chunk, false, {{0}}},
		{"rows_store", {8, 8}, fk_rows_store, false, {{0}}},
		{"rows_toil", {8, 8}, fk_rows_toil, false, {{0}}},
		{"fermata_graph", {8, 4, 4}, fk_set_graph, false, {{0}}},
		{"fermata_graphs_heard", {8, 8, 8, 4}, fk_set_graphs_heard, false, {{0}}},
		{"graph_chunk", {8, 8}, fk_graph_chunk, false, {{0}}},
		{"graph_meet", {8, 8}, fk_graph_meet, false, {{0}}},
		{"graph_launches", {8, 8, 4, 4}, fk_graph_launches, false, {{0}}},
		{"fermata_spread", {0}, spread, false, {{0}}},
		{FM_DIGEST_KERNEL, {8, 8, 8, sizeof(struct fm_digest_key)}, digest, false,
			{{0, 1, FM_DIGEST_TILE, 0}, {2, 0, 0, sizeof(struct fm_digest)}}},
		{"through_texture", {8, 8, 4}, through_texture, false, {{0, 2, 16, 0}}},
		{"in_struct", {24}, in_struct, false, {{0}}},
		{"through_table", {8, 4, 4}, through_table, false, {{0}}},
		{"in_part", {8, 4, 4}, in_part, false, {{0, FK_REACH_MIB | 1, 0, 4}}},
		{"through_map", {128, 4}, through_map, false, {{0}}},
		{"large", {4040, 8}, large, false, {{1, 0, 0, 4040}}},
		{"beyond", {6000, 8}, beyond, false, {{1, 0, 0, 6000}}},
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return fk_net_find(name);
}
