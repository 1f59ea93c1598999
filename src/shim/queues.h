/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what a shim keeps for a queue of the driver's by the queue's handle, from its first command
 * to its end.
 *
 * Owns: the map from handles to entries. An entry is the API's own struct, which begins with
 * FM_SHIM_ENTRY. It is in the map until it is taken out; the hwqueue's release() frees it some time
 * after its XQueue was closed. And what handles were made with, for APIs that do not say so later.
 *
 * Locks: made.lock, over changes of what handles were made with. And one for changes of the map,
 * and for the use of a queue that this thread does not launch on, which another thread may be
 * closing. It is taken before all locks of an XQueue. Launches look up without it.
 *
 * Threads: any thread of the program; the agent does not come here.
 *
 * Fails open: a queue for which no XQueue could be made is refused. Its commands go to the driver
 * as they are, and are counted.
 *
 * A driver may give the handle of a queue that has ended to a new one. So the entry leaves the map
 * before the driver's call that ends the queue. A shim that sees a new handle calls fm_shim_close()
 * for an entry that may still be there. Elsewhere a queue is identified by its key and its
 * generation, which no later queue has.
 */
#pragma once
#include "base/count.h"
#include "bind.h"
#include "map.h"
#include "shim.h"

#define FM_SHIM_ENTRY_MEMBERS                                                               \
	struct fm_xq *xq;                                                                   \
	const void *thread;  /* the thread whose default queue it is; NULL: any thread's */ \
	uintptr_t key;       /* in the map */                                               \
	uint64_t generation; /* distinguishes all queues that were ever under this key */

struct fm_shim_entry {
	FM_SHIM_ENTRY_MEMBERS
};

/* The first member of the API's own struct: `entry`, whose members are also that struct's. */
#define FM_SHIM_ENTRY                         \
	union {                               \
		struct fm_shim_entry entry;   \
		struct {                      \
			FM_SHIM_ENTRY_MEMBERS \
		};                            \
	}

/* What a handle refers to, when the first command comes. */
struct fm_shim_place {
	uintptr_t handle;
	uintptr_t key;      /* in the map: the handle's own, or that of a default queue */
	const void *of;     /* the context or device that it ends with */
	const void *thread; /* NULL, or this thread, with which it also ends */
	unsigned group;     /* that the new queue joins: its index */
};

struct fm_shim_queue_ops {
	/* Takes the place in the map of queues without an XQueue. It is no queue's entry. NULL:
	 * fm_shim_refused. */
	struct fm_shim_entry *refused;

	/* For fm_shim_first(). where: fills in `at`, which has the handle, for this thread; false:
	 * the driver cannot tell. init: fills in an entry of that size, which has its key and its
	 * thread and is zero otherwise, and `config` for its XQueue: the operations, the hwqueue
	 * (it is the entry, if nothing else is said) and in `device` the device's name; false: that
	 * is not possible, and the hwqueue is released. make: in the place of init, makes an entry
	 * with an XQueue, a key and a thread; NULL: that is not possible. */
	bool (*where)(struct fm_shim_place *at);
	size_t size;
	bool (*init)(struct fm_shim_entry *e, const struct fm_shim_place *at,
		struct fm_xq_config *config, char device[FM_DEVKEY_MAX]);
	struct fm_shim_entry *(*make)(struct fm_client *c, const struct fm_shim_place *at);

	/* For fm_bind(). may_bind: 0, or why the queue of this handle cannot be bound, before any
	 * of the above. bind, unbind: in the place of what is done for all APIs. May be NULL. */
	int (*may_bind)(uintptr_t handle);
	int (*bind)(void *queue, const struct fm_binding *binding);
	int (*unbind)(void *queue);

	/* The entry has entered the map; it has left the map. Called under the lock. May be
	 * NULL. */
	void (*entered)(struct fm_shim_entry *e);
	void (*left)(struct fm_shim_entry *e);
	/* Called before its XQueue is closed. wait: return when no thread calls the program about
	 * it any more. May be NULL. */
	void (*closing)(struct fm_shim_entry *e, bool wait);
	/* After that: the map lets go of the entry. False: calls are under way that use its XQueue,
	 * and the last of them closes it (fm_xq_close). May be NULL: the program ends no queue
	 * while it is in a call for it. */
	bool (*let_go)(struct fm_shim_entry *e);
};

extern struct fm_map fm_shim_map;
extern struct fm_shim_entry fm_shim_refused;

/* The keys of default queues: of a context or device, and of this thread there. Handles are
 * addresses, so these differ from them in the lowest two bits. of: a multiple of 4, not 0. */
