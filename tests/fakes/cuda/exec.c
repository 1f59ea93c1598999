/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are launched: plans, which are what a graph was when it was instantiated. */
#include "image.h"
#include "launches.h"
#include "pools.h"
#include "vmm.h"
#include <stdlib.h>
#include <string.h>

/* Shared by the executable graph, its launches, and graphs that one was captured into; whoever
 * changes one that others have takes a copy. */
struct fk_plan {
	_Atomic unsigned refs;
	CUgraph graph; /* of which it was made */
	size_t n;
	struct {
		CUgraphNode node; /* of the graph */
		bool disabled;
		struct fk_work work;
	} step[];
};

struct CUgraphExec_st {
	struct CUgraphExec_st *next;
	struct fk_plan *plan;
	bool frees_on_launch; /* what its launch before has allocated */
	struct fk_point last; /* launch: they do not overlap */
	uint64_t flags;
	bool upload,
		launched; /* it was to be uploaded, at `uploaded'; the device has launched it */
	struct fk_point uploaded;
};

enum { FREES_ON_LAUNCH = 1, BY_DEVICE = 4 }; /* flags of an instantiation */

static CUgraphExec execs;

const struct fk_work *fk_plan_next(const struct fk_plan *p, size_t *i)
{
	while (*i < p->n && p->step[*i].disabled)
		++*i;
	return *i < p->n ? &p->step[(*i)++].work : NULL;
}

void fk_plan_run(struct fk_plan *p)
{
	size_t i = 0;

	fk_guard_check_graph(p);
	for (struct fk_work *step; (step = (struct fk_work *)fk_plan_next(p, &i));) {
		fk_guard_check_node(step);
		fk_run_work(step);
	}
}

static void run_plan(struct fk_work *w)
{
	if (fk_in_graph())
		fk_plan_run(w->plan);
	else
		fk_chain_run(w->plan);
}

static void put(struct fk_plan *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	for (size_t i = 0; i < p->n; i++)
		fk_work_end(&p->step[i].work);
	fk_graph_put(p->graph);
	free(p);
}

static void end_plan(struct fk_work *w)
{
	put(w->plan);
}

static void share_plan(struct fk_work *w)
{
	atomic_fetch_add(&w->plan->refs, 1);
}

static struct fk_work work_of(struct fk_plan *p)
{
	return (struct fk_work){.run = run_plan, .end = end_plan, .share = share_plan, .plan = p};
}

CUgraph fk_plan_graph(const struct fk_work *w)
{
	return w->run == run_plan ? w->plan->graph : NULL;
}

static struct fk_plan *new_plan(CUgraph graph, size_t n)
{
	struct fk_plan *p = calloc(1, sizeof(*p) + n * sizeof(p->step[0]));

	if (!p)
		fk_die("no memory for a graph");
	p->refs = 1;
	p->graph = graph;
	p->n = n;
	atomic_fetch_add(&graph->refs, 1);
	return p;
}

static struct fk_plan *plan(CUgraph graph)
{
	struct fk_plan *p = new_plan(graph, graph->n);
	CUgraphNode n = graph->first;

	for (size_t i = 0; i < p->n; i++, n = n->next) {
		p->step[i].node = n;
		p->step[i].work = n->work;
		if (fk_graph_of(&n->work) && !fk_plan_graph(&n->work))
			p->step[i].work = work_of(plan(fk_graph_of(&n->work)));
		else
			fk_work_share(&p->step[i].work);
	}
	return p;
}

/* One that nobody else has. */
static struct fk_plan *own(struct fk_plan **plan_at)
{
	struct fk_plan *was = *plan_at, *p;

	if (atomic_load(&was->refs) == 1)
		return was;
	p = new_plan(was->graph, was->n);
	for (size_t i = 0; i < p->n; i++) {
		p->step[i] = was->step[i];
		fk_work_share(&p->step[i].work);
	}
	put(was);
	return *plan_at = p;
}

static bool has(const struct fk_plan *p, CUgraphNode node)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->step[i].node == node ||
			(fk_plan_graph(&p->step[i].work) && has(p->step[i].work.plan, node)))
			return true;
	return false;
}

/* To be changed. NULL: there is no such node in it. disable: NULL, or what becomes of it. */
static struct fk_work *step_of(struct fk_plan **plan_at, CUgraphNode node, const bool *disable)
{
	struct fk_plan *p;

	if (!has(*plan_at, node))
		return NULL;
	p = own(plan_at);
	for (size_t i = 0; i < p->n; i++) {
		if (p->step[i].node == node) {
			p->step[i].disabled = disable ? *disable : p->step[i].disabled;
			return &p->step[i].work;
		}
		if (fk_plan_graph(&p->step[i].work) && has(p->step[i].work.plan, node))
			return step_of(&p->step[i].work.plan, node, disable);
	}
	return NULL;
}

