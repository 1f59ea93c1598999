/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

struct fm_cuda_event fm_cuda_events[FM_CUDA_EVENTS];
static _Atomic bool in_graphs;

bool fm_cuda_event_get(CUevent event, struct fm_cuda_mark *m)
{
	struct fm_cuda_event *e = fm_cuda_event_at(event);

	if (!event || atomic_load_explicit(&in_graphs, memory_order_relaxed) ||
		atomic_load_explicit(&e->event, memory_order_acquire) != (uintptr_t)event)
		return false;
	m->key = atomic_load_explicit(&e->key, memory_order_relaxed);
	m->generation = atomic_load_explicit(&e->generation, memory_order_relaxed);
	m->mark = atomic_load_explicit(&e->mark, memory_order_relaxed);
	m->all = atomic_load_explicit(&e->all, memory_order_relaxed);
	m->ours = 0;
	return atomic_load_explicit(&e->sum, memory_order_relaxed) ==
	       fm_cuda_event_sum(event, m->generation, m->mark, m->all);
}

void fm_cuda_events_in_graph(void)
{
	atomic_store(&in_graphs, true);
}

void fm_cuda_events_clear(void)
{
	atomic_store(&in_graphs, false);
	for (size_t i = 0; i < FM_CUDA_EVENTS; i++)
		atomic_store(&fm_cuda_events[i].event, 0);
}
