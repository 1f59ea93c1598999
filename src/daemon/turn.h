/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose messages are read next. All sessions' sockets are in one epoll; those with something to
 * read wait in a queue of their user, and users take turns, a batch of one session each. A user who
 * is beyond the budget (QUOTA_MESSAGES) comes after all others; while other users are there, not
 * before the debt is paid.
 */
#pragma once
#include "base/list.h"

struct daemon;
struct quota_user;

struct turn_entry {
	struct fm_list link;
	struct quota_user *user;
};

enum turn_result {
	TURN_DRAINED, /* nothing is left to read */
	TURN_MORE,    /* something may be */
	TURN_ENDED,   /* the entry is gone */
};

int turn_open(struct daemon *d);
void turn_close(struct daemon *d);
/* user: set by the caller, whose reference stays until turn_del(). What is there to read already is
 * as if it had just come. */
int turn_add(struct daemon *d, struct turn_entry *e, int sock);
void turn_del(struct daemon *d, struct turn_entry *e, int sock);

/* session.c: read a batch. */
enum turn_result session_serve(struct turn_entry *e);
