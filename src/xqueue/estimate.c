/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of device time by kind of command. A segment's measured time is divided among its
 * commands in proportion to their estimates. With segments of varied mixes that converges to the
 * time of each kind. An error costs one gate too many or a stall a little late, nothing else.
 */
#include "segment.h"

struct fm_est_set fm_estimates[1 << FM_EST_SET_BITS];
_Atomic uint64_t fm_est_late;

/* A new kind takes a free place, or replaces another kind, in turn. */
void fm_est_put(uint64_t key, uint64_t ns)
{
	static _Atomic unsigned turn;
	struct fm_est_set *set = fm_est_set(fm_estimates, key);
	struct fm_est *e = fm_est_find(fm_estimates, key);

	for (unsigned i = 0; !e && i < FM_EST_WAYS; i++)
		if (!atomic_load_explicit(&set->way[i].key, memory_order_relaxed))
			e = &set->way[i];
	if (!e)
		e = &set->way[atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) %
			      FM_EST_WAYS];
	atomic_store_explicit(&e->ns, FM_MAX(ns, FM_EST_MIN), memory_order_relaxed);
	atomic_store_explicit(&e->key, key, memory_order_relaxed);
}

/* An estimate goes down by half the difference. It goes up by an eighth of it, by less where a
 * pause of the program may pass for device time, or not at all. A value that was never exact gives
 * way to an exact one, and to a lower bound. */
static uint64_t blend(uint64_t old, uint64_t fresh, enum fm_took how)
{
	uint64_t ns = old;

	if (how == FM_EXACT && fm_est_at_most(old))
		return fresh & ~UINT64_C(1);
	if (how == FM_AT_MOST && fm_est_at_most(old))
		return FM_MIN(old, fresh | 1);
	if (fresh < old)
		ns = old - (old - fresh) / 2;
	else if (how != FM_AT_MOST)
		ns = old + (fresh - old) / (how == FM_EXACT ? 8 : 16);
	return (ns & ~UINT64_C(1)) | (old & 1);
}

struct sum {
	uint64_t known_ns;
	unsigned unknown;
};

static struct sum add_up(const uint64_t *key, unsigned n)
{
	struct sum s = {0};

	for (unsigned i = 0; i < n; i++) {
		struct fm_est *e = fm_est_find(fm_estimates, key[i]);

		if (e)
			s.known_ns += atomic_load_explicit(&e->ns, memory_order_relaxed);
		else
			s.unknown++;
	}
	return s;
}

/* Kinds not seen before share what the known kinds leave. Their bound may come from a first run,
 * which also loads them. So it is cut where the device itself stops at gates; else too much could
 * be under way. */
static void learn_unknown(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t took,
	struct sum s, enum fm_took how)
{
	uint64_t each = FM_MAX(fm_sub_sat(took, s.known_ns), took / (4 * n)) / s.unknown;

	each = FM_MAX(each, FM_EST_MIN) & ~UINT64_C(1);
	if (how == FM_AT_MOST && q->device_gates)
		each = FM_MIN(each, q->spacing / FM_XQ_UNKNOWN_PARTS);
	if (how == FM_AT_MOST)
		each |= 1;
	for (unsigned i = 0; i < n; i++)
		if (!fm_est_find(fm_estimates, key[i]))
			fm_est_put(key[i], each);
}

void fm_xq_learn(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t took, enum fm_took how)
{
	unsigned kept = FM_MIN(n, (unsigned)FM_SEG_KEYS);
	struct sum s;

	if (!n || !took)
		return;
	took = took / n * kept;
	s = add_up(key, kept);
	if (s.unknown) {
		learn_unknown(q, key, kept, took, s, how);
		return;
	}
	if (how != FM_AT_MOST && took > s.known_ns + s.known_ns / FM_EST_LATE_PART)
		atomic_fetch_add_explicit(&fm_est_late, took - s.known_ns, memory_order_relaxed);
	for (unsigned i = 0; i < kept; i++) {
		struct fm_est *e = fm_est_find(fm_estimates, key[i]);
		uint64_t old, fresh;

		/* A kind that occurs several times in a row learns once. */
		if (!e || (i && key[i] == key[i - 1]))
			continue;
		old = atomic_load_explicit(&e->ns, memory_order_relaxed);
		fresh = (uint64_t)((double)old *
				   ((double)took / (double)FM_MAX(s.known_ns, FM_EST_MIN)));
		fresh = FM_MIN(FM_MAX(fresh, old / FM_EST_RATIO_MOST), old * FM_EST_RATIO_MOST);
		fm_est_put(key[i], blend(old, fresh, how));
	}
}

/* Is the kind longer than the parts into which gates divide graphs, if they do? Alone on the
 * device, those parts are longer. */
bool fm_xq_long(struct fm_xq *q, uint64_t key)
{
	uint64_t most = FM_MAX(q->spacing, atomic_load(fm_xq_graph_spacing(q)));
	struct fm_est *e = fm_est_find(fm_estimates, key);

	return e && atomic_load_explicit(&q->interval, memory_order_relaxed) != UINT64_MAX &&
	       atomic_load_explicit(&e->ns, memory_order_relaxed) > most;
}
