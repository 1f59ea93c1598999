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

/* What writes traces: what was asked for; or both: what there is. */
enum { IDEMPOTENCE_CUDA = 1, IDEMPOTENCE_OPENCL = 2 };
unsigned idempotence_collector(struct argp_state *state, const char *name);
struct idempotence_collectors {
	bool opencl; /* Oclgrind is there */
	char plugin[PATH_MAX];
};
/* Is there what recording needs? -ENOENT. The environment has CUDA's agent then. */
int idempotence_find_collectors(unsigned by, struct idempotence_collectors *c, struct fm_err *err);
/* Runs the program with them. Traces are in `dir' then. Its exit status; 126, 127 or negative with
 * err. */
int idempotence_run(struct idempotence_collectors *c, char **command, int words, const char *dir,
	struct fm_err *err);
/* The one trace in which there are kernels. -ENODATA, -ENOTSUP. */
int idempotence_find_trace(
	const char *dir, char path[PATH_MAX], const char *name, struct fm_err *err);

/* --- idempotence_try.c --- */

int idempotence_try(struct cli *cli, int argc, char **argv);
