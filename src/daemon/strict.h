/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode: gates that their clients cannot write. A page belongs to the daemon, from the moment
 * that a client has it until it is dropped. */
#pragma once
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon.h"

struct page;

/* Before the event loop: is a descriptor from systemd with this name a page? strict_restore() takes
 * it over. */
bool strict_restores(const char *name);
void strict_restore(struct daemon *d, int fd);
/* Clients that were there before have some time to come back. */
void strict_start(struct daemon *d);
/* The settings are in force: log what they mean here. */
void strict_configured(struct daemon *d);
/* Every gate opens; the last use of all pages. */
void strict_stop(struct daemon *d);

/* Finds the page of a client that joins. A client that had a page before offers it (`offered', else
 * -1) and gets it again; otherwise a new one is made. *out is NULL where the mode is not strict.
 * Returns 0 or a negative errno with text. */
int strict_join(struct daemon *d, struct page **out, pid_t pid, int offered, struct fm_err *err);
/* The page of this descriptor, whichever client has it; or NULL. */
struct page *strict_find(struct daemon *d, int fd);
struct fm_gates *strict_gates(struct page *p);
int strict_send(struct page *p, int sock);
/* The client has left, or its process is dead. The page must not be used afterwards. */
void strict_leave(struct page *p, bool dead);
