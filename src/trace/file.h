/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace files, version 1, in the byte order of the machine. A head, then chunks, each with a head
 * of its own and padded to eight bytes:
 *
 *   NAME     what a number in records stands for; may be said anew, and then counts from there on
 *   RECORDS  of one ring, in its order, with how many of it were lost so far
 *   END      it was ended in order; without it the recording was cut off
 *
 * A ring is a process; ring 0 is the daemon's, whose records name groups and devices. Those of
 * other rings name slots: who has a queue's name of the same process and slot.
 */
#pragma once
#include "base/err.h"
#include "event.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define FM_TRACE_FILE_MAGIC   "FMTRACE"
#define FM_TRACE_FILE_VERSION 1

struct fm_trace_file_head {
	char magic[8];
	uint32_t version, head_size, record_size, flags;
	uint64_t mono_ns, real_ns; /* one moment, by CLOCK_MONOTONIC and CLOCK_REALTIME */
	uint64_t reserved[2];
};

enum fm_trace_chunk_type { FM_TC_NAME = 1, FM_TC_RECORDS, FM_TC_END };

struct fm_trace_chunk {
	uint32_t type, size; /* of what follows, a multiple of 8 */
};

enum fm_trace_kind { FM_TN_RING = 1, FM_TN_GROUP, FM_TN_DEVICE, FM_TN_REASON, FM_TN_QUEUE };

/* Followed by its text, at most FM_TRACE_TEXT with the NUL. */
#define FM_TRACE_TEXT 256
struct fm_trace_name {
	uint32_t kind, id;
	int32_t pid;                  /* RING, QUEUE */
	uint32_t slot, group, device; /* QUEUE */
	uint64_t since;               /* QUEUE */
};

struct fm_trace_records {
	uint32_t ring, n;
	uint64_t lost;
};

enum fm_trace_end_reason { FM_TE_ASKED, FM_TE_DAEMON_GONE };
struct fm_trace_end {
	uint32_t why, reserved;
};

_Static_assert(sizeof(struct fm_trace_file_head) == 56, "no gaps");
_Static_assert(sizeof(struct fm_trace_name) == 32, "no gaps");

/*
 * Writing, by a stream of the caller's, whose error flag says whether all went well.
 */
void fm_trace_file_begin(FILE *f, uint64_t mono_ns, uint64_t real_ns);
void fm_trace_file_name(FILE *f, const struct fm_trace_name *name, const char *text);
void fm_trace_file_records(
	FILE *f, uint32_t ring, uint64_t lost, const struct fm_trace_rec *rec, uint32_t n);
void fm_trace_file_end(FILE *f, enum fm_trace_end_reason why);

/*
 * Reading: the whole file is mapped and checked as if an enemy had written it.
 */
struct fm_trace_file_name {
	const struct fm_trace_name *name;
	const char *text;
	uint64_t order; /* in the file */
};

struct fm_trace_file_ring {
	uint32_t id;
	int32_t pid;
	const char *program;
	uint64_t records, lost;
};

struct fm_trace_item {
	const struct fm_trace_rec *rec;
	uint32_t ring; /* index into rings[] */
};

struct fm_trace_file {
	const struct fm_trace_file_head *head;
	void *map;
	size_t size;
	struct fm_trace_file_name *names; /* sorted: by kind, the later ones last */
	size_t n_names;
	struct fm_trace_file_ring *rings;
	size_t n_rings;
	struct fm_trace_item *items; /* by time */
	size_t n_items;
	uint64_t unknown;    /* records of events that are none */
	uint64_t cut_off_at; /* the file ends here, in the middle of something; 0: it does not */
	bool ended;          /* in order, */
	uint32_t why;        /* enum fm_trace_end_reason */
};

/* -EINVAL, or what the system says, with a text that names the offset. */
int fm_trace_file_open(struct fm_trace_file *t, const char *path, struct fm_err *err);
/* The same with what is in memory already, which has to stay, aligned to eight bytes. */
int fm_trace_file_parse(struct fm_trace_file *t, const void *data, size_t size, const char *path,
	struct fm_err *err);
void fm_trace_file_close(struct fm_trace_file *t);

/* The last that was said, of anything but queues; NULL: nothing was. */
const struct fm_trace_file_name *fm_trace_file_find(
	const struct fm_trace_file *t, enum fm_trace_kind kind, uint32_t id);
/* Who had this slot of the process then. */
const struct fm_trace_file_name *fm_trace_file_queue(
	const struct fm_trace_file *t, int32_t pid, unsigned slot, uint64_t at);
