/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for a device: a queue, and commands of a chosen length in it. Each API has a table of its
 * own (api/NAME/tool/load.c), and is loaded at run time, as by any program. Errors are texts; NULL
 * is none.
 *
 * Owns: nothing: each API keeps its queue in the struct load that the caller owns.
 * Locks: none here; an API may have one around the loading of its library.
 * Threads: any, each with a struct load of its own.
 */
#pragma once
#include <fermata/bench.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_DEPTH  8          /* commands that can be waited for at a time */
#define LOAD_NEVER  LOAD_DEPTH /* a slot of a command that nobody will wait for */
#define LOAD_BLOCKS 16384      /* work-groups of a command, at most */

struct load;
struct load_ops {
	const char *kind; /* "sim", "opencl", "cuda" */
	bool native;      /* programs share it without Fermata, too */
	bool exact;       /* `amount` is nanoseconds of device time; else it has to be found */
	const char *(*open)(struct load *l, unsigned index);
	/* A command into the queue, asynchronously; slot: below LOAD_DEPTH, and not in use, or
	 * LOAD_NEVER. blocks: work-groups, where there are such; 0: all that the device has. */
	const char *(*launch)(struct load *l, unsigned slot, uint64_t amount, uint32_t blocks);
	const char *(*wait)(struct load *l, unsigned slot);
	/* To the device and back, until it is done; NULL: it has no memory of its own. */
	const char *(*copy)(struct load *l, bool back, size_t bytes);
	void (*close)(struct load *l); /* also of one that did not open */
};

struct load {
	const struct load_ops *ops;
	void *priv;
	/* Set by who opens it; may be NULL. */
	const char *libfermata; /* path of the library of XQueues */
	const char *group;      /* the software device: as this group, with these hints */
	const struct fm_bench_hint *hint;
	size_t hints;
	/* Set by open. */
	struct fm_bench_device about;
};

/* How much makes a command of `wish` nanoseconds, and how long that took, with the device to
 * itself. */
const char *load_size(
	struct load *l, uint64_t wish, uint32_t blocks, uint64_t *amount, uint64_t *took);
