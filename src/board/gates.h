/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gates of a client in strict mode: a page that the daemon makes and writes, and the client,
 * its device included, only reads. The gate words that count are here and not in the board, so
 * that no store of the program opens one.
 *
 * It is a memory file of the daemon's user, and other users cannot open it. The client is sent a
 * read-only descriptor, which can be mapped only for reading and cannot be opened again. The file
 * is not sealed against writing, since the seal would bind the next daemon as well. The client
 * keeps the descriptor and shows it to the next daemon, which owns the file and opens it for
 * writing again. A daemon that gets the descriptor back from systemd does the same.
 */
#pragma once
#include "board.h"
#include <sys/types.h>

#define FM_GATES_MAGIC   0x54414746u /* "FGAT" */
#define FM_GATES_VERSION 1

struct fm_gates {
	/* Constant after creation. */
	FM_LINE uint32_t magic;
	uint16_t version;
	uint16_t slots;
	uint32_t size;
	int32_t pid; /* the process that it was made for */

	/* Written by the daemon. One cache line for each slot. */
	struct {
		FM_LINE _Atomic uint32_t gate; /* enum fm_gate */
	} slot[FM_BOARD_SLOTS];
};

_Static_assert(sizeof(struct fm_gates) == (1 + FM_BOARD_SLOTS) * FM_CACHE_LINE, "a line each");

/* Daemon side: makes a page for this process, with every gate open. *fd is for writing, and the
 * caller's. 0 or negative errno. */
int fm_gates_create(struct fm_gates **gates, int *fd, pid_t pid);

/* Daemon side: maps a page of an earlier daemon of this user, by any descriptor of it. *out is for
 * writing; fd stays the caller's. -EPERM if the page is another user's, -EINVAL if it is no page.
 */
int fm_gates_adopt(struct fm_gates **gates, int *out, int fd);

/* Daemon side: a descriptor to be sent to the client, or negative errno. */
int fm_gates_reader(int fd);

/* Daemon side. */
void fm_gates_open_all(struct fm_gates *gates);

/* Client side: map what the daemon sent, for reading. -EINVAL unless it is a sound page that the
 * daemon cannot make shrink. The descriptor stays the caller's. */
int fm_gates_map(struct fm_gates **gates, int fd);

void fm_gates_unmap(struct fm_gates *gates);
