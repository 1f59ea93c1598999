/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of a trace, by their numbers; those that live at the same time are apart. */
#include "base/util.h"
#include "read.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void idem_reader_free(struct idem_reader *r)
{
	free(r->alloc);
	free(r->live);
	free(r->ids.slot);
	free(r->names.slot);
	free(r->kernels.slot);
	free(r->span);
}

int idem_table_room(const struct idem_reader *r, struct idem_table *t, idem_hash_of *again)
{
	struct idem_table more = {.mask = t->slot ? t->mask * 2 + 1 : 255, .used = t->used};

	if (t->slot && t->used <= t->mask / 2)
		return 0;
	more.slot = calloc((size_t)more.mask + 1, sizeof(*more.slot));
	if (!more.slot)
		return -ENOMEM;
	for (uint32_t i = 0; t->slot && i <= t->mask; i++) {
		uint32_t at;

		if (!t->slot[i])
			continue;
		at = idem_table_first(&more, again(r, t->slot[i] - 1));
		while (more.slot[at])
			at = (at + 1) & more.mask;
		more.slot[at] = t->slot[i];
	}
	free(t->slot);
	*t = more;
	return 0;
}

static uint64_t id_hash(const struct idem_reader *r, uint32_t i)
{
	return idem_mix((uint64_t)r->alloc[i].id);
}

/* The slot that has it, or is free for it. */
static uint32_t id_slot(const struct idem_reader *r, int64_t id)
{
	uint32_t at = idem_table_first(&r->ids, idem_mix((uint64_t)id));

	while (r->ids.slot[at] && r->alloc[r->ids.slot[at] - 1].id != id)
		at = (at + 1) & r->ids.mask;
	return at;
}

const struct idem_alloc *idem_alloc_find(const struct idem_reader *r, int64_t id)
{
	uint32_t at = r->ids.slot ? r->ids.slot[id_slot(r, id)] : 0;

	return at ? &r->alloc[at - 1] : NULL;
}

/* How many live ones begin in front of it. */
static uint32_t live_before(const struct idem_reader *r, uint64_t base)
{
	uint32_t low = 0, high = r->n_live;

	while (low < high) {
		uint32_t half = low + (high - low) / 2;

		if (r->alloc[r->live[half]].base < base)
			low = half + 1;
		else
			high = half;
	}
	return low;
}

static int alloc_room(struct idem_reader *r)
{
	uint32_t room = r->alloc_room ? r->alloc_room * 2 : 64;
	struct idem_alloc *more;
	uint32_t *live;

	if (r->n_alloc < r->alloc_room)
		return 0;
	more = reallocarray(r->alloc, room, sizeof(*more));
	r->alloc = more ? more : r->alloc;
	live = reallocarray(r->live, room, sizeof(*live));
	r->live = live ? live : r->live;
	if (!more || !live)
		return -ENOMEM;
	r->alloc_room = room;
	return 0;
}

int idem_alloc_add(struct idem_reader *r, const struct idem_alloc *a)
{
	uint32_t at = live_before(r, a->base), slot;
	const struct idem_alloc *next = at < r->n_live ? &r->alloc[r->live[at]] : NULL;
	const struct idem_alloc *last = at ? &r->alloc[r->live[at - 1]] : NULL;

	if (r->n_alloc == FM_IDEM_ALLOCS)
		return fm_json_bad(&r->j, NULL, "is one of more than %u", FM_IDEM_ALLOCS);
	if (idem_alloc_find(r, a->id))
		return fm_json_bad(&r->j, "id", "%lld is there already", (long long)a->id);
	if (next && next->base - a->base < a->size)
		return fm_json_bad(&r->j, NULL, "overlaps allocation %lld", (long long)next->id);
	if (last && a->base - last->base < last->size)
		return fm_json_bad(&r->j, NULL, "overlaps allocation %lld", (long long)last->id);
	if (alloc_room(r) || idem_table_room(r, &r->ids, id_hash))
		return -ENOMEM;
	slot = id_slot(r, a->id);
	memmove(&r->live[at + 1], &r->live[at], (r->n_live - at) * sizeof(*r->live));
	r->live[at] = r->n_alloc;
	r->n_live++;
	r->alloc[r->n_alloc++] = *a;
	r->ids.slot[slot] = r->n_alloc;
	r->ids.used++;
	return 0;
}

void idem_alloc_drop(struct idem_reader *r, int64_t id)
{
	struct idem_alloc *a = &r->alloc[r->ids.slot[id_slot(r, id)] - 1];
	uint32_t at = live_before(r, a->base);

	a->freed = true;
	r->n_live--;
	memmove(&r->live[at], &r->live[at + 1], (r->n_live - at) * sizeof(*r->live));
}
