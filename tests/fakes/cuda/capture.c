/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are captured into graphs, and what is forbidden meanwhile. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

static struct fk_nodes *nodes_copy(const struct fk_nodes *a, const struct fk_nodes *b)
{
	unsigned na = a ? a->n : 0, nb = b ? b->n : 0;
	struct fk_nodes *sum = calloc(1, sizeof(*sum) + (na + nb) * sizeof(CUgraphNode));

	if (!sum)
		abort();
	for (unsigned i = 0; i < na + nb; i++)
		sum->node[sum->n++] = i < na ? a->node[i] : b->node[i - na];
	return sum;
}

static void put(struct fk_capture *c)
{
	if (--c->refs)
		return;
	if (c->graph)
		fk_graph_put(c->graph);
	free(c);
}

static void join(CUstream s, struct fk_capture *c, const struct fk_nodes *leaves)
{
	c->refs++;
	s->capture = c;
	s->leaves = nodes_copy(leaves, NULL);
}

static void part(CUstream s)
{
	free(s->leaves);
	s->leaves = NULL;
	put(s->capture);
	s->capture = NULL;
}

fm_cu_result fk_unsafe(void)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	if (fk_self.capture_mode == CU_CAPTURE_RELAXED)
		return rc;
	for (CUstream s = fk.streams; s; s = s->next) {
		struct fk_capture *c = s->capture;
		bool mine = c && c->thread == &fk_self && c->mode != CU_CAPTURE_RELAXED;
		bool global = c && c->mode == CU_CAPTURE_GLOBAL &&
			      fk_self.capture_mode == CU_CAPTURE_GLOBAL;

		if (mine || global) {
			c->invalid = true;
			rc = CU_CAPTURE_UNSUPPORTED;
		}
	}
	return rc;
}

fm_cu_result fk_no_capture(CUstream s)
{
	if (!s->capture)
		return FM_CU_SUCCESS;
	if (s->capture->invalid)
		return CU_CAPTURE_INVALIDATED;
	s->capture->invalid = true;
	return CU_CAPTURE_UNSUPPORTED;
}

fm_cu_result fk_implicit(CUstream s)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	if (s->kind != FK_LEGACY)
		return rc;
	for (CUstream o = fk.streams; o; o = o->next) {
		if (o->capture && o->ctx == s->ctx && !(o->flags & CU_STREAM_NON_BLOCKING)) {
			o->capture->invalid = true;
			rc = CU_CAPTURE_IMPLICIT;
		}
	}
	return rc;
}

/* The edge between two kernels says it, if the launch did. */
static bool may_be_early(const struct fk_work *w, const struct fk_nodes *front)
{
	const struct fk_launch *l = fk_work_launch(w);

	return l && fk_launch_overlaps(l) && front && front->n == 1 &&
	       fk_work_launch(&front->node[0]->work);
}

fm_cu_result fk_capture_add(CUstream s, const struct fk_work *work)
{
	CUgraphNode node;

	if (s->capture->invalid)
		return CU_CAPTURE_INVALIDATED;
	FK_TRY(fk_graph_add(s->capture->graph, work, nodes_copy(s->leaves, NULL), &node));
	node->early = may_be_early(work, s->leaves);
	free(s->leaves);
	s->leaves = calloc(1, sizeof(*s->leaves) + sizeof(node));
	if (!s->leaves)
		abort();
	s->leaves->n = 1;
	s->leaves->node[0] = node;
	return FM_CU_SUCCESS;
}

void fk_capture_forget(CUevent e)
{
	if (!e->capture)
		return;
	free(e->leaves);
	e->leaves = NULL;
	put(e->capture);
	e->capture = NULL;
}

fm_cu_result fk_capture_event(CUstream s, CUevent e)
{
	if (s->capture->invalid)
		return CU_CAPTURE_INVALIDATED;
	s->capture->refs++;
	fk_capture_forget(e);
	e->capture = s->capture;
	e->leaves = nodes_copy(s->leaves, NULL);
	return FM_CU_SUCCESS;
}

void fk_captures_ctx_gone(CUcontext ctx)
{
	for (CUstream s = fk.streams; s; s = s->next)
		if (s->ctx == ctx)
			fk_capture_leave(s);
}

void fk_capture_leave(CUstream s)
{
	if (s->capture)
		part(s);
}

/* Makes the stream part of the event's capture, if it is not. */
fm_cu_result fk_capture_wait(CUstream s, CUevent e)
{
	struct fk_nodes *both;

	if (e->capture->ended)
		return CU_CAPTURED_EVENT;
	if (e->capture->invalid)
		return CU_CAPTURE_INVALIDATED;
	if (s->kind == FK_LEGACY)
		return CU_CAPTURE_IMPLICIT;
	if (!s->capture) {
		join(s, e->capture, e->leaves);
		return FM_CU_SUCCESS;
	}
	if (s->capture != e->capture) {
		s->capture->invalid = e->capture->invalid = true;
		return CU_CAPTURE_MERGE;
	}
	both = nodes_copy(s->leaves, e->leaves);
	free(s->leaves);
	s->leaves = both;
	return FM_CU_SUCCESS;
}

fm_cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = fk_self.capture_mode;

	if (!mode || *mode < CU_CAPTURE_GLOBAL || *mode > CU_CAPTURE_RELAXED)
		return FM_CU_ERROR_INVALID_VALUE;
	fk_self.capture_mode = *mode;
	*mode = was;
	return FM_CU_SUCCESS;
}