static CUgraphExec *find(CUgraphExec exec)
{
	CUgraphExec *e = &execs;

	fk_defined(exec);
	while (*e && *e != exec)
		e = &(*e)->next;
	return e;
}

fm_cu_result cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	fm_cu_result fails = fk_fails("cuGraphInstantiateWithFlags");
	CUgraphExec e;

	FK_TRY(fk_enter_ctx());
	if (!exec || !fk_graph_known(graph) || flags > 15 ||
		(flags & BY_DEVICE && (flags & FREES_ON_LAUNCH || fk_graph_not_by_device(graph))))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fails) {
		*exec = FK_UNDEFINED;
		return fk_leave(fails);
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return fk_leave(CU_OUT_OF_MEMORY);
	e->plan = plan(graph);
	e->frees_on_launch = flags & FREES_ON_LAUNCH;
	e->flags = flags;
	e->next = execs;
	execs = e;
	*exec = e;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	if (node)
		*node = NULL;
	if (log && size)
		*log = 0;
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

static CUgraphNode not_by_device(CUgraph graph, const struct cu_instantiate *how)
{
	CUgraphNode node = NULL;

	if (!(how->flags & BY_DEVICE) || fk_enter())
		return NULL;
	if (fk_graph_known(graph))
		node = fk_graph_not_by_device(graph);
	fk_leave(FM_CU_SUCCESS);
	return node;
}

fm_cu_result cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, struct cu_instantiate *how)
{
	fm_cu_result rc = how ? cuGraphInstantiateWithFlags(exec, graph, how->flags)
			      : FM_CU_ERROR_INVALID_VALUE;

	if (how) {
		how->failed = rc == FM_CU_ERROR_INVALID_VALUE ? not_by_device(graph, how) : NULL;
		how->result = how->failed ? 3 : rc ? 1 : 0;
	}
	return rc;
}

fm_cu_result cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags)
{
	FK_TRY(fk_fails("cuGraphExecGetFlags"));
	FK_TRY(fk_enter());
	if (!*find(exec) || !flags)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*flags = exec->flags;
	return fk_leave(FM_CU_SUCCESS);
}

/* --- by the device (launches.h) --- */

/* `again': the launch that runs is another one of it. */
struct fk_plan *fk_exec_take(CUgraphExec exec, bool again)
{
	struct fk_plan *p = NULL;

	pthread_mutex_lock(&fk.lock);
	if (!*find(exec))
		fk_die("the device launches %p, which is no graph, or is no more", (void *)exec);
	if (!fk_passed(exec->last))
		fk_die("the device launches a graph that the host has launched, and that runs");
	if (!(exec->flags & BY_DEVICE)) {
		fk_lose(CU_ILLEGAL_ADDRESS); /* as driver 580 does */
	} else if (exec->upload && fk_passed(exec->uploaded) && (!exec->launched || again)) {
		exec->launched = true;
		p = exec->plan;
		atomic_fetch_add(&p->refs, 1);
	}
	pthread_mutex_unlock(&fk.lock);
	return p;
}

void fk_exec_give(CUgraphExec exec, struct fk_plan *p, bool again)
{
	pthread_mutex_lock(&fk.lock);
	exec->launched = again;
	put(p);
	pthread_mutex_unlock(&fk.lock);
}

/* The device has it as it was, until it is uploaded anew. */
static void changed(CUgraphExec exec)
{
	if (exec->launched)
		fk_die("a graph is changed that the device has launched, and that runs");
	exec->upload = false;
}

/* The nodes keep the names that the first graph gave them. */
static void update(CUgraphExec exec, CUgraph graph)
{
	struct fk_plan *p = plan(graph);

	for (size_t i = 0; i < p->n; i++)
		p->step[i].node = exec->plan->step[i].node;
	atomic_fetch_add(&exec->plan->graph->refs, 1);
	fk_graph_put(p->graph);
	p->graph = exec->plan->graph;
	put(exec->plan);
	exec->plan = p;
	changed(exec);
}

static CUgraphNode nth(CUgraph graph, size_t i)
{
	CUgraphNode n = graph->first;

	while (n && i--)
		n = n->next;
	return n;
}

/* Behind the same ones, whichever order those are told in. */
static bool same_edges(const struct fk_plan *p, size_t i, CUgraph graph, CUgraphNode n)
{
	const struct fk_nodes *was = p->step[i].node->after;
	unsigned same = 0;

	for (size_t k = 0; k < p->n; k++)
		for (unsigned a = 0; a < was->n; a++)
			for (unsigned b = 0; b < n->after->n; b++)
				same += was->node[a] == p->step[k].node &&
					n->after->node[b] == nth(graph, k);
	return same == was->n && same == n->after->n;
}

