/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: an XQueue's segments, gates and trackers (the cold half of struct fm_xq). */
#pragma once
#include "client.h"

/* A closed gate in the hwqueue. */
struct fm_xq_gate {
	void *token;
	uint64_t index;  /* of the segment behind it: 1, 2, ... */
	uint64_t before; /* commands in front of it */
};

/* A query under way in the driver: has everything that was launched so far finished? */
struct fm_track {
	struct fm_track *next;
	struct fm_xq *q;
	uint64_t done;  /* commands finished then */
	uint64_t index; /* of the segment that begins behind it; 0: none, at the tail */
	uint64_t at;    /* when it was reached */
	bool learns;    /* what they take: */
	bool exact;     /* the device had not begun them when all had been launched */
	unsigned n;     /* how many they are, and the kinds of the first of them */
	uint64_t key[FM_SEG_KEYS];
};

/* The kinds of the commands of a segment that is timed. */
struct fm_segment {
	unsigned n;
	uint64_t key[FM_SEG_KEYS];
};
#define FM_SEG_SAMPLES 8

/* How it is known that the device has passed the last gate. SAID: the gate writes a progress value
 * that is new. SEEN: it writes a value that was written before, so the device must first be seen at
 * the gate. UNKNOWN: this gate cannot be told from the one before. */
enum fm_pass { FM_PASS_SAID, FM_PASS_SEEN, FM_PASS_UNKNOWN };

struct fm_xq_cold {
	pthread_mutex_t order; /* fm_xq_order_take(); before `lock`. A thread that has `lock` only
				  tries to take this one */
	pthread_mutex_t lock;  /* protects everything below except atomics; held over driver calls,
				  never taken by their callbacks */
	pthread_mutex_t gates; /* protects the ring of closed gates (ring.c) */
	struct fm_xq_gate *gate;
	size_t gate_head, gate_n, gate_cap;
	unsigned opening; /* that are out of the ring, and about to open */
	/* in_driver: the thread that has `lock` may wait in the driver until the device goes on.
	 * alone: calls of fm_xq_open_alone() that have not ended. */
	_Atomic bool in_driver;
	_Atomic unsigned alone;
	uint64_t gate_index; /* of the last gate placed */
	_Atomic uint64_t segments_done;
	_Atomic uint64_t segment_at;  /* the running segment began: its gate opened, or the one
				 before it  ended */
	_Atomic uint64_t progress_at; /* last gate opened or tracker reached */
	unsigned tracks;              /* under way */
	struct fm_track *spare;       /* that are not, */
	unsigned spares;              /* so many */
	uint64_t track_index;         /* of the last one put in front of a segment */
	uint64_t tail_at;             /* when to track the tail, 0: not due */
	uint64_t tail_mark;           /* commands launched when that was last put off */
	uint64_t launch_at;  /* since when it is put off for a launch under way; 0: it is not */
	uint64_t held_still; /* level 1: for how long callers were held and nothing finished, */
	uint64_t held_done;  /* with this many done, */
	uint64_t held_seen;  /* last looked at then */
	unsigned holds;      /* level 1: callers that are held back */
	_Atomic bool interrupted; /* level 3: it is stopped in the middle of a command, */
	uint64_t stood_at;        /* since */
	uint64_t stop_at;         /* asked to stop, or to go on; 0: not since the gate changed */
	bool stop_open;           /* which of them */
	bool asked;               /* it was asked to stop, or to go on once more */
	bool told;                /* since its gate closed, and that is traced */
	uint64_t shut_at;         /* when its gate was seen closed; 0: it is not */
	/* pad.c. The agent's: on how many multiprocessors it was told to pad, and on how many it
	 * could (pad_k), whether it can, and when it is tried again; the number up to which all is
	 * made, since when that waits for a good moment, and when it is tried again. */
	uint32_t pad_told, pad_ahead;
	uint64_t pad_ahead_since, pad_ahead_again;
	uint32_t domain;
	_Atomic uint32_t pad_k;
	_Atomic bool pad_able;
	_Atomic uint64_t pad_again;
	const char *pad_why; /* why not, as last counted */
	bool pad_busy;       /* another pads, and that was counted */
	bool padding;        /* it pads, */
	uint64_t pad_at;     /* and is accounted for up to then */
	uint64_t guard_mark; /* the last command that is too long to wait for (fm_xq_guard_from) */
	bool gone;           /* the slot is another's, */
	_Atomic bool passed; /* and the device had finished everything, as the device or the driver
				had reported */
	bool stopped;        /* what config.turned was last told */
	_Atomic bool stands; /* set by callbacks: ask the hwqueue whether it is stalled */
	uint64_t fenced;     /* device gates: the device will write this progress */
	bool fenced_by_gate; /* and what writes it is a gate, */
	bool deaf;           /* the driver has refused to have any progress written since, */
	enum fm_pass pass;   /* and this is how it is known that the gate was passed; */
	uint64_t told_by;    /* once so many have finished, the device has written it */
	_Atomic uint64_t synced; /* this many have finished, as the driver reported */
	uint64_t seen_at_gate;   /* device gates: since when it has reported that it is at a closed
				    one */
	uint64_t asked_at;       /* when the driver was last asked whether the device is lost */
	uint64_t refused,
		refused_at; /* the end of this many commands could not be queried, since */
	void (*turned)(void *hwq, bool stopped, uint64_t now);
	void (*looked)(void *hwq);
	bool page_tried; /* device gates: was the page of strict mode made known to it? */
	unsigned parts;  /* device gates: of a gate in two parts the first has been placed, */
	uint64_t part_mark, part_begun; /* with this many commands in front of it, and begun */
	uint64_t vague; /* no progress up to this says for certain that the queue stands */
	bool gave_up;   /* device gates: that end counts as reached, though it is not known */
	struct fm_segment sample[FM_SEG_SAMPLES]; /* device gates: being timed, oldest first */
	unsigned sample_head, sample_n;
	bool sampling;        /* since the last gate */
	unsigned unsampled;   /* segments since one was timed */
	uint64_t sample_edge; /* the queue's edge_at then */
	bool yields;          /* yield.c */
	bool yields_blocked;  /* since a call of ours is in the way */
	uint64_t yields_since, patience;
	uint64_t still_seen, still_since, still_progress, still_done; /* it has not moved since */
	uint64_t calls_since; /* closed, and in calls ever since; 0: in none when last seen */
	uint64_t shut_out_at; /* the agent's: since when it could not take the lock; 0: it could */
	uint64_t inner_ns;    /* device gates: estimated time since the last gate in a graph */
	uint64_t inner_graph; /* that graph */
	uint64_t inner_row;   /* what it is made of so far, for fm_row_gated() */
	bool inner_whole;     /* its commands cannot stop in their middle */
	_Atomic uint64_t graph_spacing;     /* as fm_xq_graph_spacing() says */
	_Atomic(struct fm_track *) reached; /* handed over by callbacks */
	_Atomic uint32_t turn;              /* futex: advances with progress and gates */
	_Atomic uint32_t waiters;
};

