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
	bool program_parks, parked; /* parked: as the device was told */
	bool stops, stands;         /* a stop is waited for; nothing runs */
	unsigned parks;             /* how often `parked` has changed */
	unsigned inside;
	uint64_t finished; /* as it was told */
	pthread_t thread;
	struct work work[FM_GATES_TASKS];
};

void *fm_cu_feed_look(void *feed); /* the thread */
