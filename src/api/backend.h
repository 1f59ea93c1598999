/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device API can do with one of its in-order (or out-of-order) queues, the hwqueue, as an
 * ops table of three levels, after XSched's hardware model (OSDI 2025, section 4):
 *
 *   level 1  launch, sync            hold back what has not been launched
 *   level 2  deactivate, reactivate  stall what is queued in the driver
 *   level 3  interrupt, restore      stop what runs on the device
 *
 * Capabilities are tried, not assumed: levels() answers what this hwqueue has shown to do. An op of
 * a level that is absent is NULL. Ops are called from any thread; those of one hwqueue at a time,
 * save launch, which programs may call concurrently with everything.
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
	_Atomic uint32_t
		*hold; /* in `map`; NULL: none. Behind the gate the device waits for it, too */
};

struct fm_backend_ops {
	const char *name;

	/* Before all else: the memory in which gate words of this hwqueue will lie, which begins
	 * with eight bytes that never change. May be NULL. */
	void (*reach)(void *hwq, void *map, size_t map_size);

	/* Bits (1 << level) of what works on this hwqueue. */
	unsigned (*levels)(void *hwq);

	/* Level 1. launch runs one command (the backend's or the caller's own structure) in the
	 * caller's thread; a shim has no use for it: there the program itself calls the driver.
	 * sync waits for all that was launched. track does not block: reached(cookie) when all that
	 * was launched before has finished. An op that fails returns a negative errno; a failed
	 * track never calls reached. */
	int (*launch)(void *hwq, const void *command);
	int (*sync)(void *hwq);
	int (*track)(void *hwq, fm_reached_fn *reached, void *cookie);
	/* Where the driver does not call back: tells `reached` of what has come meanwhile, oldest
	 * first, with the time at which it came as near as can be said. Else NULL. */
	void (*reap)(void *hwq);

	/* Work comes to a hwqueue that was idle, and others are about to stop for it. Is there
	 * anything to put in front of it, so that it finds the whole device? Then that is put,
	 * before the launch, in its thread. May be NULL. */
	bool (*enters)(void *hwq);
	void (*enter)(void *hwq);

	/* Level 2. deactivate puts a closed gate behind what was launched: what is launched after
	 * it stays in the driver's queue until reactivate(gate), which consumes the gate. */
	int (*deactivate)(void *hwq, void **gate);
	void (*reactivate)(void *hwq, void *gate);

	/* Level 2 where the device itself can wait for a word of memory, in place of the two above.
	 * gate: when all that was launched has finished the device writes 2 * finished + 1 to
	 * w->progress; then it waits for *w->gate to be zero, then for *w->hold, and writes 2 *
	 * finished. tell: the last alone; it may be called while the program uses the hwqueue, and
	 * answers -EBUSY when it must not be touched just now, -EAGAIN when it will be soon. With
	 * `sample` the stretch from this gate to the next is timed; sampled gives these times,
	 * oldest first: 1 with *ns (0: it could not be timed), 0 when there is none yet; not exact:
	 * the device may have waited for the program meanwhile. inner: a gate inside a command that
	 * the program composes (a graph): *w->waiting is 1 as long as it waits; no progress. seam:
	 * a place in one where a gate of its own may be made later, and which nothing waits at
	 * until then. May be NULL. lost:
	 * has the device failed, so that nothing that was launched will end, or be told of? May be
	 * NULL. */
	int (*gate)(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool sample);
	/* Gate words will be in a mapping of their own: can the device wait for them there? Any
	 * thread, at any time. -EBUSY: not to be said just now. May be NULL: then it can. gate
	 * answers -EOPNOTSUPP if it cannot. */
	int (*reach_gates)(void *hwq, const struct fm_gate_words *w);
	int (*tell)(void *hwq, const struct fm_gate_words *w, uint64_t finished);
	int (*sampled)(void *hwq, uint64_t *ns, bool *exact);
	int (*inner)(void *hwq, const struct fm_gate_words *w);
	int (*seam)(void *hwq);
	bool (*lost)(void *hwq);

	/* Level 3. interrupt stops the running command and keeps what it has done; restore
	 * continues it. Both are idempotent. interrupt: 0, it stands; -EINPROGRESS, it will, if the
	 * command is one that can be stopped: the backend's owner then says so by fm_xq_stands(),
	 * or, where the device looks at gates, it is asked again; -EAGAIN: not just now, and it is
	 * asked again at once; -EALREADY: it does not run, or rests between two commands.
	 * restore: -EAGAIN: it shall be called once more a little later. */
	int (*interrupt)(void *hwq);
	int (*restore)(void *hwq);
	/* Where the device looks at gates. uncovered: no gate has been put since commands that were
	 * launched to be stopped in their middle, so their end must not be asked for. busy: it has
	 * not gone on as it was yet, and nobody may take it for ended. May be NULL: no. */
	bool (*uncovered)(void *hwq);
	/* So many commands have been launched since the last gate: if each of them would stop in
	 * its middle just now, how many may there be until the next one? 0: not all would. May be
	 * NULL: none. */
	unsigned (*far)(void *hwq, unsigned n);
	bool (*busy)(void *hwq);
	bool (*pending)(void *hwq); /* busy, or some such command has not finished */
	/* What is no command, and takes room in the device all the same (it orders commands), may
	 * be under way, so far as is known: of so many commands it has finished all. ask: is it?
	 * The driver is asked, for all that was there when `mark` commands had been passed to it.
	 * May be NULL. */
	bool (*ordered)(void *hwq, uint64_t done);
	void (*ask)(void *hwq, uint64_t mark);

	/* The program is about to destroy the hwqueue, in this thread: the last call that may use
	 * the driver's. What is tracked counts as reached. May be NULL. */
	void (*close)(void *hwq);

	/* Before release: the device may still have to go past a gate, and nobody will hear when it
	 * has. May be NULL. */
	void (*adrift)(void *hwq);

	/* The XQueue lets go of the hwqueue: the last call for it. May be NULL. */
	void (*release)(void *hwq);

	/* The process exits: no calls to the driver from threads of the backend's own any more. May
	 * be NULL. */
	void (*quiesce)(void *hwq);
};
