/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes long to make, kept on disk by what it was made of: a file for each, in a folder of the
 * user's own. Any number of processes use it at once. A file appears whole or not at all, is read
 * once and checked by its sum, and is believed only if nobody but the user could have written it;
 * whatever is wrong with one, it is removed.
 *
 * Nothing here has to succeed: without a folder, space or memory it is made each time.
 *
 * Owns: the descriptor of one folder. The files in it belong to the user, and to all of his
 * processes.
 * Locks: flock() on `.lock` in the folder, only tried, by a process that makes room there.
 * Threads: any, also of other processes.
 */
#pragma once
#include "base/blake2b.h"
#include <stdatomic.h>
#include <stddef.h>

#define FM_CACHE_FILE (512u << 20) /* bytes of a file at most */
#define FM_CACHE_HEAD 56u          /* so many are the cache's own */

struct fm_cache {
	int dir;
	uint64_t max;               /* bytes of all files */
	_Atomic uint64_t unchecked; /* written since the folder was looked at */
	_Atomic unsigned files;     /* names of files in the making */
};

/* `dir` NULL: fermata/NAME in $XDG_CACHE_HOME, else in ~/.cache. It is made if need be, but not
 * what is above it (other than ~/.cache). -EPERM: it is not the user's, or others may write there.
 */
int fm_cache_open_as(struct fm_cache *c, const char *dir, const char *name, uint64_t max);
void fm_cache_close(struct fm_cache *c);

/* -ENOENT; -EBADMSG: there was one that is not to be believed, and which is gone now; or other
 * errors. Threads may use one cache at once. *data is the caller's then (malloc()), has no end
 * mark, and may still be anything: the user could have forged it. */
int fm_cache_read(
	struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], uint8_t **data, size_t *size);
/* The first FM_CACHE_HEAD bytes of data are filled in here. Others make room for it: those that
 * were not used for longest. */
int fm_cache_write(
	struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], uint8_t *data, size_t size);
/* What was read there makes no sense. */
void fm_cache_remove(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES]);