static inline bool fm_est_at_most(uint64_t ns)
{
	return ns & 1;
}
void fm_est_put(uint64_t key, uint64_t ns);

/* rows.c: is there a gate in front of the last command of a row? The answer is the one that was
 * wanted when such a row was first captured. Any thread. */
bool fm_row_gated(uint64_t row, bool wanted);

/* What is known of a segment's time: it is the device's own; it may include pauses of the program;
 * or it is only a bound, because the device mostly waited for the program. */
enum fm_took { FM_EXACT, FM_WITH_PAUSES, FM_AT_MOST };

/* estimate.c: what a finished segment teaches. */
void fm_xq_learn(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t took, enum fm_took how);

/* Device time between gates in graphs, as first used; 0: not used yet. */
static inline _Atomic uint64_t *fm_xq_graph_spacing(struct fm_xq *q)
{
	return q->steered ? &q->cold->graph_spacing : &q->client->graph_spacing;
}

/* A trace point about a queue; a, b and c may tell what is under way in it. */
#define XQ_TRACE(ev, now, q, a, b, c) FM_TRACE(ev, now, (q)->slot_index, (q)->group, a, b, c)

/* Commands that can be stopped in their middle (hwqueue.h, guardian). */
static inline bool fm_xq_is_unfenced(const struct fm_xq *q)
{
	return q->ops->guardian.unfenced && q->ops->guardian.unfenced(q->hwq);
}
static inline bool fm_xq_is_stopped(const struct fm_xq *q)
{
	return q->ops->guardian.stopped && q->ops->guardian.stopped(q->hwq);
}

/* gates.c. Lock held, save where it says otherwise. */
/* A closed gate behind what was launched. */
void fm_xq_place_gate(struct fm_xq *q, bool curious, uint64_t now); /* curious: device.c */
void fm_xq_open_gates(struct fm_xq *q, uint64_t now);               /* those that are due */
void fm_xq_open_all(struct fm_xq *q); /* nothing that counts is behind them */
/* fm_xq_open_gates() without the lock, for threads that must not wait for it. */
void fm_xq_open_alone(struct fm_xq *q, uint64_t now);
static inline bool fm_xq_opens_alone(const struct fm_xq *q)
{
	return q->ops->host_gate.unlocked && q->level == FM_LEVEL_QUEUED;
}
/* Gates of this process that may be wide (hwqueue.h): is that so of this queue's, and how many
 * times farther apart are they just now? */