/* Here: as many nodes, each of the type that stood there. */
static bool same_shape(const struct fk_plan *p, CUgraph graph)
{
	size_t i = 0;

	for (CUgraphNode n = graph->first; n; n = n->next, i++)
		if (i == p->n || fk_work_type(&n->work) != fk_work_type(&p->step[i].work) ||
			!same_edges(p, i, graph, n))
			return false;
	return i == p->n;
}

/* As driver 580 has it: nodes that are gone count, in clones, too. */
static bool same_numbers(const struct fk_plan *p, CUgraph graph)
{
	size_t i = 0;

	for (CUgraphNode n = graph->first; n; n = n->next, i++)
		if (n->number != p->step[i].node->number)
			return false;
	return true;
}

/* The fills and copies of a graph are looked at as where they are added. */
static bool names_hole(CUgraph graph)
{
	for (CUgraphNode n = graph->first; n; n = n->next) {
		const struct fk_work *w = &n->work;

		if (w->what == FK_FILL && fk_vmm_hole(w->set.dst, w->set.n * w->set.width))
			return true;
		if (w->what == FK_COPY && (fk_vmm_hole(w->copy.dst, w->copy.width) ||
						  fk_vmm_hole(w->copy.src, w->copy.width)))
			return true;
	}
	return false;
}

fm_cu_result cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, struct cu_update *result)
{
	FK_TRY(fk_enter());
	if (!*find(exec) || !fk_graph_known(graph) || !result)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*result = (struct cu_update){0};
	if (names_hole(graph))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (!same_shape(exec->plan, graph)) {
		result->result = 2; /* CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED */
		return fk_leave(CU_UPDATE_FAILURE);
	}
	update(exec, graph);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecDestroy(CUgraphExec exec)
{
	CUgraphExec *e;

	FK_TRY(fk_enter());
	e = find(exec);
	if (!*e)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fk_unsafe())
		return fk_leave(CU_CAPTURE_UNSUPPORTED);
	if (exec->launched)
		fk_die("a graph is destroyed that the device has launched, and that runs");
	*e = exec->next;
	put(exec->plan);
	free(exec);
	return fk_leave(FM_CU_SUCCESS);
}

/* What is assumed: its functions are launched the first time when it is. */
static bool first(const struct fk_plan *p)
{
	const struct fk_work *w;
	bool keeps_back = false;

	for (size_t i = 0; (w = fk_plan_next(p, &i));) {
		if (fk_plan_graph(w))
			keeps_back |= first(w->plan);
		else if (fk_work_launch(w))
			keeps_back |= fk_hw_first(fk_work_launch(w));
	}
	return keeps_back;
}

/* A tool that looks says so anew for each launch. */
static void watch(const struct fk_plan *p)
{
	const struct fk_work *w;

	for (size_t i = 0; (w = fk_plan_next(p, &i));) {
		if (fk_plan_graph(w))
			watch(w->plan);
		else if (fk_work_launch(w))
			fk_watch_launched(fk_work_launch(w));
	}
}

static fm_cu_result launch(CUgraphExec exec, CUstream stream)
{
	struct fk_work w = work_of(exec->plan);
	const struct fk_work *step;
	CUstream s;

	FK_TRY(fk_stream_find(stream, &s));
	/* As driver 580 does. What becomes of the capture is assumed. */
	if (s->capture && !fk_env("FAKE_CUDA_NESTED")) {
		s->capture->invalid = true;
		return CU_CAPTURE_UNSUPPORTED;
	}
	FK_TRY(fk_implicit(s));
	if (!s->capture)
		FK_TRY(fk_graph_memory(w.plan, exec->frees_on_launch));
	share_plan(&w);
	if (s->capture)
		return fk_capture_add(s, &w);
	w.keeps_back = first(w.plan);
	watch(w.plan);
	FK_TRY(fk_submit(s, &w, &exec->last, 1, &exec->last));
	exec->upload = true;
	exec->uploaded = exec->last;
	for (size_t i = 0; (step = fk_plan_next(exec->plan, &i));)
		if (fk_node_records(step) && fk_event_known(step->record.event))
			FK_TRY(fk_record_on(step->record.event, s));
	return FM_CU_SUCCESS;
}

