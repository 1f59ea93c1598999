/* SPDX-License-Identifier: Apache-2.0 */
/* At the end of a table of calls (api/calls.h): the next includer has macros of its own. */
#undef ON_kernel
#undef ON_work
#undef ON_order
#undef ON_record
#undef ON_graph
#undef ON_sync
#undef ON_make
#undef ON_end
#undef ON_capture
#undef ON_alloc
#undef ON_release
#undef ON_code
#undef ON_load
#undef ON_own
#undef ON_other
