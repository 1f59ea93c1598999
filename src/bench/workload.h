/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads of `fermata-lab bench`: DISB 1.0 as it is published, and what docs/bench.md adds to it.
 * A file is read strictly where it says something that we act upon; members that are for others
 * (addresses of servers, say) are left to the driver.
 *
 * Owns: a workload as it was read; page.h has what its clients share.
 * Locks: none: what clients share is atomic.
 * Threads: any may read a workload. Clients are threads or processes, each with one part of the
 * page to write.
 */
#pragma once
#include "base/err.h"
#include "json/json.h"
#include <fermata/bench.h>
#include <fermata/hint.h>
#include <stdbool.h>

#define BENCH_TASKS   64
#define BENCH_NAME    48
#define BENCH_KERNELS 4096 /* different ones, of all models */
#define BENCH_COUNT   1000000
#define BENCH_SECONDS 86400
#define BENCH_RATE    1000000 /* requests a second */

enum bench_load { BENCH_CLOSED, BENCH_PERIODIC, BENCH_POISSON, BENCH_TRACE, BENCH_DEPENDENT };

struct bench_model {
	const char *name;
	bool built_in;
	uint32_t batch; /* so many times as long, and as many bytes, as it is described */
	uint64_t input_bytes, output_bytes;
	uint32_t kernel, kernels; /* where in the workload's, and how many */
};

struct bench_task {
	const char *id, *name; /* name: the client's, in DISB's report */
	enum bench_load load;
	double rate;     /* requests a second; 0: none */
	double fraction; /* of what it can do alone; 0: `rate` counts */
	bool realtime;   /* DISB's sense: neither a closed loop nor of a priority above 0 */
	uint64_t *trace; /* ns, in order */
	size_t traces;
	uint64_t before; /* dependent: bits of the tasks that it waits for */
	uint32_t model, batch;
	char *client; /* JSON */
	struct fm_bench_hint hint[FM_HINT_COUNT];
	size_t hints;
};

struct bench_workload {
	json_t *root; /* names live here */
	double seconds;
	struct bench_task task[BENCH_TASKS]; /* by id, as libdisb has them */
	uint32_t tasks;
	struct bench_model *model;
	uint32_t models;
	struct fm_bench_kernel kernel[BENCH_KERNELS];
	uint32_t kernels;
	bool any_model;
	char unknown[FM_JSON_UNKNOWN]; /* the first member that means nothing here */
};

/* -EINVAL or -ENOMEM, with err: what it says begins with `name`, the path within the file follows.
 * any_model: a model that is not described is the driver's business, and not a mistake. */
int bench_workload_parse(struct bench_workload *w, const char *name, const char *text, size_t size,
	bool any_model, struct fm_err *err);
/* "-" is the standard input. models: a file with further models, which come after the workload's
 * own; or NULL. */
int bench_workload_load(struct bench_workload *w, const char *file, const char *models,
	bool any_model, struct fm_err *err);
void bench_workload_free(struct bench_workload *w);
#define BENCH_WORKLOAD_CLEAN __attribute__((cleanup(bench_workload_free)))

const char *bench_load_name(enum bench_load load);
/* The name of its group. */
#define BENCH_GROUP (BENCH_NAME + 8)
void bench_group(const struct bench_task *t, char name[BENCH_GROUP]);
int64_t bench_task_hint(const struct bench_task *t, enum fm_hint hint); /* 0: not given */
void bench_task_set_hint(struct bench_task *t, enum fm_hint hint, int64_t value);

/* The rows of a built-in model; NULL: there is none of that name. A suffix of DISB's ("-imagenet")
 * does not count. */
struct bench_built_in {
	const char *name;
	struct {
		uint32_t count, us;
	} part[4]; /* ends with a count of 0 */
	uint64_t input_bytes, output_bytes;
};
extern const struct bench_built_in bench_built_in[]; /* ends with a NULL name */
const struct bench_built_in *bench_built_in_find(const char *name);
