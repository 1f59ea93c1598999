/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For APIs that let one thread at a time use a queue, as Vulkan does: the program sees to that for
 * its own calls, and a shim for the calls that Fermata makes. This is the lock for it.
 *
 * The shim takes it around each call of the program that uses the queue, from before
 * fm_xq_begin() to after fm_xq_end(). Such a call may take long (it waits for the device, or for
 * room in the queue), and the device may wait for a gate meanwhile. So it is taken before an
 * XQueue's lock, and an operation of the hwqueue only tries it: track and deactivate answer -EBUSY
 * if it is another thread's. reactivate does without it.
 *
 * Owns: nothing.
 * Locks: the one that it is.
 * Threads: any.
 */
#pragma once
#include "base/count.h"
#include "base/lockorder.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct fm_queue_lock {
	pthread_mutex_t lock;
	_Atomic(const void *) owner; /* NULL: nobody */
};

static inline void fm_queue_lock_init(struct fm_queue_lock *l)
{
	pthread_mutex_init(&l->lock, NULL);
	fm_lock_rank(&l->lock, API_QUEUE);
	atomic_init(&l->owner, NULL);
}

static inline void fm_queue_lock_destroy(struct fm_queue_lock *l)
{
	pthread_mutex_destroy(&l->lock);
}

/* In the program's calls; with no lock of an XQueue. */
static inline void fm_queue_lock_take(struct fm_queue_lock *l)
{
	pthread_mutex_lock(&l->lock);
	atomic_store_explicit(&l->owner, fm_this_thread(), memory_order_relaxed);
}

static inline void fm_queue_lock_give(struct fm_queue_lock *l)
{
	atomic_store_explicit(&l->owner, NULL, memory_order_relaxed);
	pthread_mutex_unlock(&l->lock);
}

/* In an operation of the hwqueue. 0, and *mine tells whether this thread had it before, so that
 * fm_queue_lock_untry() leaves it; or -EBUSY. Not in a callback that the driver may call in a
 * thread of the program's that is inside the driver. */
static inline int fm_queue_lock_try(struct fm_queue_lock *l, bool *mine)
{
	*mine = atomic_load_explicit(&l->owner, memory_order_relaxed) == fm_this_thread();
	if (*mine)
		return 0;
	if (pthread_mutex_trylock(&l->lock))
		return -EBUSY;
	atomic_store_explicit(&l->owner, fm_this_thread(), memory_order_relaxed);
	return 0;
}

static inline void fm_queue_lock_untry(struct fm_queue_lock *l, bool mine)
{
	if (!mine)
		fm_queue_lock_give(l);
}
