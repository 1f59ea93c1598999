/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request on a control connection is worked on next. Users take turns, and so do the
 * connections of one user; each turn is one bounded step. Each user has a budget of the loop's time
 * (quota.h); a peer that may steer everything is not limited. Clients come first: these sources
 * have a lower priority than theirs, unless they have waited for some milliseconds.
 */
#pragma once
#include "daemon.h"
#include "listing.h"

/* A user with control connections. */
struct asker {
	struct fm_list link, in_turn;
	struct quota_user *books;
	struct fm_list ready; /* connections with something to do, the next first */
	unsigned controls;
};

struct control {
	struct fm_list link, in_ready;
	struct daemon *daemon;
	struct asker *user;
	int fd;
	bool waits;    /* for control_answer(), and for nothing else */
	bool recorded; /* a recording has the connection, by another descriptor */
	sd_event_source *slow;
	struct peer peer;
	char *in;
	size_t in_len, in_cap;
	struct text out;
	size_t out_sent;
	struct listing *list; /* what is left of the reply, or NULL */
	size_t charged;       /* bytes in the user's books */
};

/* asks.c. NULL: out of memory. */
struct asker *asker_get(struct daemon *d, uid_t uid);
void asker_put(struct asker *u);
/* Each time that a connection was called, it asks for exactly one of two calls: asks_watch() for
 * control_io(), when the socket has one of these events; asks_ready() for control_step(), when it
 * is its turn. */
int asks_watch(struct control *c, uint32_t events);
void asks_ready(struct control *c);
void asks_end(struct control *c); /* neither call comes any more */

/* control.c. Each may free the connection. */
void control_io(struct control *c);
void control_step(struct control *c);
void control_answer(struct control *c, json_t *object, struct listing *list);
