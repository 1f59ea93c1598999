/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: images that are of no context, and become modules in each where a kernel is wanted. */
#include "image.h"
#include <stdlib.h>
#include <string.h>

struct CUkern_st {
	const struct fk_entry *entry;
	CUlibrary library;
	unsigned dynamic; /* as of a function, in all contexts */
};

struct CUlib_st {
	struct CUlib_st *next;
	struct fk_image *image;
	const void *preserved;     /* where the image is, if it was to stay there */
	struct CUkern_st kernel[]; /* one for each of the image */
};

static CUlibrary libraries;

static CUlibrary *find(CUlibrary library)
{
	CUlibrary *l = &libraries;

	while (*l && *l != library)
		l = &(*l)->next;
	return l;
}

static fm_cu_result enter(CUlibrary library)
{
	FK_TRY(fk_enter());
	return *find(library) ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

static CUlibrary library_of(CUkernel k)
{
	CUlibrary l = libraries;

	while (l && (k < l->kernel || k >= l->kernel + l->image->n))
		l = l->next;
	return l;
}

static fm_cu_result enter_kernel(CUkernel k)
{
	FK_TRY(fk_enter());
	return library_of(k) ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

static fm_cu_result load(CUlibrary *library, const void *data, const char *path)
{
	struct fk_image *image;
	fm_cu_result rc;
	CUlibrary l;

	FK_TRY(fk_enter());
	rc = path ? fk_image_of_file(path, &image) : fk_image_read(data, &image);
	if (rc)
		return fk_leave(rc);
	l = calloc(1, sizeof(*l) + image->n * sizeof(*l->kernel));
	if (!l) {
		fk_image_put(image);
		return fk_leave(CU_OUT_OF_MEMORY);
	}
	l->image = image;
	for (unsigned i = 0; i < image->n; i++)
		l->kernel[i] = (struct CUkern_st){&image->entry[i], l, 0};
	l->next = libraries;
	libraries = l;
	*library = l;
	return fk_leave(FM_CU_SUCCESS);
}

enum { BINARY_IS_PRESERVED = 1 };

fm_cu_result cuLibraryLoadData(CUlibrary *library, const void *image, int *jit, void **jit_values,
	unsigned n_jit, int *options, void **values, unsigned n)
{
	fm_cu_result rc = library && image ? load(library, image, NULL) : FM_CU_ERROR_INVALID_VALUE;

	for (unsigned i = 0; !rc && i < n; i++)
		if (options[i] == BINARY_IS_PRESERVED && values[i])
			(*library)->preserved = image;
	return rc;
}

/* It was said to stay where it is: somebody may look there at any time. */
static void look_again(CUlibrary l)
{
	struct fk_image *image;

	if (!l->preserved)
		return;
	if (fk_image_read(l->preserved, &image) || image->n != l->image->n)
		fk_die("the image of a library was to be preserved, and is not there any more");
	fk_image_put(image);
}

fm_cu_result cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit,
	void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)
{
	return library && path ? load(library, NULL, path) : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuLibraryUnload(CUlibrary library)
{
	CUmodule m;

	FK_TRY(enter(library));
	if (fk_ctx_known(fk_ctx()))
		fk_wait_device();
	while ((m = fk_module_of(library, NULL)))
		fk_module_free(m);
	*find(library) = library->next;
	fk_image_put(library->image);
	free(library);
	return fk_leave(FM_CU_SUCCESS);
}

/* In the current context; it is loaded there when somebody asks. */
static fm_cu_result module_of(CUlibrary library, CUmodule *module)
{
	if (!fk_ctx_known(fk_ctx()))
		return CU_INVALID_CONTEXT;
	look_again(library);
	*module = fk_module_of(library, fk_ctx());
	return *module ? FM_CU_SUCCESS : fk_module_new(library->image, library, module);
}

fm_cu_result cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	if (!module)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter(library));
	return fk_leave(module_of(library, module));
}

fm_cu_result cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	if (!kernel || !name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter(library));
	for (unsigned i = 0; i < library->image->n; i++) {
		if (!strcmp(library->kernel[i].entry->name, name)) {
			*kernel = &library->kernel[i];
			return fk_leave(FM_CU_SUCCESS);
		}
	}
	return fk_leave(CU_NOT_FOUND);
}

fm_cu_result cuLibraryGetKernelCount(unsigned *n, CUlibrary library)
{
	if (!n)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter(library));
	*n = library->image->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuLibraryEnumerateKernels(CUkernel *kernels, unsigned n, CUlibrary library)
{
	if (!kernels && n)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter(library));
	for (unsigned i = 0; i < n && i < library->image->n; i++)
		kernels[i] = &library->kernel[i];
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuLibraryGetGlobal(CUdeviceptr *d, size_t *size, CUlibrary library, const char *name)
{
	fm_cu_result rc;
	CUmodule m;

	FK_TRY(enter(library));
	rc = module_of(library, &m);
	fk_leave(rc);
	return rc ? rc : cuModuleGetGlobal_v2(d, size, m, name);
}

/* --- kernels --- */

static fm_cu_result function_of(CUkernel k, CUfunction *f)
{
	CUmodule m;

	FK_TRY(module_of(k->library, &m));
	*f = fk_module_function(m, (unsigned)(k - k->library->kernel));
	if (k->dynamic)
		(*f)->dynamic = k->dynamic;
	return FM_CU_SUCCESS;
}

/* Launches take either. */
CUfunction fk_kernel_function(CUfunction f)
{
	CUkernel k = (CUkernel)(void *)f;

	return library_of(k) && !function_of(k, &f) ? f : NULL;
}

fm_cu_result cuKernelGetFunction(CUfunction *f, CUkernel kernel)
{
	if (!f)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_kernel(kernel));
	return fk_leave(function_of(kernel, f));
}

fm_cu_result cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	if (!library)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_kernel(kernel));
	*library = kernel->library;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuKernelGetName(const char **name, CUkernel kernel)
{
	if (!name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_kernel(kernel));
	*name = kernel->entry->name;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *at, size_t *size)
{
	FK_TRY(enter_kernel(kernel));
	return fk_leave(fk_param_info(kernel->entry, i, at, size));
}

fm_cu_result cuKernelGetParamCount(CUkernel kernel, size_t *n)
{
	FK_TRY(enter_kernel(kernel));
	*n = kernel->entry->n_params;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuKernelGetAttribute(int *value, int which, CUkernel kernel, CUdevice dev)
{
	FK_TRY(enter_kernel(kernel));
	return fk_leave(fk_attribute(kernel->entry, which, value));
}

fm_cu_result cuKernelSetAttribute(int which, int value, CUkernel kernel, CUdevice dev)
{
	FK_TRY(enter_kernel(kernel));
	return fk_leave(fk_set_attribute(kernel->entry, which, value, &kernel->dynamic));
}
