/* SPDX-License-Identifier: Apache-2.0 */
/* Between dlsym.c and hook.c. */
#pragma once
#include <stdbool.h>

/* Behind a name that must not be found, and around an error that was kept; no name has it. */
#define FM_CUDA_MARK "\001\002"

/* How dlsym() was called: on its stack, in the order that the assembler of dlsym.c has. */
struct fm_cuda_look_up {
#ifdef __x86_64__
	const char *symbol;
	void *handle;
	const void *caller;
#else
	const void *caller;
	void *handle;
	const char *symbol;
#endif
};

/* What dlsym() calls first. */
void *fm_cuda_dlsym(struct fm_cuda_look_up *l);
/* The same for a name that may be one of the driver's. */
void *fm_cuda_answer(struct fm_cuda_look_up *l);
/* Around look-ups of our own, of which dlerror() must tell nothing. */
char *fm_cuda_error_keep(void);
void fm_cuda_error_put_back(char *kept);
/* Has the program been given one of the driver's own calls that load code? Only while nothing is
 * rewritten. */
bool fm_cuda_code_given(void);
