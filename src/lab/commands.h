/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `fermata-lab'. */
#pragma once
#include "cmd/cli.h"

int lab_bench(struct cli *cli, int argc, char **argv);
int lab_bench_client(struct cli *cli, int argc, char **argv);
int lab_compare(struct cli *cli, int argc, char **argv);
int lab_policy_test(struct cli *cli, int argc, char **argv);
int lab_sim(struct cli *cli, int argc, char **argv);
int lab_study(struct cli *cli, int argc, char **argv);
int lab_trace(struct cli *cli, int argc, char **argv);
