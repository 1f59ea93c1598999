/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: who tells the end of what is under way. That is another question than who
 * stops a queue (nobody but its own caller, gates of this process, or the device at its gate word),
 * though a device that looks at the gate word also writes how far it is. Both answers change while
 * a queue is in use (fm_xq_set_level), so they are looked up each time, and none is kept.
 */
#pragma once
#include "segment.h"

struct fm_progress {
	bool polled; /* nobody wakes those that wait for an end: they look again */
	/* This process hears when a gate is passed, so it knows when the segment behind it began.
	 */
	bool hears_gates;
	/* Lock held, all of them. */
	/* See to it that the end of what is under way is noticed; returns when to look again. */
	uint64_t (*watch)(struct fm_xq *q, uint64_t now);
	/* Somebody waits until so many commands are done. */
	void (*look)(struct fm_xq *q, uint64_t count, uint64_t now);
	/* Does a gate stand in front of what is launched next that has not been passed? */
	bool (*behind_gate)(const struct fm_xq *q);
	/* The hwqueue is there for the last time. */
	void (*close)(struct fm_xq *q, uint64_t now);
	/* Nothing is left to be told of one that is closed. */
	bool (*told_all)(const struct fm_xq *q);
};

/* The driver calls back; it has to be asked (reap); the device writes it. */
extern const struct fm_progress fm_progress_callback, fm_progress_asked, fm_progress_word;

static inline const struct fm_progress *fm_xq_progress(const struct fm_xq *q)
{
	if (q->device_gates)
		return &fm_progress_word;
	return q->ops->reap ? &fm_progress_asked : &fm_progress_callback;
}
