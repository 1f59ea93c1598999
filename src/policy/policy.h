/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy decides which groups may run on one device. It is a pure function of the events that it
 * gets and of the time that comes with them: no I/O, no clock, no threads. One instance serves one
 * device.
 *
 * The core calls join, then any of ready, idle, charge, hint in the order of events, decide after
 * each batch of events, and leave at the end. Between join and leave the entity's address is
 * stable. docs/writing-a-policy.md explains how to write one.
 *
 * Owns: one instance for each device, and one object for what a policy's instances share.
 * Locks: none.
 * Threads: the one that drives the core. An instance is never called by two at a time.
 */
#pragma once
#include "base/clock.h"
#include "base/err.h"
#include "promise.h"
#include <fermata/hint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_RUN_MAX 8

/* A policy that asks to be called again sooner than this is called after this time. */
#define FM_DECIDE_LEAST (10 * FM_US)

/* One group on one device, as a policy sees it. Written by the core, read by policies. */
struct fm_ent {
	uint64_t id;
	const struct fm_hints *hints; /* effective: a segment's priority is already applied */
	/* Entities with the same number are of one user. 0: users are not told apart. It does not
	 * change from join to leave. */
	uint32_t user;
	bool ready; /* has work (or is inside a declared segment) */
	/* Chosen by the last decision. If the chosen one is in a gang that waits for another of its
	 * devices, this is set for the entity that runs instead, and not for the gang
	 * (docs/architecture.md). */
	bool running;
	uint64_t ready_since; /* arrival of the current job; valid while ready */
	uint64_t served_ns;   /* device time charged so far */
	void *priv;           /* the policy's own, ent_size bytes, zeroed before join */
	unsigned index;       /* its number in a forecast, which writes it (forecast.h) */
};

static inline int64_t fm_ent_hint(const struct fm_ent *e, enum fm_hint h)
{
	return e->hints->value[h];
}

/* What decide() answers: these entities run, all others wait. */
struct fm_choice {
	struct fm_ent *run[FM_RUN_MAX]; /* each ready; no duplicates */
	unsigned n;
	/* All entities run, also those that become ready later, and run[] is ignored (native
	 * order). The core then asks for no bells, so edges reach the policy late. */
	bool all;
	uint64_t next;      /* absolute time at which to be called again, FM_NEVER for none */
	const char *reason; /* static text: the rule that chose */
	/* The change concerns other devices: they are asked at once. It counts only for a policy
	 * with a shared object, and is ignored in the answers of those other devices. */
	bool others;
};

/* A policy's own settings: `policy NAME key=value`. */
struct fm_policy_param {
	const char *name, *unit, *help; /* unit "ms" and "us": users give these, kept in ns */
	int64_t min, max, def;          /* times are in ns */
};

#define FM_POLICY_PARAMS 8

/* A set of hints. */
#define FM_READS(h)     (UINT32_C(1) << (h))
#define FM_READS_UNTOLD UINT32_MAX /* a policy written by users: it may read any hint */

/* What a group that has waited under a policy can do about it. `fermata why` makes the text and the
 * command of each kind from the group's hints (src/cli/why_advice.c). */
enum fm_advice {
	/* The policy chose others. */
	FM_ADVICE_PRIORITY = 1 << 0,   /* a higher `priority', or a lower one of another */
	FM_ADVICE_FOREGROUND = 1 << 1, /* `foreground' */
	FM_ADVICE_SLICE = 1 << 2,      /* a longer `slice' */
	FM_ADVICE_WEIGHT = 1 << 3,     /* a higher `weight', or a lower one of another */
	FM_ADVICE_SHARE = 1 << 4,      /* a larger `share', or a smaller one of another */
	FM_ADVICE_DEADLINE = 1 << 5,   /* a `deadline', where neither has one */
	FM_ADVICE_RUNTIME = 1 << 6,    /* a truer `runtime' */
	FM_ADVICE_NO_HINT = 1 << 7,    /* no hint changes it; the summary says what does */
	/* The policy let none run. */
	FM_ADVICE_LIMIT = 1 << 8,     /* its `share' is a limit: a larger one */
	FM_ADVICE_ELSEWHERE = 1 << 9, /* a higher `priority' than that of a group elsewhere */
};

/* One policy. Commands know about it only what is in this table. Each field is optional except
 * name, summary and decide. Where a policy written by users (src/plugin) lacks a fact, the field's
 * comment says what it has instead.
 *
 * Every operation except decide may be NULL. When ready or idle is called, e->ready has changed
 * already. */
