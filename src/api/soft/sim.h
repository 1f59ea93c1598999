/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in software: queues that execute commands of given length, one command at a time per
 * device, in order within a queue and round robin between queues, command by command. It does all
 * three levels and fails on demand. The reference for writers of backends: see
 * docs/adding-an-api.md.
 *
 * Wall time: a thread per device, started by the first command, sleeps until something is due.
 * Events carry the time at which they were due, so a late thread does not stretch what the device
 * did. Virtual time: no thread; fm_simdev_advance() moves the clock and runs the callbacks in its
 * caller.
 *
 * Callbacks (a command's done, a track's reached) are called in order, one at a time per device and
 * without its lock: they may launch, track and open gates; fm_simq_ops.sync answers -EDEADLK there.
 * A command counts as finished when its done has returned. All functions are thread-safe.
 *
 * Owns: devices, their queues, and the commands in these.
 * Locks: one for each device; not held while anybody is called back.
 * Threads: any; the device's own calls back, or in virtual time whoever moves the clock.
 */
#pragma once
#include "api/hwqueue.h"
#include <fermata/fermata.h>

struct fm_simdev;
struct fm_simq;

/* options: complete (size is not looked at), max_level 0 to 3. */
int fm_simdev_new(struct fm_simdev **out, const struct fm_sim_options *options);
/* The owner lets go. The device lives on until its last queue is released. Commands of released
 * queues that have not finished by then are dropped: their done is not called. */
void fm_simdev_free(struct fm_simdev *d);

uint64_t fm_simdev_now(struct fm_simdev *d);
/* Virtual time only (-EINVAL). Zero executes what is due now. Callers take turns; -EDEADLK from a
 * callback of the same device. */
int fm_simdev_advance(struct fm_simdev *d, uint64_t ns);
/* The next `count` operations of that kind fail with -EIO; a command hit by HANG is accepted and
 * never ends: interrupt stops it, restore lets it hang on, reset finishes it. */
int fm_simdev_fault(struct fm_simdev *d, enum fm_sim_fault fault, unsigned count);
/* Hung commands, and those that would hang, have no work left: they finish when it is their turn.
 */
void fm_simdev_reset(struct fm_simdev *d);

int fm_simq_new(struct fm_simq **out, struct fm_simdev *d);

/*
 * For a struct fm_simq. launch takes a struct fm_command of <fermata/fermata.h>: device_ns, done,
 * arg. A track behind a closed gate is reached when the gate has been opened, as an event in a real
 * queue. Ops deeper than max_level answer -EOPNOTSUPP. After release what was launched runs on: its
 * gates count as open.
 */
extern const struct fm_hw_ops fm_simq_ops;

/* The same device, looking at gates itself (hwqueue.h, device_gate), up to level 2: its words are
 * read when the clock moves, in wall time every FM_SIM_WORD_NS while a queue waits. */
extern const struct fm_hw_ops fm_simq_word_ops;
