/* SPDX-License-Identifier: Apache-2.0 */
/* Events of ours behind launches of graphs. While something is captured it does not notice. */
#pragma once
#include "api/cuda/shim/shim.h"

/* Records it, or, if *event is NULL, a new one, behind what is in a stream of this context. False:
 * that cannot be. */
bool fm_cuda_behind(CUcontext ctx, CUstream stream, CUevent *event);
void fm_cuda_behind_wait(CUstream stream, CUevent event);
/* All in front of it has ended. */
bool fm_cuda_behind_passed(CUcontext ctx, CUevent event);
/* NULL: there is none. */
void fm_cuda_behind_end(CUevent event);
