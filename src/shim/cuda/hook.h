/* SPDX-License-Identifier: Apache-2.0 */
/* Between dlsym.c and hook.c. */
#pragma once
#include <stdbool.h>

#define FM_CUDA_NO_SYMBOL ((void *)1) /* known to the assembler of dlsym.c by its number */

/* What dlsym() jumps to first. */
void *fm_cuda_dlsym(void *handle, const char *symbol);
/* The same for a name that may be one of the driver's. */
void *fm_cuda_answer(void *handle, const char *symbol);
/* Has the program been given one of the driver's own calls that load code? Only while nothing is
 * rewritten. */
bool fm_cuda_code_given(void);
