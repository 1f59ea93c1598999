/* SPDX-License-Identifier: Apache-2.0 */
/* As close(), of what others made, or of a socket that others send descriptors to: by a thread that
 * may wait for it. */
#pragma once

struct quota_user;

/* On whose account (QUOTA_CLOSING); NULL: nobody's. */
void close_aside_of(struct quota_user *u, int fd);
void close_aside(int fd);
static inline void close_aside_ptr(int *fd)
{
	if (*fd >= 0)
		close_aside(*fd);
}

/* A socket, and who is at its other end hears of it at once. */
void close_socket_aside_of(struct quota_user *u, int fd);
void close_socket_aside(int fd);

/* How many descriptors no thread has taken up yet. */
unsigned aside_waiting(void);
