/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"
#include "api/cuda/core/tune.h"
#include "arena_internal.h"
#include "base/util.h"

/* Counters have room for that. */
#define COUNT_MOST (UINT64_C(1) << 34)

static void look_at_uses(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		c->uses = fm_touch_uses(&a->touch, c->page, c->pages, c->cold);
}

/* What the program maps is named by addresses of its own, which nobody follows. */
static bool may_come(const struct fm_cu_arena *a, const struct fm_cu_chunk *c, uint32_t since)
{
	return c->borrowed && !c->away && !c->lost && !c->stays && !c->waits && !c->of &&
	       !c->remains && fm_cu_chunk_named(a, c) >= since;
}

static bool may_go(const struct fm_cu_chunk *c)
{
	return !c->stays && !c->waits && !c->of && fm_cu_chunk_on_device(c);
}

/* So many more uses than another are worth its place. */
static uint64_t worth(const struct fm_cu_chunk *c)
{
	return (uint64_t)(FM_CU_EXCHANGE_USES * FM_TOUCH_USE)
	       << FM_MIN(c->exchanged, (unsigned)FM_CU_EXCHANGE_DEARER);
}

static bool beats(const struct fm_cu_chunk *c, const struct fm_cu_chunk *out)
{
	return c->uses >= out->uses + worth(c) && c->uses / 2 >= out->uses;
}

/* Does what would come in its place fill half of that? */
static bool is_filled(const struct fm_cu_arena *a, uint32_t since, const struct fm_cu_chunk *out)
{
	const struct fm_cu_chunk *c;
	uint64_t bytes = 0;

	fm_list_each (c, &a->chunks, all)
		if (beats(c, out) && may_come(a, c, since))
			bytes += fm_cu_chunk_size(c);
	return bytes >= fm_cu_chunk_size(out) / 2;
}

static struct fm_cu_chunk *most_used(struct fm_cu_arena *a, uint32_t since, uint64_t room)
{
	struct fm_cu_chunk *c, *most = NULL;

	fm_list_each (c, &a->chunks, all)
		if (fm_cu_chunk_size(c) <= room && (!most || c->uses > most->uses) &&
			may_come(a, c, since))
			most = c;
	return most;
}

/* Of several the last in the list, as for others that go out. */
static struct fm_cu_chunk *least_used(
	struct fm_cu_arena *a, uint32_t since, const struct fm_cu_chunk *home)
{
	struct fm_cu_chunk *c, *least = NULL;

	fm_list_each (c, &a->chunks, all)
		if (may_go(c) && (!least || c->uses <= least->uses) && beats(home, c) &&
			is_filled(a, since, c))
			least = c;
	return least;
}

struct fm_cu_exchange fm_cu_exchange_next(struct fm_cu_arena *a, uint32_t since)
{
	struct fm_cu_exchange e = {NULL, NULL};

	look_at_uses(a);
	e.home = most_used(a, since, UINT64_MAX);
	e.out = e.home ? least_used(a, since, e.home) : NULL;
	if (!e.out)
		e.home = NULL;
	return e;
}

struct fm_cu_chunk *fm_cu_exchange_fill(struct fm_cu_arena *a, uint32_t since, uint64_t room)
{
	return room ? most_used(a, since, room) : NULL;
}

static void count_anew(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		fm_touch_count_anew(&a->touch, c->page, c->pages);
}

/* What runs from the host was used so often, and nothing has come of it. */
static bool is_old(const struct fm_cu_arena *a, uint32_t since)
{
	const struct fm_cu_chunk *c;
	bool old = false;

	fm_list_each (c, &a->chunks, all)
		old |= c->uses >= COUNT_MOST || (c->uses >= 4 * worth(c) && may_come(a, c, since));
	return old;
}

bool fm_cu_exchange_look(struct fm_cu_arena *a, uint32_t since)
{
	struct fm_cu_exchange e;

	if (!atomic_load(&a->touch.uses)) {
		if (!fm_touch_count(&a->touch, true))
			count_anew(a);
		return false;
	}
	/* Work of which nobody knows what it uses may use what is on the device. */
	if (!since)
		return false;
	e = fm_cu_exchange_next(a, since);
	if (!e.home && is_old(a, since))
		count_anew(a);
	return e.home;
}

void fm_cu_exchange_end(struct fm_cu_arena *a)
{
	fm_touch_count(&a->touch, false);
}
