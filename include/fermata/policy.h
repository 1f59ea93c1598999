/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies of your own: a shared object NAME.so in the folder that fermatad.conf(5) names, loaded
 * by `fermata policy NAME`. It defines one symbol, `fm_policy`, and needs nothing of libfermata.
 *
 * Where it runs. The daemon starts a process for it, asks it there, and waits for each answer no
 * longer than the configured budget. What crashes or answers nonsense is dropped, and so is what
 * was late four times within a minute, which the log warns of before: the process is ended,
 * fixed-priority takes over, and the log and `fermata policy` say why. The process is ended in the
 * same way when the policy is changed, so whatever it holds is freed by its end. It runs as the
 * daemon's user; this guards against mistakes, not against malice.
 *
 * Threads. All functions are called by one thread, one at a time. Do not block and start no
 * threads: it is events and the time that comes with them that a policy decides by. Standard output
 * is /dev/null; standard error is the daemon's.
 *
 * Units. Times are nanoseconds on CLOCK_MONOTONIC; FM_POLICY_NEVER is never. Hints are in the units
 * of <fermata/hint.h>.
 *
 * Ownership. The daemon's side makes all states, groups and answers; the policy owns the bytes of
 * `state` and `priv`, and keeps pointers to a group from join to leave and no longer. Texts that a
 * policy gives are copied.
 *
 * Versions. FM_POLICY_ABI changes when old objects would not be understood any more; they are then
 * refused. Structures grow at their end without that: `size` says what the other side knows.
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
	1u /* it counts from arrivals: both edges of each job reported at once */
#define FM_POLICY_BINDS_ALONE 2u /* it may hold back even a group that is alone on its device */

/* One group of programs on one device. Written by the caller alone; its address is stable from join
 * to leave. */
struct fm_policy_group {
	uint32_t size;        /* of this structure, as the caller knows it */
	uint32_t hints;       /* how many hint[] holds */
	const int64_t *hint;  /* by enum fm_hint; read it with fm_policy_hint() */
	void *priv;           /* the policy's own, group_size bytes, zeroed before join */
	uint64_t id;          /* never used again */
	uint64_t ready_since; /* arrival of the current job; valid while ready */
	uint64_t served_ns;   /* device time used so far */
	uint8_t ready;        /* has work */
	uint8_t running;      /* chosen by the last answer, or runs in place of who was */
};

/* 0 for a hint that the daemon does not know yet. */
static inline int64_t fm_policy_hint(const struct fm_policy_group *g, enum fm_hint h)
{
	return (uint32_t)h < g->hints ? g->hint[h] : 0;
}

/* What decide() answers; it comes filled in as "nobody runs, and do not ask again". To let nobody
 * run while somebody is ready, and wish for no time to be asked again, is nonsense. */
struct fm_policy_answer {
	uint32_t size; /* of this structure, as the caller knows it */
	uint32_t n;    /* of run[] */
	struct fm_policy_group *run[FM_POLICY_RUN_MAX]; /* they run, all others wait; each ready, of
							   this device, no doubles */
	uint64_t next;      /* absolute time to be asked again; not heeded within 100 us, and, as
			       long as nothing happens, ever later where it has come already */
	const char *reason; /* why, for people: ASCII, cut after 47 characters; NULL: the name */
	uint8_t all;        /* everybody runs, who becomes ready later too; run[] is ignored */
};

/* `policy NAME key=value`. */
struct fm_policy_setting {
	const char *name; /* up to 23 characters; NULL ends the table of at most 8 */
	const char
		*unit; /* "ms" and "us": people give it so, init gets ns; "" or another: as it is */
	const char *help;      /* up to 79 characters */
	int64_t min, max, def; /* of times: in ns */
};

/* A state is one for each device; or two, where groups work on several devices: the second decides
 * who runs in place of such a group while it waits for another device, and is told of the rest
 * alone. Every function but decide may be NULL. The order: init; then
 * join, ready, idle, charge, hint and leave as things happen; decide after each batch of these, and
 * at the time wished for. ready and idle alternate, join and leave find the group idle. When the
 * policy is chosen, programs that are there already join, and become ready, like any other. */
struct fm_policy {
	uint32_t abi;  /* FM_POLICY_ABI */
	uint32_t size; /* sizeof(struct fm_policy) */
	uint32_t flags;
	const char *summary; /* one line, up to 95 characters */
	const struct fm_policy_setting *settings;
	size_t state_size, group_size; /* of state and of each group's priv; zeroed */

	/* settings: in the order of the table. 0, or a negative errno: then the policy is refused.
	 */
	int (*init)(void *state, const int64_t *settings);

	/* 0, or -ENOMEM: then the policy is dropped. */
	int (*join)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*leave)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*ready)(void *state, struct fm_policy_group *g, uint64_t now);
	void (*idle)(void *state, struct fm_policy_group *g, uint64_t now);

	/* Device time used. May come after another was chosen, and after idle. */
	void (*charge)(void *state, struct fm_policy_group *g, uint64_t ns, uint64_t now);

	/* Its hints, or while it is ready its ready_since, changed. */
	void (*hint)(void *state, struct fm_policy_group *g, uint64_t now);

	void (*decide)(void *state, uint64_t now, struct fm_policy_answer *answer);
};

/* What the shared object defines. */
extern __attribute__((visibility("default"))) const struct fm_policy fm_policy;

#ifdef __cplusplus
}
#endif
#endif
