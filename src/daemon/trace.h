/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings (docs/trace.md). A control connection that asks for one becomes one: from then on it
 * is sent lines that say what numbers mean, and descriptors of rings, which are for reading.
 *
 * Each recording has a ring of its own for what the daemon does, so that nothing is in it that its
 * user may not see. A client's ring is there while a recording sees one of the client's groups, and
 * is read by all that do.
 */
#pragma once
#include "daemon.h"
#include "trace/trace.h"

/* One place is kept for root. */
#define TRACE_SHARED     8
#define TRACE_RECORDINGS (TRACE_SHARED + 1)
#define TRACE_PER_USER   2
#define TRACE_GROUPS     16
#define TRACE_QUEUED     (4u << 20) /* bytes that may wait to be read by who records */

/* Of a session. */
struct trace_client {
	struct fm_list link;  /* while it has a ring */
	int sock, ring;       /* ring: -1 before it is first recorded */
	uint32_t id, viewers; /* bits of recordings */
	bool due;             /* it could not be told */
	bool stale;           /* nobody records it any more: the ring is to be emptied */
	pid_t pid;
	const char *comm;
};

struct trace_line {
	struct fm_list link;
	int fd; /* goes with it, or -1 */
	size_t len, sent;
	char text[];
};

struct recording {
	struct tracing *tracing;
	unsigned index;
	int fd, ring;
	struct fm_trace_ring *map;
	sd_event_source *io, *slow;
	struct peer peer;
	struct quota_user *books;
	struct fm_list lines;
	size_t queued;
	bool whole; /* all is told of how things were at its beginning; till then: */
	struct fm_bridge_told told;
	bool over;  /* to be freed */
	bool exact; /* it wants to hear of each job */
	unsigned n_groups;
	char group[TRACE_GROUPS][FM_NAME_MAX]; /* these alone, if any */
};

/* Reasons are few: names of policies and of devices, and texts of the core. */
#define TRACE_REASONS 256
struct trace_reason {
	char text[128];
	uint32_t mark; /* recordings that know it */
};

struct tracing {
	struct daemon *daemon;
	struct recording *recording[TRACE_RECORDINGS];
	struct recording *fresh; /* its connection is about to be adopted */
	struct recording *only;  /* what is noted is for this one */
	struct fm_list clients;
	sd_event_source *work; /* recordings begin, and rings are emptied, in steps */
	unsigned turn;         /* whose beginning goes on next */
	uint32_t last_ring;
	uint32_t devices[TRACE_RECORDINGS]; /* those known: 1 to n, as they were introduced */
	unsigned n_reasons;
	struct trace_reason reason[TRACE_REASONS];
};

/* trace.c */
int trace_new(struct daemon *d);
void trace_free(struct daemon *d);
bool trace_on(const struct daemon *d);
/* What the daemon does itself; no-op where nobody records. */
void trace_note(struct daemon *d, const struct fm_bridge_note *n);
/* Lines out, and recordings that are over away: after each event. Did one end? The bridge may have
 * something to do then. */
bool trace_run(struct daemon *d);
/* So long was the daemon busy with one event. */
void trace_loop(struct daemon *d, uint64_t woke_us);
void trace_settings(struct daemon *d);
void trace_begin(struct recording *r); /* the connection is there: from now on */
void trace_client_init(struct trace_client *c, int sock, pid_t pid, const char *comm);
void trace_client_end(struct daemon *d, struct trace_client *c);
struct trace_client *session_trace(void *session); /* session.c */

/* trace_record.c: the connections. A request is answered, then its connection adopted; the
 * descriptor stays the caller's. */
json_t *trace_start(struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err);
bool trace_adopt(struct daemon *d, int fd);
/* To who records; the line is taken, and the descriptor stays the caller's. */
void recording_say(struct recording *r, json_t *line, int fd);
void recording_flush(struct recording *r);
void recording_free(struct recording *r);
