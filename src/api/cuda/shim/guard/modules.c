/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that load code. The driver is given the rewritten image, or the program's own if it
 * does not take that one. From then on the program has handles of the driver, as it would without
 * us.
 */
#include "api/cuda/shim/functions.h"
#include "api/cuda/shim/managed/templates.h"
#include "api/cuda/shim/memory/memory.h"
#include "code.h"
#include "guarded.h"
#include <string.h>

/* --- loading --- */

#define JIT_OPTIONS     36u /* CUDA 13.0's, and one more: none tells where something is */
#define LIBRARY_OPTIONS 2u

struct load {
	/* The driver's call, for this image, or for the program's own (NULL). */
	fm_cu_result (*call)(const struct load *l, const void *image);
	void *handle; /* where the handle is to be stored */
	bool library;
	const void *image; /* or */
	const char *path;
	int *jit;
	void **jit_values;
	unsigned n_jit;
	int *options; /* of libraries */
	void **values;
	unsigned n;
};

static void *handle_of(const struct load *l)
{
	void *handle;

	memcpy(&handle, l->handle, sizeof(handle));
	return handle;
}

static bool all_below(const int *list, void *const *values, unsigned n, unsigned end)
{
	if (n && (!list || !values))
		return false;
	for (unsigned i = 0; i < n; i++)
		if ((unsigned)list[i] >= end)
			return false;
	return true;
}

static bool understood(const struct load *l)
{
	return l->n_jit <= JIT_OPTIONS && all_below(l->jit, l->jit_values, l->n_jit, JIT_OPTIONS) &&
	       all_below(l->options, l->values, l->n, LIBRARY_OPTIONS);
}

/* Does the driver go on reading the image that it was given? */
static bool preserved(const struct load *l)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->options[i] == FM_CU_LIBRARY_PRESERVED)
			return l->values[i] != NULL;
	return false;
}

static struct fm_cuda_code *make(const struct load *l)
{
	if (!l->handle || !(l->image || l->path))
		return NULL;
	if (!understood(l) || (l->path && preserved(l)))
		return fm_cuda_code_make(NULL, 0, l->library);
	return l->path ? fm_cuda_code_make_file(l->path, l->library)
		       : fm_cuda_code_make(l->image, 0, l->library);
}

static fm_cu_result call(const struct load *l, const void *image)
{
	fm_cu_result rc;

	fm_cu_inside++;
	rc = l->call(l, image);
	fm_cu_inside--;
	return rc;
}

static void unload(void *handle, bool library)
{
	fm_cu_inside++;
	if (library)
		NEXT(cuLibraryUnload, (handle));
	else
		NEXT(cuModuleUnload, (handle));
	fm_cu_inside--;
}

/* The driver writes what it says of our image into the program's options, some of which it reads
 * again. So they are restored. */
static bool load_ours(const struct load *l, struct fm_cuda_code *c)
{
	void *values[JIT_OPTIONS];

	if (l->n_jit)
		memcpy(values, l->jit_values, l->n_jit * sizeof(*values));
	if (call(l, fm_cuda_code_data(c)) == FM_CU_SUCCESS) {
		if (fm_cuda_code_loaded(c, handle_of(l), preserved(l)))
			return true;
		unload(handle_of(l), l->library);
	}
	if (l->n_jit)
		memcpy(l->jit_values, values, l->n_jit * sizeof(*values));
	fm_cuda_code_refused(c);
	return false;
}

static fm_cu_result load_once(const struct load *l)
{
	struct fm_cuda_code *c = make(l);
	struct fm_cuda_loading waits = fm_cuda_load_begin(NULL);
	fm_cu_result rc = FM_CU_SUCCESS;

	if (!c || !fm_cuda_code_data(c) || !load_ours(l, c)) {
		rc = call(l, NULL);
		if (c && (rc || !fm_cuda_code_loaded(c, handle_of(l), false)))
			fm_cuda_code_free(c);
	}
	fm_cuda_load_end(waits, rc);
	if (!rc && l->handle)
		fm_cuda_templates_loaded(handle_of(l), l->library, l->image, l->path);
	return rc;
}

/* What the driver has written into options of the first attempt would be read by the next. */
static fm_cu_result load_with_room(const struct load *l)
{
	void *values[JIT_OPTIONS];
	bool some = l->n_jit && l->n_jit <= JIT_OPTIONS && l->jit_values;
	size_t bytes = some ? l->n_jit * sizeof(*values) : 0;

	if (some)
		memcpy(values, l->jit_values, bytes);
	return FM_CUDA_LOAD_WITH_ROOM(({
		if (some)
			memcpy(l->jit_values, values, bytes);
		load_once(l);
	}));
}

static fm_cu_result load(const struct load *l)
{
	struct fm_cuda_globals g;
	fm_cu_result rc;

	if (l->library) {
		rc = load_with_room(l);
		if (!rc && l->handle)
			fm_cuda_globals_library(handle_of(l), l->image, l->path);
		return rc;
	}
	if (!l->handle)
		return load_with_room(l);
	if (!fm_cuda_globals_begin(&g, l->image, l->path))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	rc = g.bytes ? FM_CUDA_WITH_ROOM(&g.m.at, g.bytes, load_with_room(l)) : load_with_room(l);
	return fm_cuda_globals_made(&g, rc ? NULL : handle_of(l), rc);
}

