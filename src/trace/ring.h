/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: records of one process in memory that outlives it. The daemon makes it, and holds its
 * descriptor; the process writes, whoever records reads by a descriptor that is for reading.
 *
 * It has a few lanes. A thread keeps to one, so that threads seldom meet in one; where there are
 * more threads than lanes they do, which costs them time and nothing else.
 *
 * Writers, any number of threads, never wait and make no system call. A position in a lane is drawn
 * by an atomic increment; the record's first word says which position is in it, and is odd while it
 * is written. A writer that was overtaken by a whole lap gives its position up, so that no two
 * write into one record.
 *
 *   writer: word = 2 * position + 1, fence, the rest, word = 2 * position + 2 (release)
 *   reader: word (acquire), the rest, fence, word again: the same, or the record counts as lost
 *
 * The reader takes nothing from the memory but records: sizes are constants, and whatever a
 * hostile writer makes of its ring costs its own records alone.
 */
#pragma once
#include "base/util.h"
#include "event.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define FM_TRACE_MAGIC   0x43525446u /* "FTRC" */
#define FM_TRACE_VERSION 2
#define FM_TRACE_LANES   4u
#define FM_TRACE_LANE    8192u /* records of one, a power of two */
#define FM_TRACE_RECORDS (FM_TRACE_LANES * FM_TRACE_LANE)
#define FM_TRACE_WORDS   8

struct fm_trace_ring {
	/* Constant after creation. */
	_Alignas(FM_CACHE_LINE) uint32_t magic;
	uint32_t version, records, record_size;
	/* Positions drawn. */
	struct {
		_Alignas(FM_CACHE_LINE) _Atomic uint64_t head;
	} lane[FM_TRACE_LANES];

	_Alignas(4096) struct {
		_Alignas(FM_CACHE_LINE) _Atomic uint64_t word[FM_TRACE_WORDS];
	} slot[FM_TRACE_LANES][FM_TRACE_LANE];
};

_Static_assert(sizeof(struct fm_trace_ring) == 4096 + 64 * FM_TRACE_RECORDS, "no gaps");

/* Daemon side: a descriptor of a fresh ring, for writing, closed to other users and sealed against
 * resizing; negative errno. The memory is not mapped, and takes none before it is written. */
int fm_trace_ring_create(void);
/* Say in its head what it is: that is done, but where its pages were given back. */
int fm_trace_ring_label(int fd);
/* The same for reading alone, to be sent to who records. */
int fm_trace_ring_reader(int fd);

/* Writer side: map it, where `at` is not NULL in place of the ring that is mapped there. -EINVAL
 * unless it is a sound ring that nobody can make shrink. The descriptor stays the caller's. */
int fm_trace_ring_map(struct fm_trace_ring **out, int fd, struct fm_trace_ring *at);
void fm_trace_ring_unmap(const struct fm_trace_ring *ring);

/* Any thread; async-signal-safe. The record's position and lane are filled in. */
void fm_trace_write(struct fm_trace_ring *ring, const struct fm_trace_rec *rec);

struct fm_trace_reader {
	const struct fm_trace_ring *ring;
	struct fm_trace_lane {
		uint64_t next;
		uint64_t waits; /* position + 1 that was not written yet at the last looks, */
		unsigned looks; /* so many */
		bool used;
	} lane[FM_TRACE_LANES];
	unsigned fill;    /* records that the fullest lane had at the last call, at most a lap */
	uint64_t lost;    /* overwritten before they were read, torn, or never written */
	uint64_t unknown; /* of an event that is none */
};

/* Map for reading; the same checks. */
int fm_trace_reader_open(struct fm_trace_reader *r, int fd);
void fm_trace_reader_close(struct fm_trace_reader *r);

/* Take what is there, lane after lane, at most max records, and return how many; fewer than max:
 * there was no more. One call takes a lap at most, however fast its writers are. A record that is
 * being written is waited for until a later call, but not for ever; with `last`, not at all. */
#define FM_TRACE_LOOKS 20
size_t fm_trace_read(struct fm_trace_reader *r, struct fm_trace_rec *to, size_t max, bool last);
