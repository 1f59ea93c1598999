/* SPDX-License-Identifier: Apache-2.0 */
/* Events of ours behind launches of graphs. Captures under way do not notice them. */
#pragma once
#include "api/cuda/shim/shim.h"

/* Records *event, or a new one if it is NULL, behind what is in a stream of this context. False:
 * that is not possible. */
bool fm_cuda_behind(CUcontext ctx, CUstream stream, CUevent *event);
void fm_cuda_behind_wait(CUstream stream, CUevent event);
/* Has everything in front of the event ended? */
bool fm_cuda_behind_passed(CUcontext ctx, CUevent event);
/* NULL: there is none. */
void fm_cuda_behind_end(CUevent event);
