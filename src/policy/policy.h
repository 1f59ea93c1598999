/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy decides which groups may run on one device. It is a pure function of the events it is told
 * and of the time that comes with them: no I/O, no clock, no threads. One instance serves one device.
 *
 * The core calls join, then any of ready, idle, charge, hint in the order of events, decide after each
 * batch of events, and leave at the end. Between join and leave the entity's address is stable.
 */
#pragma once
#include "base/clock.h"
#include <fermata/hint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_RUN_MAX 8

/* One group on one device, as a policy sees it. Written by the core, read by policies. */
struct fm_ent {
	uint64_t id;
	const struct fm_hints *hints; /* effective: a segment's priority is already applied */
	bool ready;                   /* has work (or is inside a declared segment) */
	bool running;                 /* chosen by the last decision */
	uint64_t ready_since;         /* arrival of the current job; valid while ready */
	uint64_t served_ns;           /* device time charged so far */
	void *priv;                   /* the policy's own, ent_size bytes, zeroed before join */
};

static inline int64_t fm_ent_hint(const struct fm_ent *e, enum fm_hint h)
{
	return e->hints->value[h];
}

/* What decide() answers: these entities run, all others wait. */
struct fm_choice {
	struct fm_ent *run[FM_RUN_MAX]; /* each ready; no duplicates */
	unsigned n;
	bool all;           /* everybody runs; run[] is ignored (native order) */
	uint64_t next;      /* absolute time of the next wish to be called, FM_NEVER for none */
	const char *reason; /* static text: the rule that chose */
};

/* A policy's own settings: `policy NAME key=value`. */
struct fm_policy_param {
	const char *name, *unit, *help; /* unit "ms" and "us": given so by users, kept in ns */
	int64_t min, max, def;
};

#define FM_POLICY_PARAMS 8

struct fm_policy_ops {
	const char *name;
	const char *summary;                  /* one line for `fermata policy` */
	const struct fm_policy_param *params; /* ends with a NULL name; at most FM_POLICY_PARAMS */
	size_t size, ent_size;                /* of self and of each entity's priv */

	int (*init)(void *self, const int64_t *params); /* 0 or negative errno; self is zeroed */
	void (*fini)(void *self);
	int (*join)(void *self, struct fm_ent *e, uint64_t now); /* idle at join; 0 or -ENOMEM */
	void (*leave)(void *self, struct fm_ent *e, uint64_t now); /* already idle */
	void (*ready)(void *self, struct fm_ent *e, uint64_t now);
	void (*idle)(void *self, struct fm_ent *e, uint64_t now);
	void (*charge)(void *self, struct fm_ent *e, uint64_t ns, uint64_t now); /* device time used */
	void (*hint)(void *self, struct fm_ent *e, uint64_t now); /* its hints changed */
	void (*decide)(void *self, uint64_t now, struct fm_choice *choice);

	/* Would this idle entity run at once if it became ready now? Its gate then stays open while it
	 * sleeps, and its next job starts without a round trip. Must be O(1). */
	bool (*preempts)(void *self, const struct fm_ent *idle, uint64_t now);
};

/* NULL-terminated table of the policies built in, and look-up by name (NULL when there is none). */
extern const struct fm_policy_ops *const fm_policies[];
const struct fm_policy_ops *fm_policy_find(const char *name);
