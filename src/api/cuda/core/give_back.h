/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Fermata has of a context: memory that is registered or allocated, and streams. The driver
 * takes these back when the context ends. If a tool counts what is left by then, they are given
 * back earlier.
 */
#pragma once
#include "driver.h"
#include <stdbool.h>

/* Does Fermata have anything of the context? The second: any context of which it has something, or
 * NULL. */
bool fm_cu_has_of(CUcontext ctx);
CUcontext fm_cu_has_of_any(void);

/* Gives everything back. As far as is known nothing runs in the context any more, and we use it
 * hardly or not at all until it ends. False: it cannot be done now. */
bool fm_cu_give_back(const struct fm_cu_driver *cu, CUcontext ctx);
