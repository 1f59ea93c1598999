/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata trace`: record, dump, export. */
#pragma once
#include "cmd/cli.h"
#include "cmd/trace_view.h"

int trace_record(struct cli *cli, int argc, char **argv);
int trace_dump(struct cli *cli, int argc, char **argv);

/* recorder.c: a recording, for `trace record' and `record'. */
#define TRACE_GROUPS 16
struct trace_wishes {
	const char *group[TRACE_GROUPS]; /* these alone, if any */
	unsigned n_groups;
	double duration; /* seconds; 0: none */
	bool quiet;
	bool exact;     /* every job's edges, if the daemon grants it */
	bool jobs;      /* only what tells of jobs is kept */
	uint64_t limit; /* it ends with so many records; 0: never */
};
struct trace_outcome {
	uint64_t records, lost;
	bool gone;  /* the daemon is, or ended it */
	bool full;  /* the limit is reached */
	bool exact; /* it was granted */
};
struct recorder;

/* Reports wrong usage unless the text can be the name of a group. */
void trace_check_group(const struct argp_state *state, const char *name);

/* Asks the daemon for a recording. From here on, signals that end a recording are blocked. */
int trace_connect(struct recorder **out, const struct cli *cli, const struct trace_wishes *wishes,
	struct fm_err *err);
/* Records into f until a signal, the time, the limit, the daemon's end, or until a descriptor can
 * be read (-1: no descriptor). Returns -errno if f could not be written. */
int trace_run(struct recorder *r, FILE *f, int until, struct trace_outcome *out);
void trace_disconnect(struct recorder **r);
#define TRACE_CLEAN __attribute__((cleanup(trace_disconnect)))
