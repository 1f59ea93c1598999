/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: green contexts with guarded streams. Launches that are made again there must
 * keep to the context's multiprocessors. So they go into a stream of ours in the green context, of
 * the highest priority, one for all guards there. Words and looks stay in the stream of the context
 * that the green one is based on.
 */
#pragma once
#include "api/cuda/core/driver.h"

struct fm_cu_place;

/* The place of a green context on `ctx`, for a guard, which must put it back. `otherwise` is the
 * stream in which launches are made again once the green context has ended. NULL: it cannot be had.
 * `ctx` is current, and nothing of it is stopped. */
struct fm_cu_place *fm_cu_place_take(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, CUstream otherwise);
void fm_cu_place_put(struct fm_cu_place *p);
CUstream fm_cu_place_stream(const struct fm_cu_place *p);

/* How many such streams there are; each may have a channel of the device. Changes only while
 * nothing of their context is stopped. */
unsigned fm_cu_places(void);

/* The context that a green context is based on; NULL: there is no such place. */
CUcontext fm_cu_place_base(CUgreenCtx green);
/* The green context is about to end; nothing is stopped. */
void fm_cu_place_ends(const struct fm_cu_driver *cu, CUgreenCtx green);
/* The context has ended; in the child after a fork. */
void fm_cu_places_forget(CUcontext ctx);
void fm_cu_places_fork_child(void);
