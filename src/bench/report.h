/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has counted, as numbers and as JSON. */
#pragma once
#include "page.h"
#include <time.h>

/* One run, after its clients have ended. */
struct bench_outcome {
	const struct bench_workload *w;
	struct bench_page *page;
	const char *mode;    /* "native", "fermata" or "local" */
	const char *policy;  /* NULL: natively */
	time_t begin;        /* by the calendar */
	bool complete;       /* it went on to its end */
	const char **failed; /* of each task: NULL, or what happened */
};

struct bench_numbers {
	uint64_t arrivals, alone_ns, service_ns; /* means of both, as libdisb has them: a sum */
	double seconds, throughput;              /* requests a second */
};
void bench_numbers(const struct bench_outcome *o, uint32_t task, struct bench_numbers *n);

/* Of all tasks. */
struct bench_overall {
	double throughput, of_alone; /* of_alone: each in units of what it can do alone; the sum */
	double realtime_us, increase_us; /* plain means over real-time clients; 0: there are none */
	unsigned realtime;
};
void bench_overall(const struct bench_outcome *o, struct bench_overall *all);

/* One run: what libdisb reports of it, and what that lacks. NULL: out of memory. */
json_t *bench_report_run(const struct bench_outcome *o);
json_t *bench_report_models(const struct bench_workload *w, const struct bench_page *page);
