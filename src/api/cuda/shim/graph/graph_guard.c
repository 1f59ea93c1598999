/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_guard.h"
#include "api/cuda/core/guard/guard_graph.h"
#include "api/cuda/shim/order.h"
#include "base/cancel.h"
#include "graph_events.h"
#include "graph_execs.h"
#include <stdlib.h>

/* These errors say that a capture is invalid: a second call would return the same. */
#define CAPTURE_ERROR_FIRST 900
#define CAPTURE_ERROR_LAST  908

/* --- making --- */

typedef fm_cu_result set_params_fn(
	CUgraphExec exec, CUgraphNode node, const struct fm_cu_kernel_node *params);

/* One node of the executable graph: its own parameters, copied for later, and ours. */
static bool set_node(CUgraphExec exec, struct fm_cu_graph *g, unsigned i,
	const struct fm_cuda_link *l, set_params_fn *set)
{
	const struct fm_kernel *image = l->kernel->image;
	struct fm_cu_kernel_node params = l->params;
	uint64_t ours[FM_GUARD_PARAMS];
	void *copy = fm_cu_graph_node(g, i, ours), *room;
	struct fm_cuda_args a;
	fm_cu_result rc;

	if (!fm_cuda_args_copy(image, l->params.old.params, l->params.old.extra, copy))
		return false;
	room = malloc(fm_cuda_args_room(image, false));
	if (!room)
		return false;
	fm_cuda_args_again(&a, image, copy, ours, room);
	params.old.params = a.params;
	params.old.extra = NULL;
	fm_cu_inside++;
	rc = set(exec, l->node, &params);
	fm_cu_inside--;
	free(room);
	return !rc;
}

typedef fm_cu_result set_words_fn(
	CUgraphExec exec, CUgraphNode node, const struct fm_cu_words_node *params);

/* Makes a cover wait for a word of this graph. */
static bool set_cover(CUgraphExec exec, struct fm_cu_graph *g, unsigned i,
	const struct fm_cuda_seam *s, set_words_fn *set)
{
	union fm_cu_mem_op op[FM_CU_COVER_OPS];
	struct fm_cu_words_node words = s->words;
	fm_cu_result rc;

	fm_cu_graph_cover(g, i, op);
	words.op = op;
	fm_cu_inside++;
	rc = set(exec, s->node, &words);
	fm_cu_inside--;
	return !rc;
}

/* Returns how many were set. */
static unsigned set_all(CUgraphExec exec, struct fm_cu_graph *g, const struct fm_cuda_chain *c)
{
	set_params_fn *set = (set_params_fn *)fm_cuda_symbol("cuGraphExecKernelNodeSetParams_v2");
	set_words_fn *cover = NULL;
	unsigned n = 0;

	if (c->seams)
		cover = (set_words_fn *)fm_cuda_symbol("cuGraphExecBatchMemOpNodeSetParams");
	if (!set || (c->seams && !cover))
		return 0;
	while (n < c->seams && set_cover(exec, g, n, &c->seam[n], cover))
		n++;
	while (n >= c->seams && n < c->seams + c->n &&
		set_node(exec, g, n - c->seams, &c->link[n - c->seams], set))
		n++;
	return n;
}

/* Nodes that have our parameters already cannot be reset, so they are never told to stop. */
static bool set_nodes(struct fm_cuda_exec *e, bool early, const struct fm_cuda_chain *c)
{
	struct fm_cu_graph *g = e->graph;
	CUgraphExec exec = early ? e->early.exec : e->exec;
	unsigned n = set_all(exec, g, c);

	if (n == c->seams + c->n)
		return true;
	if (n && !early)             /* the early graph was never launched and is destroyed */
		fm_cu_graph_keep(g); /* kept for good, because the driver has its words */
	return false;
}

