/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program can suspend one of its queues, whatever the scheduler says. A device that looks at
 * gates itself waits for the slot's hold word behind each of them. That word opens only while the
 * gate is open (if it was not, the agent opens the word later), so that nothing that the scheduler
 * has stopped runs for a moment.
 *
 * A queue that has come to rest in this way has no use for the device. So the scheduler is told to
 * look, and gives the device to others.
 */
#include "segment.h"
#include <errno.h>

static bool gate_open(struct fm_xq *q)
{
	return atomic_load(atomic_load(&q->gate)) == FM_GATE_OPEN;
}

/* Later launches stay behind a gate, so a queue without work is at rest at once. */
static void take_hold(struct fm_xq *q)
{
	if (atomic_fetch_or(&q->held_by, FM_XQ_BY_PROGRAM) & FM_XQ_BY_PROGRAM)
		return;
	atomic_store(&q->slot->hold, fm_slot_pending(q->slot) ? FM_HOLD_STOPS : FM_HOLD_RESTS);
	if (q->device_gates)
		atomic_store(&q->gates_pending, 0); /* the next launch places one */
}

void fm_xq_let_go(struct fm_xq *q)
{
	if (!(atomic_fetch_and(&q->held_by, (uint8_t)~FM_XQ_BY_PROGRAM) & FM_XQ_BY_PROGRAM))
		return;
	atomic_store(
		&q->slot->hold, q->device_gates && !gate_open(q) ? FM_HOLD_GOES_ON : FM_HOLD_NONE);
}

bool fm_xq_steer(struct fm_xq *q)
{
	_Atomic uint32_t *hold = &q->slot->hold;

	if (atomic_load(&q->client->stop)) {
		atomic_fetch_and(&q->held_by, (uint8_t)~FM_XQ_BY_PROGRAM);
		atomic_store(hold, FM_HOLD_NONE);
	} else if (atomic_load(hold) == FM_HOLD_GOES_ON && (gate_open(q) || fm_xq_pads(q))) {
		atomic_store(hold, FM_HOLD_NONE);
	} else if (atomic_load(hold) == FM_HOLD_STOPS && fm_xq_stalled(q)) {
		atomic_store(hold, FM_HOLD_RESTS);
		return true;
	}
	return false;
}

void fm_xq_tell_turn(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	bool stopped;

	if (!x->turned || atomic_load(&q->client->stop))
		return;
	stopped = fm_slot_pending(q->slot) && !fm_xq_may_run(q) && fm_slot_stalled(q->slot);
	if (stopped == x->stopped)
		return;
	x->stopped = stopped;
	x->turned(q->hwq, stopped, fm_now());
}

int fm_xq_suspend(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();
	bool device;

	if (q->device_gates && !q->steered)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&x->lock);
	device = q->device_gates;
	if (!q->closing)
		take_hold(q);
	if (q->level >= FM_LEVEL_QUEUED && !device && !atomic_load(&q->gates_pending))
		fm_xq_place_gate(q, false, now);
	fm_xq_interrupt(q, now);
	if (!device)
		fm_xq_watch_tail(q, now);
	fm_xq_leave(q);
	fm_client_wake(q->client);
	return 0;
}

int fm_xq_resume(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();
	bool held;

	pthread_mutex_lock(&x->lock);
	held = fm_xq_own_suspended(q);
	fm_xq_let_go(q);
	fm_xq_interrupt(q, now);
	fm_xq_open_gates(q, now);
	fm_xq_leave(q);
	fm_turn_wake(q);
	if (!held)
		return 0;
	fm_client_wake(q->client);
	fm_client_bell(q->client);
	return 0;
}

int fm_xq_wait_rest(struct fm_xq *q, uint64_t timeout_ns)
{
	uint64_t deadline = fm_add_sat(fm_now(), timeout_ns), now;

	for (;;) {
		uint32_t turn = atomic_load(&q->cold->turn);

		if (!fm_xq_own_suspended(q))
			return -ECANCELED;
		if (fm_xq_stalled(q))
			return 0;
		now = fm_now();
		if (now >= deadline)
			return -ETIMEDOUT;
		fm_turn_wait(q, turn, FM_MIN(deadline, now + FM_XQ_REST_LOOK));
	}
}

uint64_t fm_xq_interrupts(const struct fm_xq *q)
{
	return atomic_load_explicit(&q->slot->interrupts, memory_order_relaxed);
}
