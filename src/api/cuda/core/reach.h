/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the room: how the streams of a context reach the board, and in strict mode the page of
 * gates that the process can only read.
 *
 * Each context has a mapping of the board's pages for itself, which it has registered itself. For a
 * context takes with it, when it ends, what it has registered, and another one's streams may have
 * gates in the driver just then: for the device a wait for memory that is gone is an error of the
 * program's.
 */
#pragma once
#include "driver.h"
#include <stdatomic.h>
#include <stdbool.h>

enum fm_cu_gates { FM_CU_UNTRIED, FM_CU_GATES, FM_CU_NO_GATES };

struct fm_cu_reach {
	_Atomic(CUcontext) ctx; /* NULL: nobody's now */
	char *host;
	CUdeviceptr device;             /* the same for the device */
	_Atomic enum fm_cu_gates gates; /* does the driver take them? */
	_Atomic(CUfunction) spread;     /* spread.c: with the first queue; NULL: none */
};

enum fm_cu_area { FM_CU_BOARD, FM_CU_GATE_PAGE, FM_CU_AREAS };

/* That of ctx, with which it is made if there is none yet (the context is current), for the area
 * at map. NULL: the driver refuses, or there are too many contexts. Never freed: it is of this
 * context as long as ->ctx says so. */
struct fm_cu_reach *fm_cu_reach(
	const struct fm_cu_driver *cu, CUcontext ctx, enum fm_cu_area area, void *map, size_t size);

/* What stands in an area at that address of the device's, in any context; NULL: nothing does. */
void *fm_cu_reach_host(CUdeviceptr at);

/* Do its streams reach any? Any context whose do; NULL: none. */
bool fm_cu_reach_known(CUcontext ctx);
CUcontext fm_cu_reach_any(void);

/* The context, which is current, does without from now on: its registrations are taken back. */
void fm_cu_reach_give_back(const struct fm_cu_driver *cu, CUcontext ctx);

/* The context has ended, or its streams do not reach the areas this way any more. */
void fm_cu_reach_forget(CUcontext ctx);

/* In the child after a fork. */
void fm_cu_reach_fork_child(void);
