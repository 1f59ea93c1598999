/* SPDX-License-Identifier: Apache-2.0 */
#include "run_kill.h"
#include "base/err.h"
#include "idem/idem.h"
#include "idem/kill/kill.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The program reads the launches alone, and only a whole list: here it is said what is wrong. */
char *run_kill_list(const char *path, const struct argp_state *state)
{
	struct fm_err err = {0};
	struct fm_idem_list list;
	struct fm_kill_list kill;
	char *whole;
	int rc;

	if (fm_idem_list_load(&list, path, &err))
		cli_usage_err(state, &err);
	fm_idem_list_free(&list);
	rc = fm_kill_load(&kill, path);
	if (rc)
		cli_usage(state, "%s: its launches cannot be read: %s", path, strerror(-rc));
	if (!kill.n)
		cli_usage(state, "%s names no launch of CUDA that may be killed", path);
	fm_kill_list_free(&kill);
	whole = realpath(path, NULL);
	if (!whole)
		cli_usage(state, "%s: %s", path, strerror(errno));
	return whole;
}
