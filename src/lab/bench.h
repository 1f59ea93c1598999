/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fermata-lab bench`: runs a workload of clients on a device and measures what each client gets.
 * Each client is a program of its own, started by `fermata run` (`fermata-lab _bench TEXT PAGE TASK
 * DRIVER`, with the workload and the shared page as descriptors); or a thread of one such program.
 */
#pragma once
#include "bench/driver.h"
#include "bench/report.h"
#include "cmd/cli.h"
#include "cmd/own_daemon.h"
#include <sys/types.h>

#define BENCH_ALL "all" /* in place of a task number: all tasks, each in a thread */

enum bench_mode { BENCH_FERMATA, BENCH_NATIVE, BENCH_LOCAL };

struct bench_options {
	const char *file, *models, *driver, *policy, *local;
	double scale;
	int64_t seed, seconds_ns, warm_up, alone; /* seconds_ns 0: the workload's value */
	int64_t progress_ns;                      /* 0: only on a terminal */
	bool disb, drop, threads, native, compare;
};

/* The programs of a run. A client's process is its task's; with threads, the first one. */
struct bench_processes {
	pid_t pid[BENCH_TASKS];
	char failed[BENCH_TASKS][BENCH_TEXT]; /* "": none */
	bool told[BENCH_TASKS];               /* its failure was reported */
};

struct bench {
	struct cli *cli;
	struct bench_options o;
	struct bench_driver driver;
	struct bench_workload w;
	struct bench_page *page;
	int page_fd, text_fd;
	bool calibrated;
	char doing[96]; /* what it is doing, for people */
	struct {
		bool made;
		double rate[BENCH_TASKS];
		uint64_t delay[BENCH_TASKS];
	} plan;                   /* the first run's, used for the second, too */
	struct own_daemon daemon; /* with --policy */
	char dir[CTL_PATH];       /* of their daemon; "": none */
	char policy[64];          /* that it follows */
	json_t *runs;             /* with --json */
	bool failed;
};

/* One run, from the start of its clients to their end. Its results are stored in p, for
 * bench_outcome. Negative errno with err if it could not begin. */
int bench_run(struct bench *b, enum bench_mode mode, struct bench_processes *p, time_t *begin,
	struct fm_err *err);
/* Finds the daemon for the programs, and starts one if none was named. Negative errno. */
int bench_find_daemon(struct bench *b, struct fm_err *err);
/* How often has the user asked to end? */
int bench_interrupts(void);
void bench_catch_interrupts(void);

/* For people: the device and the models, then each run. */
void bench_show_head(const struct bench *b);
int bench_show_run(const struct bench_outcome *o);
json_t *bench_head_json(const struct bench *b);
