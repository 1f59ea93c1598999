/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 between processes on NVIDIA's kernel driver: the time slice of this process's own channel
 * groups. With a slice of a microsecond a running kernel makes room for another process's within
 * the time of a context switch, and loses nothing while nobody else wants the device.
 *
 * Any client may set the slice of its own groups (NVA06C_CTRL_CMD_SET_TIMESLICE), but nobody tells
 * it their handles: they are seen in the ioctls by which libcuda makes them.
 */
#pragma once
#include <stdint.h>

/* After an ioctl of this process that succeeded. Cheap for what is not the driver's. errno is
 * kept. Any thread. */
void fm_cu_ioctl_seen(int fd, unsigned long request, void *arg);

/* The slice of all channel groups of this process that compute, those to come included: us, or 0
 * for the driver's own. Groups made since are given it by fm_cu_timeslice_refresh(). Both return
 * how many were set, or a negative errno: -EPERM when the driver refuses, for one of them. It is
 * left alone from then on, once all that were set have been given back. Those that the driver does
 * not know any more, or whose descriptor is closed, are forgotten. Any thread. */
int fm_cu_timeslice(uint64_t us);
int fm_cu_timeslice_refresh(void);

/* Can it be set? That of each group that there is, is read and set to what it was. How many could;
 * 0: none is known; -EPERM: the driver refuses. */
int fm_cu_timeslice_try(void);

/* For who stands in ioctl's place: the system's, and the above. */
int fm_cu_ioctl(int fd, unsigned long request, void *arg);

/* In the child after a fork: it has none of its parent's groups. */
void fm_cu_timeslice_fork_child(void);
