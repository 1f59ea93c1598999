/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `fermata-lab'.
 *
 * Owns: nothing: a command's state lives in its own frame.
 * Locks: one for a study's progress (study_run.c), and one for the order in which parts of a
 * simulation write their results (simulate_out.c). Neither is taken under another.
 * Threads: the main thread, and the threads of simulations, studies and bench clients.
 */
#pragma once
#include "cmd/cli.h"

int lab_bench(struct cli *cli, int argc, char **argv);
int lab_bench_client(struct cli *cli, int argc, char **argv);
int lab_compare(struct cli *cli, int argc, char **argv);
int lab_idempotence(struct cli *cli, int argc, char **argv);
int lab_policy_test(struct cli *cli, int argc, char **argv);
int lab_profile(struct cli *cli, int argc, char **argv);
int lab_sim(struct cli *cli, int argc, char **argv);
int lab_study(struct cli *cli, int argc, char **argv);
int lab_trace(struct cli *cli, int argc, char **argv);
