/* SPDX-License-Identifier: Apache-2.0 */
/* close() by a thread that may block: for descriptors that others made, and for sockets to which
 * others send descriptors. */
#pragma once

struct quota_user;

/* The descriptor is counted to the user (QUOTA_CLOSING); NULL: to no user. */
void close_aside_of(struct quota_user *u, int fd);
void close_aside(int fd);
static inline void close_aside_ptr(int *fd)
{
	if (*fd >= 0)
		close_aside(*fd);
}

/* The same for a socket. Its peer sees the end at once. */
void close_socket_aside_of(struct quota_user *u, int fd);
void close_socket_aside(int fd);

/* The number of descriptors that no thread has taken yet. */
unsigned aside_waiting(void);
