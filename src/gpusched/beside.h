/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set beside other programs: its seat (seat.h), kept up to date by its decider.
 */
#pragma once
#include "host.h"
#include "seat.h"
#include "words.h"

struct fm_gpu_set;

/* A task as it was at the last decision. */
struct fm_gpu_seen {
	uint64_t released, done, missed, missed_stopped, dropped;
	bool runs, shown;
	uint64_t first; /* when its first job that is not complete was released */
};

/* Of the decider, except where it says otherwise. */
struct fm_gpu_beside {
	struct fm_gpu_seat *seat; /* NULL: it is alone */
	struct fm_gs_watch watch;
	char group[64], device[96]; /* "": not given */
	uint64_t begun;             /* jobs, in all, as told */
	uint64_t pending, done;     /* as at the last decision */
	bool stands;                /* any thread reads it */
};

const char *fm_gpu_policy_name(enum fm_gs_policy policy); /* for people */
/* What may be asked for; before the set is made. */
struct fm_gpu_set_options;
bool fm_gpu_beside_wish(struct fm_gpu_beside *b, const struct fm_gpu_set_options *o);
/* Before the set is first started, in real time. 0, also where it is alone. */
int fm_gpu_beside_take(struct fm_gpu_set *s);
/* The set's threads have ended. */
void fm_gpu_beside_leave(struct fm_gpu_set *s);
void fm_gpu_beside_hold(struct fm_gpu_set *s); /* host.g.park was written */
/* The set stands, and may run: a decision is needed. Any thread. */
bool fm_gpu_beside_goes_on(struct fm_gpu_set *s);
