/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the clients of `fermata-lab bench` share with who started them, and with each other: a file
 * in memory. Each client has a part that it alone writes, and one that it alone is told by. What it
 * has counted is there when it dies.
 */
#pragma once
#include "base/hist.h"
#include "workload.h"
#include <stdatomic.h>

#define BENCH_RESULTS 4096u /* of each client, for those that depend on it */
#define BENCH_TEXT    160

/* What a client is told to do next, one at a time; it says when it has done it. */
enum bench_go { BENCH_WAIT, BENCH_OPEN, BENCH_CALIBRATE, BENCH_ALONE, BENCH_RUN, BENCH_CLOSE };
#define BENCH_FAILED UINT32_MAX /* in the place of what was done */

struct bench_counts {
	uint64_t begun, finished, dropped, missed;
	uint64_t waiting; /* due before the end, and not begun: in `latency`, as long as they waited
			   */
	double beyond;    /* parts of finished ones that ran after the end */
	uint64_t phase_ns[FM_BENCH_PHASES]; /* sums */
	struct fm_hist service;             /* from the begin of a request to its end */
	struct fm_hist latency;             /* from when it was due */
};

struct bench_seat {
	/* Written by who started the clients. */
	_Atomic uint32_t go;
	double rate;
	uint64_t delay;
	/* By anybody who has something for this client: a futex. */
	_Atomic uint32_t bell;
	/* By the client. */
	_Atomic uint32_t done;
	_Atomic uint64_t alone;   /* requests that it has finished before the run */
	_Atomic uint64_t results; /* requests that it has finished in the run */
	char error[BENCH_TEXT];
	uint64_t alone_ns[FM_BENCH_PHASES]; /* means */
	struct bench_counts counts;
	_Atomic uint64_t result[BENCH_RESULTS]; /* when the last of them had ended */
};

struct bench_page {
	uint64_t seed;
	uint32_t warm_up, alone; /* requests before the run: thrown away, and measured */
	bool drop;               /* late ones, as libdisb does */
	bool threads;            /* one process has all clients */
	uint64_t rest;           /* of the device, before it is measured alone, ns */
	uint64_t begin, end;     /* of the run, on CLOCK_MONOTONIC */
	_Atomic uint64_t stop;   /* 0, or since when it is to end early */
	struct fm_bench_device device;
	uint32_t kernels;
	struct fm_bench_kernel kernel[BENCH_KERNELS];
	uint32_t tasks;
	struct bench_seat seat[BENCH_TASKS];
};

/* A new one; its descriptor closes on exec. NULL: no memory. */
struct bench_page *bench_page_new(int *fd);
/* One of another process. NULL: it is none. */
struct bench_page *bench_page_map(int fd);
void bench_page_free(struct bench_page *page);

void bench_ring(struct bench_seat *seat);
void bench_tell(struct bench_seat *seat, enum bench_go go);
/* Sleep until somebody rings after `heard` was read, or until that time (FM_NEVER: without end). */
void bench_sleep(struct bench_seat *seat, uint32_t heard, uint64_t until);
