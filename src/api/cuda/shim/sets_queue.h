/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: the XQueue of a set that decides on the device. A job is a command. It is
 * stopped as level 3 is: the set parks, and stands when no chunk runs. */
#pragma once
#include "api/cuda/gpusched/feed.h"
#include "sets.h"

struct fm_cuda_set_queue;

/* NULL: without a client, or without a place on the board: then the set runs free. All that follows
 * takes NULL. */
struct fm_cuda_set_queue *fm_cuda_set_queue_new(CUcontext ctx);
/* The feed that is to stop; NULL: none any more. */
void fm_cuda_set_queue_feed(struct fm_cuda_set_queue *q, struct fm_cu_feed *feed);
void fm_cuda_set_queue_close(struct fm_cuda_set_queue *q);

void fm_cuda_set_queue_begin(struct fm_cuda_set_queue *q, uint32_t task);
void fm_cuda_set_queue_end(struct fm_cuda_set_queue *q);
/* A job that the streams have already; it is over when it counts as finished. */
void fm_cuda_set_queue_count(struct fm_cuda_set_queue *q);
void fm_cuda_set_queue_finished(struct fm_cuda_set_queue *q, uint64_t jobs);
bool fm_cuda_set_queue_may_run(struct fm_cuda_set_queue *q);
void fm_cuda_set_queue_stands(struct fm_cuda_set_queue *q);
/* For people: how things are. The set is shown before its tasks. One thread at a time. */
struct fm_set;
struct fm_set_task;
void fm_cuda_set_queue_show(struct fm_cuda_set_queue *q, const struct fm_set *set);
void fm_cuda_set_queue_show_task(struct fm_cuda_set_queue *q, const struct fm_set_task *task);
/* What has become of a task, for traces. */
bool fm_cuda_set_queue_traces(const struct fm_cuda_set_queue *q);
void fm_cuda_set_queue_note(struct fm_cuda_set_queue *q, const struct fm_gates_note *note);
