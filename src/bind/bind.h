/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How <fermata/bind.h> finds the shims of a process. libfermata and each shim have this module, and
 * export its registry: the dynamic linker lets all of them use that of the first library in the
 * process's global scope. So shims that a loader opens for itself (OpenCL's, Vulkan's) are found,
 * and so are bindings of threads that are older than the shim.
 *
 * Owns: the registry: the list of the process's shims, and the key of what threads have bound.
 *
 * Locks: none.
 *
 * Threads: any thread of the program.
 *
 * Libraries with this module are never unloaded (-z nodelete).
 */
#pragma once
/* Everything is compiled hidden; what the public header declares is exported (exports.map). */
#pragma GCC visibility push(default)
#include <fermata/bind.h>
#pragma GCC visibility pop
#include "board/proto.h"
#include <stdatomic.h>
#include <stdbool.h>

/* A shim. Arguments have been checked: queue is not NULL, hints and the name are sound. */
struct fm_bind_shim {
	size_t size; /* sizeof(struct fm_bind_shim) */
	const char *api;
	int (*bind)(void *queue, const struct fm_binding *binding);
	int (*unbind)(void *queue);
	struct fm_bind_shim *next;
};

/* What a thread has bound. Only the thread itself reads and writes it. */
struct fm_bind_thread {
	size_t size;     /* sizeof(struct fm_bind_thread): another one is of another version */
	uint64_t serial; /* from 1, rising in the process with each call of fm_thread_bind() */
	char group[FM_NAME_MAX]; /* "": the process's own */
	uint32_t set;            /* bits of hints */
	int64_t hint[FM_HINT_COUNT];
};

/* Called by a shim's constructor. */
void fm_bind_enter(struct fm_bind_shim *shim);
/* NULL: this thread has bound nothing. */
const struct fm_bind_thread *fm_bind_of_thread(void);
