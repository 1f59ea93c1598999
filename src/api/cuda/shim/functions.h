/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: the functions that the program has handles of. A driver may load one at its
 * first launch, and wait for the device. What is launched into a set's stream would wait there for
 * the set's own gate. So they are loaded before a set starts, and from then on when the program
 * gets them.
 *
 * Owns: a list of handles, which ends with the code that they are of.
 * Locks: one, held over the driver's calls that load, so that no code is unloaded meanwhile.
 * Threads: any.
 */
#pragma once
#include "api/cuda/core/types.h"
#include <stdbool.h>

/* A function of a module, in the current context; or a kernel of a library. Not under a lock. */
void fm_cuda_function_got(const void *container, bool library, const void *handle);
/* The library's module in the current context: its functions end with the library. */
void fm_cuda_functions_module(CUlibrary library, CUmodule module);
/* Before the driver's call that unloads it. */
void fm_cuda_functions_unload(const void *container);
bool fm_cuda_functions_any(void);
void fm_cuda_functions_context_gone(CUcontext ctx);
void fm_cuda_functions_fork_child(void);

/* All that the program has for this context, which is current. */
void fm_cuda_functions_load(CUcontext ctx);