static inline bool fm_xq_is_widened(const struct fm_xq *q)
{
	return !q->device_gates && q->level >= FM_LEVEL_QUEUED && !q->steered &&
	       (q->client->set.wide ? q->client->set.wide : q->ops->host_gate.wide) > 1;
}
static inline unsigned fm_xq_wide(const struct fm_xq *q)
{
	if (!fm_xq_is_widened(q) ||
		atomic_load_explicit(&q->slot->shares, memory_order_relaxed) == FM_SHARES)
		return 1;
	return q->client->set.wide ? q->client->set.wide : q->ops->host_gate.wide;
}
/* ring.c. Any thread. fm_ring_open: opens the oldest gate, if it is of a segment up to that one,
 * and the queue may run (or anyway). fm_ring_front: commands in front of the oldest; UINT64_MAX:
 * none is closed. fm_ring_is_empty: and none is just being opened. */
int fm_ring_push(struct fm_xq *q, struct fm_xq_gate g);
bool fm_ring_open(struct fm_xq *q, uint64_t up_to, bool anyway);
uint64_t fm_ring_front(struct fm_xq *q);
bool fm_ring_is_empty(const struct fm_xq *q);
/* Puts a tracker behind what was launched: in front of segment `index`, or 0 at the tail. 0;
 * -EBUSY: not just now, and nothing has changed. With another negative errno the segments before
 * count as finished. */
int fm_xq_track(struct fm_xq *q, uint64_t index, bool learns);
/* Level 3: stops the running command, or continues it, as the gate says. Returns when to call
 * again. A command is continued only by the agent, or by a thread of the program that resumes the
 * queue. */
uint64_t fm_xq_interrupt(struct fm_xq *q, uint64_t now);
/* pad.c: a queue that is stopped in the middle of a command, and goes on beside the work for which
 * it was stopped. fm_xq_pad_prepare: agent only, no lock: makes that possible as the board says;
 * returns when to call again. fm_xq_pads: may it now? fm_xq_pad: one step of it; returns when to
 * call again. fm_xq_pad_asks: the queue has been told to stop, or may go on; held: it stays where
 * it is until restore() is called. fm_xq_pad_ends: it does not pad any more. */
uint64_t fm_xq_pad_prepare(struct fm_xq *q, uint64_t now);
bool fm_xq_pads(struct fm_xq *q);
uint64_t fm_xq_pad(struct fm_xq *q, uint64_t now);
void fm_xq_pad_asks(struct fm_xq *q, bool held);
void fm_xq_pad_ends(struct fm_xq *q, uint64_t now);
/* Level 3: the queue is stalled in the middle of a command. It gets as far as its gates let it. */
void fm_xq_note_stand(struct fm_xq *q);
void fm_xq_publish_gates(struct fm_xq *q);
/* The queue has come to rest: the time until it goes on is charged to no queue. */
void fm_xq_note_rest(struct fm_xq *q, uint64_t now);
/* Takes over what trackers have reported, and queries those that the driver does not report. */
void fm_xq_reap(struct fm_xq *q);
/* How long to sleep before the next look at a queue that others wait for, busy since `since`. */
static inline uint64_t fm_xq_look(uint64_t since, uint64_t now)
{
	return FM_MIN(FM_MAX(fm_sub_sat(now, since) / 8, FM_XQ_LOOK), FM_XQ_LOOK_MAX);
}
/* Unlocks, and does the work of callbacks that found the lock taken. The caller holds a reference
 * of its own. */
void fm_xq_leave(struct fm_xq *q);

/* Count commands as finished, and the device time up to now. Any thread, no lock. */
void fm_xq_advance(struct fm_xq *q, uint64_t done, uint64_t now);
/* The end of what was launched up to mark cannot be queried now. Others must not wait for ever, so
 * after FM_XQ_GIVE_UP it counts as reached. Lock held. */
void fm_xq_refused(struct fm_xq *q, uint64_t mark, uint64_t now);
/* Does anything depend on noticing the end of what is under way? */
bool fm_xq_end_matters(struct fm_xq *q);

/* progress.c: puts a tracker behind the last command, so that the end of what is under way is
 * noticed; returns when to look again. Lock held. */
uint64_t fm_xq_watch_tail(struct fm_xq *q, uint64_t now);
/* Has the device failed? fm_xq_look_for_loss: asks while nothing moves, and then counts everything
 * as finished, since nobody will report it; returns when to look again. Lock held. */
static inline bool fm_xq_is_lost(const struct fm_xq *q)
{
	return q->ops->lost && q->ops->lost(q->hwq);
}
uint64_t fm_xq_look_for_loss(struct fm_xq *q, uint64_t now);

/* Call this before any thread can hear that this many commands have finished, from the device or
 * from us. Most launches come while more commands are under way than any query has covered. They
 * compare with this value alone, and need not read the lines that other threads write
 * (fm_xq_was_idle). Both sides have full fences: either a launch sees this value, or its command is
 * seen to have begun. */
