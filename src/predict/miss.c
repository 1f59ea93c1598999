/* SPDX-License-Identifier: Apache-2.0 */
#include "miss.h"

/* Slow for a reason that is not known. While memory runs from the host of which it is known that it
 * is used, that is the reason. */
static bool is_slow(const struct fm_miss_turn *t)
{
	return t->late >= FM_MISS_LATE && t->mapped >= FM_MISS_BYTES && !t->foretold;
}

static enum fm_miss_act gets_worse(struct fm_miss *m)
{
	m->is = m->is == FM_MISS_NOTHING ? FM_MISS_NAMED : FM_MISS_ALL;
	m->left = FM_MISS_TURNS;
	return m->is;
}

enum fm_miss_act fm_miss_turn(struct fm_miss *m, const struct fm_miss_turn *t)
{
	bool slow = is_slow(t);

	if (t->writes || slow) {
		m->missed += t->writes ? t->writes : 1;
		m->by_write = t->writes;
		/* Nothing more can be done. */
		if (m->is != FM_MISS_ALL)
			return gets_worse(m);
	}
	if (m->is == FM_MISS_NOTHING || --m->left)
		return FM_MISS_NOTHING;
	m->is = FM_MISS_NOTHING;
	return FM_MISS_TRUST;
}
