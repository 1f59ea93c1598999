/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cgroups clients are in, and what these may have of devices: by the settings, and by the
 * kernel's dmem.max. Both may change at any time, so they are looked at twice a second, where
 * either is asked for ([memory] cgroup, cgroup_limits): those of 32 clients each time, in turns. A
 * client may be in several that have a limit: its own cgroup, and those above it.
 *
 * Owns: the list of clients whose cgroup is known.
 * Locks: none.
 * Threads: the daemon's loop.
 */
#pragma once
#include "base/list.h"
#include "bridge/bridge.h"
#include <sys/types.h>

#define CGROUP_PATH_MAX 1024

struct daemon;

struct cgroups_client {
	struct fm_list link; /* empty: it has not joined */
	pid_t pid;
	struct fm_bridge_client *client;
	char path[CGROUP_PATH_MAX]; /* "": not known */
	struct fm_bridge_cgroup *in[FM_BRIDGE_CGROUPS];
	unsigned n;
};

/* The client has a ledger, and has been attached; and before it is detached. */
void cgroups_join(
	struct daemon *d, struct cgroups_client *c, struct fm_bridge_client *client, pid_t pid);
void cgroups_leave(struct cgroups_client *c);
/* After a change of settings. */
void cgroups_settings(struct daemon *d);

/* --- cgroups_read.c: pure --- */

/* Looks for the line of the hierarchy of version 2 in /proc/PID/cgroup, which is given in parts.
 * True: LINE is it, cut to SIZE. */
struct cgroups_line {
	size_t n;
	bool other;
};
bool cgroups_find(struct cgroups_line *at, const char *text, size_t n, char *line, size_t size);
/* The text of /proc/PID/cgroup: the path in the hierarchy of version 2, cut to those cgroups from
 * the root on that fit. 0. -ENOENT: there is none. -EXDEV: it is outside of what the daemon sees.
 * -EBADMSG: it is no such text. */
int cgroups_path(const char *text, char *path, size_t size);
/* The text of dmem.max: the memory of each device there ("drm/0000:3b:00.0/vram0 1073741824"),
 * without those that have no limit. Several regions of a device count together. How many; -EBADMSG:
 * it is no such text; -E2BIG. */
int cgroups_dmem(const char *text, struct fm_bridge_dmem *dmem, unsigned most);
