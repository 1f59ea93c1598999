/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_guard.h"
#include "backend/cuda/guard_graph.h"
#include "graph_read.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256u

/* Of those that are there, and those whose end is not known. */
#define EXECS_MAX 8192u

/* Flags of an instantiation: the device itself launches it, and nobody sees that. */
#define BY_DEVICE 4u
/* And of an event. */
#define NO_TIMING 2u

struct fm_cuda_exec {
	struct fm_cuda_exec *next;
	CUgraphExec exec;
	struct fm_cuda_early early; /* launched in place of it, if there is one, */
	bool changed;               /* while its nodes are what they were */
	bool beyond;                /* the last launch was that one's, in this stream */
	CUstream last;
	struct fm_cu_graph *graph;
	struct fm_xq *home; /* where it was launched last; NULL: nowhere yet */
	bool bare;          /* since the last launch that was guarded, one was not, */
	uint64_t seen;      /* when the queue had said so much */
	bool strayed;       /* nobody knows when its launches will have ended */
};

_Atomic bool fm_cuda_exec_any;

/* Of those that the program has given back some may run still, unguarded. They look at the stop
 * word, which is used again only when they have ended. */
static struct {
	pthread_mutex_t lock;
	struct fm_cuda_exec *first[BUCKETS], *ended;
	_Atomic unsigned n; /* all of them */
} execs = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static struct fm_cuda_exec **place(CUgraphExec exec)
{
	struct fm_cuda_exec **at =
		&execs.first[(uintptr_t)exec * UINT64_C(0x9e3779b97f4a7c15) >> 40 & (BUCKETS - 1)];

	while (*at && (*at)->exec != exec)
		at = &(*at)->next;
	return at;
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

/* Launches that were guarded keep the graph themselves. */
static bool runs_still(struct fm_cuda_exec *e)
{
	return e->strayed || (e->bare && !fm_xq_said(e->home, e->seen));
}

/* A list of those that have run to their end meanwhile. */
static void sweep(void)
{
	struct fm_cuda_exec *over = NULL, **at, *e;

	pthread_mutex_lock(&execs.lock);
	for (at = &execs.ended; (e = *at);) {
		if (runs_still(e)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = over;
		over = e;
		execs.n--;
	}
	pthread_mutex_unlock(&execs.lock);
	while ((e = over)) {
		over = e->next;
		release(e);
	}
}

/* What the driver has for it may be used no more. */
static struct fm_cuda_early ends(CUgraphExec exec)
{
	struct fm_cuda_early early = {0};
	struct fm_cuda_exec **at, *e;

	fm_cuda_first_forget_graphs();
	if (!atomic_load(&fm_cuda_exec_any))
		return early;
	pthread_mutex_lock(&execs.lock);
	at = place(exec);
	e = *at;
	if (e) {
		early = e->early;
		*at = e->next;
		e->next = execs.ended;
		execs.ended = e;
	}
	pthread_mutex_unlock(&execs.lock);
	if (e)
		sweep();
	return early;
}

void fm_cuda_exec_ends(CUgraphExec exec)
{
	struct fm_cuda_early early = ends(exec);

	fm_cuda_early_end(&early);
}

void fm_cuda_exec_fork_child(void)
{
	execs.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	memset(execs.first, 0, sizeof(execs.first));
	execs.ended = NULL;
	execs.n = 0;
	atomic_store(&fm_cuda_exec_any, false);
}

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

/* A cover waits for a word of this graph's. */
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

/* How many were set. */
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

/* Of nodes that have ours already nobody knows how to take them back: they are never told to stop.
 */
static bool set_nodes(CUgraphExec exec, struct fm_cu_graph *g, const struct fm_cuda_chain *c)
{
	unsigned n = set_all(exec, g, c);

	if (n == c->seams + c->n)
		return true;
	if (n)
		fm_cu_graph_keep(g); /* for good: its words are in the driver's hands */
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
	} else if (!set_nodes(early ? e->early.exec : e->exec, e->graph, &c)) {
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
	struct fm_client *c = fm_cuda_client();

	if (c)
		fm_client_count_left(c, "graph", why, 1);
}

static bool wanted(void)
{
	const char *v = getenv("FERMATA_GUARDIAN_GRAPHS");

	return atomic_load(&fm_cuda_rewrote) && fm_cuda_driver() && (!v || strcmp(v, "0") != 0);
}

/* An edge of a graph says what this attribute says in a stream. */
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

void fm_cuda_exec_made(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
	struct fm_cuda_exec *e;
	const char *why;

	ends(exec); /* of another one by this name that went with its context */
	if (!wanted())
		return;
	e = calloc(1, sizeof(*e));
	if (!e)
		return;
	e->exec = exec;
	sweep();
	if (atomic_load(&execs.n) >= EXECS_MAX)
		why = "too many";
	else
		why = flags & BY_DEVICE ? "launched by the device" : guard(e, graph, flags);
	if (why) {
		count(why);
		free(e);
		return;
	}
	pthread_mutex_lock(&execs.lock);
	execs.n++;
	*place(exec) = e;
	pthread_mutex_unlock(&execs.lock);
	atomic_store(&fm_cuda_exec_any, true);
}

/* --- launches --- */

/* The driver lets launches of one graph wait for each other, and does not know that these are two.
 */
static void follow(CUstream stream, CUstream last)
{
	fm_cu_result (*wait)(CUstream, CUevent, unsigned) =
		(fm_cu_result(*)(CUstream, CUevent, unsigned))fm_cuda_symbol("cuStreamWaitEvent");
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUevent event;

	if (!wait || cu->event_create(&event, NO_TIMING))
		return;
	if (!cu->event_record(event, last))
		wait(stream, event, 0);
	cu->event_destroy(event);
}

CUgraphExec fm_cuda_exec_launched(struct fm_cuda_exec *e, CUstream stream)
{
	if (!e->early.exec)
		return e->exec;
	if (!e->changed && !(atomic_load(&fm_cu_captures) && fm_cuda_capturing(stream))) {
		e->beyond = true;
		e->last = stream;
		return e->early.exec;
	}
	if (e->beyond && stream != e->last && fm_cuda_find_governed(e->last)) {
		fm_cu_inside++;
		follow(stream, e->last);
		fm_cu_inside--;
	}
	e->beyond = false;
	return e->exec;
}

/* The driver lets a launch of a graph wait for the one before, in whatever stream that was: when it
 * has ended, be it that it was stopped. So whoever launches it elsewhere waits until that is made
 * good. What was not guarded nobody knows the end of: then it is never told to stop again, for it
 * might not have ended yet. */
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
	fm_xq_outlast(home);
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

/* A launch that was not guarded must not run any more when the word is set: a gate stands between.
 * False: there is none. */
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
		if (e->graph->anew) /* behind what says that it begins */
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

/* The other graph may run beside a launch of this one. */
void fm_cuda_exec_nested(CUgraphExec exec)
{
	struct fm_cuda_exec *e = fm_cuda_exec_find(exec);

	if (!e)
		return;
	fm_cu_graph_loosen(e->graph);
	e->strayed = true;
	if (e->home)
		fm_xq_outlast(e->home);
}
