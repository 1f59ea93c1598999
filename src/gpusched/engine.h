/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs the chunks of a set, and decides: the table of an engine. "cpu" is in this module. The
 * library that has another one offers it when it is loaded; elsewhere that name is -ENOSYS.
 *
 * An engine reads what set.h describes: s->host.g has the tasks as they were added, s->work what
 * the host knows of them. Errors are told by fm_gpu_fail() (task.h).
 *
 * Owns: the list of engines.
 * Locks: none. An engine's operations are called without the lock of the set, but for ask().
 * Threads: any of the program's; start, drain and close one at a time for each set.
 */
#pragma once
#include "set.h"

struct fm_gpu_engine {
	const char *name;
	unsigned tasks;     /* of a set, at most */
	unsigned slots;     /* likewise; 0: as many as there may be */
	bool resident;      /* does it have sets that release by period and by word? */
	bool virtual_time;  /* does it have sets in which time passes by calls only? */
	bool seated;        /* may a set say of which group, and on which device it is (seat.h)? */
	const char *no_end; /* what fm_gpu_set_drain() says if the device is lost */

	int (*open)(struct fm_gpu_set *s); /* a new set; NULL: nothing to do */
	void (*close)(struct fm_gpu_set *s);
	/* Can it run such a task? NULL: any. */
	int (*check)(struct fm_gpu_set *s, const struct fm_gpu_task *t);
	int (*start)(struct fm_gpu_set *s);
	/* 0: nothing is released that is not complete. -ETIMEDOUT, and host.g.pending says how many
	 * jobs are not. Any other error: the set is over. */
	int (*drain)(struct fm_gpu_set *s, uint64_t timeout_ns);
	void (*park)(struct fm_gpu_set *s); /* host.g.park was written */
	/* Jobs are released: under the lock, where the set is known to be started, and then without
	 * it. The second returns the error of the task. */
	int (*ask)(struct fm_gpu_set *s, uint32_t task, unsigned jobs);
	int (*release)(struct fm_gpu_set *s, uint32_t task, unsigned jobs);
	/* The word of a task; the set may be started, or not. NULL: that in work. */
	int (*word)(struct fm_gpu_set *s, uint32_t task, uint64_t **word);
	/* Brings the stats in host.g up to date. NULL: they are. */
	int (*read)(struct fm_gpu_set *s);
	/* The device's error, if it has refused to launch what it had decided for; 0: it has not.
	 * NULL: it never does. */
	uint64_t (*refused)(struct fm_gpu_set *s);
};

extern const struct fm_gpu_engine fm_gpu_cpu;

/* Of another library, before the program runs: two at most. The first one is what is taken where no
 * name is given. */
void fm_gpu_engine_offer(const struct fm_gpu_engine *engine);
