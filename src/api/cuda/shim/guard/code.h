/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For modules.c: one image that the driver has, or is about to have, as the program made it or
 * rewritten. The handles that lead to it are kept, and forgotten with it.
 */
#pragma once
#include "api/cuda/shim/shim.h"
#include "modules.h"

/* NULL: the program's image is to be loaded and nothing is to be kept, because images are not
 * rewritten, or there is no memory. Otherwise the result must be freed, or loaded. image NULL: the
 * call is not understood; size 0: as the image says. */
struct fm_cuda_code *fm_cuda_code_make(const void *image, size_t size, bool library);
struct fm_cuda_code *fm_cuda_code_make_file(const char *path, bool library);
/* What to load instead of the program's image; NULL: the program's. */
const void *fm_cuda_code_data(const struct fm_cuda_code *c);
/* The driver did not take ours. */
void fm_cuda_code_refused(struct fm_cuda_code *c);
/* The driver has loaded it, with this handle. preserved: the driver goes on reading what it was
 * given. False: it could not be recorded, so it must not be used. */
bool fm_cuda_code_loaded(struct fm_cuda_code *c, void *handle, bool preserved);
void fm_cuda_code_free(struct fm_cuda_code *c);

/* Call the first before the driver's call that unloads the code, because the handle may be reused
 * at once. NULL: the handle is not known. Then call fm_cuda_code_unloaded() with the driver's
 * result. */
struct fm_cuda_code *fm_cuda_code_unload(void *handle, bool library);
void fm_cuda_code_unloaded(struct fm_cuda_code *c, fm_cu_result rc);

/* The program is given a handle: of a function in a module or library, of the module of a library,
 * or of the function of a kernel. */
void fm_cuda_code_function(void *container, bool library, const char *name, void *function);
void fm_cuda_code_module(CUlibrary library, CUmodule module);
void fm_cuda_code_kernel_function(CUkernel kernel, CUfunction function);
