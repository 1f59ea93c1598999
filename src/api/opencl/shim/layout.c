/* SPDX-License-Identifier: Apache-2.0 */
/* Where the members lie that an enqueue reads besides the XQueue's (xqueue/layout.c). */
#include "layer.h"

/* One line: nothing but the XQueue and whether its commands end in order. */
_Static_assert(offsetof(struct fm_shim_queue, xq) == 0 &&
		       offsetof(struct fm_shim_queue, guard_from) < FM_CACHE_LINE,
	"what each enqueue reads stands together");
_Static_assert(offsetof(struct fm_cl_layer, next) == 0, "the driver's table is the layer's first");
_Static_assert(
	offsetof(struct fm_shim_queue, guard_from) == offsetof(struct fm_shim_queue, in_order) + 16,
	"and how long a kernel is that is guarded");
