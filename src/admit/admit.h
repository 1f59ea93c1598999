/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission control: the tasks that have been admitted, the analysis over all of them when others
 * ask, and what becomes of each afterwards: its budget of device time, its response times against
 * the bound. No sockets, no clock, no devices: time is an argument, edges are told, and what is to
 * be done goes out through the host.
 *
 * Stretch: from an edge to busy to one to idle, pauses up to `pause` within it, unless a declared
 * segment ended there. Job: as many stretches as its task has segments; what begins a period or
 * more after its job began belongs to the next. Budget: the device time of all segments, for each
 * period from the first use of the device on.
 *
 * Owns: the tasks, and what is known of their jobs.
 * Locks: none.
 * Threads: one, its owner (the daemon's loop). A question (fm_admit_question) may be decided by
 * another thread meanwhile: it owns a copy of all that it looks at.
 */
#pragma once
#include "base/err.h"
#include "base/hist.h"
#include <fermata/rta.h>
#include <sys/types.h>

#define FM_ADMIT_NAME         64
#define FM_ADMIT_TASKS        4096
#define FM_ADMIT_SEGMENTS     64
#define FM_ADMIT_PRIORITY_MAX 65535
#define FM_ADMIT_PERIOD_MIN   INT64_C(10000)         /* 10 us */
#define FM_ADMIT_PERIOD_MAX   INT64_C(3600000000000) /* an hour */
#define FM_ADMIT_WHY          200

struct fm_admit;
struct fm_atask;

enum fm_overrun { FM_OVERRUN_DEMOTE, FM_OVERRUN_STOP, FM_OVERRUN_REPORT };
const char *fm_overrun_name(enum fm_overrun o);
int fm_overrun_find(const char *name, enum fm_overrun *o); /* -ENOENT */

/* In its place; or over its budget. */
enum fm_astate { FM_ATASK_PLACED, FM_ATASK_DEMOTED, FM_ATASK_STOPPED };

/* What a task says of itself; times in ns. */
struct fm_admit_spec {
	char name[FM_ADMIT_NAME];
	int64_t priority; /* equals: the shorter deadline first, then who came first */
	int64_t cpu;
	bool own_cpu; /* on a CPU that no other task uses */
	int64_t period, deadline, cpu_time, gpu_total;
	struct fm_rta_segment segment[FM_ADMIT_SEGMENTS];
	size_t segments;
	int64_t epsilon; /* of the machine, if it knows; FM_RTA_UNSET */
	enum fm_overrun overrun;
	uint32_t user; /* uid of its owner */
	void *data;    /* for the host */
};

struct fm_admit_host {
	/* Device time charged so far, never falling, and on how many devices (0: none as yet). */
	uint64_t (*used)(void *ctx, void *data, uint64_t now, unsigned *devices);
	/* Place it anew: above all others by `place`, at the very end, or nowhere. */
	void (*place)(void *ctx, void *data, enum fm_astate state, int64_t place, uint64_t now);
	void (*overran)(void *ctx, void *data, uint64_t used, int64_t budget);
	/* A response time beyond the bound; `ended`: so long, else so long already. */
	void (*violated)(void *ctx, void *data, uint64_t took, bool ended, const char *why);
};

struct fm_admit_config {
	enum fm_rta_method method; /* one of gcaps */
	int64_t epsilon;           /* what is known of the machine; FM_RTA_UNSET */
	uint64_t pause;
};

int fm_admit_new(struct fm_admit **out, const struct fm_admit_host *host, void *ctx);
void fm_admit_free(struct fm_admit *a); /* and the tasks; asks nothing of the host */
void fm_admit_configure(struct fm_admit *a, const struct fm_admit_config *c);
size_t fm_admit_count(const struct fm_admit *a);

struct fm_admit_answer {
	int64_t *bound; /* set by the caller, or NULL: room for the n bounds */
	bool admitted;
	bool by_level;           /* by GPU priorities that were assigned */
	int64_t epsilon;         /* that was taken: the largest that anybody knows */
	int64_t machine_epsilon; /* by the settings alone; FM_RTA_UNSET */
	/* If refused: who misses, and what is known of that one. */
	struct fm_admit_spec who;
	bool is_new; /* one of those that asked */
	enum fm_rta_verdict verdict;
	int64_t wcrt; /* at least */
	char why[FM_ADMIT_WHY];
};

/* All n or none. With reassign: GPU priorities may be given to all tasks anew, if it does not
 * go without. keep: false, only to know; nothing stays. out[] has room for n; NULL where nothing
 * stays. 0, with the answer; or what the specs say makes no sense (-EINVAL), too many tasks
 * (-ENOSPC), epsilon is not known (-ENODATA), -EOVERFLOW, -ENOMEM. */
int fm_admit_ask(struct fm_admit *a, const struct fm_admit_spec *spec, size_t n, bool reassign,
	bool keep, struct fm_atask **out, struct fm_admit_answer *answer, uint64_t now,
	struct fm_err *err);
/* The same in three parts. fm_admit_decide() takes long where there are many tasks, and may be
 * another thread's: it touches nothing but the question. finish() has what prepare() had, and
 * answers -ESTALE if the tasks are others by now: then it is to be asked anew. */
struct fm_admit_question;
int fm_admit_prepare(struct fm_admit *a, const struct fm_admit_spec *spec, size_t n, bool reassign,
	bool quick, struct fm_admit_question **out, struct fm_err *err);
void fm_admit_decide(struct fm_admit_question *q);
/* quick: about a millisecond at most. Was that too short for an answer that is worth something? */
bool fm_admit_gave_up(const struct fm_admit_question *q);
int fm_admit_finish(struct fm_admit *a, const struct fm_admit_question *q,
	const struct fm_admit_spec *spec, size_t n, bool keep, struct fm_atask **out,
	struct fm_admit_answer *answer, uint64_t now, struct fm_err *err);
void fm_admit_question_free(struct fm_admit_question *q);

void fm_admit_remove(struct fm_admit *a, struct fm_atask *t); /* the host is not told */

/* The group of the task is there, and is placed; or it is not any more. */
void fm_atask_bound(struct fm_admit *a, struct fm_atask *t, bool bound, uint64_t now);
/* Its group became busy or idle at that time. Tells the host nothing. */
void fm_atask_edge(struct fm_admit *a, struct fm_atask *t, bool busy, bool declared, uint64_t at,
	uint64_t now);
/* Its group is suspended by hand, or not any more: that explains a late job. */
void fm_atask_suspended(struct fm_atask *t, bool suspended, uint64_t now);
/* A group of that user let go of the device so long after being told. */
void fm_admit_rested(
	struct fm_admit *a, const char *who, uint32_t user, uint64_t took, uint64_t at);

uint64_t fm_admit_next(const struct fm_admit *a);
void fm_admit_run(struct fm_admit *a, uint64_t now);

struct fm_atask_info {
	const struct fm_admit_spec *spec;
	enum fm_astate state;
	int64_t bound, budget, place;
	bool at_work;                              /* a job is under way */
	uint64_t jobs, overruns, violations, used; /* used: in the present period */
	uint64_t misses;                           /* jobs that ended after their deadline */
	const struct fm_hist *response;            /* NULL: no job ended yet */
	const char *why;                           /* of the last violation; "": none */
	const char *why_own; /* the same, without names of what belongs to others than its user */
};
void fm_atask_info(const struct fm_admit *a, const struct fm_atask *t, uint64_t now,
	struct fm_atask_info *info);
