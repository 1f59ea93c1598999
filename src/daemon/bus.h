/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board, and a ledger, is its client's memory. Where memory is short (strict overcommit), a page
 * of it that was never written, or that the client has given back, may not be there when the daemon
 * reads it. That is a SIGBUS. The handler replaces the board by memory of the daemon's own, the
 * daemon goes on, and the session is ended before anything else is done.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct daemon;

void bus_guard(struct daemon *d);
void bus_unguard(void);
/* Was a board lost since the last call? */
bool bus_lost(void);

/* session.c, called by the signal handler: the board or ledger that has this address, and its size;
 * or NULL. Its session is marked as lost. */
void *session_map_lost(struct daemon *d, const void *at, size_t *size);
/* Ends the sessions whose board or ledger is lost. */
void session_end_lost(struct daemon *d);
