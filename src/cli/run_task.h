/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata run` of a real-time task: it is admitted before it begins. */
#pragma once
#include "cmd/cli.h"
#include <stdint.h>

struct run_task {
	int64_t gpu, cpu_time; /* ns; gpu -1: this is no task */
	int64_t cpu;           /* -1: one of its own */
	int64_t period, deadline, priority;
	int64_t epsilon; /* -1: the daemon's */
	const char *overrun;
	bool report; /* run it also where it is not admitted */
};
#define RUN_TASK_NONE                                \
	{                                            \
		.gpu = -1, .cpu = -1, .epsilon = -1, \
	}

/* Asks the daemon to admit this process, which will become the program. Returns 0, or an exit code
 * after the error was reported. */
int run_task_admit(const struct cli *cli, const struct run_task *t, const char *group);