static inline void fm_xq_may_finish(struct fm_xq *q, uint64_t mark)
{
	uint64_t seen = atomic_load(&q->finishes);

	while (seen < mark && !atomic_compare_exchange_weak(&q->finishes, &seen, mark))
		;
}

/* xqueue.c: the queue was idle, and has work: fm_xq_announce() is due. Any thread. */
void fm_xq_edge(struct fm_xq *q, uint64_t now);

/* hold.c: level 1, the caller waits. est: the device time of the command it is about to launch. No
 * lock. */
void fm_xq_hold(struct fm_xq *q, uint64_t est, uint64_t start);

/* steer.c: a queue that the program itself suspends or resumes. Has it come to rest, or gone on?
 * True: the scheduler must look, too. Agent only, lock held. */
bool fm_xq_steer(struct fm_xq *q);
/* yield.c: a queue that may run and does not move lets other queues of its process go on. Agent
 * only. Without the lock, yielding may begin but not end. True: the scheduler must look. */
bool fm_xq_yield(struct fm_xq *q, bool locked, uint64_t now);
/* When to look again for that, where nothing else makes the agent look. */
uint64_t fm_xq_yield_look(struct fm_xq *q, uint64_t now);
/* Tell config.turned, if there is something to tell. No lock. */
void fm_xq_tell_turn(struct fm_xq *q);
/* The queue is no longer held. Lock held. */
void fm_xq_let_go(struct fm_xq *q);

/* No gates are placed any more, and closed gates open. */
static inline bool fm_xq_ungated(const struct fm_xq *q)
{
	return atomic_load(&q->client->stop) || (fm_client_ungated(q->client) && !q->steered);
}

/* Nothing of ours holds what the queue has under way: it may run, or has not reached its gate. A
 * queue that the program itself has suspended counts as free, since this thread may be the one that
 * resumes it. */
static inline bool fm_xq_free(struct fm_xq *q)
{
	return fm_xq_may_run(q) || fm_xq_own_suspended(q) ||
	       (q->device_gates && !fm_slot_waits(q->slot) && !fm_xq_is_padding(q));
}

/* For a thread that waits until the queue moves. It must not wait for ever, since the queue may
 * wait for this very thread. So only the time counts in which the queue was free. Returns how much
 * of the time since *now that was, and sets *now. was_free: the queue was free at *now. */
static inline uint64_t fm_xq_free_ns(struct fm_xq *q, bool was_free, uint64_t *now)
{
	uint64_t since = *now;

	*now = fm_now();
	return was_free && fm_xq_free(q) ? *now - since : 0;
}

/* device.c: gates that the device itself looks at (hwqueue.h, gate). Lock held. */
/* Strict mode: falls back to level 1 unless the device can read memory that the program cannot
 * write. Returns when to try again. */
uint64_t fm_xq_device_reach(struct fm_xq *q, uint64_t now);
/* A gate. curious: time the segment behind it. */
void fm_xq_device_place(struct fm_xq *q, bool curious, uint64_t now);
/* Behind a gate for a call that launches nothing: an idle queue whose gate is closed would stand
 * there without work, and nothing would open the gate. So one command counts as behind it. */
void fm_xq_device_stands(struct fm_xq *q, uint64_t now);
/* The same for a queue that was told to stop in the middle of a command, and has a gate behind it:
 * the driver may have said since that all of its work is over. Such a queue stays stopped until its
 * gate has opened. Not where the driver refuses to have anything written: its end never comes. */
void fm_xq_device_stopped(struct fm_xq *q, uint64_t now);
/* Can a command of a kind not seen before be timed, with a gate in front of it? */
bool fm_xq_device_curious(struct fm_xq *q);
/* A segment would end in front of this command. True: the segment goes on instead. */
bool fm_xq_device_far(struct fm_xq *q, uint64_t est, uint64_t now);
uint64_t fm_xq_device_pump(struct fm_xq *q, uint64_t now); /* returns when to look again */
void fm_xq_device_look(struct fm_xq *q, uint64_t now);     /* and have the device report its end */
void fm_xq_device_close(struct fm_xq *q);                  /* order held */
/* For a queue that is done: the progress that the device writes when it has passed the last gate.
 * 0: it has passed that gate; UINT64_MAX: there is no way to know. */
uint64_t fm_xq_device_owes(const struct fm_xq *q);
/* life.c: the level from now on. Lock held, or not in use yet. */
void fm_xq_set_level(struct fm_xq *q, enum fm_level level);

/* turn.c */
void fm_turn_wake(struct fm_xq *q);
/* Wait until the turn moves on from `seen`, at most until `deadline`. Not a cancellation point. */
void fm_turn_wait(struct fm_xq *q, uint32_t seen, uint64_t deadline);
