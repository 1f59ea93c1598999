/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: how the end of what is under way becomes known. That is another question than
 * what stops a queue (its own caller, gates of this process, or the device at its gate word),
 * though a device that looks at the gate word also writes how far it is. Both answers change while
 * a queue is in use (fm_xq_set_level), so they are looked up each time and never kept.
 */
#pragma once
#include "segment.h"

struct fm_progress {
	bool polled; /* threads that wait for an end are not woken: they look again */
	/* This process hears when a gate is passed, so it knows when the segment behind it began.
	 */
	bool hears_gates;
	/* Lock held, all of them. */
	/* See to it that the end of what is under way is noticed; returns when to look again. */
	uint64_t (*watch)(struct fm_xq *q, uint64_t now);
	/* A thread waits until `count` commands are done. */
	void (*look)(struct fm_xq *q, uint64_t count, uint64_t now);
	/* Is there a gate in front of the next launch that has not been passed? */
	bool (*behind_gate)(const struct fm_xq *q);
	/* This is the last call in which the hwqueue can be used. */
	void (*close)(struct fm_xq *q, uint64_t now);
	/* Nothing is left to be reported for a closed queue. */
	bool (*told_all)(const struct fm_xq *q);
};

/* In order: the driver calls back; the driver has to be asked (reap); the device writes a word. */
extern const struct fm_progress fm_progress_callback, fm_progress_asked, fm_progress_word;

static inline const struct fm_progress *fm_xq_progress(const struct fm_xq *q)
{
	if (q->device_gates)
		return &fm_progress_word;
	return q->ops->reap ? &fm_progress_asked : &fm_progress_callback;
}
