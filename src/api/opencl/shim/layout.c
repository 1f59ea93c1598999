/* SPDX-License-Identifier: Apache-2.0 */
/* Asserts the places of the members that an enqueue reads. (XQueue: xqueue/layout.c) */
#include "layer.h"

/* An enqueue reads the XQueue and whether the queue is in order, both in one cache line. */
_Static_assert(offsetof(struct fm_opencl_queue, xq) == 0 &&
		       offsetof(struct fm_opencl_queue, guard_from) < FM_CACHE_LINE,
	"what each enqueue reads stands together");
_Static_assert(offsetof(struct fm_cl_layer, next) == 0, "the driver's table is the layer's first");
_Static_assert(offsetof(struct fm_opencl_queue, guard_from) ==
		       offsetof(struct fm_opencl_queue, in_order) + 16,
	"and how long a kernel is that is guarded");