static const char *guard(struct fm_cuda_exec *e, CUgraph graph, uint64_t flags)
{
	struct fm_cuda_chain c;
	const char *why = fm_cuda_chain_read(&c, graph);
	bool early;

	if (why)
		return why;
	early = fm_cuda_early_make(&c, graph, flags, &e->early);
	e->graph = fm_cu_graph_new(fm_cuda_driver(), fm_cuda_current(),
		&(struct fm_cu_chain){c.launch, c.last, c.n, c.seams, c.waits});
	if (!e->graph) {
		why = "no memory";
	} else if (!set_nodes(e, early, &c)) {
		why = "refused by the driver";
		fm_cu_graph_put(e->graph);
	} else {
		e->graph->waiting = c.waiting;
	}
	fm_cuda_early_made(&e->early);
	if (why)
		fm_cuda_early_end(&e->early);
	fm_cuda_chain_free(&c);
	return why;
}

static void count(const char *why)
{
	struct fm_client *c = fm_shim_client();

	if (c)
		fm_client_count_left(c, "graph", why, 1);
}

static bool wanted(void)
{
	const char *v = secure_getenv("FERMATA_GUARDIAN_GRAPHS");

	return atomic_load(&fm_cuda_rewrote) && fm_cuda_driver() && (!v || strcmp(v, "0") != 0);
}

/* In a graph, an edge says what this attribute says in a stream. */
static bool overlaps(const struct fm_cu_launch_config *c)
{
	for (unsigned i = 0; i < c->n_attributes; i++)
		if (c->attributes[i].id == FM_CU_LAUNCH_OVERLAPS &&
			(uint32_t)c->attributes[i].value[0])
			return true;
	return false;
}

bool fm_cuda_exec_takes(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config)
{
	bool whole = false;

	return kernel && !kernel->left && config && fm_cu_guard_repeats(config, &whole) &&
	       !overlaps(config) && wanted();
}

void fm_cuda_exec_made(CUgraphExec exec, CUgraph graph, uint64_t flags, bool whole)
{
	struct fm_cuda_exec *e;
	const char *why;
	CUevent behind;
	FM_NO_CANCEL;

	/* Forgets a graph with the same handle that went with its context. */
	fm_cuda_execs_take(exec, &behind);
	if (whole || !wanted())
		return;
	e = calloc(1, sizeof(*e));
	if (!e)
		return;
	e->exec = exec;
	if (!fm_cuda_execs_room())
		why = "too many";
	else
		why = flags & FM_CUDA_BY_DEVICE ? "launched by the device" : guard(e, graph, flags);
	if (why) {
		count(why);
		free(e);
		return;
	}
	fm_cuda_execs_put(e);
}

void fm_cuda_exec_ends(CUgraphExec exec)
{
	CUevent behind;
	struct fm_cuda_early early = fm_cuda_execs_take(exec, &behind);

	fm_cuda_early_end(&early);
	fm_cuda_behind_end(behind);
}

/* --- launches --- */

/* The event that was there is given back; if its context is gone, it went with that. */
static void put_behind(struct fm_cuda_exec *e, CUstream stream)
{
	bool gone = fm_cu_graph_gone(e->graph);

	fm_cuda_behind_end(gone ? NULL : e->behind);
	e->behind = NULL;
	if (!gone)
		fm_cuda_behind(e->graph->ctx, stream, &e->behind);
	atomic_store(&e->last, FM_CUDA_EXEC_LEFT);
}

/* The driver makes launches of one graph wait for each other, and does not know that these two are
 * one. keep: keep the event for the next launch, too. */
static void follow(struct fm_cuda_exec *e, CUstream stream, bool keep)
{
	uintptr_t last;

	if (!atomic_load(&e->last))
		return;
	pthread_mutex_lock(&fm_cuda_execs_leaving);
	last = atomic_load(&e->last);
	if (last != FM_CUDA_EXEC_LEFT && last != (uintptr_t)stream)
		put_behind(e, (CUstream)last);
	if (last != (uintptr_t)stream) {
		fm_cuda_behind_wait(stream, e->behind);
		e->lost |= !e->behind;
	}
	if (!keep)
		atomic_store(&e->last, 0);
	pthread_mutex_unlock(&fm_cuda_execs_leaving);
}

