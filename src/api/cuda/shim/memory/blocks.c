/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"
#include <stdlib.h>

#define FIRST_BITS 8u

static size_t slots(const struct fm_cuda_blocks *t)
{
	return t->slot ? (size_t)1 << t->bits : 0;
}

static size_t home(const struct fm_cuda_blocks *t, unsigned space, uint64_t key)
{
	return (size_t)((key ^ (uint64_t)space << 56) * UINT64_C(0x9e3779b97f4a7c15) >>
			(64 - t->bits));
}

static size_t next_to(const struct fm_cuda_blocks *t, size_t at)
{
	return (at + 1) & (slots(t) - 1);
}

/* The block's slot, or the free one where it would stand. */
static struct fm_cuda_block *slot_of(const struct fm_cuda_blocks *t, unsigned space, uint64_t key)
{
	size_t at = home(t, space, key);

	while (t->slot[at].key && (t->slot[at].key != key || t->slot[at].space != space))
		at = next_to(t, at);
	return &t->slot[at];
}

struct fm_cuda_block *fm_cuda_blocks_find(
	const struct fm_cuda_blocks *t, enum fm_cuda_space space, uint64_t key)
{
	struct fm_cuda_block *b = t->slot && key ? slot_of(t, space, key) : NULL;

	return b && b->key ? b : NULL;
}

static bool grow(struct fm_cuda_blocks *t)
{
	struct fm_cuda_blocks more = {.bits = t->slot ? t->bits + 1 : FIRST_BITS, .live = t->live};

	more.slot = calloc((size_t)1 << more.bits, sizeof(*more.slot));
	if (!more.slot)
		return false;
	for (size_t i = 0; i < slots(t); i++)
		if (t->slot[i].key)
			*slot_of(&more, t->slot[i].space, t->slot[i].key) = t->slot[i];
	free(t->slot);
	*t = more;
	return true;
}

/* A table is at most half full. */
struct fm_cuda_block *fm_cuda_blocks_put(struct fm_cuda_blocks *t, const struct fm_cuda_block *b)
{
	struct fm_cuda_block *to;

	if (!b->key || (2 * (t->live + 1) > slots(t) && !grow(t)))
		return NULL;
	to = slot_of(t, b->space, b->key);
	t->live += !to->key;
	*to = *b;
	return to;
}

/* Those that stand behind it because its slot was taken move up. */
void fm_cuda_blocks_erase(struct fm_cuda_blocks *t, struct fm_cuda_block *b)
{
	size_t mask = slots(t) - 1, hole = (size_t)(b - t->slot), at = hole;

	for (;;) {
		at = next_to(t, at);
		if (!t->slot[at].key)
			break;
		if (((at - home(t, t->slot[at].space, t->slot[at].key)) & mask) <
			((at - hole) & mask))
			continue;
		t->slot[hole] = t->slot[at];
		hole = at;
	}
	t->slot[hole] = (struct fm_cuda_block){0};
	t->live--;
}

struct fm_cuda_block *fm_cuda_blocks_next(const struct fm_cuda_blocks *t, size_t *at)
{
	while (*at < slots(t) && !t->slot[*at].key)
		++*at;
	return *at < slots(t) ? &t->slot[*at] : NULL;
}
