/* SPDX-License-Identifier: Apache-2.0 */
/* Within the software device: its state, and the engine that queue.c feeds. */
#pragma once
#include "base/clock.h"
#include "base/list.h"
#include "base/lockorder.h"
#include "sim.h"
#include <pthread.h>

enum fm_sim_entry_kind { FM_SIM_COMMAND, FM_SIM_GATE, FM_SIM_TRACK, FM_SIM_WORD };

#define FM_SIM_SAMPLES 16
#define FM_SIM_WORD_NS (20 * FM_US) /* wall time: how often the device looks at a word */

/* What stands in a queue. */
struct fm_sim_entry {
	struct fm_list node; /* of its queue's fifo, then of the device's due list */
	struct fm_simq *queue;
	enum fm_sim_entry_kind kind;
	bool open;                  /* a gate */
	bool waits;                 /* at a word: it has arrived there, */
	bool goes;                  /* has seen it open, */
	bool gone;                  /* and has said so */
	bool sample;                /* a word: the stretch behind it is timed */
	struct fm_gate_words words; /* a word to look at (gate), or to write (progress) alone */
	uint64_t progress;
	bool hang;        /* a command that never ends */
	uint64_t left_ns; /* device time that a command still needs */
	uint64_t at;      /* when it finished or was reached */
	void (*done)(void *arg);
	fm_reached_fn *reached;
	void *arg;
};

struct fm_simq {
	struct fm_list node; /* the device's round */
	struct fm_simdev *dev;
	struct fm_list fifo;
	pthread_cond_t finished_cond;
	uint64_t launched, finished; /* commands; finished after done has returned */
	uint64_t entries;            /* in fifo or due */
	bool interrupted, released;
	bool sampling; /* since, until the next word */
	uint64_t sample_since, sample[FM_SIM_SAMPLES];
	unsigned samples;
};

struct fm_simdev {
	pthread_mutex_t lock; /* of everything below, and of the queues */
	pthread_cond_t wake;  /* for the driver, or for those who wish to be it */
	struct fm_sim_options opt;
	struct fm_list queues; /* in the order of their turns */
	struct fm_list due;    /* entries whose callbacks are to be called */
	struct fm_sim_entry *running;
	uint64_t started; /* running since */
	uint64_t free_at; /* an interrupt occupies the device until then */
	uint64_t clock;   /* up to here everything has happened */
	unsigned waiting; /* queues that wait at a word */
	unsigned faults[FM_SIM_FAULT_COUNT];
	unsigned refs; /* the owner, each queue, the thread, a call in progress */
	bool orphan;   /* the owner has let go */
	bool stop;
	bool has_thread, driving;
	pthread_t driver; /* valid while driving */
};

/* All with the lock held. */

/* Wall time: let everything up to now happen; its callbacks come from the thread. */
void fm_simdev_catch_up(struct fm_simdev *d);
/* The state has changed: have the driver look. */
void fm_simdev_poke(struct fm_simdev *d);
/* Append an entry. -EAGAIN when the thread cannot be started; the entry is then still the caller's.
 */
int fm_simdev_enqueue(struct fm_simq *q, struct fm_sim_entry *e);
/* Take what needs no device time off the front of the queue: tracks, opened gates. */
void fm_simdev_settle(struct fm_simq *q);
/* Stop what runs; it keeps what it has still to do. */
void fm_simdev_stop_running(struct fm_simdev *d);
/* Is one operation of this kind to fail? */
bool fm_simdev_take_fault(struct fm_simdev *d, enum fm_sim_fault fault);
/* Does the caller run inside a callback of this device? */
bool fm_simdev_in_callback(const struct fm_simdev *d);
/* A released queue goes when nothing of it is left, or at once when the owner of the device has
 * gone. */
void fm_simdev_reap(struct fm_simq *q);
/* Drop a reference; unlocks. */
void fm_simdev_put_unlock(struct fm_simdev *d);
