/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `fermata-lab idempotence'. */
#pragma once
#include "cmd/cli.h"
#include "idem/idem.h"
#include <limits.h>

/* --- idempotence_show.c --- */

int idempotence_print_kernels(const struct fm_idem_verdict *kernel, size_t n);
json_t *idempotence_kernel_json(const struct fm_idem_verdict *v);
int idempotence_show(struct cli *cli, int argc, char **argv);

/* --- idempotence_check.c --- */

int idempotence_check(struct cli *cli, int argc, char **argv);

/* --- idempotence_record.c --- */

int idempotence_record(struct cli *cli, int argc, char **argv);

/* Is there what recording needs? The plug-in's path; -ENOENT. */
int idempotence_find_tools(char plugin[PATH_MAX], struct fm_err *err);
/* Runs the program under Oclgrind, whose trace is in `dir' then. Its exit status; 126, 127 or
 * negative with err. */
int idempotence_run(char **program, int words, char *plugin, const char *dir, struct fm_err *err);
/* The one trace in which there are kernels. -ENODATA, -ENOTSUP. */
int idempotence_find_trace(
	const char *dir, char path[PATH_MAX], const char *name, struct fm_err *err);

/* --- idempotence_try.c --- */

int idempotence_try(struct cli *cli, int argc, char **argv);
