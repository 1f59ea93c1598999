/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy decides which groups may run on one device. It is a pure function of the events it is
 * told and of the time that comes with them: no I/O, no clock, no threads. One instance serves one
 * device.
 *
 * The core calls join, then any of ready, idle, charge, hint in the order of events, decide after
 * each batch of events, and leave at the end. Between join and leave the entity's address is
 * stable. docs/writing-a-policy.md tells how to write one.
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

/* A policy that wishes to be called again sooner than this is called after so long. */
#define FM_DECIDE_LEAST (10 * FM_US)

/* One group on one device, as a policy sees it. Written by the core, read by policies. */
struct fm_ent {
	uint64_t id;
	const struct fm_hints *hints; /* effective: a segment's priority is already applied */
	/* Entities with the same number are of one user. 0: users are not told apart. Stays as it
	 * is from join to leave. */
	uint32_t user;
	bool ready; /* has work (or is inside a declared segment) */
	/* Chosen by the last decision; but where that is a gang that waits for another of its
	 * devices, who runs in its stead is, and not the gang (docs/architecture.md). */
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
	/* Everybody runs, who becomes ready later too, and run[] is ignored (native order). The
	 * core then asks for no bells: edges reach the policy late. */
	bool all;
	uint64_t next;      /* absolute time of the next wish to be called, FM_NEVER for none */
	const char *reason; /* static text: the rule that chose */
	/* What has changed bears on other devices: they are asked at once. Of a policy with a
	 * shared object alone, and not looked at in the answers of those others. */
	bool others;
};

/* A policy's own settings: `policy NAME key=value`. */
struct fm_policy_param {
	const char *name, *unit, *help; /* unit "ms" and "us": given so by users, kept in ns */
	int64_t min, max, def;          /* of times: in ns */
};

#define FM_POLICY_PARAMS 8

/* A set of hints. */
#define FM_READS(h)     (UINT32_C(1) << (h))
#define FM_READS_UNTOLD UINT32_MAX /* of a policy by users: any of them, perhaps */

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
	/* The policy let nobody run. */
	FM_ADVICE_LIMIT = 1 << 8,     /* its `share' is a limit: a larger one */
	FM_ADVICE_ELSEWHERE = 1 << 9, /* a higher `priority' than that of a group elsewhere */
};

/* One policy. Commands know it by what stands here: each field is optional but name, summary and
 * decide, and what a policy by users (src/plugin) has instead of the facts is said with each.
 *
 * Every operation but decide may be NULL. When ready or idle is called, e->ready has changed
 * already. */
struct fm_policy_ops {
	const char *name;    /* lower-case letters, digits and '-': it is completed and typed */
	const char *summary; /* one line for `fermata policy` */
	const struct fm_policy_param *params; /* ends with a NULL name; at most FM_POLICY_PARAMS */
	size_t size, ent_size;                /* of self and of each entity's priv */
	uint32_t reads; /* hints that it looks at, FM_READS(); by users: FM_READS_UNTOLD */

	/* Kinds of advice that help under it, enum fm_advice. 0, and by users: `fermata why` says
	 * that its author knows. */
	uint32_t advice;

	/* What `fermata-lab policy-test` and the laboratory hold it to, with the default settings
	 * and with others. Ends with bits of 0. NULL, and by users: FM_PROMISE_SOUND with the
	 * default settings, one group at a time. */
	const struct fm_policy_promise *promises;

	/* It reckons from the arrivals of jobs, or learns their lengths: both edges of each are
	 * reported at once, of one that nobody waits for too, which costs that one bells. */
	bool exact_jobs;

	/* It reads fm_ent.user: it can divide a device among users first. */
	bool by_user;

	/* For one order over all devices: an object that all instances share. The core makes it,
	 * zeroed, before the first of them, hands it to each before init, and frees it after the
	 * last. Where there is one, decide may hold everybody on a device back for what another
	 * does: each entity is watched as by binds_alone, and preempts is asked on an idle device
	 * too. A device may have two instances, told of the same entities (gangs). */
	size_t shared_size; /* 0: each device for itself */
	void (*share)(void *self, void *shared);

	/* Of a table made at run time: its own object, handed to each instance before init. */
	void *data;
	void (*bind)(void *self, void *data);

	int (*init)(void *self, const int64_t *params); /* 0 or negative errno; self is zeroed */
	void (*fini)(void *self);                       /* everybody has left, or it is a copy */
	int (*join)(void *self, struct fm_ent *e, uint64_t now);   /* idle at join; 0 or -ENOMEM */
	void (*leave)(void *self, struct fm_ent *e, uint64_t now); /* already idle */
	void (*ready)(void *self, struct fm_ent *e, uint64_t now);
	void (*idle)(void *self, struct fm_ent *e, uint64_t now);

	/* Device time used. May come after another was chosen, and after idle: while the last
	 * command drains the device is still its. */
	void (*charge)(void *self, struct fm_ent *e, uint64_t ns, uint64_t now);

	/* Its hints changed, or, for a ready entity, its ready_since: a new job began within the
	 * linger. */
	void (*hint)(void *self, struct fm_ent *e, uint64_t now);

	void (*decide)(void *self, uint64_t now, struct fm_choice *choice);

	/* Would this idle entity run at once if it became ready now? Its gate then stays open while
	 * it sleeps, and its next job starts without a round trip. Must be O(1). NULL: never. */
	bool (*preempts)(void *self, const struct fm_ent *idle, uint64_t now);

	/* An entity never waits for one of a lower rank; so one that alone has the highest rank on
	 * its device is never made to wait. A function of hints and settings alone. NULL: anyone
	 * may have to wait for anyone. */
	int64_t (*rank)(const void *self, const struct fm_ent *e);

	/* Must even an entity alone on its device be watched, because decide() may hold it back (a
	 * cap)? Asked once, after init. NULL: no, and the lone entity costs no bells. */
	bool (*binds_alone)(const void *self);

	/* An exact copy, for a forecast to play with (forecast.h). `to` is zeroed; the twin of an
	 * entity is twin[e->index], which is as the entity is, but its priv is zeroed. Afterwards
	 * both instances answer alike to whatever ready entities do. Of idle entities nothing needs
	 * to be copied. 0 or -ENOMEM; fini is called after either, and nobody leaves before. NULL:
	 * there is no forecast. */
	int (*copy)(const void *self, void *to, struct fm_ent *twin);
};

/* NULL-terminated table of the policies built in, and look-up by name (NULL when there is none). */
extern const struct fm_policy_ops *const fm_policies[];
const struct fm_policy_ops *fm_policy_find(const char *name);

/* "key=value" strings, n of them, over the defaults; values[] holds FM_POLICY_PARAMS. -EINVAL or
 * -ERANGE with the names or limits to choose from as hint; values[] is then unspecified. */
int fm_policy_parse(const struct fm_policy_ops *ops, const char *const *kv, size_t n,
	int64_t *values, struct fm_err *err);
