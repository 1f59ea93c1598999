/* SPDX-License-Identifier: Apache-2.0 */
/* The names of hook.c for the rest of the shim. */
#pragma once
#include "shim/lookup/lookup.h"

#define FM_CUDA_MARK           FM_LOOK_UP_MARK
#define fm_cuda_look_up        fm_look_up
#define fm_cuda_answer         fm_look_up_answer
#define fm_cuda_error_keep     fm_look_up_error_keep
#define fm_cuda_error_put_back fm_look_up_error_put_back
#define fm_cuda_real_dlsym     fm_real_dlsym
#define fm_cuda_find_dlsym     fm_find_dlsym

/* Has the program been given one of the driver's own functions that load code? Recorded only while
 * nothing is rewritten. */
bool fm_cuda_code_given(void);
