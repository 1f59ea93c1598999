/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdbool.h>

/* The context is about to end. Is what is ours to be given back, once our queues are closed? */
bool fm_cuda_gives_back(CUcontext ctx);
void fm_cuda_give_back(CUcontext ctx);

/* That of all contexts, as the process exits. */
void fm_cuda_give_back_at_exit(void);
/* Is a tool there? Called before there is anything to be given back. */
void fm_cuda_give_back_look(void);