static fm_cu_result call_data(const struct load *l, const void *image)
{
	return NEXT(cuModuleLoadData, (l->handle, image ? image : l->image));
}

static fm_cu_result call_file(const struct load *l, const void *image)
{
	return image ? call_data(l, image) : NEXT(cuModuleLoad, (l->handle, l->path));
}

/* Our image is no fatbin. */
static fm_cu_result call_fatbin(const struct load *l, const void *image)
{
	return image ? call_data(l, image) : NEXT(cuModuleLoadFatBinary, (l->handle, l->image));
}

static fm_cu_result call_options(const struct load *l, const void *image)
{
	return NEXT(cuModuleLoadDataEx,
		(l->handle, image ? image : l->image, l->n_jit, l->jit, l->jit_values));
}

static fm_cu_result call_library(const struct load *l, const void *image)
{
	return NEXT(cuLibraryLoadData, (l->handle, image ? image : l->image, l->jit, l->jit_values,
					       l->n_jit, l->options, l->values, l->n));
}

static fm_cu_result call_library_file(const struct load *l, const void *image)
{
	return image ? call_library(l, image)
		     : NEXT(cuLibraryLoadFromFile, (l->handle, l->path, l->jit, l->jit_values,
							   l->n_jit, l->options, l->values, l->n));
}

fm_cu_result cuModuleLoad(CUmodule *module, const char *path)
{
	return load(&(struct load){.call = call_file, .handle = module, .path = path});
}

fm_cu_result cuModuleLoadData(CUmodule *module, const void *image)
{
	return load(&(struct load){.call = call_data, .handle = module, .image = image});
}

fm_cu_result cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return load(&(struct load){.call = call_fatbin, .handle = module, .image = image});
}

fm_cu_result cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned n, int *options, void **values)
{
	return load(&(struct load){.call = call_options,
		.handle = module,
		.image = image,
		.jit = options,
		.jit_values = values,
		.n_jit = n});
}

fm_cu_result cuLibraryLoadData(CUlibrary *library, const void *image, int *jit, void **jit_values,
	unsigned n_jit, int *options, void **values, unsigned n)
{
	return load(&(struct load){.call = call_library,
		.handle = library,
		.library = true,
		.image = image,
		.jit = jit,
		.jit_values = jit_values,
		.n_jit = n_jit,
		.options = options,
		.values = values,
		.n = n});
}

fm_cu_result cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit,
	void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)
{
	return load(&(struct load){.call = call_library_file,
		.handle = library,
		.library = true,
		.path = path,
		.jit = jit,
		.jit_values = jit_values,
		.n_jit = n_jit,
		.options = options,
		.values = values,
		.n = n});
}

fm_cu_result cuModuleUnload(CUmodule module)
{
	bool waits = fm_cuda_wait_begin_all();
	struct fm_cuda_code *c = fm_cuda_code_unload(module, false);
	struct fm_cuda_unloading u;
	fm_cu_result rc;

	fm_cuda_functions_unload(module);
	fm_cuda_globals_take(&u, module);
	rc = NEXT(cuModuleUnload, (module));
	fm_cuda_globals_ended(&u, module, rc);
	fm_cuda_first_forget();
	fm_cuda_wait_end_all(waits);
	fm_cuda_code_unloaded(c, rc);
	return rc;
}

fm_cu_result cuLibraryUnload(CUlibrary library)
{
	bool waits = fm_cuda_wait_begin_all();
	struct fm_cuda_code *c = fm_cuda_code_unload(library, true);
	struct fm_cuda_unloading u;
	fm_cu_result rc;

	fm_cuda_functions_unload(library);
	fm_cuda_globals_take(&u, library);
	rc = NEXT(cuLibraryUnload, (library));
	fm_cuda_globals_ended(&u, library, rc);
	fm_cuda_first_forget();
	fm_cuda_wait_end_all(waits);
	fm_cuda_code_unloaded(c, rc);
	return rc;
}

/* --- what is wanted of code that is loaded --- */

/* Something of a library, in the current context. */
#define USING(library, call)                                             \
	({                                                               \
		struct fm_cuda_globals globals_;                         \
                                                                         \
		fm_cuda_globals_use(&globals_, library)                  \
			? fm_cuda_globals_used(&globals_, library, call) \
			: FM_CU_ERROR_OUT_OF_MEMORY;                     \
	})
#define WITH_ROOM(call) FM_CUDA_LOAD_WITH_ROOM(FM_CUDA_LOADING(NULL, call))

fm_cu_result cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *size, CUmodule module, const char *name)
{
	fm_cu_result rc = WITH_ROOM(NEXT(cuModuleGetGlobal_v2, (at, size, module, name)));

	if (!rc && at && size)
		fm_cuda_globals_found(module, *at, *size);
	return rc;
}

