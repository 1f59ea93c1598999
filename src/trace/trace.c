/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

_Atomic(struct fm_trace_ring *) fm_trace_ring;

/* Mapped once, at one address: a writer that is in the midst of a record finds memory there, be it
 * of this ring or of the next. */
static struct fm_trace_ring *mapped;

void fm_trace_client(struct fm_trace_ring *ring, enum fm_trace_event event, uint64_t at,
	unsigned slot, unsigned group, uint64_t a, uint64_t b, uint64_t c)
{
	const struct fm_trace_rec rec = {
		.at = at,
		.event = (uint16_t)event,
		.slot = (uint16_t)slot,
		.group = group,
		.arg = {a, b, c},
	};

	fm_trace_write(ring, &rec);
}

int fm_trace_switch(int fd)
{
	int rc = 0;

	atomic_store(&fm_trace_ring, NULL);
	if (fd >= 0)
		rc = fm_trace_ring_map(&mapped, fd, mapped);
	if (fd >= 0 && !rc)
		atomic_store_explicit(&fm_trace_ring, mapped, memory_order_release);
	return rc;
}

void fm_trace_forked(void)
{
	atomic_store(&fm_trace_ring, NULL);
}
