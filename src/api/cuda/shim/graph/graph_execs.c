/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_execs.h"
#include "base/lockorder.h"
#include "graph_events.h"
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256u

/* The most executable graphs that exist, or whose end is not known. */
#define EXECS_MAX 8192u
/* How many of these are looked at each time that one is given back. */
#define ASKED 64u

_Atomic bool fm_cuda_exec_any;

static struct {
	pthread_mutex_t lock;
	struct fm_cuda_exec *first[BUCKETS];
	struct fm_cuda_exec *ended, **ended_last; /* the oldest first */
	unsigned n_ended;
	_Atomic unsigned n; /* all of them */
} execs = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended_last = &execs.ended};
FM_LOCK_RANK(execs.lock, CUDA_EXECS);

pthread_mutex_t fm_cuda_execs_leaving = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(fm_cuda_execs_leaving, CUDA_LEAVING);

/* Taken before the lock: while the driver is queried about events, no context of theirs ends. */
static pthread_mutex_t sweeping = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(sweeping, CUDA_SWEEP);

/* Lock held, as in everything that follows up to find(). */
static unsigned bucket(CUgraphExec exec)
{
	return (uintptr_t)exec * UINT64_C(0x9e3779b97f4a7c15) >> 40 & (BUCKETS - 1);
}

static struct fm_cuda_exec **place(CUgraphExec exec)
{
	struct fm_cuda_exec **at = &execs.first[bucket(exec)];

	while (*at && (*at)->exec != exec)
		at = &(*at)->next;
	return at;
}

static void push_ended(struct fm_cuda_exec *e)
{
	e->next = NULL;
	*execs.ended_last = e;
	execs.ended_last = &e->next;
	execs.n_ended++;
}

static struct fm_cuda_exec *pop_ended(void)
{
	struct fm_cuda_exec *e = execs.ended;

	if (!e)
		return NULL;
	execs.ended = e->next;
	if (!execs.ended)
		execs.ended_last = &execs.ended;
	execs.n_ended--;
	return e;
}

struct fm_cuda_exec *fm_cuda_exec_find_slow(CUgraphExec exec)
{
	struct fm_cuda_exec *e;

	pthread_mutex_lock(&execs.lock);
	e = *place(exec);
	pthread_mutex_unlock(&execs.lock);
	return e;
}

static void release(struct fm_cuda_exec *e)
{
	if (e->home)
		fm_xq_unref(e->home);
	fm_cu_graph_put(e->graph);
	free(e);
}

/* Guarded launches keep the graph themselves. */
static bool runs_still(struct fm_cuda_exec *e)
{
	if (fm_cu_graph_gone(e->graph))
		return false;
	if (e->lost || e->strayed || (e->bare && !fm_xq_said(e->home, e->seen)))
		return true;
	return e->end && !fm_cuda_behind_passed(e->graph->ctx, e->end);
}

/* Sweeps graphs, those that were given back first. Graphs that still run are looked at again after
 * all others. */
static void sweep(unsigned most)
{
	struct fm_cuda_exec *over = NULL, *e;

	if (pthread_mutex_trylock(&sweeping)) /* another thread sweeps */
		return;
	pthread_mutex_lock(&execs.lock);
	for (unsigned n = FM_MIN(most, execs.n_ended); n && (e = pop_ended()); n--) {
		pthread_mutex_unlock(&execs.lock);
		if (runs_still(e)) {
			pthread_mutex_lock(&execs.lock);
			push_ended(e);
			continue;
		}
		fm_cuda_behind_end(e->end);
		e->next = over;
		over = e;
		pthread_mutex_lock(&execs.lock);
		execs.n--;
	}
	pthread_mutex_unlock(&execs.lock);
	pthread_mutex_unlock(&sweeping);
	while ((e = over)) {
		over = e->next;
		release(e);
	}
}

bool fm_cuda_execs_room(void)
{
	if (atomic_load(&execs.n) >= EXECS_MAX)
		sweep(EXECS_MAX);
	return atomic_load(&execs.n) < EXECS_MAX;
}

void fm_cuda_execs_put(struct fm_cuda_exec *e)
{
	pthread_mutex_lock(&execs.lock);
	execs.n++;
	*place(e->exec) = e;
	pthread_mutex_unlock(&execs.lock);
	atomic_store(&fm_cuda_exec_any, true);
}

struct fm_cuda_early fm_cuda_execs_take(CUgraphExec exec, CUevent *behind)
{
	struct fm_cuda_early early = {0};
	struct fm_cuda_exec **at, *e;

	*behind = NULL;
	fm_cuda_first_forget_graphs();
	if (!atomic_load(&fm_cuda_exec_any))
		return early;
	pthread_mutex_lock(&fm_cuda_execs_leaving);
	pthread_mutex_lock(&execs.lock);
	at = place(exec);
	e = *at;
	if (e) {
		early = e->early;
		*behind = fm_cu_graph_gone(e->graph) ? NULL : e->behind;
		*at = e->next;
		push_ended(e);
	}
	pthread_mutex_unlock(&execs.lock);
	pthread_mutex_unlock(&fm_cuda_execs_leaving);
	if (e)
		sweep(ASKED);
	return early;
}

static bool is_in(struct fm_cuda_exec *e, CUstream stream, CUcontext ctx)
{
	uintptr_t last = atomic_load(&e->last);

	if (stream)
		return last == (uintptr_t)stream;
	return last && last != FM_CUDA_EXEC_LEFT && e->graph->ctx == ctx;
}

struct fm_cuda_exec *fm_cuda_execs_in(CUstream stream, CUcontext ctx, struct fm_cuda_exec *after)
{
	unsigned i = after ? bucket(after->exec) : 0;
	struct fm_cuda_exec *e;

	pthread_mutex_lock(&execs.lock);
	e = after ? after->next : execs.first[0];
	for (;;) {
		while (e && !is_in(e, stream, ctx))
			e = e->next;
		if (e || ++i == BUCKETS)
			break;
		e = execs.first[i];
	}
	pthread_mutex_unlock(&execs.lock);
	return e;
}

/* The event goes with the context: it is neither queried any more, nor given back. */
static void forget_event(struct fm_cuda_exec *e, CUcontext ctx)
{
	if (e->graph->ctx != ctx)
		return;
	e->strayed |= e->end != NULL;
	e->end = NULL;
}

void fm_cuda_execs_context_ends(CUcontext ctx)
{
	struct fm_cuda_exec *e;

	pthread_mutex_lock(&sweeping);
	pthread_mutex_lock(&execs.lock);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (e = execs.first[i]; e; e = e->next)
			forget_event(e, ctx);
	for (e = execs.ended; e; e = e->next)
		forget_event(e, ctx);
	pthread_mutex_unlock(&execs.lock);
	pthread_mutex_unlock(&sweeping);
}

void fm_cuda_exec_fork_child(void)
{
	execs.lock = sweeping = fm_cuda_execs_leaving = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	memset(execs.first, 0, sizeof(execs.first));
	execs.ended = NULL;
	execs.ended_last = &execs.ended;
	execs.n_ended = 0;
	execs.n = 0;
	atomic_store(&fm_cuda_exec_any, false);
}
