/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings (docs/trace.md). A control connection that asks for a recording becomes one. From then
 * on it is sent lines that say what numbers mean, and read-only descriptors of rings.
 *
 * Each recording has its own ring for what the daemon does, which holds only what the recording's
 * user may see. A client has a ring while a recording sees one of the client's groups. All
 * recordings that see the client read the same ring.
 */
#pragma once
#include "daemon.h"
#include "trace/trace.h"

/* One place is kept for root. */
#define TRACE_SHARED     8
#define TRACE_RECORDINGS (TRACE_SHARED + 1)
#define TRACE_PER_USER   2
#define TRACE_GROUPS     16
#define TRACE_QUEUED     (4u << 20) /* bytes that may wait for the recorder to read them */

/* The part of a session that is about recordings. */
struct trace_client {
	struct fm_list link;  /* linked while it has a ring */
	int sock, ring;       /* ring: -1 before it is first recorded */
	uint32_t id, viewers; /* viewers: bits of recordings */
	bool due;             /* the client could not be told yet */
	bool stale;           /* no recording reads the ring: it is to be emptied */
	pid_t pid;
	const char *comm;
};

struct trace_line {
	struct fm_list link;
	int fd; /* a descriptor that is sent with it, or -1 */
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
	bool whole; /* it was told the whole state at its beginning; until then `told' says how far
		     */
	struct fm_bridge_told told;
	bool over;  /* to be freed */
	bool exact; /* it wants to hear of each job */
	unsigned n_groups;
	char group[TRACE_GROUPS][FM_NAME_MAX]; /* if any: only these groups */
};

/* There are few reasons: names of policies and of devices, and texts of the core. */
#define TRACE_REASONS 256
struct trace_reason {
	char text[128];
	uint32_t mark; /* recordings that know it */
};

struct tracing {
	struct daemon *daemon;
	struct recording *recording[TRACE_RECORDINGS];
	struct recording *fresh; /* its connection is about to be adopted */
	struct recording *only;  /* if set, notes go only to this recording */
	struct fm_list clients;
	sd_event_source *work; /* recordings begin, and rings are emptied, in steps */
	unsigned turn;         /* the recording whose beginning goes on next */
	uint32_t last_ring;
	uint32_t devices[TRACE_RECORDINGS]; /* each recording knows devices 1 to this one */
	unsigned n_reasons;
	struct trace_reason reason[TRACE_REASONS];
};

/* trace.c */
int trace_new(struct daemon *d);
void trace_free(struct daemon *d);
bool trace_on(const struct daemon *d);
/* Records what the daemon does itself. Without a recording it does nothing. */
void trace_note(struct daemon *d, const struct fm_bridge_note *n);
/* Sends lines and frees recordings that are over. Call it after each event. Returns whether a
 * recording ended; then the bridge may have something to do. */
bool trace_run(struct daemon *d);
/* The daemon handled one event. A long time is recorded. */
void trace_loop(struct daemon *d, uint64_t woke_us);
void trace_settings(struct daemon *d);
void trace_begin(struct recording *r); /* its connection is there: it records from now on */
void trace_client_init(struct trace_client *c, int sock, pid_t pid, const char *comm);
void trace_client_end(struct daemon *d, struct trace_client *c);
struct trace_client *session_trace(void *session); /* session.c */

/* trace_record.c: the connections. A request is first answered, then its connection is adopted. The
 * descriptor stays the caller's. */
json_t *trace_start(struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err);
bool trace_adopt(struct daemon *d, int fd);
/* Sends a line to the recorder. It takes over `line'; the descriptor stays the caller's. */
void recording_say(struct recording *r, json_t *line, int fd);
void recording_flush(struct recording *r);
void recording_free(struct recording *r);
