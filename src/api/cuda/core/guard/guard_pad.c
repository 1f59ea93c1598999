/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding (guard_pad.h). The stages are those of a stop (guard_stop.c), with two differences: what
 * is made again goes to the pad, and when it has ended the queue does not go on but is let past its
 * gate, to the next one.
 *
 *	PARKED    at rest at gate i; launches `todo` .. `rest` in front of it are left
 *	AGAIN     they run in the pad
 *	PARKED    nothing is left in front of gate i
 *	ARMING    the stop word is being set
 *	STOPPING  `limit` is i: it goes past gate i, leaves out what comes, rests at i+1
 *	LOOKING   and so on
 *
 * While it is let past gate i the gate word may close again. If it has not gone past by then it
 * stands at gate i in STOPPING, with the stop word set, until the gate opens or it may pad again.
 *
 * All of it is under the XQueue's lock. Pads are made in guard_pads.c.
 */
#include "guard_pad.h"
#include "base/clock.h"
#include "base/util.h"
#include "guard_internal.h"
#include <errno.h>

/* --- gates that know their numbers --- */

bool fm_cu_guard_numbers(struct fm_cu_guard *g, bool wish)
{
	return !g->unnumbered && (atomic_load(&g->numbered) || (wish && !g->place));
}

FM_HOT bool fm_cu_guard_numbered(const struct fm_cu_guard *g)
{
	return atomic_load_explicit(&g->numbered, memory_order_relaxed);
}

union fm_cu_mem_op fm_cu_guard_arrives(const struct fm_cu_guard *g)
{
	return fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_64,
		g->shared_at + offsetof(struct fm_cu_shared, at), atomic_load(&g->gates) + 1);
}

union fm_cu_mem_op fm_cu_guard_limit(const struct fm_cu_guard *g)
{
	union fm_cu_mem_op o = fm_cu_guard_op(FM_CU_OP_WAIT_VALUE_64,
		g->shared_at + offsetof(struct fm_cu_shared, limit), atomic_load(&g->gates) + 1);

	o.op.flags = FM_CU_WAIT_VALUE_GEQ;
	return o;
}

bool fm_cu_guard_refused(struct fm_cu_guard *g)
{
	if (atomic_load(&g->numbered))
		return false;
	g->unnumbered = true;
	return true;
}

static uint64_t bit(uint64_t gate)
{
	return UINT64_C(1) << gate % 64;
}

static _Atomic uint64_t *bits(struct fm_cu_guard *g, uint64_t gate)
{
	return &g->heavy[gate / 64 % FM_ARRAY_LEN(g->heavy)];
}

/* The bit of this gate itself may be set by now: fm_cu_guard_heavy(). */
void fm_cu_guard_counted(struct fm_cu_guard *g, bool numbered)
{
	uint64_t n = atomic_load(&g->gates) + 1;

	atomic_fetch_and(bits(g, n + 1), ~bit(n + 1));
	if (numbered && !atomic_load(&g->numbered))
		atomic_store(&g->numbered, n);
	atomic_store(&g->gates, n);
}

/* Each side first tells what it is about to do, and then looks what the other does. The agent may
 * put one gate before the caller has put what it is about to put. */
bool fm_cu_guard_heavy(struct fm_cu_guard *g)
{
	uint64_t n = atomic_load(&g->gates);

	if (!atomic_load_explicit(&g->numbered, memory_order_relaxed))
		return false;
	atomic_fetch_or(bits(g, n), bit(n));
	atomic_fetch_or(bits(g, n + 1), bit(n + 1));
	return n && atomic_load(&g->let) >= n;
}

/* --- padding --- */

/* May the queue be let past the gate at which it rests? What is behind it, up to the next gate, are
 * launches that leave out their blocks, and copies. */
static bool may_pass(struct fm_cu_guard *g, uint64_t gate)
{
	uint64_t from = atomic_load(&g->numbered);

	if (g->cover || g->graph || !from || gate < from)
		return false;
	atomic_store(&g->let, gate);
	if (atomic_load(&g->gates) - gate < FM_CU_HEAVY - 2 &&
		!(atomic_load(bits(g, gate)) & bit(gate)))
		return true;
	atomic_store(&g->let, 0);
	return false;
}

static void note_stretch(struct fm_cu_guard *g)
{
	uint64_t took = fm_now() - g->put_at;

	g->stretch = g->stretch ? (3 * g->stretch + took) / 4 : took;
}

/* From PARKED: the next step in the pad. False: the queue stands there. */
static bool go_on(struct fm_cu_guard *g)
{
	if (g->pad_fails) {
		fm_cu_pad_spoil(g->pad);
		return false;
	}
	if (g->todo <= g->rest) {
		g->put_at = fm_now();
		fm_cu_guard_again_all(g);
		return true;
	}
	if (g->put_at)
		note_stretch(g);
	g->put_at = 0;
	if (!may_pass(g, atomic_load(&g->shared->at)))
		return false;
	fm_cu_guard_pass(g);
	return true;
}

/* 0: it stands. */
static int end(struct fm_cu_queue *q)
{
	int rc = fm_cu_guard_stops(q, false);

	return rc == -EALREADY ? 0 : rc;
}

/* It stands, and takes the pad. */
static int take(struct fm_cu_guard *g, unsigned k)
{
	enum fm_cu_pad_why why = fm_cu_pad_take(g, k);

	return !why ? 0 : why == FM_CU_PAD_BUSY ? -EBUSY : -ESTALE;
}

int fm_cu_pad(void *hwq, unsigned k)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_guard *g = q->guard;
	enum fm_cu_stage before;
	int rc;

	if (!g || atomic_load(&g->broken) || g->stage == FM_CU_RUNS)
		return -EALREADY;
	if (fm_cu_awaited(g->turnstile) || fm_cu_kept_out() ||
		(g->pad && fm_cu_pad_is_stale(g->pad)))
		return end(q);
	if (!g->pad && (g->stage == FM_CU_PARKED || atomic_load(&g->let)) && (rc = take(g, k)))
		return rc;
	if (!g->pad)
		return end(q);
	atomic_store(&g->wants_gate, false);
	fm_cu_stop_lets_in(g->turnstile);
	do {
		before = g->stage;
		if (before != FM_CU_PARKED)
			fm_cu_guard_step(g);
		else if (!go_on(g))
			return g->pad_fails ? end(q) : -EINPROGRESS;
	} while (g->pad && g->stage != before);
	return atomic_load(&g->broken) ? -EALREADY : -EINPROGRESS;
}