static inline uintptr_t fm_shim_default_key(const void *of)
{
	return (uintptr_t)of | 1;
}

static inline uintptr_t fm_shim_thread_key(const void *of)
{
	uintptr_t h = (uintptr_t)of;

	h = (h ^ (uintptr_t)fm_this_thread() * UINT64_C(0xbf58476d1ce4e5b9)) *
	    UINT64_C(0x9e3779b97f4a7c15);
	return (h & ~(uintptr_t)3) | 2;
}

/* Takes no lock. NULL: there is none yet. The result may be the refused one. It is valid while the
 * program itself may use the queue, and while the caller is in a call for it that is counted:
 * fm_xq_begin() to fm_xq_end(), or fm_xq_use() to fm_xq_used(). */
static inline void *fm_shim_look_up(uintptr_t key)
{
	return fm_map_find(&fm_shim_map, key);
}

/* The first command on a queue: makes its entry and puts it into the map. found: the result of
 * fm_shim_look_up(). not_now: nothing may be made at this moment. NULL: the command bypasses us,
 * and is counted as a call of that name. */
FM_COLD struct fm_shim_entry *fm_shim_first(
	uintptr_t handle, const void *found, bool not_now, const char *call);

/* For queues of fm_shim_refused. The entry under a key; NULL: there is none. */
static inline void *fm_shim_find(uintptr_t key)
{
	void *e = fm_shim_look_up(key);

	return e == &fm_shim_refused ? NULL : e;
}

/* And that of a command, whose queue's key is its handle: it is made at the first one. NULL: the
 * command bypasses us, and is counted as a call of that name. */
static inline void *fm_shim_queue(const void *handle, const char *call)
{
	void *e = fm_shim_look_up((uintptr_t)handle);

	if (FM_LIKELY(e && e != &fm_shim_refused))
		return e;
	return fm_shim_first((uintptr_t)handle, e, false, call);
}

/* What the handle was made with is known from now on; NULL: no more, since it ends. Returns what is
 * not kept: what it was made with before, or the new one if there is no memory. From the first call
 * on, forks are heard of: a child knows nothing of that. */
void *fm_shim_made(const void *handle, void *with);
/* NULL: that is not known. */
void *fm_shim_made_with(const void *handle);

/* The key of the queue with this handle, whose entry is made if it is not there yet. 0, or a
 * negative errno as in <fermata/bind.h>. There is a client. */
int fm_shim_reach(uintptr_t handle, uintptr_t *key);

/* Puts the entry into the map. Returns what is there then: another entry, if another thread was
 * quicker, or the refused one, if the map is full; e is closed in both cases. e may be the refused
 * one. */
struct fm_shim_entry *fm_shim_enter(struct fm_shim_entry *e, uintptr_t key);
/* Puts the entry in the place of *was, the entry there before, which is to be passed to
 * fm_shim_close_entry(). False: the map is full, and e is not in it. */
bool fm_shim_replace(struct fm_shim_entry *e, struct fm_shim_entry **was);
/* The queue is about to end, or the handle belongs to another one by now: the entry leaves the map
 * and is closed. */
void fm_shim_close(uintptr_t key, bool wait);
/* The same for all entries for which `is` is true. It is called under the lock, and may write into
 * them. refused_key: a key that is also taken out if it was refused; 0: none. */
void fm_shim_close_if(bool (*is)(struct fm_shim_entry *e, const void *arg), const void *arg,
	uintptr_t refused_key);
/* For an entry that has left the map. May be NULL. */
void fm_shim_close_entry(struct fm_shim_entry *e, bool wait);

/* For the use of queues that this thread does not launch on. */
void fm_shim_lock(void);
void fm_shim_unlock(void);
/* Under the lock. NULL: there is none, or it is refused. */
struct fm_shim_entry *fm_shim_at(uintptr_t key);
/* Takes the lock, and calls `look` for all entries until it returns false. */
void fm_shim_each(bool (*look)(struct fm_shim_entry *e, void *arg), void *arg);
/* fm_xq_nudge() for all of them, without the lock. */
void fm_shim_nudge(void);
/* The XQueues of the entries for which `is` is true, each with a reference (fm_xq_unref). There are
 * at most FM_BOARD_SLOTS. Returns how many. */
size_t fm_shim_keep(struct fm_xq **xq, bool (*is)(const struct fm_shim_entry *e, const void *arg),
	const void *arg);

/* For fork_child of struct fm_shim_api: the child knows no queue of its parent's, no thread that
 * ends, no capture and nothing that was made, and the locks are free. */
void fm_shim_forget_queues(void);
