/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine says of memory of the host, and of where devices are: for the bridge.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: the daemon's loop.
 */
#pragma once
#include "bridge/bridge.h"

/* What is left for memory that leaves devices: of what is available, all but a sixteenth of the
 * machine's memory; and no more than the cgroup leaves that is the root of all that the daemon can
 * see. UINT64_MAX: not known. */
uint64_t machine_host_left(void);
/* Memory of its own that a process has in memory, from /proc/PID/statm; UINT64_MAX: not known. */
uint64_t machine_own(pid_t pid);
/* It does not run, for a signal or a debugger has stopped it (/proc/PID/stat). */
bool machine_is_stopped(pid_t pid);
void machine_place(const char *bus, struct fm_bridge_place *place);
