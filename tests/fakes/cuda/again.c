/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of tests/data/again, which tell what they do to memory: where their text has been
 * given marks, each access makes its own, as the text would on a device. */
#include "device/accessed.h"
#include "fake.h"
#include <string.h>
#include <unistd.h>

struct again {
	const struct fk_block *b;
	struct fm_accessed *table;
	CUdeviceptr out, in;
	uint32_t n, thread; /* of the block */
};

static void mark(const struct again *a, CUdeviceptr at, size_t bytes, enum fm_accessed_kind kind)
{
	if (a->table)
		fm_accessed_mark(a->table, a->b->number * a->b->threads + a->thread, a->b->threads,
			at, bytes, kind);
}

static uint32_t load(const struct again *a, CUdeviceptr at)
{
	mark(a, at, 4, FM_ACCESSED_READ);
	return *(uint32_t *)(uintptr_t)at;
}

static void store(const struct again *a, CUdeviceptr at, uint32_t value)
{
	mark(a, at, 4, FM_ACCESSED_WRITE);
	*(uint32_t *)(uintptr_t)at = value;
}

static uint32_t add(const struct again *a, CUdeviceptr at, uint32_t value)
{
	mark(a, at, 4, FM_ACCESSED_ATOMIC);
	return atomic_fetch_add((_Atomic uint32_t *)(uintptr_t)at, value);
}

/* Of one thread, whose number in the grid is i. */
static void each(const struct fk_block *b, void (*run)(const struct again *a, uint32_t i))
{
	struct again a = {.b = b};
	void *word = fk_variable_if(b->launch, FM_ACCESSED_TABLE);
	uint64_t table = 0;

	memcpy(&a.out, b->params, 8);
	memcpy(&a.in, (const char *)b->params + 8, 8);
	memcpy(&a.n, (const char *)b->params + 16, 4);
	if (word)
		memcpy(&table, word, sizeof(table));
	a.table = (struct fm_accessed *)(uintptr_t)table;
	for (a.thread = 0; a.thread < b->threads; a.thread++) {
		uint32_t i = b->x * b->threads + a.thread;

		if (i < a.n)
			run(&a, i);
	}
}

#define KERNEL(name, body)                                       \
	static void of_##name(const struct again *a, uint32_t i) \
	{                                                        \
		CUdeviceptr out = a->out + 4ull * i;             \
		CUdeviceptr in = a->in + 4ull * i;               \
                                                                 \
		body;                                            \
		(void)out;                                       \
		(void)in;                                        \
	}                                                        \
	static void name(const struct fk_block *b)               \
	{                                                        \
		each(b, of_##name);                              \
	}

KERNEL(plain, store(a, out, load(a, in) * 3 + 1))
KERNEL(in_place, store(a, out, load(a, out) + load(a, in)))
KERNEL(twice, store(a, out, load(a, in)); store(a, out, load(a, out) + 1))
KERNEL(sum, add(a, a->out + 4ull * (i & 3), load(a, in)))
KERNEL(gather, store(a, out, load(a, a->in + 4ull * (load(a, in) % a->n))))
KERNEL(across, store(a, out, load(a, in));
	store(a, a->out + 4ull * ((i + a->b->threads) % a->n), load(a, in)))
KERNEL(numbered, store(a, out + 16, add(a, a->out, load(a, in))))
KERNEL(halves, uint16_t value = (uint16_t)load(a, in);
	mark(a, a->out + 2ull * i, 2, FM_ACCESSED_WRITE);
	memcpy((void *)(uintptr_t)(a->out + 2ull * i), &value, 2))
KERNEL(keeps, CUdeviceptr kept = (uintptr_t)fk_variable(a->b->launch, "kept");
	store(a, kept + 4ull * (i & 63), load(a, in)))

/* It can be killed before each round; what it has stored by then is no result. */
#define ROUNDS 64u
static _Thread_local uint32_t round_now;
KERNEL(one_round, store(a, out, load(a, in) * 3 + round_now))

static void rounds(const struct fk_block *b)
{
	for (round_now = 0; round_now < ROUNDS; round_now++) {
		if (fk_kill_leaves(b))
			return;
		usleep(300);
		one_round(b);
	}
}

const struct fk_kernel *fk_again_find(const char *name)
{
#define ROW(name)                                       \
	{                                               \
		"again_" #name, {8, 8, 4}, name, false, \
		{                                       \
			{                               \
				0                       \
			}                               \
		}                                       \
	}
	static const struct fk_kernel kernels[] = {ROW(plain), ROW(in_place), ROW(twice), ROW(sum),
		ROW(gather), ROW(across), ROW(numbered), ROW(halves), ROW(keeps), ROW(rounds)};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}
