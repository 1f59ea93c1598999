/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs whose kernels are guarded, by name: those that are there; and of those that the
 * program has given back the ones that may run still, unguarded. These look at the stop word, which
 * is used again only when they have ended.
 */
#pragma once
#include "api/cuda/core/guard/guard_graph.h"
#include "base/lockorder.h"
#include "graph_guard.h"
#include "graph_read.h"
#include <pthread.h>

/* Of fm_cuda_exec.last: a stream that is no more, or is captured; `behind` was recorded there. */
#define FM_CUDA_EXEC_LEFT UINTPTR_MAX

struct fm_cuda_exec {
	struct fm_cuda_exec *next;
	CUgraphExec exec;
	struct fm_cuda_early early; /* launched in place of it, if there is one, */
	bool changed;               /* while its nodes are what they were */
	_Atomic uintptr_t last; /* the stream of that one's last launch; 0: there was none since */
	CUevent behind;         /* with fm_cuda_execs_leaving */
	struct fm_cu_graph *graph;
	struct fm_xq *home; /* where it was launched last; NULL: nowhere yet */
	bool bare;          /* since the last launch that was guarded, one was not, */
	uint64_t seen;      /* when the queue had said so much */
	bool strayed;       /* launches that no queue tells of, and since the last no event */
	CUevent end;        /* behind those before; or NULL */
	bool lost;          /* nobody will ever know when its launches will have ended */
};

/* Held from when it is seen which stream a launch was in to when an event is recorded there. None
 * is taken meanwhile. */
extern pthread_mutex_t fm_cuda_execs_leaving;

/* May one more be there? */
bool fm_cuda_execs_room(void);
void fm_cuda_execs_put(struct fm_cuda_exec *e);
/* The program gives it back. What the driver has for it may be used no more. */
struct fm_cuda_early fm_cuda_execs_take(CUgraphExec exec, CUevent *behind);
/* One that was launched last in that stream, or, if it is NULL, in one that is there, of that
 * context; behind `after` (NULL: all). NULL: there are no more. */
struct fm_cuda_exec *fm_cuda_execs_in(CUstream stream, CUcontext ctx, struct fm_cuda_exec *after);
/* The context is about to end. */
void fm_cuda_execs_context_ends(CUcontext ctx);
