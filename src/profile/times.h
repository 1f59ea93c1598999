/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long kernels take, alone on a device and on some of its multiprocessors, as `fermata-lab
 * profile --rooms' measures it. A kernel is known by its image and name, and by what it is launched
 * with: grid, block and shared memory. Each time is the median of some launches.
 */
#pragma once
#include "profile.h"

#define FM_TIMED_SAMPLES 5u

struct fm_timed_room {
	uint32_t on; /* multiprocessors */
	unsigned n;
	uint64_t ns[FM_TIMED_SAMPLES]; /* rising */
};
struct fm_timed {
	struct fm_record_timed is; /* of its first launch; `on', `ns' and `name' mean nothing */
	char *name;
	unsigned n;
	struct fm_timed_room room[FM_PROFILE_ROOMS + 1]; /* by `on', rising */
};
struct fm_times {
	unsigned n, size;
	struct fm_timed *timed; /* in the order in which they were first seen */
};
void fm_times_free(struct fm_times *t);

/* Is it what an agent could have written, apart from its name, which is behind it? */
bool fm_timed_makes_sense(const struct fm_record_timed *r);
/* name: of r->name characters. Samples, and numbers of multiprocessors, beyond those there is room
 * for are left out. 0; -ENOMEM; 1: the name has a zero in it. */
int fm_times_add(struct fm_times *t, const struct fm_record_timed *r, const char *name);
/* The same kernel, launched in the same way on a device of the same kind; or NULL. */
struct fm_timed *fm_times_find(
	const struct fm_times *t, const struct fm_record_timed *r, const char *name, size_t length);

uint64_t fm_timed_blocks(const struct fm_timed *k);
/* The median on so many multiprocessors; 0: not known. */
uint64_t fm_timed_on(const struct fm_timed *k, unsigned on);
/* How often a multiprocessor takes its fill of blocks, on the whole device; 0: not known. */
uint64_t fm_timed_waves(const struct fm_timed *k);
/* What a block takes: the time on the whole device by the number of waves; 0: not known. */
uint64_t fm_timed_block(const struct fm_timed *k);
