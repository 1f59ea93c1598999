/* SPDX-License-Identifier: Apache-2.0 */
/* While a trace is read: entities as the daemon numbers them. */
#pragma once
#include "recorded.h"

/* From numbers to indexes. */
struct number_map {
	struct number {
		uint64_t key;
		uint32_t index;
		bool used;
	} * slot;
	size_t n, cap;
};

/* A group by its number. */
struct program {
	uint32_t id;
	struct fm_hints hints;
	uint32_t first; /* its first entity; UINT32_MAX: none */
};

/* An entity by its numbers. */
struct member {
	uint32_t program, next; /* next: of the same group */
	uint32_t group;         /* index into recorded.group; UINT32_MAX: not there yet */
	uint32_t queues;
	bool works, open;
	/* About the present job, or the last one. */
	uint64_t served, served_idle;        /* charged before it; charged at its end or later */
	uint64_t measured, commands;         /* the sum of its segments */
	uint64_t open_since, open_ns;        /* how long its gate was open while it had work */
	bool settled;                        /* it has a job whose length is not known yet */
	uint64_t all_measured, all_commands; /* of all segments */
	bool stopping;                       /* its gate is closed, and it has not come to rest */
	uint64_t rested_at;                  /* when it last came to rest */
	uint64_t opened_at;    /* when its gate opened after it had come to rest; 0: it goes on */
	struct segment *alone; /* the first segments that had the device to themselves */
	size_t n_alone;
	uint64_t each; /* the length of a command in these, by their median */
};

struct segment {
	uint64_t took, commands;
};

/* A segment that ended while a group on its device came to rest, or that began before that. */
struct shared_segment {
	struct segment segment;
	uint32_t member, group;
	size_t job;
	bool stopping; /* its own gate was closed */
	bool first;    /* it is the first of its job, and one command */
};

/* The groups that come to rest on a device. */
struct sharing {
	uint32_t stopping;    /* how many come to rest now */
	uint64_t until;       /* when the last one came to rest */
	bool first;           /* no segment has ended since the last of them was stopped */
	uint64_t own, others; /* first segments after a stop: of stopping groups, of others */
};

struct reading {
	const struct fm_trace_file *file;
	struct recorded *r;
	struct program *program;
	struct member *member;
	uint32_t programs, programs_cap, members, members_cap;
	struct number_map by_group, by_member, by_queue; /* queue: to its member */
	const struct fm_policy_ops *policy;              /* the first policy; NULL: not built in */
	struct sharing sharing[WORKLOAD_DEVICES];
	struct claim {
		uint32_t id;     /* the device */
		uint32_t member; /* the member that is idle, with its gate open */
		uint64_t at;     /* since when; 0: none is */
		uint64_t keeps;  /* for how long at most */
	} claim[WORKLOAD_DEVICES];
	struct shared_segment *shared;
	size_t n_shared, shared_cap;
	int rc;
};

/* recorded_jobs.c */
void job_begin(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
void job_end(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
void job_gate(struct member *m, bool open, uint64_t at);
void job_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
/* charged: what the group was charged in total before the next job. */
void job_settle(struct reading *x, struct member *m, uint64_t charged);
void job_cut(struct reading *x, struct member *m);        /* the recording ends within the job */
void job_sample(uint64_t **v, size_t *n, uint64_t value); /* up to RECORDED_SAMPLES */

/* recorded_claims.c */
void claim_begin(struct reading *x, const struct member *m, const struct fm_trace_rec *rec);
void claim_kept(struct reading *x, const struct member *m, uint32_t device);
void claim_ends(struct reading *x, const struct fm_trace_rec *rec);

/* recorded_turns.c */
void turns_stop(struct reading *x, struct member *m); /* its gate closed while it had work */
void turns_rest(struct reading *x, struct member *m, uint64_t at); /* it rests, or may go on */
void turns_went_on(struct reading *x, struct member *m, uint64_t at);
void turns_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec,
	const struct segment *s);
void turns_end(struct reading
		*x); /* after all is read: finds the turns of devices and the lengths of jobs */
void turns_free(struct reading *x);