struct fm_policy_ops {
	const char *name;    /* lower-case letters, digits and '-': it is completed and typed */
	const char *summary; /* one line for `fermata policy` */
	const struct fm_policy_param *params; /* ends with a NULL name; at most FM_POLICY_PARAMS */
	size_t size, ent_size;                /* of self and of each entity's priv */
	uint32_t reads; /* hints that it reads, FM_READS(); by users: FM_READS_UNTOLD */

	/* Kinds of advice that help under it, enum fm_advice. 0, also by users: `fermata why` says
	 * that its author knows. */
	uint32_t advice;

	/* What `fermata-lab policy-test` and the laboratory check, with the default settings and
	 * with others. Ends with bits of 0. NULL, also by users: FM_PROMISE_SOUND with the default
	 * settings, one group at a time. */
	const struct fm_policy_promise *promises;

	/* It uses the arrivals of jobs, or learns their lengths. So both edges of each job are
	 * reported at once, even if no other entity waits, which costs bells. */
	bool exact_jobs;

	/* It reads fm_ent.user: it can divide a device among users first. */
	bool by_user;

	/* For one order over all devices: an object that all instances share. The core makes it,
	 * zeroed, before the first instance, hands it to each before init, and frees it after the
	 * last. With such an object, decide may hold back all entities of a device because of
	 * another device. So each entity is watched as with binds_alone, and preempts is asked on
	 * an idle device, too. A device may have two instances, told of the same entities (gangs).
	 */
	size_t shared_size; /* 0: each device is decided by itself */
	void (*share)(void *self, void *shared);

	/* For a table made at run time: its own object, handed to each instance before init. */
	void *data;
	void (*bind)(void *self, void *data);

	int (*init)(void *self, const int64_t *params); /* 0 or negative errno; self is zeroed */
	void (*fini)(void *self);                       /* all have left, or it is a copy */
	int (*join)(void *self, struct fm_ent *e, uint64_t now);   /* idle at join; 0 or -ENOMEM */
	void (*leave)(void *self, struct fm_ent *e, uint64_t now); /* already idle */
	void (*ready)(void *self, struct fm_ent *e, uint64_t now);
	void (*idle)(void *self, struct fm_ent *e, uint64_t now);

	/* Device time used. May come after another entity was chosen, and after idle, because the
	 * entity still has the device while its last command drains. */
	void (*charge)(void *self, struct fm_ent *e, uint64_t ns, uint64_t now);

	/* Its hints changed. Or it is ready and its ready_since changed, because a new job began
	 * while it lingered. */
	void (*hint)(void *self, struct fm_ent *e, uint64_t now);

	void (*decide)(void *self, uint64_t now, struct fm_choice *choice);

	/* Would this idle entity run at once if it became ready now? If so, its gate stays open
	 * while it is idle, and its next job starts without a round trip. Must be O(1). NULL:
	 * never. */
	bool (*preempts)(void *self, const struct fm_ent *idle, uint64_t now);

	/* An entity never waits for one of a lower rank. So the only entity of the highest rank on
	 * its device never has to wait. The rank depends on hints and settings only. NULL: any
	 * entity may have to wait for any other. */
	int64_t (*rank)(const void *self, const struct fm_ent *e);

	/* Must an entity be watched even if it is alone on its device, because decide() may hold it
	 * back (a cap)? Asked once, after init. NULL: no, and the lone entity costs no bells. */
	bool (*binds_alone)(const void *self);

	/* Make an exact copy for a forecast (forecast.h). `to` is zeroed. The twin of an entity is
	 * twin[e->index], which equals the entity except that its priv is zeroed. Afterwards both
	 * instances give the same answers to the same events of ready entities. Idle entities need
	 * not be copied. 0 or -ENOMEM; fini is called after either, and no entity leaves before.
	 * NULL: there is no forecast. */
	int (*copy)(const void *self, void *to, struct fm_ent *twin);
};

/* NULL-terminated table of the policies built in, and look-up by name (NULL when there is none). */
extern const struct fm_policy_ops *const fm_policies[];
const struct fm_policy_ops *fm_policy_find(const char *name);

/* "key=value" strings, n of them, over the defaults; values[] holds FM_POLICY_PARAMS. -EINVAL or
 * -ERANGE with the names or limits to choose from as hint; values[] is then unspecified. */
int fm_policy_parse(const struct fm_policy_ops *ops, const char *const *kv, size_t n,
	int64_t *values, struct fm_err *err);
