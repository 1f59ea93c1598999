/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's link to its scheduler: the daemon over a socket, or a bridge in this process (local
 * mode). The agent thread owns and services it; other threads only send and ring.
 */
#pragma once
#include "board/board.h"
#include "board/ledger.h"
#include "board/proto.h"

struct fm_client;
struct fm_link;

struct fm_link_ops {
	/* Connect and offer the board. arg: the socket directory ("" or NULL: look in the usual
	 * ones), or the policy of local mode. Takes bounded time; negative errno if there is no
	 * scheduler. */
	int (*open)(struct fm_link **out, struct fm_client *client, const char *arg,
		struct fm_board *board, int board_fd, const char *api);
	void (*close)(struct fm_link *l);

	/* Any thread. */
	int (*send)(struct fm_link *l, const union fm_msg *m);
	void (*bell)(struct fm_link *l); /* under any lock of a client; never blocks */

	/* Agent thread only. Descriptor to poll for input, or -1. service() handles what is there;
	 * it returns when it wants to be called again (absolute), or 0: the other end is gone. */
	int (*fd)(const struct fm_link *l);
	uint64_t (*service)(struct fm_link *l, uint64_t now);
	/* Has the other end taken everything that was sent? NULL if it always has. */
	bool (*heard)(const struct fm_link *l);
};

extern const struct fm_link_ops fm_link_socket;

/* For links: an operator changed a hint of ours. It is remembered, and sent to the next daemon. */
void fm_client_remember_hint(struct fm_client *c, uint32_t group, enum fm_hint h, int64_t value);
/* For links: the scheduler's gates are in the board; or in this page, whose descriptor is taken
 * over. Agent only. */
void fm_client_lax(struct fm_client *c);
void fm_client_strict(struct fm_client *c, int fd);
/* For links: the page that we were once given, or -1. */
int fm_client_gates(const struct fm_client *c);
/* For links: the ledger of device memory, and its descriptor; NULL and -1: there is none. */
struct fm_ledger *fm_client_ledger(const struct fm_client *c);
int fm_client_memory(const struct fm_client *c);
/* For links: make the agent thread call service() soon. Any thread; async-signal-safe. */
void fm_client_wake(struct fm_client *c);
