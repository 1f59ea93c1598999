/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: how the streams of a context reach the board, and in strict mode the page of
 * gates that the process can only read.
 *
 * Each context has its own mapping of the board's pages, and registers it itself. When a context
 * ends, its registrations end with it, and at that moment another context's streams may have gates
 * in the driver. A wait of the device for memory that is gone is an error of the program's.
 */
#pragma once
#include "driver.h"
#include <stdatomic.h>
#include <stdbool.h>

enum fm_cu_gates { FM_CU_UNTRIED, FM_CU_GATES, FM_CU_NO_GATES };

struct fm_cu_reach {
	_Atomic(CUcontext) ctx; /* NULL: belongs to no context now */
	char *host;
	CUdeviceptr device;             /* the same for the device */
	_Atomic enum fm_cu_gates gates; /* does the driver take them? */
	_Atomic(CUfunction) spread;     /* spread.c: with the first queue; NULL: none */
};

enum fm_cu_area { FM_CU_BOARD, FM_CU_GATE_PAGE, FM_CU_AREAS };

/* The reach of ctx for the area at map; it is made if there is none yet (the context is current).
 * NULL: the driver refuses, or there are too many contexts. It is never freed: it belongs to this
 * context as long as ->ctx says so. */
struct fm_cu_reach *fm_cu_reach(
	const struct fm_cu_driver *cu, CUcontext ctx, enum fm_cu_area area, void *map, size_t size);

/* The host address of what is in an area at that device address, in any context; NULL: nothing
 * is. */
void *fm_cu_reach_host(CUdeviceptr at);

/* Do the context's streams reach any area? The second: any context whose streams do, or NULL. */
bool fm_cu_reach_known(CUcontext ctx);
CUcontext fm_cu_reach_any(void);

/* The context, which is current, does without the areas from now on: its registrations are taken
 * back. */
void fm_cu_reach_give_back(const struct fm_cu_driver *cu, CUcontext ctx);

/* The context has ended, or its streams do not reach the areas this way any more. */
void fm_cu_reach_forget(CUcontext ctx);

/* In the child after a fork. */
void fm_cu_reach_fork_child(void);
