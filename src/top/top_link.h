/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the daemon, which stays open. No call blocks. One request is under way at a
 * time.
 */
#pragma once
#include "cmd/ctl.h"
#include "top.h"

struct top_link {
	const struct cli *cli;
	int fd; /* -1: none */
	char *in, *out;
	size_t in_len, in_cap, out_len, out_sent;
	struct top_request request; /* under way while its body is there */
	uint64_t asked;             /* when it was sent */
};

void top_link_init(struct top_link *l, const struct cli *cli);
void top_link_close(struct top_link *l);

/* Connects to the first daemon found. Negative errno, with the reason. */
int top_link_open(struct top_link *l, struct fm_err *err);

/* Send the next request of t, if none is under way. */
int top_link_send(struct top_link *l, struct top *t, uint64_t now);

/* The events that poll() should wait for. */
short top_link_events(const struct top_link *l);

/* After poll(): sends, receives, and hands the reply to t. 1: there may be something new to show;
 * 0: nothing new; negative errno: the connection can no longer be used. */
int top_link_step(struct top_link *l, struct top *t, uint64_t now);
