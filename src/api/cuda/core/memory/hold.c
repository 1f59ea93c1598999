/* SPDX-License-Identifier: Apache-2.0 */
#include "hold.h"
#include "arena_internal.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>

static bool has_room(struct fm_cu_holds *h)
{
	unsigned room = h->room ? 2 * h->room : 4;
	struct fm_cu_hold *more;

	if (h->n < h->room)
		return true;
	more = realloc(h->one, room * sizeof(*more));
	if (!more)
		return false;
	h->one = more;
	h->room = room;
	return true;
}

/* Lock held. */
static int hold(struct fm_cu_arena *a, struct fm_cu_chunk *c, unsigned reason, bool anywhere,
	struct fm_cu_holds *h, uint64_t *bytes)
{
	if (!fm_cu_chunk_here(c) || (c->borrowed && !c->stays && !anywhere))
		return -EBUSY;
	if (!has_room(h))
		return -ENOMEM;
	h->one[h->n++] = (struct fm_cu_hold){a, c->at, c->number};
	c->holds++;
	c->held_for = reason;
	if (c->stays)
		return 0;
	c->stays = reason;
	c->stays_held = true;
	*bytes += fm_cu_chunk_size(c);
	return 0;
}

/* Lock held. */
static void let_go(struct fm_cu_arena *a, struct fm_cu_chunk *c, unsigned reason, uint64_t *bytes)
{
	if (--c->holds || !c->stays_held || c->stays != reason)
		return;
	c->stays_held = false;
	c->stays = c->kept ? c->kept_for : 0;
	if (c->kept)
		fm_cu_recount(a, c, reason, c->kept_for);
	else
		*bytes += fm_cu_chunk_size(c);
}

/* Lock held. Those from the first one on. */
static void let_all_go(struct fm_cu_arena *a, unsigned reason, const struct fm_cu_holds *h,
	unsigned first, uint64_t *bytes)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		for (unsigned i = first; i < h->n && c->holds; i++)
			if (h->one[i].of == a && h->one[i].at == c->at &&
				h->one[i].number == c->number)
				let_go(a, c, reason, bytes);
}

/* Lock held. */
static int undone(struct fm_cu_arena *a, unsigned reason, struct fm_cu_holds *h, unsigned first,
	uint64_t *bytes, int rc)
{
	uint64_t unused = 0;

	if (!rc)
		return 0;
	let_all_go(a, reason, h, first, &unused);
	h->n = first;
	*bytes = 0;
	return rc;
}

int fm_cu_arena_hold(struct fm_cu_arena *a, CUdeviceptr at, size_t size, unsigned reason,
	bool anywhere, struct fm_cu_holds *h, uint64_t *bytes)
{
	unsigned first = h->n;
	struct fm_cu_chunk *c;
	int rc = 0;

	*bytes = 0;
	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		if (!rc && !c->of && !c->lost && c->used && at < c->at + fm_cu_chunk_size(c) &&
			(c->at <= at || c->at - at < size))
			rc = hold(a, c, reason, anywhere, h, bytes);
	rc = undone(a, reason, h, first, bytes, rc);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int fm_cu_vmm_hold(
	struct fm_cu_vmm *v, unsigned reason, bool anywhere, struct fm_cu_holds *h, uint64_t *bytes)
{
	unsigned first = h->n;
	int rc = 0;

	*bytes = 0;
	pthread_mutex_lock(&v->a->lock);
	for (unsigned i = 0; i < v->n && !rc; i++)
		rc = hold(v->a, v->chunk[i], reason, anywhere, h, bytes);
	rc = undone(v->a, reason, h, first, bytes, rc);
	pthread_mutex_unlock(&v->a->lock);
	return rc;
}

void fm_cu_arena_let_go(
	struct fm_cu_arena *a, unsigned reason, const struct fm_cu_holds *h, uint64_t *bytes)
{
	*bytes = 0;
	pthread_mutex_lock(&a->lock);
	let_all_go(a, reason, h, 0, bytes);
	pthread_mutex_unlock(&a->lock);
}
