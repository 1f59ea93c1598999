/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdbool.h>

/* fm_cuda_gives_back: the context is about to end. Are our resources in it to be given back, once
 * our queues are closed? */
bool fm_cuda_gives_back(CUcontext ctx);
void fm_cuda_give_back(CUcontext ctx);

/* Gives back the resources in all contexts, when the process exits. */
void fm_cuda_give_back_at_exit(void);
/* Looks for a tool. Called before there is anything to be given back. */
void fm_cuda_give_back_look(void);
