/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 between processes on NVIDIA's kernel driver: the time slice of this process's own channel
 * groups. With a slice of a microsecond, a running kernel makes room for another process's kernel
 * within the time of a context switch. It loses nothing while no other process wants the device.
 *
 * Any client may set the slice of its own groups (NVA06C_CTRL_CMD_SET_TIMESLICE), but no call tells
 * it their handles. So they are read from the ioctls by which libcuda makes them.
 */
#pragma once
#include <stdint.h>

/* Call this after an ioctl of this process that succeeded. It is cheap for ioctls of other drivers.
 * errno is kept. Any thread. */
void fm_cu_ioctl_seen(int fd, unsigned long request, void *arg);

/* Sets the slice of all compute channel groups of this process, later ones included: us, or 0 for
 * the driver's own. fm_cu_timeslice_refresh() sets it for groups made since. Both return how many
 * were set, or a negative errno: -EPERM when the driver refuses for one group. After such a refusal
 * all slices that were set are given back, and none is set any more. Groups that the driver no
 * longer knows, or whose descriptor is closed, are forgotten. Any thread. */
int fm_cu_timeslice(uint64_t us);
int fm_cu_timeslice_refresh(void);

/* Can the slice be set? Reads the slice of each existing group and sets it to what it was. Returns
 * for how many that worked; 0: no group is known; -EPERM: the driver refuses. */
int fm_cu_timeslice_try(void);

/* For a wrapper of ioctl: calls the system's ioctl, and the above. */
int fm_cu_ioctl(int fd, unsigned long request, void *arg);

/* In the child after a fork: it has none of its parent's groups. */
void fm_cu_timeslice_fork_child(void);