/* The default streams of two threads have the same handle, and only those threads can tell what is
 * in them. */
static CUgraphExec in_place(struct fm_cuda_exec *e, CUstream stream, bool keep)
{
	if (!e->early.exec || (atomic_load(&fm_cu_captures) && fm_cuda_capturing(stream)))
		return e->exec;
	e->changed |= stream == FM_CU_STREAM_PER_THREAD;
	if (!e->changed)
		return e->early.exec;
	follow(e, stream, keep);
	return e->exec;
}

CUgraphExec fm_cuda_exec_launched(struct fm_cuda_exec *e, CUstream stream)
{
	return in_place(e, stream, false);
}

CUgraphExec fm_cuda_exec_uploaded(struct fm_cuda_exec *e, CUstream stream)
{
	return in_place(e, stream, true);
}

/* The driver makes each launch wait for earlier ones, so what is behind this launch is behind all
 * of them. Only this thread can name its default stream, which is that of the current context. */
static void leave_mark(struct fm_cuda_exec *e, CUstream stream)
{
	CUcontext ctx = e->graph->ctx;

	if (fm_cu_graph_gone(e->graph) || !fm_shim_has_client() ||
		(fm_cuda_is_default(stream) && fm_cuda_current() != ctx))
		return;
	e->strayed = !fm_cuda_behind(ctx, stream, &e->end);
}

bool fm_cuda_exec_strays(const struct fm_cuda_exec *e)
{
	return e->strayed && !e->lost;
}

void fm_cuda_exec_ran(struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream)
{
	if (launched != e->exec)
		atomic_store(&e->last, (uintptr_t)stream);
	if (fm_cuda_exec_strays(e))
		leave_mark(e, stream);
}

bool fm_cuda_exec_refused(
	struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream, fm_cu_result rc)
{
	if (launched == e->exec || (rc >= CAPTURE_ERROR_FIRST && rc <= CAPTURE_ERROR_LAST))
		return false;
	fm_cu_graph_loosen(e->graph);
	e->changed = true;
	follow(e, stream, false);
	return true;
}

void fm_cuda_exec_stream_leaves(CUstream stream)
{
	struct fm_cuda_queue *q;
	enum fm_cuda_call_kind way = FM_CUDA_FREE;
	struct fm_cuda_exec *e;

	if (FM_LIKELY(!atomic_load(&fm_cuda_exec_any)) || fm_cu_inside || !stream ||
		!fm_cuda_execs_in(stream, NULL, NULL))
		return;
	q = fm_cuda_find_governed(stream);
	if (q)
		way = fm_cuda_order_enter(q);
	if (way)
		fm_cuda_order_count(q);
	pthread_mutex_lock(&fm_cuda_execs_leaving);
	for (e = NULL; (e = fm_cuda_execs_in(stream, NULL, e));)
		put_behind(e, stream);
	pthread_mutex_unlock(&fm_cuda_execs_leaving);
	if (way) {
		fm_cuda_order_put(q);
		fm_cuda_way_end(q, way);
	}
}

/* The context's streams leave. When this returns, no thread is in the middle of that, or looks
 * there. */
void fm_cuda_exec_context_ends(CUcontext ctx)
{
	struct fm_cuda_exec *e;

	if (!atomic_load(&fm_cuda_exec_any))
		return;
	pthread_mutex_lock(&fm_cuda_execs_leaving);
	for (e = NULL; (e = fm_cuda_execs_in(NULL, ctx, e));)
		put_behind(e, (CUstream)atomic_load(&e->last));
	pthread_mutex_unlock(&fm_cuda_execs_leaving);
	fm_cuda_execs_context_ends(ctx);
}

static void let_be(void *arg)
{
	struct fm_cuda_exec *e = arg;

	fm_cu_graph_let_be(e->graph);
	e->strayed = true;
}

static void outlast(struct fm_xq *home, struct fm_cuda_exec *e)
{
	const struct fm_xq_outlast how = {FM_CU_OUTLAST_MOST, fm_cu_pending, let_be, e};

	fm_xq_outlast(home, &how);
}

