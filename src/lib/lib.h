/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the library: what is behind the public handles.
 *
 * Owns: what is behind the handles of <fermata/fermata.h>.
 *
 * Locks: one for each hwqueue, over its references, and one for each waiter. Neither is held over a
 * call of the program's, or of the client.
 *
 * Threads: any thread of the program; a waiter's own thread, for a queue that can only be waited
 * for; the thread that releases a hwqueue.
 */
#pragma once
/* Everything is compiled hidden; what the public header declares is exported (see exports.map). */
#pragma GCC visibility push(default)
#include <fermata/fermata.h>
#pragma GCC visibility pop
#include "api/soft/sim.h"
#include "base/lockorder.h"
#include "board/proto.h"
#include "xqueue/xqueue.h"
#include <pthread.h>

/* Handles carry the generation in which they were made; fork() begins a new one in the child. */
unsigned fm_lib_generation(void);
unsigned fm_lib_born(void); /* for what is made now; fork() is handled from here on */
static inline bool fm_lib_alive(unsigned generation)
{
	return generation == fm_lib_generation();
}

/* The process's client, or NULL when switched off. */
struct fm_client *fm_lib_client(void);

struct fm_group {
	unsigned generation;
	uint32_t index;
	char name[FM_NAME_MAX];
	struct fm_group *next;
};

struct fm_sim_device {
	unsigned generation;
	char name[FM_DEVKEY_MAX];
	struct fm_simdev *dev;
};

/*
 * A hwqueue. Its ops take the struct itself. It belongs to the program, and to an XQueue and its
 * agent. The latter calls release some time after the XQueue was closed, hence two references.
 */
struct fm_hwqueue {
	unsigned generation;
	char device[FM_DEVKEY_MAX];
	const struct fm_hw_ops *ops;
	struct fm_simq *sim;        /* or: */
	struct fm_hwqueue_ops user; /* size: 0 for a sim queue */
	void *ctx;
	_Atomic bool taken;
	pthread_mutex_t lock; /* of the following */
	pthread_cond_t cond;
	unsigned refs;
	bool released;
};

/* The caller fills in ops and what is behind them. device is checked: -EINVAL. */
int fm_hwqueue_new(struct fm_hwqueue **out, const char *device);
/* For release ops. */
void fm_hwqueue_released(struct fm_hwqueue *h);
/* Drop the XQueue's reference, after the release if that comes within a second. */
void fm_hwqueue_leave(struct fm_hwqueue *h);
/* A condition on CLOCK_MONOTONIC. 0 or -ENOMEM. */
int fm_lib_cond_init(pthread_cond_t *cond);
/* Wait until the absolute time; false: that time has come. */
bool fm_lib_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline);

/* Level 1 without track: completion is known only by waiting for the device. Waits with a time
 * limit need a thread that can be left behind in the driver. */
struct fm_waiter {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pthread_t thread;
	bool started, stop;
	uint64_t wanted, synced; /* waited for; known to be finished */
	unsigned failures;
	int error; /* of the last failure */
};

struct fm_xqueue {
	unsigned generation;
	struct fm_xq *xq; /* NULL: Fermata is switched off */
	struct fm_hwqueue *hwq;
	_Atomic uint64_t submitted; /* without xq */
	_Atomic uint64_t completed;
	struct fm_waiter waiter;
};

uint64_t fm_xqueue_mark(struct fm_xqueue *q);

/* waiter.c: all that was submitted up to seq has finished, learnt by sync. */
int fm_waiter_init(struct fm_waiter *w);
void fm_waiter_fini(struct fm_waiter *w);
int fm_waiter_wait(struct fm_xqueue *q, uint64_t seq, uint64_t timeout_ns);
