/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's control socket: one JSON object a line, each way. And the daemon that a user starts
 * for himself, with `fermata run`, where no other answers.
 */
#pragma once
#include "cli.h"

#define CTL_DIRS 3
#define CTL_PATH 108 /* what fits struct sockaddr_un */

/* Where to look for a daemon, best first: --socket alone, else $FERMATA_SOCKET alone, else the
 * user's own, else the system's. Fills in directories, returns how many. */
int ctl_dirs(const struct cli *cli, char dirs[CTL_DIRS][CTL_PATH]);

/* Did the user say where the daemon is? */
bool ctl_dir_given(const struct cli *cli);

/* Send a request (its reference is taken) to the first daemon that answers and wait for the reply,
 * which the caller owns. 0; -ENOTCONN: no daemon answers; -EREMOTEIO: it refused. With found not
 * NULL: the directory of the daemon that answered. */
int ctl_call(const struct cli *cli, json_t *request, json_t **reply, char found[CTL_PATH],
	struct fm_err *err);

/* The same, with one directory and a time to wait; 0, -EREMOTEIO or another negative errno. */
int ctl_call_at(
	const char *dir, json_t *request, unsigned wait_ms, json_t **reply, struct fm_err *err);

/* A connection to the daemon in dir, for as long as it is wanted. Negative errno. */
int ctl_open(const char *dir, int *fd);

/* The same, waiting at most so long for it, and for each send and receive on it. */
int ctl_connect(const char *dir, unsigned wait_ms, int *fd);

/* The same of all that ctl_dirs() gave, with what came of each. Returns -ENOTCONN. */
int ctl_explain_all(
	char dirs[CTL_DIRS][CTL_PATH], const int rc[CTL_DIRS], int n, struct fm_err *err);

/* Call and print errors: the exit code, CLI_OK with *reply set. With --json the reply is printed.
 */
int ctl_ask(const struct cli *cli, json_t *request, json_t **reply);

/* The directory of the user's own daemon: $XDG_RUNTIME_DIR/fermata, else /run/user/UID/fermata,
 * else /tmp/fermata-UID. Creates nothing. */
int personal_dir(char dir[CTL_PATH]);

/* Start a daemon in dir, which must come from personal_dir(), and wait until it answers. Of several
 * callers at once, one starts it and all return 0. */
int personal_start(const char *dir, struct fm_err *err);