/* Into `graph`, or a new one. */
static fm_cu_result begin(CUstream stream, int mode, CUgraph graph, const struct fk_nodes *leaves)
{
	struct fk_capture *c;
	fm_cu_result rc;
	CUstream s;

	if (mode < CU_CAPTURE_GLOBAL || mode > CU_CAPTURE_RELAXED)
		return FM_CU_ERROR_INVALID_VALUE;
	rc = fk_stream_find(stream, &s);
	if (!rc && s->kind == FK_LEGACY)
		rc = CU_CAPTURE_UNSUPPORTED;
	if (!rc && s->capture)
		rc = 401; /* CUDA_ERROR_ILLEGAL_STATE */
	c = rc ? NULL : calloc(1, sizeof(*c));
	if (!c)
		return rc ? rc : CU_OUT_OF_MEMORY;
	c->id = ++fk.captures;
	c->mode = mode;
	c->origin = s;
	c->thread = &fk_self;
	c->graph = graph ? graph : fk_graph_new();
	c->shared = graph;
	if (graph)
		atomic_fetch_add(&graph->refs, 1);
	join(s, c, leaves);
	return FM_CU_SUCCESS;
}

fm_cu_result cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	FK_TRY(fk_fails("cuStreamBeginCapture_v2"));
	FK_TRY(fk_enter());
	return fk_leave(begin(stream, mode, NULL, NULL));
}

fm_cu_result cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
	const void *edges, size_t n, int mode)
{
	struct fk_nodes *leaves;
	fm_cu_result rc;

	FK_TRY(fk_enter());
	if (!fk_graph_known(graph) || edges || (n && !deps))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	leaves = fk_nodes_copy(deps, n);
	rc = begin(stream, mode, graph, leaves);
	free(leaves);
	return fk_leave(rc);
}

static void mark(CUgraphNode n)
{
	if (n->mark)
		return;
	n->mark = true;
	for (unsigned i = 0; n->after && i < n->after->n; i++)
		mark(n->after->node[i]);
}

/* Whatever was forked must have come back to the stream where the capture began. */
static bool all_joined(struct fk_capture *c)
{
	bool joined = true;

	for (unsigned i = 0; i < c->origin->leaves->n; i++)
		mark(c->origin->leaves->node[i]);
	for (CUstream s = fk.streams; s; s = s->next)
		for (unsigned i = 0; s->capture == c && i < s->leaves->n; i++)
			joined &= s->leaves->node[i]->mark;
	return joined;
}

static fm_cu_result may_end(struct fk_capture *c)
{
	if (c->mode != CU_CAPTURE_RELAXED && c->thread != &fk_self)
		return CU_CAPTURE_WRONG_THREAD;
	if (c->invalid)
		return CU_CAPTURE_INVALIDATED;
	return all_joined(c) ? FM_CU_SUCCESS : CU_CAPTURE_UNJOINED;
}

fm_cu_result cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	struct fk_capture *c;
	fm_cu_result rc;
	CUstream s;

	if (!graph)
		return FM_CU_ERROR_INVALID_VALUE;
	*graph = NULL;
	FK_TRY(fk_enter());
	rc = fk_stream_find(stream, &s);
	if (rc || !s->capture)
		return fk_leave(rc ? rc : 401);
	c = s->capture;
	if (c->origin != s) {
		c->invalid = true;
		return fk_leave(CU_CAPTURE_UNMATCHED);
	}
	rc = may_end(c);
	if (rc == CU_CAPTURE_WRONG_THREAD)
		return fk_leave(rc);
	c->ended = true;
	if (!rc) {
		*graph = c->graph;
		if (!c->shared) {
			fk_graph_publish(*graph);
			c->graph = NULL;
		}
	}
	for (s = fk.streams; s; s = s->next)
		if (s->capture == c && s != c->origin)
			part(s);
	part(c->origin);
	return fk_leave(rc);
}

fm_cu_result cuStreamIsCapturing(CUstream stream, int *status)
{
	return cuStreamGetCaptureInfo_v2(stream, status, NULL, NULL, NULL, NULL);
}

fm_cu_result cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
	const CUgraphNode **deps, size_t *n)
{
	fm_cu_result rc;
	CUstream s;

	if (!status)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	rc = fk_stream_find(stream, &s);
	/* As for work: the answer would depend on a capture that the legacy stream cannot join. */
	rc = rc ? rc : fk_implicit(s);
	if (rc)
		return fk_leave(rc);
	*status = !s->capture           ? FM_CU_CAPTURE_NONE
		  : s->capture->invalid ? CU_CAPTURE_STATUS_INVALIDATED
					: CU_CAPTURE_ACTIVE;
	if (*status != CU_CAPTURE_ACTIVE)
		return fk_leave(FM_CU_SUCCESS);
	if (id)
		*id = s->capture->id;
	if (graph)
		*graph = s->capture->graph;
	if (deps)
		*deps = s->leaves->node;
	if (n)
		*n = s->leaves->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
	const CUgraphNode **deps, const void **edges, size_t *n)
{
	if (edges)
		*edges = NULL;
	return cuStreamGetCaptureInfo_v2(stream, status, id, graph, deps, n);
}
