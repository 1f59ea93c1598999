/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `fermata top` shows: two replies of the daemon, and what happened between them. Pure: time
 * is an argument, no request is sent, and nothing is drawn.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum top_state { TOP_IDLE, TOP_READY, TOP_RUNNING, TOP_SUSPENDED, TOP_STATES };

/* A group's counts, on one device or on all of its devices. */
struct top_counts {
	double device_ms, wait_ms, preemptions; /* since it joined */
	double share, waited;  /* parts of the interval: had a device, waited for one */
	double preempt_s;      /* preemptions a second */
	double p50_us, p99_us; /* waits of the last minute; NAN: none known */
};

/* Device memory, in bytes. */
struct top_memory {
	double committed;
	double resident, host; /* on the device, on the host */
	double limit;          /* 0: none */
};

/* What a group has of a device. */
struct top_part {
	const char *device; /* which may have no queues, and is no struct top_device then */
	double capacity;
	struct top_memory n;
};

/* A group on a device. */
struct top_ent {
	size_t device; /* index */
	enum top_state state;
	struct top_counts n;
};

struct top_group {
	const char *name, *user;
	const char
		*queue; /* a queue of the group, whose id names it unambiguously; NULL: no queue */
	int64_t uid;
	double at; /* ns; when it was counted. 0: with the sample */
	int priority;
	int level_min, level_max; /* 0: no queue */
	unsigned queues;
	enum top_state state; /* the most active */
	bool tasks;           /* real-time tasks are its, */
	bool deadline;        /* or it has a deadline as a hint */
	double misses;        /* of the tasks, else of the hint: known where it has either */
	double overruns;      /* of the tasks */
	struct top_counts n;  /* shares are sums: two devices all the time are 2 */
	struct top_ent *ent;
	size_t ents;
	struct top_memory memory; /* sums; the smallest limit */
	struct top_part *part;
	size_t parts; /* 0: none of its memory is counted */
};

static inline bool top_misses_known(const struct top_group *g)
{
	return g->tasks || g->deadline;
}

struct top_device {
	const char *key;
	size_t groups, ready;
	double share; /* of the interval, had by the groups that are seen */
	double preemptions, preempt_s;
	double p50_us,
		p99_us;  /* gate closed to device at rest, since the daemon began; NAN: none */
	double capacity; /* of memory; 0: no group has any that is counted */
	struct top_memory memory;
};

/* What top_model_take() was given. Texts are those of the replies, which it keeps. */
struct top_sample {
	json_t *ps, *tasks;
	uint64_t at; /* ns */
	struct top_device *device;
	size_t devices;
	struct top_group *group; /* by user and name */
	size_t groups;
	struct top_ent *ent; /* of all groups */
	struct top_part *part;
	bool memory; /* a group has memory that is counted */
};

struct top_model {
	struct top_sample base, next, now; /* next: will be the base */
	double seconds; /* from base to now; 0: nothing to compare with, rates are not known */
};

/* Takes two replies, and their references, as the state at `at`. ps has "policy", "devices" and, as
 * "groups", the rows of docs/protocol.md with the user's name behind the number. tasks is the reply
 * to "tasks", or NULL. The state is compared with one that is at least `least' older, if there is
 * one, so that replies that were asked for out of turn do not make rates jump. -ENOMEM: the model
 * is unchanged. */
int top_model_take(struct top_model *m, json_t *ps, json_t *tasks, uint64_t at, uint64_t least);

/* Forgets everything, since another daemon counts from the start. */
void top_model_clear(struct top_model *m);

/* The group of this user and name, or NULL. */
const struct top_group *top_model_find(const struct top_model *m, int64_t uid, const char *name);

const char *top_state_name(enum top_state state);

enum top_sort {
	TOP_BY_SHARE,
	TOP_BY_TIME,
	TOP_BY_NAME,
	TOP_BY_USER,
	TOP_BY_PRIORITY,
	TOP_BY_STATE,
	TOP_BY_WAIT,
	TOP_BY_PREEMPT,
	TOP_BY_P99,
	TOP_BY_MISSES,
	TOP_BY_MEMORY,
	TOP_SORTS,
};
const char *top_sort_name(enum top_sort sort);
/* -EINVAL: there is no such name. */
int top_sort_parse(const char *name, enum top_sort *sort);

/* The groups of a user (NULL: of all users) in order, the largest first, names in alphabetical
 * order. Equals are in the order of device time, then name, so that rows do not jump. The caller
 * frees *list. */
int top_model_order(const struct top_model *m, enum top_sort sort, bool reverse, const char *user,
	const struct top_group ***list, size_t *n);

/* The model as JSON for scripts: docs/top.md. NULL: out of memory. */
json_t *top_model_json(
	const struct top_model *m, enum top_sort sort, bool reverse, const char *user);
