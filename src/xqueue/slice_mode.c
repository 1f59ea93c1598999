/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process makes room for others, while the daemon says that it alone is to do so (board.h,
 * makes_room).
 *
 * By default it makes room at any moment: others have the device within a context switch, whatever
 * runs. After the process was told to stop, that would preempt it each time the others leave the
 * device for a moment, and it would hardly come nearer to its gate: two context switches for next
 * to nothing. So it is not preempted on its way there, unless what runs is long.
 *
 * Telling the driver takes it some hundred microseconds. That is not worth it for a stop that ends
 * sooner.
 */
#include "segment.h"

struct view {
	bool stopped; /* by the scheduler, or by hand */
	bool moves;   /* and a queue has not come to its gate */
	bool in_long; /* a command that gates do not divide */
	bool gates;   /* gates alone are to stop at least one of its queues */
};

static struct view look(struct fm_client *c)
{
	struct view v = {0};

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		struct fm_xq *q = c->queue[i];

		v.gates |= q && fm_xq_gates_only(q);
		if (!q || !fm_slot_pending(q->slot))
			continue;
		v.stopped |= !fm_xq_may_run(q);
		v.moves |= !fm_slot_waits(q->slot);
		v.in_long |= fm_slot_done(q->slot) < atomic_load(&q->long_mark);
	}
	pthread_mutex_unlock(&c->lock);
	return v;
}

/* Sets *next to when the next look is due. */
static enum fm_slice_mode wanted(
	struct fm_slice_state *r, struct view v, uint64_t now, uint64_t *next)
{
	if (v.gates)
		return FM_SLICE_NONE;
	if (!v.stopped) {
		r->last_stop = r->stopped_at ? now - r->stopped_at : r->last_stop;
		r->stopped_at = 0;
		return FM_SLICE_AT_ONCE;
	}
	if (!r->stopped_at)
		r->stopped_at = now;
	if (v.in_long || !v.moves)
		return FM_SLICE_AT_ONCE;
	if (r->last_stop < FM_CLIENT_SHORT_STOP && now - r->stopped_at < FM_CLIENT_SHORT_STOP) {
		*next = r->stopped_at + FM_CLIENT_SHORT_STOP;
		return FM_SLICE_AT_ONCE;
	}
	*next = now + FM_CLIENT_ROOM_LOOK;
	return FM_SLICE_AT_GATE;
}

uint64_t fm_slice_tell(struct fm_client *c, uint64_t now)
{
	enum fm_slice_mode room = FM_SLICE_NONE;
	uint64_t next = FM_NEVER;

	if (!c->config.makes_room || (c->set.level_wish && c->set.level_wish < FM_LEVEL_RUNNING))
		return FM_NEVER;
	if (atomic_load(&c->board->makes_room))
		room = wanted(&c->room, look(c), now, &next);
	if (room != c->room.told) {
		c->room.told = room;
		c->config.makes_room(room);
	}
	return next;
}
