/* SPDX-License-Identifier: Apache-2.0 */
/* At the beginning of a table of calls (api/calls.h): kinds without a macro of their own go to
 * ON_other, if there is one. Included once for each use of a table. */
#include "calls.h"

#ifndef ON_other
#define ON_other(...)
#endif
#ifndef ON_kernel
#define ON_kernel(...) ON_other(kernel, __VA_ARGS__)
#endif
#ifndef ON_work
#define ON_work(...) ON_other(work, __VA_ARGS__)
#endif
#ifndef ON_order
#define ON_order(...) ON_other(order, __VA_ARGS__)
#endif
#ifndef ON_record
#define ON_record(...) ON_other(record, __VA_ARGS__)
#endif
#ifndef ON_graph
#define ON_graph(...) ON_other(graph, __VA_ARGS__)
#endif
#ifndef ON_sync
#define ON_sync(...) ON_other(sync, __VA_ARGS__)
#endif
#ifndef ON_make
#define ON_make(...) ON_other(make, __VA_ARGS__)
#endif
#ifndef ON_end
#define ON_end(...) ON_other(end, __VA_ARGS__)
#endif
#ifndef ON_capture
#define ON_capture(...) ON_other(capture, __VA_ARGS__)
#endif
#ifndef ON_alloc
#define ON_alloc(...) ON_other(alloc, __VA_ARGS__)
#endif
#ifndef ON_release
#define ON_release(...) ON_other(release, __VA_ARGS__)
#endif
#ifndef ON_code
#define ON_code(...) ON_other(code, __VA_ARGS__)
#endif
#ifndef ON_load
#define ON_load(...) ON_other(load, __VA_ARGS__)
#endif
#ifndef ON_own
#define ON_own(...) ON_other(own, __VA_ARGS__)
#endif
