/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"
#include "base/clock.h"
#include "base/util.h"
#include <sched.h>

static bool may_not_open(struct fm_gs *g);
static void tell_watch(struct fm_gs *g);

#define FM_GS_LOAD(p)          __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define FM_GS_SAME(x)          (x)
#define FM_GS_STORE(p, v)      __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_ADD(p, v)        __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_SWAP(p, v)       __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define FM_GS_NOW              fm_gs_host_now(fm_container(g, struct fm_gs_host, g))
#define FM_GS_LANE             0u
#define FM_GS_LANES            1u
#define FM_GS_SYNC             ((void)0)
#define FM_GS_SUM(x)           (x)
#define FM_GS_LEAST(x)         (x)
#define FM_GS_CLZ(x)           __builtin_clzll(x)
#define FM_GS_FIRST(n, key, i) (i)
#define FM_GS_PARKED(g)        (uint64_t) may_not_open(g)
#define FM_GS_TELL(g, heard)   tell_watch(g)
#include "core.h"

static bool may_not_open(struct fm_gs *g)
{
	const struct fm_gs_watch *w = fm_container(g, struct fm_gs_host, g)->watch;

	return (w && !w->may_open(w->arg)) || FM_GS_LOAD(&g->park);
}

static void tell_watch(struct fm_gs *g)
{
	const struct fm_gs_watch *w = fm_container(g, struct fm_gs_host, g)->watch;

	if (w)
		w->decided(w->arg);
}

uint64_t fm_gs_host_now(const struct fm_gs_host *h)
{
	return h->is_virtual ? fm_gs_read(&h->now) : fm_now();
}

void fm_gs_host_kick(struct fm_gs_host *h)
{
	fm_gs_kick(&h->g);
}

void fm_gs_host_end(struct fm_gs_host *h, uint32_t task)
{
	fm_gs_more(&h->g.task[task].ended, 1);
}

void fm_gs_host_queued(struct fm_gs_host *h, uint32_t task, uint64_t chunks)
{
	fm_gs_more(&h->g.task[task].queued, chunks);
}

void fm_gs_host_enter(struct fm_gs_host *h)
{
	while (FM_GS_SWAP(&h->g.turn, 1))
		sched_yield();
}

void fm_gs_host_leave(struct fm_gs_host *h)
{
	if (fm_gs_leave(&h->g, fm_gs_read(&h->g.decided)))
		while (fm_gs_try(&h->g))
			;
}

bool fm_gs_host_idle(struct fm_gs_host *h)
{
	uint64_t bell = fm_gs_read(&h->g.bell);

	return fm_gs_read(&h->g.decided) == bell && !fm_gs_read(&h->g.pending) &&
	       fm_gs_read(&h->g.bell) == bell;
}

uint64_t fm_gs_host_quantile(const struct fm_gs_stats *s, unsigned part)
{
	uint64_t sum = 0, want = (s->done * part + 99) / 100;

	for (uint32_t b = 0; s->done && b < FM_GS_BUCKETS; b++) {
		sum += s->response[b];
		if (sum >= want)
			return FM_MIN(fm_gs_bucket_last(b), s->response_max);
	}
	return 0;
}
