/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies of your own: a shared object NAME.so in the folder that fermatad.conf(5) names, loaded
 * by `fermata policy NAME`. It defines one symbol, `fm_policy`, and needs nothing of libfermata.
 *
 * Process. The daemon starts a process for the policy, and waits for each answer at most for the
 * configured budget. A policy that crashes, gives invalid answers, or is late four times within a
 * minute (with warnings in the log) is dropped: its process is ended, fixed-priority takes over,
 * and the log and `fermata policy` say why. The process is also ended when the policy is changed,
 * which frees all its resources. It runs as the daemon's user; this guards against mistakes, not
 * against malice.
 *
 * Threads. All functions are called by one thread, one at a time. They must not block and must not
 * start threads: a policy decides by events and the times that come with them. Standard output is
 * /dev/null; standard error is the daemon's.
 *
 * Units. Times are nanoseconds on CLOCK_MONOTONIC; FM_POLICY_NEVER is never. Hints are in the units
 * of <fermata/hint.h>.
 *
 * Ownership. The daemon's side makes all states, groups and answers. The policy owns the bytes of
 * `state` and `priv`, and may keep pointers to a group from join to leave. Texts that a policy
 * gives are copied.
 *
 * Versions. FM_POLICY_ABI changes when old objects would not be understood any more; they are then
 * refused. Structures can grow at their end without that: `size` is the size that the other side
 * knows.
 */
#ifndef FERMATA_POLICY_H
#define FERMATA_POLICY_H
#include <fermata/hint.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FM_POLICY_ABI     1
#define FM_POLICY_NEVER   UINT64_MAX
#define FM_POLICY_RUN_MAX 8

/* Flags of a policy. */
#define FM_POLICY_EXACT_JOBS \
	1u /* needs the time of arrivals: both edges of each job are reported at once */
#define FM_POLICY_BINDS_ALONE 2u /* it may hold back even a group that is alone on its device */

/* One group of programs on one device. Only the caller writes it; its address is stable from join
 * to leave. */
struct fm_policy_group {
	uint32_t size;        /* of this structure, as the caller knows it */
	uint32_t hints;       /* length of hint[] */
	const int64_t *hint;  /* by enum fm_hint; read it with fm_policy_hint() */
	void *priv;           /* the policy's own, group_size bytes, zeroed before join */
	uint64_t id;          /* never used again */
	uint64_t ready_since; /* arrival of the current job; valid while ready */
	uint64_t served_ns;   /* device time used so far */
	uint8_t ready;        /* has work */
	uint8_t running;      /* chosen by the last answer, or runs instead of a chosen gang */
};

/* 0 for a hint that the daemon does not know yet. */
static inline int64_t fm_policy_hint(const struct fm_policy_group *g, enum fm_hint h)
{
	return (uint32_t)h < g->hints ? g->hint[h] : 0;
}

/* The answer of decide(); it comes filled in as "no group runs, and do not ask again". It is
 * invalid to let no group run while a group is ready, and to give no time to be asked again. */
struct fm_policy_answer {
	uint32_t size; /* of this structure, as the caller knows it */
	uint32_t n;    /* of run[] */
	struct fm_policy_group *run[FM_POLICY_RUN_MAX]; /* these run, all others wait; each is
							   ready, on this device, and here once */
	uint64_t next;      /* absolute time to be asked again: at the earliest in 100 us, and ever
			       later if it is in the past and nothing happens */
	const char *reason; /* for people: ASCII, cut after 47 characters; NULL: the name */
	uint8_t all;        /* all groups run, also those ready later; run[] is ignored */
};

/* `policy NAME key=value`. */
struct fm_policy_setting {
	const char *name; /* up to 23 characters; NULL ends the table of at most 8 */
	const char *unit; /* "ms" or "us": in the command, while init gets ns; others: unchanged */
	const char *help; /* up to 79 characters */
	int64_t min, max, def; /* of times: in ns */
};

/* Each device has one state, or two if groups work on several devices: the second one decides which
 * groups run instead of such a group while it waits for another device, and hears only of the other
 * groups. Every function but decide may be NULL. The order of calls: init; then join, ready, idle,
 * charge, hint and leave as these events happen; decide after each batch of them, and at the time
 * asked for. ready and idle alternate; at join and leave the group is idle. When the policy is
 * chosen, programs that are there already join and become ready like others. */
struct fm_policy {
	uint32_t abi;  /* FM_POLICY_ABI */
	uint32_t size; /* sizeof(struct fm_policy) */
	uint32_t flags;
	const char *summary; /* one line, up to 95 characters */
	const struct fm_policy_setting *settings;
	size_t state_size, group_size; /* of state and of each group's priv; zeroed */

	/* settings: in the order of the table. 0, or a negative errno to refuse the policy. */
	int (*init)(void *state, const int64_t *settings);

	/* 0, or -ENOMEM, which drops the policy. */
	int (*join)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*leave)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*ready)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*idle)(void *state, struct fm_policy_group *g, uint64_t now);

	/* Device time used. May come after another group was chosen, and after idle. */
	void (*charge)(void *state, struct fm_policy_group *g, uint64_t ns, uint64_t now);

	/* The group's hints changed, or its ready_since while it is ready. */
	void (*hint)(void *state, struct fm_policy_group *g, uint64_t now);

	void (*decide)(void *state, uint64_t now, struct fm_policy_answer *answer);
};

/* The symbol that the shared object defines. */
extern __attribute__((visibility("default"))) const struct fm_policy fm_policy;

#ifdef __cplusplus
}
#endif
#endif
