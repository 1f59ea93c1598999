/* SPDX-License-Identifier: Apache-2.0 */
/* A Unix socket, and a thread for each who comes. */
#pragma once
#include "talk.h"

#define LISTEN_MAX 256

struct listener;
/* path: made, for its owner alone; one that a server has left behind is replaced. */
const char *listener_open(
	struct listener **l, struct engine *e, const char *path, unsigned connections);
int listener_fd(const struct listener *l);
/* Somebody is there. */
void listener_accept(struct listener *l);
/* Nobody is let in any more; who is there is answered, and let go. */
void listener_close(struct listener *l);
