/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that die while their memory is out. */
#include "lost.h"
#include "api/cuda/core/cuda.h"
#include "arena_internal.h"

/* Errors that a driver has for whatever is asked of a context from then on. */
static bool is_fatal(fm_cu_result rc)
{
	switch (rc) {
	case 4:   /* the driver has ended */
	case 46:  /* the device is not there, */
	case 201: /* nor the context */
	case 214: /* memory, the link: cannot be corrected */
	case 220:
	case 226: /* contained */
	case 700: /* an address that is none */
	case 702: /* a kernel that took too long */
	case 709: /* destroyed */
	case 710: /* an assertion */
	case 714: /* stacks, instructions, addresses */
	case 715:
	case 716:
	case 717:
	case 718:
	case 719:
	case 999: /* unknown */
		return true;
	default:
		return false;
	}
}

bool fm_cu_context_lost(const struct fm_cu_driver *cu, CUcontext ctx)
{
	int mode = fm_cu_enter(cu);
	fm_cu_result rc = cu->ctx_push(ctx);
	CUcontext old;

	if (!rc) {
		rc = cu->stream_query(FM_CU_STREAM_LEGACY);
		cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
	return is_fatal(rc);
}

/* Or it is made, and is not where it belongs. What is lost is not waited for. */
static bool is_missing(const struct fm_cu_chunk *c)
{
	return !c->lost && (c->away || (c->used && c->made && !fm_cu_chunk_here(c)));
}

bool fm_cu_arena_away(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;
	bool away = false;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		away |= is_missing(c);
	pthread_mutex_unlock(&a->lock);
	return away;
}

/* The driver may refuse to unmap what it has mapped: that stays where it is. A chunk that is made
 * and not mapped is lost, too: the context has died between two calls of the mover's. */
static void lose(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	c->away = false;
	c->out = c->zero = 0;
	fm_cu_chunk_let_go(a, c);
	c->owed = fm_cu_chunk_unmap(a, c, false);
	c->lost = !c->owed || !fm_cu_chunk_here(c);
	c->owed &= c->lost;
	if (c->lost && !c->owed)
		a->use.unclaim(a->use.cookie, fm_cu_chunk_size(c), c->stays);
}

/* Blocks stay what they are until they are freed. What the driver does not take back is still the
 * device's, and counts. */
void fm_cu_arena_lose(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		if (is_missing(c))
			lose(a, c);
	pthread_mutex_unlock(&a->lock);
}
