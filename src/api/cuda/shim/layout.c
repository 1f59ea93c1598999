/* SPDX-License-Identifier: Apache-2.0 */
/* The places of the members that a launch reads in addition to the XQueue's (xqueue/layout.c). */
#include "shim.h"

#define AT(type, member, place) \
	_Static_assert(offsetof(struct type, member) == (place), #type ": " #member)

/* One line for all queues. */
AT(fm_cuda_hot, careful, 0);
AT(fm_cuda_hot, sole, 8);
AT(fm_cuda_hot, sole_xq, 16);
_Static_assert(sizeof(struct fm_cuda_hot) == FM_CACHE_LINE, "a line of its own");

/* The queue's first line. */
AT(fm_cuda_queue, xq, 0);
AT(fm_cuda_queue, thread, 8);
AT(fm_cuda_queue, key, 16);
AT(fm_cuda_queue, generation, 24);
AT(fm_cuda_queue, guarded, 32);
AT(fm_cuda_queue, awaits, 40);
AT(fm_cuda_queue, told_at, 48);
AT(fm_cuda_queue, part, 56);
AT(fm_cuda_queue, ordered, 60);
AT(fm_cuda_queue, unsealed, 61);
AT(fm_cuda_queue, blocking, 62);
AT(fm_cuda_queue, bound, 63);

/* The first line of the hwqueue that it holds. */
AT(fm_cuda_queue, hw, FM_CACHE_LINE);
AT(fm_cu_queue, ctx, 0);
AT(fm_cu_queue, guard, 8);
AT(fm_cu_queue, turnstile, 16);
AT(fm_cu_queue, orders, 24);
AT(fm_cu_queue, ordered, 40);
AT(fm_cu_queue, order_all, 56);
_Static_assert(_Alignof(struct fm_cuda_queue) == FM_CACHE_LINE, "its lines are lines");
