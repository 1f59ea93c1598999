/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Fermata has of a context: memory that is registered or allocated, and streams. The driver
 * takes it when the context ends. Where somebody counts what is left by then, it is given back
 * before.
 */
#pragma once
#include "driver.h"
#include <stdbool.h>

/* Is there anything? A context of which there is; NULL: there is none. */
bool fm_cu_has_of(CUcontext ctx);
CUcontext fm_cu_has_of_any(void);

/* Nothing runs in the context any more, as far as is known, and it is not used by us until it ends,
 * or hardly. False: it cannot be done now. */
bool fm_cu_give_back(const struct fm_cu_driver *cu, CUcontext ctx);
