/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab compare`: two runs side by side. Each is a trace, or the output of `fermata-lab sim
 * --json`.
 */
#pragma once
#include "cmd/cli.h"
#include <stdint.h>

struct run_sample {
	uint64_t ns, jobs; /* this many took at most this long, and longer than the sample before */
};

struct run_group {
	char *name;
	uint64_t jobs; /* that ended: the jobs of its samples */
	uint64_t late, preemptions, left;
	uint64_t served;
	bool sampled; /* its samples are known, but there may be none */
	struct run_sample *sample;
	size_t samples;
};

struct run {
	const char *path;
	bool simulated;
	char policy[256];
	uint64_t duration;  /* of one machine, without the warm-up */
	uint64_t lost;      /* records */
	bool cut;           /* the recording was cut off */
	double device_time; /* of all devices */
	double seconds;     /* of all machines */
	struct run_group *group;
	size_t groups;
};

/* runs.c. Negative errno with a text. */
int run_open(struct run *r, const char *path, struct fm_err *err);
/* Reads the output of `fermata-lab sim --json'. path: for errors. */
int run_parse(struct run *r, const json_t *o, const char *path, struct fm_err *err);
void run_free(struct run *r);
const struct run_group *run_find(const struct run *r, const char *name);
/* The response time of rank q * jobs; 0 without jobs. */
uint64_t run_quantile(const struct run_group *g, double q);

/* runs_test.c: does b's quantile differ from a's? By the bootstrap. */
enum run_verdict {
	RUN_TOO_FEW, /* jobs beyond the quantile, or no samples */
	RUN_SAME,    /* no difference is shown */
	RUN_FASTER,
	RUN_SLOWER,
	RUN_STARVED, /* b had work, and none of it ended; set by the caller, which knows the runs */
};
struct run_test {
	const struct run_group *a, *b;
	double q;
	uint64_t at[2];   /* a's and b's */
	double low, high; /* of b's minus a's: 95 %, in ns */
	double p;
	enum run_verdict verdict;
};
#define RUN_RESAMPLES 10000
#define RUN_BEYOND    5 /* jobs that must lie beyond a quantile */
/* All tests, with Holm's correction for their number. Returns the resamples drawn for each. */
unsigned run_tests(struct run_test *t, size_t n, uint64_t seed);
