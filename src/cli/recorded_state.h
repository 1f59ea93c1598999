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
/* UINT32_MAX: it is not there. */
uint32_t number_find(const struct number_map *m, uint64_t key);
bool number_put(struct number_map *m, uint64_t key, uint32_t index);

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
};

struct reading {
	const struct fm_trace_file *file;
	struct recorded *r;
	struct program *program;
	struct member *member;
	uint32_t programs, programs_cap, members, members_cap;
	struct number_map by_group, by_member, by_queue; /* queue: to its member */
	const struct fm_trace_file_name *policy;
	int rc;
};

/* recorded_jobs.c */
void job_begin(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
void job_end(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
void job_gate(struct member *m, bool open, uint64_t at);
void job_segment(struct reading *x, struct member *m, const struct fm_trace_rec *rec);
/* charged: what the group was charged in all, before the next job. */
void job_settle(struct reading *x, struct member *m, uint64_t charged);
void job_cut(struct reading *x, struct member *m); /* the recording ends in its midst */
