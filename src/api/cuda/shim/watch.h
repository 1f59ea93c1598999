/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a program that one of its streams was preempted, and that it goes on. A thread of its own
 * does this and nothing else, because the functions that it calls are the program's. */
#pragma once
#include <fermata/cuda.h>

struct fm_cuda_watch;

/* NULL: out of memory, or the thread could not be made. The caller has a reference. */
struct fm_cuda_watch *fm_cuda_watch_new(CUstream stream, const struct fm_cuda_binding *b);
void fm_cuda_watch_put(struct fm_cuda_watch *w);
/* From the agent. Does not wait. */
void fm_cuda_watch_turned(struct fm_cuda_watch *w, bool stopped, uint64_t at);
/* No call begins any more; with wait, no call is under way in another thread either. */
void fm_cuda_watch_end(struct fm_cuda_watch *w, bool wait);
uint64_t fm_cuda_watch_stops(const struct fm_cuda_watch *w);
void fm_cuda_watch_fork_child(void);