fm_cu_result cuLibraryGetGlobal(CUdeviceptr *at, size_t *size, CUlibrary library, const char *name)
{
	fm_cu_result rc =
		USING(library, WITH_ROOM(NEXT(cuLibraryGetGlobal, (at, size, library, name))));

	if (!rc && at && size)
		fm_cuda_globals_found(library, *at, *size);
	return rc;
}

static void function_is(void *container, bool library, const char *name, void *function)
{
	fm_cuda_code_function(container, library, name, function);
	fm_cuda_function_got(container, library, function);
}

static void module_is(CUlibrary library, CUmodule module)
{
	fm_cuda_code_module(library, module);
	fm_cuda_functions_module(library, module);
}

fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	fm_cu_result rc = WITH_ROOM(NEXT(cuModuleGetFunction, (f, module, name)));

	if (rc == FM_CU_SUCCESS)
		function_is(module, false, name, *f);
	return rc;
}

fm_cu_result cuLibraryGetKernel(CUkernel *k, CUlibrary library, const char *name)
{
	fm_cu_result rc = USING(library, NEXT(cuLibraryGetKernel, (k, library, name)));

	if (rc == FM_CU_SUCCESS)
		function_is(library, true, name, *k);
	return rc;
}

/* The handles that the program asked for. There are no more than the driver has. */
static void enumerated(void *of, bool library, void *const *handle, unsigned asked)
{
	fm_cu_result (*count)(unsigned *, const void *) =
		fm_cuda_symbol(library ? "cuLibraryGetKernelCount" : "cuModuleGetFunctionCount");
	fm_cu_result (*name_of)(const char **, void *) =
		fm_cuda_symbol(library ? "cuKernelGetName" : "cuFuncGetName");
	const char *name;
	unsigned n;

	if (!count || !name_of || count(&n, of))
		return;
	n = FM_MIN(n, asked);
	for (unsigned i = 0; i < n; i++)
		if (!name_of(&name, handle[i]))
			function_is(of, library, name, handle[i]);
}

fm_cu_result cuModuleEnumerateFunctions(CUfunction *f, unsigned n, CUmodule module)
{
	fm_cu_result rc = NEXT(cuModuleEnumerateFunctions, (f, n, module));

	if (rc == FM_CU_SUCCESS)
		enumerated(module, false, (void *const *)f, n);
	return rc;
}

fm_cu_result cuLibraryEnumerateKernels(CUkernel *k, unsigned n, CUlibrary library)
{
	fm_cu_result rc = NEXT(cuLibraryEnumerateKernels, (k, n, library));

	if (rc == FM_CU_SUCCESS)
		enumerated(library, true, (void *const *)k, n);
	return rc;
}

fm_cu_result cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	fm_cu_result rc = USING(library, WITH_ROOM(NEXT(cuLibraryGetModule, (module, library))));

	if (rc == FM_CU_SUCCESS)
		module_is(library, *module);
	return rc;
}

static CUlibrary library_of(CUkernel k)
{
	fm_cu_result (*get)(CUlibrary *, CUkernel) = fm_cuda_symbol("cuKernelGetLibrary");
	CUlibrary library = NULL;

	return get && !get(&library, k) ? library : NULL;
}

fm_cu_result cuKernelGetFunction(CUfunction *f, CUkernel k)
{
	fm_cu_result rc = USING(fm_cuda_globals_any_library() ? library_of(k) : NULL,
		FM_CUDA_LOAD_WITH_ROOM(FM_CUDA_LOADING(k, NEXT(cuKernelGetFunction, (f, k)))));

	if (rc == FM_CU_SUCCESS)
		fm_cuda_code_kernel_function(k, *f);
	return rc;
}

/* --- queries about their parameters --- */

static bool hidden(CUfunction f, size_t i)
{
	const struct fm_cuda_kernel *kernel = fm_cu_inside ? NULL : fm_cuda_kernel(f);

	return kernel && i >= kernel->image->n_params;
}

/* Hides our parameters in a count. rc: the driver's result. */
static fm_cu_result less_ours(CUfunction f, size_t *n, fm_cu_result rc)
{
	const struct fm_cuda_kernel *kernel = rc || fm_cu_inside ? NULL : fm_cuda_kernel(f);

	if (kernel)
		*n = kernel->image->n_params;
	return rc;
}

fm_cu_result cuFuncGetParamInfo(CUfunction f, size_t i, size_t *at, size_t *size)
{
	if (hidden(f, i))
		return FM_CU_ERROR_INVALID_VALUE;
	return NEXT(cuFuncGetParamInfo, (f, i, at, size));
}

fm_cu_result cuKernelGetParamInfo(CUkernel k, size_t i, size_t *at, size_t *size)
{
	if (hidden((CUfunction)k, i))
		return FM_CU_ERROR_INVALID_VALUE;
	return NEXT(cuKernelGetParamInfo, (k, i, at, size));
}

fm_cu_result cuFuncGetParamCount(CUfunction f, size_t *n)
{
	return less_ours(f, n, NEXT(cuFuncGetParamCount, (f, n)));
}

fm_cu_result cuKernelGetParamCount(CUkernel k, size_t *n)
{
	return less_ours((CUfunction)k, n, NEXT(cuKernelGetParamCount, (k, n)));
}
