/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device API can do with one of its queues, the hwqueue, in order or out of order. The
 * operations stand in tables, by what they are for:
 *
 *   base         9  launch, and notice the end: level 1, "hold back what has not been launched"
 *   host_gate    2  a gate that this process opens: level 2, "stall what is queued in the driver"
 *   device_gate  6  instead: a gate at which the device itself looks at a word of memory
 *   stop         2  level 3, "stop what runs on the device"
 *   guardian     5  commands that are launched so that they can be stopped in their middle
 *
 * The levels are those of XSched's hardware model (OSDI 2025, section 4). Capabilities are tried,
 * not assumed: levels() answers what this hwqueue has shown to do. A table that is there has all
 * operations that are not called optional; one that is not there is all NULL. What is done in the
 * place of an optional operation that is NULL stands behind "Default".
 *
 * Owns: nothing: these are tables, which backends fill in.
 * Locks: an XQueue's lock (xqueue/segment.h) is held over all operations but launch, reactivate,
 * and those called from any thread. If an API lets one thread at a time use a queue, its lock
 * (queue_lock.h) comes before the XQueue's, and operations only try it. A backend may take its own
 * locks under it; its callbacks take no lock of an XQueue, they only try to. Threads: any may call
 * operations; those of one hwqueue one at a time, save launch, which programs may call concurrently
 * with everything, and where it says "any thread".
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Told once by track(): may come from a driver's callback thread, or from inside track() itself.
 * The receiver waits for no lock; it may call reactivate, and track, from there. */
typedef void fm_reached_fn(void *cookie, uint64_t now);

/* Words of shared memory that a device can reach, and the whole mapping that they lie in, which
 * outlives the hwqueue. The gate word may lie in another, which this process can only read, and
 * which begins with eight bytes that never change as well. */
struct fm_gate_words {
	void *map;
	size_t map_size;
	void *gate_map;
	size_t gate_map_size;
	_Atomic uint32_t *gate, *waiting;
	_Atomic uint64_t *progress;
	/* In `map`; NULL: none. Behind the gate the device waits for it, too. */
	_Atomic uint32_t *hold;
	/* In `map`; NULL: none. Behind the gate the device waits for `rest`, too, and for `leave`
	 * when it has written that it goes on. So a process that has closed both, and then reads
	 * that the device stands at a gate, knows that the device does not pass it: what it read
	 * may be old only if the device waits for `leave`. */
	_Atomic uint32_t *rest, *leave;
	/* In `map`; NULL: none. Of gates that are not parts, and not within a command: the device
	 * has said that it stands; before it looks at the gate it waits until this has reached
	 * `number`, by a difference that wraps around. */
	_Atomic uint32_t *memory;
	uint32_t number;
	/* The hwqueue may be let past a gate while the lowest bit of the gate word alone is zero
	 * (guardian.pad). */
	bool pads;
};

/* An object that this process opens (an event, a semaphore). A closed gate is put behind what was
 * launched: what is launched after it stays in the driver's queue until reactivate(gate), which
 * consumes the gate. */
struct fm_host_gate_ops {
	int (*deactivate)(void *hwq, void **gate);
	void (*reactivate)(void *hwq, void *gate);
	/* A thread may wait inside deactivate or track until the device goes on (the driver's queue
	 * is full). So reactivate is also called without the XQueue's lock: by several threads at
	 * once, in any order of gates. It needs no lock that is held over those two. */
	bool unlocked;
	/* While the queue need not be stopped, its gates are so many times farther apart, and the
	 * fewer of them are open ahead (FM_XQ_LEAD_ALONE). 0 and 1: as close as always. */
	unsigned wide;
};

/* Instead of that: a word of memory for which the device itself waits. */
struct fm_device_gate_ops {
	/* When all that was launched has finished the device writes 2 * finished + 1 to
	 * w->progress; then it waits for *w->gate to be zero, then for *w->hold and *w->rest, and
	 * writes 2 * finished; then it waits for *w->leave. With `sample` the stretch from
	 * this gate to the next is timed. -EOPNOTSUPP: the device cannot look at the gate word. */
	int (*gate)(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool sample);
	/* The same gate in two parts, between which the caller puts something into the hwqueue that
	 * only waits. So the device says that it stands there while it waits for that, too.
	 * Optional. Default: it says so only when that wait is over. */
	int (*part)(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool second);
	/* The last write alone: no gate. It may be called while the program uses the hwqueue.
	 * -EBUSY when that must not be touched just now, -EAGAIN when it may be soon. */
	int (*write_fence)(void *hwq, const struct fm_gate_words *w, uint64_t finished);
	/* The times of the stretches that were timed, oldest first: 1 with *ns (0: it could not be
	 * timed), 0 when there is none yet. *exact is false where the device may have waited for
	 * the program meanwhile. */
	int (*sampled)(void *hwq, uint64_t *ns, bool *exact);

	/* Gate words will be in a mapping of their own: can the device wait for them there? Any
	 * thread, at any time. -EBUSY: that cannot be said just now. Optional. Default: it can. */
	int (*reach_gates)(void *hwq, const struct fm_gate_words *w);
	/* A gate inside a command that the program composes (a graph): *w->waiting is 1 as long as
	 * the device waits at it, and progress is not written; *w->rest is not waited for. w NULL:
	 * a seam, which is a place where such a gate may be made later, and at which nothing waits
	 * until then. Optional. Default: such commands have no gates. */
	int (*inner)(void *hwq, const struct fm_gate_words *w);
};

