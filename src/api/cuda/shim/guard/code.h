/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within modules.c, libraries.c: one image that the driver has, or is about to have, as the program
 * made it or rewritten. Which handles lead to it is kept, and forgotten with it.
 */
#pragma once
#include "api/cuda/shim/shim.h"
#include "modules.h"

/* NULL: the program's image is to be loaded, and nothing is to be kept: nobody wants images to be
 * rewritten, or there is no memory. Else to be freed, or loaded. image NULL: the call is not
 * understood; size 0: as the image says. */
struct fm_cuda_code *fm_cuda_code_make(const void *image, size_t size, bool library);
struct fm_cuda_code *fm_cuda_code_make_file(const char *path, bool library);
/* What to load in place of the program's image; NULL: that one. */
const void *fm_cuda_code_data(const struct fm_cuda_code *c);
/* The driver did not take ours. */
void fm_cuda_code_refused(struct fm_cuda_code *c);
/* The driver has loaded it, by this handle. preserved: it goes on reading what it was given. False:
 * it cannot be kept in mind, so it must not be used. */
bool fm_cuda_code_loaded(struct fm_cuda_code *c, void *handle, bool preserved);
void fm_cuda_code_free(struct fm_cuda_code *c);

/* Before the driver's call that unloads it, so that another may come by the same handle: NULL if it
 * is not known. Then fm_cuda_code_unloaded(), with what the driver said. */
struct fm_cuda_code *fm_cuda_code_unload(void *handle, bool library);
void fm_cuda_code_unloaded(struct fm_cuda_code *c, fm_cu_result rc);

/* The program is given the handle of a function in a module or library, of the module of a library,
 * of the function of a kernel. */
void fm_cuda_code_function(void *container, bool library, const char *name, void *function);
void fm_cuda_code_module(CUlibrary library, CUmodule module);
void fm_cuda_code_kernel_function(CUkernel kernel, CUfunction function);
