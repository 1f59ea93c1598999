/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode: gates that their clients cannot write. A page belongs to the daemon, from the
 * moment that a client has it until it is dropped. */
#pragma once
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon.h"

struct page;

/* Before the event loop: a descriptor from systemd with such a name; it is taken over. */
bool strict_restores(const char *name);
void strict_restore(struct daemon *d, int fd);
/* Clients that were there before have some time to come back. */
void strict_start(struct daemon *d);
/* The settings are in force: say what they mean here. */
void strict_configured(struct daemon *d);
/* Every gate opens; the last use of all pages. */
void strict_stop(struct daemon *d);

/* The page of a client that joins, which says that it has had `offered` (or -1): that one, or a new
 * one; NULL where the mode is not strict. 0 or a negative errno with text. */
int strict_join(struct daemon *d, struct page **out, pid_t pid, int offered, struct fm_err *err);
/* That of this descriptor, whoever has it; or NULL. */
struct page *strict_find(struct daemon *d, int fd);
struct fm_gates *strict_gates(struct page *p);
int strict_send(struct page *p, int sock);
/* The client has left, or its process is dead. The last use of the page. */
void strict_leave(struct page *p, bool dead);
