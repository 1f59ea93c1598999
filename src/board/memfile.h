/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files that a client makes and its daemon maps, too: the board, the ledger. They are sealed
 * against resizing, and begin with a head that says what they are.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct fm_memfile_head {
	uint32_t magic;
	uint16_t version;
	uint16_t rows;
	uint32_t size;
};

/* Client side: makes a file of head->size bytes of zeros behind the head, and maps it at *at. *fd
 * is the caller's; with fd NULL the memory is private, and there is no file. 0 or a negative errno.
 */
int fm_memfile_create(void **at, int *fd, const char *name, const struct fm_memfile_head *head);

/* Daemon side: maps a descriptor that came from a client. -EINVAL unless it is a memory file of
 * exactly the right size, sealed against shrinking and growing, with exactly this head. The
 * descriptor stays the caller's. */
int fm_memfile_map(void **at, int fd, const struct fm_memfile_head *head);
