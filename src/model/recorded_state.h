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
	uint32_t first; /* of its entities; UINT32_MAX: none */
};

/* An entity by its numbers. */
struct member {
	uint32_t program, next; /* next: of the same group */
	uint32_t group;         /* index into recorded.group; UINT32_MAX: not there yet */
	uint32_t queues;
	bool works, open;
	/* Of the job at hand, or the last one. */
	uint64_t served, served_idle;        /* charged before it; as told at its end, or later */
	uint64_t measured, commands;         /* by its segments */
	uint64_t open_since, open_ns;        /* its gate was open so long while it had work */
	bool settled;                        /* it has a job, whose length is not known yet */
	uint64_t all_measured, all_commands; /* of all segments */
	bool stopping;                       /* its gate is closed, and it has not come to rest */
	uint64_t rested_at;                  /* it had not before */
	uint64_t opened_at;    /* its gate, where it had come to rest; 0: it goes on */
	struct segment *alone; /* those that had the device to themselves, the first of them */
	size_t n_alone;
	uint64_t each; /* of these, a command, by their median */
};

struct segment {
	uint64_t took, commands;
};

/* A segment that ended while somebody on its device came to rest, or that began before. */
struct shared_segment {
	struct segment segment;
	uint32_t member, group;
	size_t job;
	bool stopping; /* its own gate was closed */
	bool first;    /* of its job, and one command */
};

/* Of a device: who comes to rest there. */
struct sharing {
	uint32_t stopping;    /* so many do */
	uint64_t until;       /* nobody does since */
	bool first;           /* nobody has finished a segment since the last of them was stopped */
	uint64_t own, others; /* segments that were the first then */
};

struct reading {
	const struct fm_trace_file *file;
	struct recorded *r;
	struct program *program;
	struct member *member;
	uint32_t programs, programs_cap, members, members_cap;
	struct number_map by_group, by_member, by_queue; /* queue: to its member */
	const struct fm_policy_ops *policy; /* the first, or NULL: it is not built in */
	struct sharing sharing[WORKLOAD_DEVICES];
	struct claim {
		uint32_t id;     /* of the device */
		uint32_t member; /* is idle, with its gate open */
		uint64_t at;     /* since then; 0: nobody is */
		uint64_t keeps;  /* so long, at most */
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
/* charged: what the group was charged in all, before the next job. */
void job_settle(struct reading *x, struct member *m, uint64_t charged);
void job_cut(struct reading *x, struct member *m);        /* the recording ends in its midst */
void job_sample(uint64_t **v, size_t *n, uint64_t value); /* up to RECORDED_SAMPLES */

/* recorded_claims.c */
void claim_begin(struct reading *x, const struct member *m, const struct fm_trace_rec *rec);
void claim_kept(struct reading *x, const struct member *m, uint32_t device);
void claim_ends(struct reading *x, const struct fm_trace_rec *rec);

/* recorded_turns.c */
void turns_stop(struct reading *x, struct member *m); /* its gate was closed to its work */
void turns_rest(struct reading *x, struct member *m, uint64_t at); /* or it may go on */
void turns_went_on(struct reading *x, struct member *m, uint64_t at);
void turns_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec,
	const struct segment *s);
void turns_end(struct reading *x); /* all is read: devices, and the lengths of jobs */
void turns_free(struct reading *x);
