/* SPDX-License-Identifier: Apache-2.0 */
/* Turns by the turns that there were. */
#include "mem.h"

#define TURN (10 * FM_MS) /* of a group that had none */

static int by_age(const void *a, const void *b)
{
	const struct fm_mem_past *x = a, *y = b;

	if (x->ended != y->ended)
		return x->ended < y->ended ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

unsigned fm_mem_guess(struct fm_mem_past *past, unsigned n, uint64_t now, uint64_t until,
	struct fm_mem_turn *out, unsigned cap)
{
	unsigned made = 0;

	if (n > 1)
		qsort(past + 1, n - 1, sizeof(*past), by_age);
	for (uint64_t from = now; n && made < cap && from < until; made++) {
		const struct fm_mem_past *p = &past[made % n];
		uint64_t to = n > 1 ? fm_add_sat(from, p->turn ? p->turn : TURN) : FM_NEVER;

		out[made] = (struct fm_mem_turn){p->group, from, to};
		from = to;
	}
	return made;
}
