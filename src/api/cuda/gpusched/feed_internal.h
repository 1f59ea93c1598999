/* SPDX-License-Identifier: Apache-2.0 */
/* For feed.c and feed_life.c. */
#pragma once
#include "feed.h"
#include <pthread.h>

struct work {
	struct fm_cu_feed_task task;
	uint64_t asked; /* jobs that the host has released */
	uint64_t jobs;  /* that stand in the stream, or stood there, as a whole */
	uint32_t chunk; /* the next one */
	uint64_t begun; /* that the maker has been told of */
	bool ahead;     /* jobs stand in the stream before they are released */
	bool early;     /* that, or it comes after one of which that is so */
	bool tells;     /* the job that is being put: then the maker is told, and not later */
	bool retired;   /* its jobs in advance count as released */
	bool filling, off,
		flushed; /* flushed: nothing of a task that is off is left in its stream */
	uint32_t cut;    /* a job of which not all chunks could be put: 1 */
	int error;
};

struct fm_cu_feed {
	const struct fm_cu_driver *cu;
	CUcontext ctx;
	struct fm_cu_gates *gates;
	struct fm_cu_feed_hooks hooks;
	uint32_t n;
	unsigned depth;
	pthread_mutex_t park;    /* over news of a park, so that they come in order */
	pthread_mutex_t reading; /* over the words that are read */
	pthread_mutex_t lock;    /* of all that follows; held over no call of the driver's */
	pthread_cond_t cond;     /* something was released, or has run, or the end */
	bool stop, lost;
	bool opened;                /* what stood in the streams of one that is lost */
	bool program_parks, parked; /* parked: as the device was told */
	bool aside;                 /* likewise: parked, and nobody has stopped it */
	bool stops, stands;         /* a stop is waited for; nothing runs */
	unsigned parks;             /* how often `parked` has changed */
	unsigned inside;
	uint64_t finished;     /* as it was told */
	uint64_t counted_over; /* of those that count() has told of; and as the maker knows */
	uint64_t told_over;
	_Atomic bool has_words;
	bool drains, retires;
	bool left;          /* as the device was told */
	bool barred;        /* as the maker has said last */
	uint64_t seen_done; /* jobs, when the last look began */
	/* Of the thread, or under `park': */
	uint64_t expired; /* stays, of which the device was told that they are over */
	uint64_t clock_at, lost_notes;
	uint64_t shown, show_at; /* the decision that was shown; when the next one may be */
	bool shown_parked;
	bool notes; /* as the device was told */
	uint64_t word[FM_GATES_TASKS];
	CUdeviceptr words;
	pthread_t thread;
	struct work work[FM_GATES_TASKS];
};

void *fm_cu_feed_look(void *feed); /* the thread */

static inline uint64_t fm_cu_feed_told(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* feed_resident.c. The lock is held: */
void fm_cu_feed_find_early(struct fm_cu_feed *f);
uint64_t fm_cu_feed_next_wake(const struct fm_cu_feed *f); /* when to look for its sake */
/* The lock is not held, and the context is current. */
void fm_cu_feed_keep_resident(struct fm_cu_feed *f);
/* Likewise, in the thread. */
void fm_cu_feed_look_resident(struct fm_cu_feed *f);
void fm_cu_feed_read_notes(struct fm_cu_feed *f);
