/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: a set that decides on the device, for sets.c and sets_calls.c. */
#pragma once
#include "gpusched/engine.h"
#include "sets_queue.h"
#include <pthread.h>

struct fm_cuda_set_task {
	struct fm_cuda_set *of;
	uint32_t task;
};

/* What is behind fm_gpu_set.device. */
struct fm_cuda_set {
	struct fm_gpu_set *set;
	const struct fm_cu_driver *cu;
	CUcontext ctx;
	pthread_mutex_t life; /* over start and end, and the driver's calls there */

	/* Under the set's lock. */
	struct fm_cu_feed *feed; /* NULL: not started, or over */
	bool ending;
	_Atomic bool gone;        /* the context */
	_Atomic uint64_t refused; /* a graph, when it ended: fm_cu_gates_refused() */

	unsigned held; /* under the list's lock: the thread that ends the context is with the set */

	CUdeviceptr words; /* of a resident set: that of each task */

	struct fm_cu_gates *gates;
	struct fm_cuda_set_queue *queue;
	bool graphs; /* the engine "graphs" */
	uint32_t n;  /* tasks that have streams, or graphs */
	struct fm_cuda_set_task work[FM_GATES_TASKS];
};

void fm_cuda_set_show(void *set, const struct fm_cu_gates_words *words, bool parked);
/* What is called while it runs, but for `arg`, which is the set. */
extern const struct fm_cu_feed_hooks fm_cuda_set_hooks;
/* Calls the task's own. ctx: struct fm_cuda_set_task. */
int fm_cuda_set_enqueue(struct CUstream_st *stream, unsigned chunk, void *ctx);

/* The words that were read become the set's stats; and what a later start goes on with, too. */
void fm_cuda_set_take_stats(void *set, const struct fm_cu_gates_words *words);
void fm_cuda_set_take_all(void *set, const struct fm_cu_gates_words *words);

/* Is a call between leave and stay? */
bool fm_cuda_sets_are_left(void);
