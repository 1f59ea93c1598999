/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which session's messages are read next. All sessions' sockets are in one epoll. Sessions with
 * something to read wait in a queue of their user. Users take turns, and a turn is a batch of one
 * session. A user beyond the budget (QUOTA_MESSAGES) comes after all others, and while there are
 * other users, not before the debt is paid.
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
	TURN_MORE,    /* something may be left */
	TURN_ENDED,   /* the entry is gone */
};

int turn_open(struct daemon *d);
void turn_close(struct daemon *d);
/* The caller sets `user' and keeps its reference until turn_del(). Messages that are there already
 * are handled as if they had just come. */
int turn_add(struct daemon *d, struct turn_entry *e, int sock);
void turn_del(struct daemon *d, struct turn_entry *e, int sock);

/* session.c: read a batch. */
enum turn_result session_serve(struct turn_entry *e);
