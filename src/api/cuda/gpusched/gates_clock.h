/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a device's clock is from the host's, by looks at the device's between two looks at the
 * host's. Each says that the host's is later by something between two bounds. Differences are of
 * 64 bits and wrap, so either clock may be ahead.
 *
 * Owns: nothing. Locks: none. Threads: any; each clock by one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct fm_cu_clock {
	uint64_t later; /* the host's, than the device's */
	bool known;
};

struct fm_cu_clock_look {
	uint64_t before, device, after; /* host, device, host */
};

static inline uint64_t fm_cu_clock_width(const struct fm_cu_clock_look *l)
{
	return l->after - l->before;
}

/* After that the host's time of `device` is between `before` and `after`. The first look sets it in
 * the middle; later ones move it no farther than they must, so a slow look moves nothing. */
static inline void fm_cu_clock_follow(struct fm_cu_clock *c, const struct fm_cu_clock_look *l)
{
	uint64_t least = l->before - l->device, width = fm_cu_clock_width(l);

	if (!c->known)
		c->later = least + width / 2;
	else if (c->later - least > width) /* outside; on which side? */
		c->later = (int64_t)(c->later - least) < 0 ? least : least + width;
	c->known = true;
}
