/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of tasks that decide on the device: the core's text as one thread runs it, beside those of
 * other streams. */
#include "device/gpusched.h"
#include "fake.h"
#include <string.h>

#define FM_GS_LANE             0u
#define FM_GS_LANES            1u
#define FM_GS_SYNC             ((void)0)
#define FM_GS_LOAD(p)          __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define FM_GS_STORE(p, v)      __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_ADD(p, v)        __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_SWAP(p, v)       __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_SAME(x)          (x)
#define FM_GS_SUM(x)           (x)
#define FM_GS_LEAST(x)         (x)
#define FM_GS_FIRST(n, key, i) (i)
#define FM_GS_NOW              fk_now()
#define FM_GS_CLZ(x)           __builtin_clzll(x)
#define FM_GS_TELL(g, heard)   tell(g, heard)

static void tell(const struct fm_gs *g, uint64_t heard);

#include "gpusched/core.h"

static void tell(const struct fm_gs *g, uint64_t heard)
{
	struct fm_gates_told *told = ((const struct fm_gates *)g)->told;

	for (uint32_t i = 0; i < g->n; i++) {
		FM_GS_STORE(&told->done[i], g->task[i].done);
		FM_GS_STORE(&told->dropped[i], g->task[i].stats.dropped);
	}
	FM_GS_STORE(&told->pending, g->pending);
	FM_GS_STORE(&told->opened, g->opened);
	FM_GS_STORE(&told->decided, heard);
}

struct params {
	struct fm_gates *set;
	struct fm_gs_task *to;
	uint64_t jobs, chunks;
	uint32_t task, what;
};

static void hear(struct fm_gs *g, const struct params *p)
{
	struct fm_gs_task *t = &g->task[p->task];

	if (p->what & FM_GATES_ENDED)
		FM_GS_ADD(&t->ended, 1);
	FM_GS_ADD(&t->rung, p->jobs);
	FM_GS_ADD(&t->queued, p->chunks);
	if (p->what & FM_GATES_OFF)
		FM_GS_STORE(&t->off, 1);
	if (p->what & (FM_GATES_PARK | FM_GATES_GO_ON))
		FM_GS_STORE(&g->park, (p->what & FM_GATES_PARK) != 0);
	if (p->what & (FM_GATES_DRAIN | FM_GATES_ACCEPT))
		FM_GS_STORE(&g->drain, (p->what & FM_GATES_DRAIN) != 0);
}

void fk_set(const struct fk_block *b)
{
	struct params p;
	struct fm_gs *g;

	memcpy(&p, b->params, sizeof(p));
	g = &p.set->g;
	if (p.to) {
		while (FM_GS_SWAP(&g->turn, 1))
			;
		for (size_t i = 0; i < g->n * sizeof(*p.to) / 8; i++)
			((uint64_t *)p.to)[i] = FM_GS_LOAD((uint64_t *)g->task + i);
		if (fm_gs_leave(g, FM_GS_LOAD(&g->decided)))
			while (fm_gs_try(g))
				;
		return;
	}
	hear(g, &p);
	if (p.what & FM_GATES_KICK)
		fm_gs_kick(g);
}
