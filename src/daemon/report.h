/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of replies that lists are made of (listing.c). Out of memory they lack members. */
#pragma once
#include "daemon.h"

/* Users named in one reply. */
struct names {
	unsigned n;
	uid_t uid[16];
	json_t *name[16];
};

/* A group without its queues, and a queue. */
json_t *report_group(struct fm_bridge_group *g, const struct fm_bridge_group_info *i,
	const struct peer *p, struct names *names, uint64_t now);
json_t *report_queue(const struct fm_bqueue_info *i);
/* report_sets.c: of a queue that is a set of tasks. */
void report_set(json_t *queue, const struct fm_bqueue_info *i);
