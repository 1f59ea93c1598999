/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels touch, as a profile sees it: records that an agent in the program writes, and what
 * they come to. The agent (`libfermata-profile.so', api/cuda/profile) has a file of its own in each
 * process; `fermata-lab profile' reads them when the program has ended. Pure, but for those files.
 *
 * A record is a head and what it says follows: a launch with its parameters, its pointers, and the
 * spans that were touched behind each; a note, which counts how often something was so; or the end
 * of a process. The program could have written anything into the file: it is read with care, and
 * what makes no sense ends the reading of that file.
 *
 * Owns: the sums.
 * Locks: none.
 * Threads: any, each with objects of its own.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* In the environment of the program. */
#define FM_PROFILE_DIR       "FERMATA_PROFILE"           /* the folder of the records */
#define FM_PROFILE_BY        "FERMATA_PROFILE_BY"        /* names of FM_SOURCE_MAP, by commas */
#define FM_PROFILE_CHECK     "FERMATA_PROFILE_CHECK"     /* 1: hashes check the others */
#define FM_PROFILE_SANITIZER "FERMATA_PROFILE_SANITIZER" /* path of libsanitizer-public.so */
#define FM_PROFILE_FOR       "FERMATA_PROFILE_FOR"   /* so many ns from its first call on; 0: all */
#define FM_PROFILE_TIMED     "FERMATA_PROFILE_ROOMS" /* "0,8,16": times.h, in place of BY */
#define FM_PROFILE_RECORDS   ".seen"                 /* how their names end */

#define FM_PROFILE_MOST     ((uint64_t)256 << 20) /* bytes of records of a process */
#define FM_PROFILE_IMAGE    33                    /* 32 hexadecimal digits, and a zero */
#define FM_PROFILE_PARAMS   4096u
#define FM_PROFILE_NAME     8191u
#define FM_PROFILE_POINTERS 256u
#define FM_PROFILE_SPANS    64u
#define FM_PROFILE_ROOMS    8u

/* --- records --- */

enum fm_source {
#define FM_SOURCE_MAP(X)                    \
	X(FM_SOURCE_SANITIZER, "sanitizer") \
	X(FM_SOURCE_MARKS, "marks")         \
	X(FM_SOURCE_HASH, "hash")
#define FM_SOURCE_ID(id, name) id,
	FM_SOURCE_MAP(FM_SOURCE_ID)
#undef FM_SOURCE_ID
		FM_SOURCES
};
const char *fm_source_name(enum fm_source s);

/* Why launches, or a whole program, were not looked at; each is counted. */
enum fm_unseen {
#define FM_UNSEEN_MAP(X)                                                                       \
	X(FM_UNSEEN_OFTEN, "often", "seen often enough with the same numbers")                 \
	X(FM_UNSEEN_GRAPH, "graph", "in a graph, or captured for one")                         \
	X(FM_UNSEEN_UNKNOWN, "unknown", "of a kernel whose image or parameters are not known") \
	X(FM_UNSEEN_LARGE, "large", "with too many parameters or pointers")                    \
	X(FM_UNSEEN_SLOW, "slow", "that did not end in time")                                  \
	X(FM_UNSEEN_UNMARKED, "unmarked", "whose code could not be instrumented")              \
	X(FM_UNSEEN_FAILED, "failed", "the driver refused something")                          \
	X(FM_UNSEEN_FULL, "full", "after the records of the process were full")                \
	X(FM_UNSEEN_BUSY, "busy", "while another was looked at")                               \
	X(FM_UNSEEN_FIRST, "first", "the first of their kind, which may load code")
#define FM_UNSEEN_ID(id, name, text) id,
	FM_UNSEEN_MAP(FM_UNSEEN_ID)
#undef FM_UNSEEN_ID
		FM_UNSEENS
};
const char *fm_unseen_text(enum fm_unseen u);
const char *fm_unseen_name(enum fm_unseen u);

enum { FM_RECORD_MAGIC = 0x4e454553, FM_RECORD_VERSION = 2 };
enum fm_record_kind { FM_RECORD_LAUNCH = 1, FM_RECORD_START, FM_RECORD_END, FM_RECORD_TIMED };
struct fm_record {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t bytes; /* that follow, a multiple of eight */
	uint32_t pad;
};

enum {                         /* of a launch */
	FM_LAUNCH_OUTSIDE = 1, /* it touched what no argument names */
	FM_LAUNCH_CHECKED = 2, /* by hashes, too */
	FM_LAUNCH_COARSE = 4,  /* spans are of whole pieces */
};
/* Behind it: n of fm_record_pointer; the spans of each in turn; the parameters; the name; and zeros
 * up to a multiple of eight. */
struct fm_record_launch {
	char image[FM_PROFILE_IMAGE];
	uint8_t source, flags;
	uint8_t pad[5];
	uint32_t grid[3], block[3];
	uint32_t size, name, n, spans; /* bytes, characters, pointers, spans of all pointers */
	uint64_t ns;                   /* that looking took */
};
struct fm_record_pointer {
	uint32_t at, n; /* byte offset of the word, spans */
	uint32_t map;   /* 1: a tensor map begins there */
	uint32_t pad;
	uint64_t before, after; /* bytes of the allocation in front of the pointer, and behind it */
	uint64_t missed;        /* bytes that hashes say were written and that were not seen */
};
struct fm_record_span {
	int64_t from, to;
};

/* START: what the agent does. */
struct fm_record_start {
	uint32_t by;       /* a bit for each source that it has */
	int32_t sanitizer; /* what the Sanitizer said to it: 0 for good; -1: it was not loaded */
	char why[112];     /* for people; or empty */
};
/* END: of a process that came to its end. */
struct fm_record_end {
	uint64_t launches, seen, unseen[FM_UNSEENS];
	uint64_t modules, patched; /* that were loaded, and that were instrumented */
	uint64_t ns;               /* looking */
	int32_t patch_error;       /* of the Sanitizer, for one that was not; 0: none */
	uint32_t rooms;            /* enum fm_rooms_why */
};

/* Why nothing was timed on a part of the device. */
enum fm_rooms_why {
#define FM_ROOMS_MAP(X)                                                              \
	X(FM_ROOMS_OK, "")                                                           \
	X(FM_ROOMS_NO_GREEN, "the driver has no green contexts")                     \
	X(FM_ROOMS_CONTEXT, "the program's context is not the device's primary one") \
	X(FM_ROOMS_SIZE, "the device has no part of just that many multiprocessors") \
	X(FM_ROOMS_FAILED, "the driver refused something")
#define FM_ROOMS_ID(id, text) id,
	FM_ROOMS_MAP(FM_ROOMS_ID)
#undef FM_ROOMS_ID
		FM_ROOMS_WHYS
};
const char *fm_rooms_text(uint32_t why);

/* TIMED: a launch, with nothing beside it. Behind it: the name. */
struct fm_record_timed {
	char image[FM_PROFILE_IMAGE];
	char device[63]; /* its name, and a zero */
	uint32_t grid[3], block[3];
	uint32_t shared, fixed;       /* bytes of a block: as launched, and the kernel's own */
	uint32_t registers, local;    /* of a thread; local: bytes */
	uint32_t per_multiprocessor;  /* blocks at a time; 0: not known */
	uint32_t multiprocessors, on; /* of the device; on which it ran */
	uint32_t name;                /* characters */
	uint64_t ns;
};

/* --- what they come to --- */

struct fm_profile_pointer {
	uint32_t at;
	bool map;
	uint64_t launches;      /* that touched something behind it */
	uint64_t bytes, behind; /* in all of them together: touched, and of their allocations */
	uint64_t missed;
	const char *form; /* of its template, once there is one; else NULL */
	unsigned n;       /* of the last launch */
	struct fm_record_span span[FM_PROFILE_SPANS];
};
struct fm_profile_kernel {
	char image[FM_PROFILE_IMAGE];
	char *name;
	uint64_t launches, outside, checked, coarse;
	uint64_t by[FM_SOURCES];
	double held; /* percent of its launches that its templates hold for */
	unsigned n;
	struct fm_profile_pointer *pointer; /* by offset */
};
struct fm_profile {
	unsigned n, room;
	struct fm_profile_kernel *kernel; /* in the order in which they were first seen */
	unsigned processes, broken;       /* with records, and those of which some made no sense */
	uint64_t launches, seen, unseen[FM_UNSEENS], ns;
	uint64_t modules, patched;
	uint32_t by;
	int32_t sanitizer, patch_error;
	uint32_t rooms;
	char why[112];
	struct fm_times *times; /* of the caller's, for launches that were timed; or NULL */
};
void fm_profile_free(struct fm_profile *p);
/* NULL: it was not seen. */
const struct fm_profile_kernel *fm_profile_find(
	const struct fm_profile *p, const char *image, const char *name);

/* A launch, whose parts lie in the record. */
struct fm_profile_launch {
	const struct fm_record_launch *head;
	const struct fm_record_pointer *pointer;
	const struct fm_record_span *span;
	const void *params;
	const char *name;
};
typedef int fm_profile_seen(void *arg, const struct fm_profile_launch *l);
/* 32 hexadecimal digits? */
bool fm_profile_is_image(const char *image);
/* One that can be shown, and that a file of templates may have. */
bool fm_profile_is_name(const char *name, size_t n);
/* All records of a file, into p if there is one; `seen`, if there is one, is told of each launch,
 * and ends the reading with what is not 0. 0; -ENOMEM; -EIO. */
int fm_profile_read(struct fm_profile *p, const char *path, fm_profile_seen *seen, void *arg);
/* The same of bytes that were read; aligned to eight. */
int fm_profile_add(
	struct fm_profile *p, const void *records, size_t size, fm_profile_seen *seen, void *arg);