fm_cu_result cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	fm_cu_result rc;

	FK_TRY(fk_fails("cuGraphLaunch"));
	FK_TRY(fk_enter());
	if (!*find(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (exec->launched)
		fk_die("the host launches a graph that the device has launched, and that runs");
	rc = fk_leave(launch(exec, stream));
	fk_at("cuGraphLaunch, behind");
	return rc;
}

/* Behind the launches of before, in whatever streams those were. */
static fm_cu_result upload(CUgraphExec exec, CUstream stream)
{
	struct fk_work nothing = {0};
	CUstream s;

	FK_TRY(fk_stream_find(stream, &s));
	if (s->capture)
		return fk_enqueue(stream, &nothing, NULL);
	FK_TRY(fk_implicit(s));
	exec->upload = true;
	return fk_submit(s, &nothing, &exec->last, 1, &exec->uploaded);
}

fm_cu_result cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	FK_TRY(fk_fails("cuGraphUpload"));
	FK_TRY(fk_enter());
	if (!*find(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(upload(exec, stream));
}

/* Whose nodes can be named: its graph has not been destroyed. */
static bool can_change(CUgraphExec exec)
{
	return *find(exec) && fk_graph_known(exec->plan->graph);
}

static struct fk_work *step_to_change(CUgraphExec exec, CUgraphNode node, const bool *disable)
{
	changed(exec);
	return step_of(&exec->plan, node, disable);
}

/* Of launches from now on. */
fm_cu_result cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const struct cu_kernel_node *k)
{
	fk_at("cuGraphExecKernelNodeSetParams_v2");
	FK_TRY(fk_fails("cuGraphExecKernelNodeSetParams_v2"));
	FK_TRY(fk_enter_ctx());
	if (!can_change(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_node_set(step_to_change(exec, node, NULL), k));
}

static fm_cu_result set_words(struct fk_work *w, const struct cu_words_node *words)
{
	if (!w || w->what != FK_WORDS || !words || words->n != w->memop.n)
		return FM_CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < words->n; i++)
		if (words->op[i].op.operation != w->memop.op[i].op.operation ||
			words->op[i].op.flags != w->memop.op[i].op.flags)
			return FM_CU_ERROR_INVALID_VALUE;
	memcpy(w->memop.op, words->op, words->n * sizeof(*words->op));
	return FM_CU_SUCCESS;
}

/* Addresses and values: neither how many operations there are, nor of what kind. */
fm_cu_result cuGraphExecBatchMemOpNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cu_words_node *words)
{
	FK_TRY(fk_enter_ctx());
	if (!can_change(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(set_words(step_to_change(exec, node, NULL), words));
}

/* NULL: there is none, or it is something else. */
static struct fk_work *step_that(CUgraphExec exec, CUgraphNode node, enum fk_what what)
{
	struct fk_work *w = can_change(exec) ? step_to_change(exec, node, NULL) : NULL;

	return w && w->what == what ? w : NULL;
}

fm_cu_result cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cu_copy_3d *copy, CUcontext ctx)
{
	struct fk_work *w;

	FK_TRY(fk_enter_ctx());
	w = step_that(exec, node, FK_COPY);
	if (!w || !copy || !ctx || !fk_copy_1d(copy, w))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecMemsetNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cu_fill_node *fill, CUcontext ctx)
{
	struct fk_work *w;

	FK_TRY(fk_enter_ctx());
	w = step_that(exec, node, FK_FILL);
	if (!w || !fill || !ctx || fill->width != w->set.width || fill->height != 1)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	w->set.dst = (void *)(uintptr_t)fill->dst;
	w->set.n = fill->n;
	w->set.value = fill->value;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecHostNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cu_host_node *host)
{
	struct fk_work *w;

	FK_TRY(fk_enter_ctx());
	w = step_that(exec, node, FK_HOST);
	if (!w || !host || !host->fn)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	w->host.fn = host->fn;
	w->host.arg = host->arg;
	return fk_leave(FM_CU_SUCCESS);
}

/* Of kernels alone, copies and fills: others cannot be left out. */
fm_cu_result cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	const bool disable = !enabled;
	int type;

	FK_TRY(cuGraphNodeGetType(node, &type));
	FK_TRY(fk_enter_ctx());
	if (!can_change(exec) || type > 2 || !step_to_change(exec, node, &disable))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const struct cu_kernel_node *v1)
{
	struct cu_kernel_node k;

	if (!v1)
		return FM_CU_ERROR_INVALID_VALUE;
	k = fk_node_v1(v1);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &k);
}

/* The new one has the part's shape, and its nodes were added in the same order. */
fm_cu_result cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	struct fk_work *w;

	FK_TRY(fk_enter_ctx());
	w = can_change(exec) ? step_to_change(exec, node, NULL) : NULL;
	if (!w || !fk_plan_graph(w) || !fk_graph_known(child))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (!same_shape(w->plan, child) || !same_numbers(w->plan, child))
		return fk_leave(CU_UPDATE_FAILURE);
	put(w->plan);
	w->plan = plan(child);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, struct cu_node *what)
{
	if (!what)
		return FM_CU_ERROR_INVALID_VALUE;
	if (what->type == NODE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(exec, node, what->graph);
	if (what->type != NODE_KERNEL)
		return FM_CU_ERROR_NOT_SUPPORTED;
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &what->kernel);
}
