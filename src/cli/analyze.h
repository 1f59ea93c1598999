/* SPDX-License-Identifier: Apache-2.0 */
/* One file under one method, and how it is shown. */
#pragma once
#include "model/taskset.h"
#include "platform/platform.h"

struct analysis {
	const char *file;
	struct taskset ts;
	const struct fm_platform *platform; /* the caller's; NULL: none */
	fm_rta *rta;

	enum fm_rta_method method;
	bool schedulable;           /* base, or by GPU priorities */
	bool base;                  /* without GPU priorities of their own */
	struct fm_rta_bound *bound; /* what is shown: by GPU priorities where only those pass */
	uint32_t *level;            /* GPU priorities, if asked for */
	bool assigned;
	bool by_level; /* bound[] is by level[] */

	bool passes[FM_GEDF_TESTS]; /* gedf */

	/* gedf, of a device's set. */
	struct fm_gedf_gpu_costs costs;
	enum fm_platform_engine_id engine;
	int64_t measured; /* with so many tasks */
	struct fm_gedf_gpu_charge *charge;
};

/* Read the file and check it. platform, which may be NULL: what the file does not say of the
 * machine. */
int analysis_load(struct analysis *a, const char *file, enum taskset_use use,
	const struct fm_platform *platform, struct fm_err *err);
/* The bounds by a method; again, by another. With gpu_priority, those too. */
int analysis_run(
	struct analysis *a, enum fm_rta_method method, bool gpu_priority, struct fm_err *err);
int analysis_gedf(
	struct analysis *a, uint32_t cpus, enum fm_gedf_charge charge, struct fm_err *err);
/* By what the platform file says of the engine; NULL: the best one that it has. */
int analysis_gpu(struct analysis *a, uint32_t slots, const char *engine, struct fm_err *err);
void analysis_free(struct analysis *a);
#define ANALYSIS_CLEAN __attribute__((cleanup(analysis_free)))

/* "gcaps-busy", "gcaps-busy+gpu-priority" */
#define ANALYSIS_METHOD 48
const char *analysis_method(const struct analysis *a, char buf[ANALYSIS_METHOD]);

/* The first task that is not shown to meet its deadline; FM_RTA_NONE. */
size_t analysis_failing(const struct analysis *a);

/* The terms of a task's bound, the largest first; a caller frees them. Negative errno or how many;
 * -ENOENT: it has no bound. */
int analysis_terms(const struct analysis *a, size_t task, struct fm_rta_term **term);

/* Why a task is not shown to meet its deadline, for people. */
#define ANALYSIS_WHY 320
void analysis_why(const struct analysis *a, size_t task, char why[ANALYSIS_WHY]);

/* Text of JSON: a string, quoted; a time of the file's, or null. */
void json_text(FILE *f, const char *text);
void json_bound(FILE *f, const struct analysis *a, const struct fm_rta_bound *b);
const char *json_meets(const struct fm_rta_bound *b);

enum analyze_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };

/* analyze FILE..., analyze compare FILE, analyze explain --task T FILE. They print; an exit code.
 */
int analyze_show(const struct analysis *a, size_t n, enum analyze_format format);
int analyze_show_gedf(const struct analysis *a, size_t n, enum analyze_format format);
int analyze_show_gpu(const struct analysis *a, size_t n, enum analyze_format format);
int analyze_compare(struct analysis *a, enum analyze_format format);
int analyze_explain(const struct analysis *a, const char *task, enum analyze_format format);