/* interrupt stops the running command and keeps what it has done; restore continues it. Both are
 * idempotent. interrupt: 0, it stands; -EINPROGRESS, it will, if the command is one that can be
 * stopped: whoever made the hwqueue then says so by fm_xq_stands(), or, where the device looks at
 * gates, it is asked again; -EAGAIN: not just now, and it is asked again at once; -EALREADY: it
 * does not run, or rests between two commands. restore: -EAGAIN: it shall be called once more a
 * little later. */
struct fm_stop_ops {
	int (*interrupt)(void *hwq);
	int (*restore)(void *hwq);
};

/* For a device that looks at gates, and whose commands are changed so that they can be stopped in
 * their middle. All are optional. */
struct fm_guardian_ops {
	/* Has no gate been put since commands were launched to be stopped in their middle? Then
	 * their end cannot be asked for. Exact with the queue's order held (fm_xq_order_take()).
	 * Default: there are no such commands. */
	bool (*unfenced)(void *hwq);
	/* `n` commands have been launched since the last gate: if each of them can be stopped in
	 * its middle just now, how many may there be until the next gate? 0: not all can. Default:
	 * 0, gates stand as close as those of other commands. */
	unsigned (*max_unfenced)(void *hwq, unsigned n);
	/* It was told to stop in the middle of a command, and has not gone on as it was; nobody may
	 * take it for ended. Any thread. Default: it has, as soon as restore() has returned 0. */
	bool (*stopped)(void *hwq);
	/* What is no command, and takes room in the device all the same (it orders commands): may
	 * such be under way, so far as is known, if `done` commands have finished? Any thread.
	 * ask: the driver is asked first, for all that was there when `passed` commands had been
	 * passed to it by the program. Default: there is none. */
	bool (*query)(void *hwq, uint64_t done, uint64_t passed, bool ask);
	/* What was stopped in the middle goes on, beside the work for which it was stopped, on few
	 * of the device's multiprocessors. pad_ready: makes that possible on k of them (0: not any
	 * more), without the lock of the XQueue: on how many it is possible now, which is k, or,
	 * where `fewer' will do, less; -EAGAIN, not just now; or another negative errno, with *why,
	 * or NULL. pad: to be called for a hwqueue that is at rest, and then
	 * again and again while it may pad: -EINPROGRESS, it does; 0, it stands; -EBUSY, likewise,
	 * because another hwqueue pads; -ESTALE, likewise, until pad_ready was called again;
	 * -EALREADY, as interrupt says. interrupt and restore end it. Default: there is no such
	 * thing. */
	int (*pad_ready)(void *hwq, unsigned k, bool fewer, const char **why);
	/* Makes what pad_ready would make for each number up to `most': to be called again while it
	 * says -EAGAIN, when the program has time for it. 0: there is no more to be made. As
	 * pad_ready. Default: there is nothing. */
	int (*pad_ahead)(void *hwq, unsigned most);
	int (*pad)(void *hwq, unsigned k);
	/* How many multiprocessors there are in all, where such a thing was made; else 0. */
	unsigned (*pad_of)(void *hwq);
	/* Is a call of ours in the driver that waits for what hwqueues have to do, so that calls of
	 * the program may wait for it? Any thread. Default: none is. */
	bool (*blocked)(void *hwq);
	/* Work comes to a hwqueue that was idle, and others are about to stop for it. Is there
	 * anything to put in front of it, so that it finds the whole device? put: then that is put,
	 * in the thread that launches. Default: there is nothing. */
	bool (*enter)(void *hwq, bool put);
};

struct fm_hw_ops {
	const char *name;

	/* Bits (1 << level) of what works on this hwqueue. */
	unsigned (*levels)(void *hwq);
	/* One command (the caller's own structure), asynchronously, in the caller's thread. May be
	 * NULL for a shim: there the program itself calls the driver. */
	int (*launch)(void *hwq, const void *command);
	/* Waits for all that was launched. */
	int (*sync)(void *hwq);
	/* Does not block: reached(cookie) when all that was launched before has finished. An
	 * operation that fails returns a negative errno; a failed track never calls reached.
	 * -EBUSY: the hwqueue is another thread's just now (queue_lock.h), so it is tried again
	 * soon, for as long as that takes; with another errno an end counts as reached after a
	 * while. Not -EBUSY in the thread that closes the hwqueue. Optional. Default: an end is
	 * known when the program has waited for it, or the device has written it. */
	int (*track)(void *hwq, fm_reached_fn *reached, void *cookie);
	/* Where the driver does not call back: calls `reached` for what has come meanwhile, oldest
	 * first, with the time at which it came as near as can be said. Optional. Default: the
	 * driver calls back. */
	void (*reap)(void *hwq);
	/* The program is about to destroy the hwqueue, in this thread: the last call that may use
	 * the driver's. What is tracked counts as reached. Optional. Default: nothing. */
	void (*close)(void *hwq);
	/* The XQueue lets go of the hwqueue: the last call for it. orphaned: the device may still
	 * have to go past a gate, and nobody will hear when it has. Optional. Default: nothing. */
	void (*release)(void *hwq, bool orphaned);
	/* The process exits: no calls to the driver from threads of the hwqueue's own any more.
	 * Optional. Default: there are no such threads. */
	void (*quiesce)(void *hwq);
	/* Has the device failed, so that nothing that was launched will end, or be told of? Asked
	 * while nothing moves. Everything then counts as finished, and gates open. From then on
	 * trackers under way are told of soon, and none is refused. Optional. Default: it never
	 * has. */
	bool (*lost)(void *hwq);

	struct fm_host_gate_ops host_gate;
	struct fm_device_gate_ops device_gate;
	struct fm_stop_ops stop;
	struct fm_guardian_ops guardian;
};
