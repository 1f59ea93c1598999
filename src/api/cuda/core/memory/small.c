/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of at most 1 MiB, out of pages of 2 MiB that have blocks of one size each: 512 bytes times
 * a number of at most three bits, times a power of two. So at most a fifth of a block is not used,
 * from 2 KiB on.
 */
#include "arena_internal.h"
#include "base/util.h"
#include "want.h"
#include <errno.h>

unsigned fm_cu_small_class(size_t size, unsigned *each)
{
	unsigned grains = (unsigned)((size + FM_CU_GRAIN - 1) / FM_CU_GRAIN), shift = 0, top;

	if (grains <= 4) {
		*each = grains * (unsigned)FM_CU_GRAIN;
		return grains - 1;
	}
	while ((grains + (1u << shift) - 1) >> shift > 8)
		shift++;
	top = (grains + (1u << shift) - 1) >> shift; /* 5 to 8 */
	*each = (top << shift) * (unsigned)FM_CU_GRAIN;
	return 4 * (shift + 1) + top - 5;
}

/* No number of fm_cu_block_ids() has this bit. */
#define SMALL (UINT64_C(1) << 63)

static struct fm_cu_small *new_page(struct fm_cu_arena *a, unsigned each, int *rc)
{
	unsigned n = (unsigned)(FM_CU_PAGE / each);
	struct fm_cu_small *s = calloc(1, sizeof(*s) + n * sizeof(s->block[0]));

	*rc = s ? fm_cu_slab_take(a, 1, &s->page) : -ENOMEM;
	if (*rc) {
		free(s);
		return NULL;
	}
	fm_list_init(&s->with_room);
	s->at = a->base + s->page * FM_CU_PAGE;
	s->id = SMALL | fm_cu_block_ids(1) << 32;
	s->each = each;
	s->n = n;
	a->table[s->page] = (uintptr_t)s | 1;
	fm_touch_block(&a->touch, s->page, 1);
	return s;
}

static unsigned first_free(const struct fm_cu_small *s)
{
	unsigned i = 0;

	while (!~s->taken[i])
		i++;
	return 64 * i + (unsigned)__builtin_ctzll(~s->taken[i]);
}

/* Where the slab is away the page has no room until it is back. */
static struct fm_cu_small *with_room(struct fm_cu_arena *a, struct fm_list *class)
{
	struct fm_cu_small *s;

	fm_list_each (s, class, with_room)
		if (fm_cu_chunk_here(a->chunk_of[s->page]))
			return s;
	return NULL;
}

int fm_cu_small_take(struct fm_cu_arena *a, size_t size, CUdeviceptr *at)
{
	unsigned each, i;
	struct fm_list *class = &a->small[fm_cu_small_class(size, &each)];
	struct fm_cu_small *s = with_room(a, class);
	int rc;

	if (!s) {
		s = new_page(a, each, &rc);
		if (!s)
			return rc;
		fm_list_add_head(class, &s->with_room);
	}
	i = first_free(s);
	s->taken[i / 64] |= UINT64_C(1) << i % 64;
	s->block[i].size = (uint32_t)size;
	s->block[i].take = s->takes++;
	if (++s->used == s->n)
		fm_list_del(&s->with_room);
	*at = s->at + (CUdeviceptr)i * each;
	fm_touch_word(&a->touch, *at);
	return 0;
}

static bool is_taken(const struct fm_cu_small *s, unsigned i)
{
	return i < s->n && s->taken[i / 64] >> i % 64 & 1;
}

int fm_cu_small_give(struct fm_cu_arena *a, struct fm_cu_small *s, CUdeviceptr at)
{
	unsigned i = (unsigned)((at - s->at) / s->each), each;

	if ((at - s->at) % s->each || !is_taken(s, i))
		return -EINVAL;
	s->taken[i / 64] &= ~(UINT64_C(1) << i % 64);
	if (s->used-- == s->n)
		fm_list_add_head(&a->small[fm_cu_small_class(s->each, &each)], &s->with_room);
	if (s->used)
		return 0;
	fm_list_del(&s->with_room);
	a->table[s->page] = 0;
	fm_touch_gone(&a->touch, s->page, 1);
	fm_cu_pages_give(a, s->page, 1);
	free(s);
	return 0;
}

bool fm_cu_small_find(const struct fm_cu_arena *a, const struct fm_cu_small *s, CUdeviceptr p,
	struct fm_cu_block *block)
{
	unsigned i = (unsigned)((p - s->at) / s->each);

	if (!is_taken(s, i) || p - s->at - (CUdeviceptr)i * s->each >= s->block[i].size)
		return false;
	*block = (struct fm_cu_block){s->at + (CUdeviceptr)i * s->each, s->block[i].size,
		s->id + s->block[i].take, fm_cu_chunk_fixed(a->chunk_of[s->page])};
	return true;
}
