/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies whose length depends on how many groups, queues or tasks there are. Such a reply is a
 * JSON object like any other, whose last member is a list. It is written in steps, as fast as the
 * peer reads: each step takes a bounded time and makes a bounded text. Groups that come or go
 * between two steps may be in the list or not, but no group is in it twice.
 */
#pragma once
#include "daemon.h"

/* Text that is to be sent. Once memory was short, nothing more is added. */
struct text {
	char *at;
	size_t len, cap;
	bool failed;
};
void text_put(struct text *t, const char *s, size_t len);
void text_json(struct text *t, json_t *value); /* takes the reference; NULL: a failure */
void text_free(struct text *t);

/* NULL: out of memory. */
struct listing *listing_groups(
	struct daemon *d, const struct peer *p, const char *target); /* target: NULL: all */
struct listing *listing_tasks(void);
void listing_free(struct listing *l);

/* Writes all of the reply but its list. Takes over the reference. */
void listing_begin(struct listing *l, json_t *head, struct text *to);
/* Writes the next part of the list. False: the reply is complete. */
bool listing_step(struct listing *l, struct daemon *d, const struct peer *p, struct text *to);
