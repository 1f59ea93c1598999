/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon of our own, in a directory of its own, for as long as a command runs. */
#pragma once
#include "base/err.h"
#include "ctl.h"
#include <stdbool.h>
#include <sys/types.h>

struct own_daemon {
	char dir[CTL_PATH];
	bool own;  /* made for this: to be removed; else it is somebody else's */
	pid_t pid; /* 0: not running */
};
/* config: its settings; NULL: the defaults, or with realtime, that alone. */
int own_daemon_start(struct own_daemon *d, const char *policy, const char *config, bool realtime,
	struct fm_err *err);
/* Safe for one that did not start, and for somebody else's. */
void own_daemon_end(struct own_daemon *d);
