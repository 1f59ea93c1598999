/* SPDX-License-Identifier: Apache-2.0 */
/* Within the room: an XQueue's segments, gates and trackers (the cold half of struct fm_xq). */
#pragma once
#include "client.h"

/* A closed gate in the hwqueue. */
struct fm_xq_gate {
	void *token;
	uint64_t index;  /* of the segment behind it: 1, 2, ... */
	uint64_t before; /* commands in front of it */
};

/* "Tell me when all that was launched so far has finished", under way in the driver. */
struct fm_track {
	struct fm_track *next;
	struct fm_xq *q;
	uint64_t done;  /* commands finished then */
	uint64_t index; /* of the segment that begins behind it; 0: none, at the tail */
	uint64_t at;    /* when it was reached */
	unsigned n;     /* how many they are, and the kinds of the first of them */
	uint64_t key[FM_SEG_KEYS];
};

struct fm_xq_cold {
	pthread_mutex_t lock;    /* all below, save atomics; held over driver calls, never by their
				    callbacks */
	struct fm_xq_gate *gate; /* ring of closed gates */
	size_t gate_head, gate_n, gate_cap;
	uint64_t gate_index; /* of the last gate placed */
	uint64_t segments_done;
	uint64_t segment_at;  /* the running segment began: its gate opened, or the one before it
				 ended */
	uint64_t progress_at; /* last gate opened or tracker reached */
	unsigned tracks;      /* under way */
	uint64_t tail_at;     /* when to track the tail, 0: not due */
	uint64_t held_at_done,
		held_since; /* level 1: the window is full, with so many done, since */
	bool interrupted;   /* level 3 */
	_Atomic(struct fm_track *) reached; /* handed over by callbacks */
	_Atomic uint32_t turn;              /* futex: advances with progress and gates */
	_Atomic uint32_t waiters;
};

/* estimate.c: what a finished segment teaches. `exact`: measured at the device's pace; else the
 * time may hold pauses of the program. */
void fm_xq_learn(struct fm_xq *q, const uint64_t *key, unsigned n, uint64_t took, bool exact);

/* turn.c */
void fm_turn_wake(struct fm_xq *q);
/* Wait until the turn moves on from `seen`, at most until `deadline`. Not a cancellation point. */
void fm_turn_wait(struct fm_xq *q, uint32_t seen, uint64_t deadline);
