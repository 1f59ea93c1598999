/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of device time by kind of command. A segment's measured time is shared out over its commands
 * in proportion to what each was thought to take: with segments of varied mixes that converges to the
 * time of each kind. An error costs a gate too many or a stall a little late, nothing else.
 */
#include "segment.h"

#define EST_MIN     UINT64_C(100)
#define RATIO_LIMIT 8

static struct fm_est *slot_of(struct fm_xq *q, uint64_t key)
{
	return &q->est[(key ^ key >> 17) % FM_EST_SLOTS];
}

static bool known(struct fm_est *e, uint64_t key)
{
	return atomic_load_explicit(&e->key, memory_order_relaxed) == key;
}

static void set(struct fm_est *e, uint64_t key, uint64_t ns)
{
	atomic_store_explicit(&e->ns, FM_MAX(ns, EST_MIN), memory_order_relaxed);
	atomic_store_explicit(&e->key, key, memory_order_relaxed);
}

/* Half way down, an eighth of the way up: a pause of the program must not pass for device time. */
static uint64_t blend(uint64_t old, uint64_t fresh, bool exact)
{
	if (fresh < old)
		return old - (old - fresh) / 2;
	return exact ? old + (fresh - old) / 8 : old;
}

/* Commands of kinds not seen before share what the known ones leave. */
static void learn_unknown(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t took)
{
	uint64_t known_ns = 0, each;
	unsigned unknown = 0;

	for (unsigned i = 0; i < n; i++) {
		struct fm_est *e = slot_of(q, key[i]);

		if (known(e, key[i]))
			known_ns += atomic_load_explicit(&e->ns, memory_order_relaxed);
		else
			unknown++;
	}
	if (!unknown)
		return;
	each = FM_MAX(fm_sub_sat(took, known_ns), took / (4 * n)) / unknown;
	for (unsigned i = 0; i < n; i++) {
		struct fm_est *e = slot_of(q, key[i]);

		if (!known(e, key[i]))
			set(e, key[i], each);
	}
}

void fm_xq_learn(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t est, uint64_t took, bool exact)
{
	unsigned kept = FM_MIN(n, (unsigned)FM_SEG_KEYS);

	if (!n || !took)
		return;
	if (est == UINT64_MAX) {
		learn_unknown(q, key, kept, kept < n ? took / n * kept : took);
		return;
	}
	for (unsigned i = 0; i < kept; i++) {
		struct fm_est *e = slot_of(q, key[i]);
		uint64_t old, fresh;

		/* A kind that occurs several times is taught once a segment. */
		if (!known(e, key[i]) || (i && key[i] == key[i - 1]))
			continue;
		old = atomic_load_explicit(&e->ns, memory_order_relaxed);
		fresh = (uint64_t)((double)old * ((double)took / (double)FM_MAX(est, EST_MIN)));
		fresh = FM_MIN(FM_MAX(fresh, old / RATIO_LIMIT), old * RATIO_LIMIT);
		set(e, key[i], blend(old, fresh, exact));
	}
}
