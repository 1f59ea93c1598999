/* SPDX-License-Identifier: Apache-2.0 */
/* Telling a program that one of its streams was preempted, and goes on: by a thread that does
 * nothing else, since what it calls is the program's. */
#pragma once
#include <fermata/cuda.h>

struct fm_cuda_watch;

/* NULL: out of memory, or the thread cannot be had. The caller has a reference. */
struct fm_cuda_watch *fm_cuda_watch_new(CUstream stream, const struct fm_cuda_binding *b);
void fm_cuda_watch_put(struct fm_cuda_watch *w);
/* From the agent. Does not wait. */
void fm_cuda_watch_turned(struct fm_cuda_watch *w, bool stopped, uint64_t at);
/* No call begins any more; with wait, none is under way in another thread either. */
void fm_cuda_watch_end(struct fm_cuda_watch *w, bool wait);
uint64_t fm_cuda_watch_stops(const struct fm_cuda_watch *w);
void fm_cuda_watch_fork_child(void);
