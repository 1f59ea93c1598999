/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks of a timeline, made from records one by one, and the drawing on them. */
#pragma once
#include "cmd/trace_view.h"
#include <stdio.h>

enum track_kind {
	TRACK_DAEMON = 1,
	TRACK_DEVICE,
	TRACK_GROUP,
	TRACK_QUEUE,
	TRACK_STOPS,
	TRACK_TASK
};

/* What a track shows from `since` on. */
enum track_state {
	SHOWS_NOTHING,
	SHOWS_RUN,
	SHOWS_STOP,
	SHOWS_WAIT,
	SHOWS_CHOICE,
	SHOWS_GATE,
	SHOWS_MIDDLE
};

struct track {
	uint64_t key;
	unsigned pid, tid;
	uint32_t id; /* of the group, device or queue */
	enum track_state state;
	uint64_t since, drawn_to; /* the drawing ends there */
	uint32_t cause, reason;

	/* A group on a device. */
	bool works, closed, draining, withheld,
		marked;               /* marked: it shows a ready edge at `since` */
	uint64_t wants_at;            /* since when it has wanted to run, last; 0: unknown */
	uint64_t sampled_at, sampled; /* device time used by then */
	bool counts;

	/* A device: the group that the policy has chosen. */
	uint32_t chosen;
};

struct arrow {
	unsigned pid, from, to; /* tracks */
	uint64_t from_at, to_at;
	const char *reason;
};

struct timeline {
	const struct fm_trace_file *file;
	FILE *out;
	bool begun;
	struct track *track; /* an open hash table */
	size_t n, cap;
	struct arrow
		*arrow; /* at the end of the file, behind the slices where they begin and end */
	size_t n_arrows, arrows_cap;
	uint64_t end;
	bool failed; /* out of memory */
};

void timeline_begin(struct timeline *t);
void timeline_record(struct timeline *t, const struct trace_view *v);
/* Slices that are still open end with the last record. */
void timeline_end(struct timeline *t);
void timeline_free(struct timeline *t);

/* trace_json.c: Chrome's JSON trace format, one event each. Names are escaped. */
struct draw {
	const struct track *track;
	uint64_t at, took;
	const char *name, *reason, *cause; /* the last two: "" or NULL if there are none */
	const struct trace_view *args;     /* the arguments of this record, or NULL */
};
void json_slice(struct timeline *t, const struct draw *d);
void json_instant(struct timeline *t, const struct draw *d);
void json_flow(struct timeline *t, size_t arrow);
void json_counter(struct timeline *t, const struct track *track, uint64_t at, const char *what,
	const char *of, const char *unit, double value);
void json_name_track(struct timeline *t, const struct track *track, const char *name, bool process);
