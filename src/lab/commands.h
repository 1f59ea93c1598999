/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `fermata-lab'.
 *
 * Owns: nothing: a command's state lives in its own frame.
 * Locks: one over a study's progress (study_run.c), one over whose turn it is to write what was
 * simulated (simulate_out.c); neither is taken under another.
 * Threads: that of main(), and the crews of simulations, studies and bench clients.
 */
#pragma once
#include "cmd/cli.h"

int lab_bench(struct cli *cli, int argc, char **argv);
int lab_bench_client(struct cli *cli, int argc, char **argv);
int lab_compare(struct cli *cli, int argc, char **argv);
int lab_policy_test(struct cli *cli, int argc, char **argv);
int lab_sim(struct cli *cli, int argc, char **argv);
int lab_study(struct cli *cli, int argc, char **argv);
int lab_trace(struct cli *cli, int argc, char **argv);
