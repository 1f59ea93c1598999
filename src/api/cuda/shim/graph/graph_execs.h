/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs whose kernels are guarded, by handle: those that exist, and those that the
 * program has given back and that may still run, unguarded. The latter look at the stop word, which
 * is used again only when they have ended.
 */
#pragma once
#include "api/cuda/core/guard/guard_graph.h"
#include "base/lockorder.h"
#include "graph_guard.h"
#include "graph_read.h"
#include <pthread.h>

/* A value of fm_cuda_exec.last: the stream is gone, or is captured; `behind` was recorded there. */
#define FM_CUDA_EXEC_LEFT UINTPTR_MAX

struct fm_cuda_exec {
	struct fm_cuda_exec *next;
	CUgraphExec exec;
	struct fm_cuda_early early; /* launched instead of exec, if there is one, */
	bool changed;               /* unless exec's nodes have changed */
	_Atomic uintptr_t last;     /* the stream of early's last launch; 0: there was none since */
	CUevent behind;             /* with fm_cuda_execs_leaving */
	struct fm_cu_graph *graph;
	struct fm_xq *home; /* the queue of its last launch; NULL: none yet */
	bool bare;          /* since the last guarded launch there was an unguarded one, */
	uint64_t seen;      /* when the queue had reported this much */
	bool strayed; /* there were launches that no queue reports, and no event since the last */
	CUevent end;  /* behind earlier ones; or NULL */
	bool lost;    /* the end of its launches will never be known */
};

/* Held from reading in which stream a launch was, until an event is recorded there. No executable
 * graph is taken (fm_cuda_execs_take) meanwhile. */
extern pthread_mutex_t fm_cuda_execs_leaving;

/* Is there room for one more? */
bool fm_cuda_execs_room(void);
void fm_cuda_execs_put(struct fm_cuda_exec *e);
/* The program gives it back. What the driver has for it may not be used any more. */
struct fm_cuda_early fm_cuda_execs_take(CUgraphExec exec, CUevent *behind);
/* A graph whose last launch was in that stream, or, if that is NULL, in any existing stream of that
 * context; the next one after `after` (NULL: the first). NULL: there are no more. */
struct fm_cuda_exec *fm_cuda_execs_in(CUstream stream, CUcontext ctx, struct fm_cuda_exec *after);
/* The context is about to end. */
void fm_cuda_execs_context_ends(CUcontext ctx);
