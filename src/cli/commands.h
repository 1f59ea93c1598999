/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `fermata', except those that have a module of their own.
 *
 * Owns: nothing: a command's state lives in its own frame.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "cmd/cli.h"

int cli_admit(struct cli *cli, int argc, char **argv);
int cli_analyze(struct cli *cli, int argc, char **argv);
int cli_calibrate(struct cli *cli, int argc, char **argv);
int cli_calibrate_program(struct cli *cli, int argc, char **argv);
int cli_doctor(struct cli *cli, int argc, char **argv);
int cli_hint(struct cli *cli, int argc, char **argv);
int cli_lab(struct cli *cli, int argc, char **argv);
int cli_metrics(struct cli *cli, int argc, char **argv);
int cli_policy(struct cli *cli, int argc, char **argv);
int cli_probe(struct cli *cli, int argc, char **argv);
int cli_ps(struct cli *cli, int argc, char **argv);
int cli_record(struct cli *cli, int argc, char **argv);
int cli_reload(struct cli *cli, int argc, char **argv);
int cli_resume(struct cli *cli, int argc, char **argv);
int cli_run(struct cli *cli, int argc, char **argv);
int cli_stats(struct cli *cli, int argc, char **argv);
int cli_suspend(struct cli *cli, int argc, char **argv);
int cli_trace(struct cli *cli, int argc, char **argv);
int cli_version(struct cli *cli, int argc, char **argv);
int cli_why(struct cli *cli, int argc, char **argv);