/* The driver makes a launch of a graph wait until the previous launch has ended, in whatever stream
 * that was, even if it ended because it was stopped. So a thread that launches the graph in another
 * stream waits until what was left out has run. If the previous launch does not end, because it may
 * wait for this thread, it is no longer to be stopped. The end of an unguarded launch is not known.
 * So the graph is never told to stop again, because that launch might not have ended yet. */
static void leave_home(struct fm_cuda_exec *e)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(e->graph->ctx, false);
	struct fm_xq *home = e->home;

	if (e->bare) {
		fm_cu_graph_loosen(e->graph);
		e->strayed = true;
	}
	fm_cu_push_begin(t, atomic_load(&fm_cuda_bound));
	fm_xq_cover(home);
	fm_cu_push_end(t);
	outlast(home, e);
	fm_xq_unref(home);
	e->home = NULL;
	e->bare = false;
}

void fm_cuda_exec_settle(struct fm_cuda_exec *e, CUstream stream)
{
	struct fm_cuda_queue *q;

	if (!e->home || (atomic_load(&fm_cu_captures) && fm_cuda_capturing(stream)))
		return;
	q = fm_cuda_find_governed(stream);
	if (!q || q->xq != e->home)
		leave_home(e);
}

static void come_home(struct fm_cuda_exec *e, struct fm_xq *xq)
{
	if (e->home)
		return;
	fm_xq_keep(xq);
	e->home = xq;
}

/* An unguarded launch must not run any more when the stop word is set, so a gate must be in
 * between. False: there is none. */
static bool apart(struct fm_cuda_exec *e, struct fm_cuda_queue *q)
{
	struct fm_cu_guard *g = q->hw.guard;

	if (e->bare && fm_cu_guard_said(g) == e->seen)
		fm_xq_gate_in_order(q->xq);
	return !e->bare || fm_cu_guard_said(g) != e->seen;
}

bool fm_cuda_exec_guard(struct fm_cuda_exec *e, struct fm_cuda_queue *q)
{
	struct fm_cu_guard *g = q->hw.guard;

	come_home(e, q->xq);
	fm_xq_cover_in_order(q->xq);
	if (fm_xq_is_shared(q->xq) && !atomic_load(&fm_cu_captures) &&
		!atomic_load(&e->graph->loose) && apart(e, q) &&
		fm_cu_guard_graph(g, e->graph, q->hw.stream)) {
		if (e->graph->anew) /* behind the write that says that it begins */
			atomic_fetch_add(&q->awaits, 1);
		fm_cuda_guard_mark(q);
		e->bare = false;
		return true;
	}
	e->bare = true;
	e->seen = fm_cu_guard_said(g);
	if (atomic_load(&e->graph->spoilt))
		fm_cu_graph_prepare(e->graph, q->hw.stream);
	return false;
}

void fm_cuda_exec_astray(struct fm_cuda_exec *e, CUstream stream)
{
	e->strayed = true;
	fm_cu_graph_loosen(e->graph);
	if (atomic_load(&e->graph->spoilt))
		fm_cu_graph_prepare(e->graph, stream);
}

void fm_cuda_exec_changes(CUgraphExec exec)
{
	struct fm_cuda_exec *e = fm_cuda_exec_find(exec);

	fm_cuda_first_forget_graphs();
	if (!e)
		return;
	fm_cu_graph_loosen(e->graph);
	e->changed = true;
}

void fm_cuda_exec_changes_besides(CUgraphExec exec)
{
	struct fm_cuda_exec *e = fm_cuda_exec_find(exec);

	if (e && e->early.exec)
		fm_cuda_exec_changes(exec);
}

/* The other graph may run beside a launch of this one. */
void fm_cuda_exec_nested(CUgraphExec exec)
{
	struct fm_cuda_exec *e = fm_cuda_exec_find(exec);

	if (!e)
		return;
	fm_cu_graph_loosen(e->graph);
	e->lost = true;
	if (e->home)
		outlast(e->home, e);
}
