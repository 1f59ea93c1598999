/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace points. Each is a probe for debuggers and tracers of the system (USDT, provider fermata),
 * an instruction that does nothing, where the build has <sys/sdt.h>; and, while somebody records,
 * a record in the process's ring.
 *
 * Owns: the pointer to the process's ring. In a client the daemon has made the ring (ring.h).
 * Locks: none. Places in the ring are drawn by atomic increments.
 * Threads: any may write. The ring is mapped and left by the agent, or by the daemon's loop.
 */
#pragma once
#include "ring.h"

#ifdef FM_HAVE_SDT
#include <sys/sdt.h>
#define FM_PROBE(name, a, b, c, d, e, f) DTRACE_PROBE6(fermata, name, a, b, c, d, e, f)
#else
#define FM_PROBE(name, a, b, c, d, e, f) ((void)0)
#endif

/* That of a client's process. NULL: nobody records. What it points to stays mapped for life. */
extern _Atomic(struct fm_trace_ring *) fm_trace_ring;

void fm_trace_client(struct fm_trace_ring *ring, enum fm_trace_event event, uint64_t at,
	unsigned slot, unsigned group, uint64_t a, uint64_t b, uint64_t c);

/* In a client. When nobody records: one load and one branch. */
#define FM_TRACE(name, at, slot, group, a, b, c)                                                   \
	do {                                                                                       \
		struct fm_trace_ring *ring_ =                                                      \
			atomic_load_explicit(&fm_trace_ring, memory_order_acquire);                \
		FM_PROBE(name, (uint64_t)(at), (unsigned)(slot), (unsigned)(group), (uint64_t)(a), \
			(uint64_t)(b), (uint64_t)(c));                                             \
		if (FM_UNLIKELY(ring_))                                                            \
			fm_trace_client(ring_, FM_EV_##name, at, slot, group, a, b, c);            \
	} while (0)

/* Record from now on into this ring, in place of the one before; fd -1: not any more. The
 * descriptor stays the caller's. One thread at a time; negative errno: nobody records. */
int fm_trace_switch(int fd);
/* In a forked child: the ring is its parent's. Async-signal-safe. */
void fm_trace_forked(void);
