/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fermata-lab bench`: puts a workload of clients onto a device and measures what they get. The
 * clients are programs of their own (`fermata-lab _bench TEXT PAGE TASK DRIVER`, the workload and
 * the page that they share as descriptors), started by `fermata run`; or threads of one such
 * program.
 */
#pragma once
#include "bench/driver.h"
#include "bench/report.h"
#include "cmd/cli.h"
#include "cmd/own_daemon.h"
#include <sys/types.h>

#define BENCH_ALL "all" /* in the place of a task: each in a thread */

enum bench_mode { BENCH_FERMATA, BENCH_NATIVE, BENCH_LOCAL };

struct bench_options {
	const char *file, *models, *driver, *policy, *local;
	double scale;
	int64_t seed, seconds_ns, warm_up, alone; /* seconds_ns 0: as the workload says */
	int64_t progress_ns;                      /* 0: only on a terminal */
	bool disb, drop, threads, native, compare;
};

/* The programs of a run; a client's process is that of its task, with threads the first. */
struct bench_processes {
	pid_t pid[BENCH_TASKS];
	char failed[BENCH_TASKS][BENCH_TEXT]; /* "": not */
	bool told[BENCH_TASKS];               /* that it has */
};

struct bench {
	struct cli *cli;
	struct bench_options o;
	struct bench_driver driver;
	struct bench_workload w;
	struct bench_page *page;
	int page_fd, text_fd;
	bool calibrated;
	char doing[96]; /* what it is at, for people */
	struct {
		bool made;
		double rate[BENCH_TASKS];
		uint64_t delay[BENCH_TASKS];
	} plan;                   /* of the first run, for the second, too */
	struct own_daemon daemon; /* with --policy */
	char dir[CTL_PATH];       /* of the daemon under which they are, "": none */
	char policy[64];          /* that it follows */
	json_t *runs;             /* with --json */
	bool failed;
};

/* One run, from starting its clients to their end, which is noted in p, so that bench_outcome can
 * be made of it. Negative errno with err where it did not get as far as to begin. */
int bench_run(struct bench *b, enum bench_mode mode, struct bench_processes *p, time_t *begin,
	struct fm_err *err);
/* Under which daemon programs will be: one is started where none was named. Negative errno. */
int bench_find_daemon(struct bench *b, struct fm_err *err);
/* Has somebody asked for the end? How often. */
int bench_interrupts(void);
void bench_catch_interrupts(void);

/* The device, and what the models are; then each run; for people. */
void bench_show_head(const struct bench *b);
int bench_show_run(const struct bench_outcome *o);
json_t *bench_head_json(const struct bench *b);
