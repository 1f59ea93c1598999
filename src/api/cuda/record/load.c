/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that load code and hand out functions. */
#include "base/cleanup.h"
#include "calls.h"
#include <stdlib.h>

fm_cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	fm_cu_result rc = NEXT(cuGetProcAddress, (name, fn, version, flags));

	if (!rc)
		fm_tap_replace(name, fn, version, flags);
	return rc;
}

fm_cu_result cuGetProcAddress_v2(
	const char *name, void **fn, int version, uint64_t flags, unsigned *status)
{
	fm_cu_result rc = NEXT(cuGetProcAddress_v2, (name, fn, version, flags, status));

	if (!rc)
		fm_tap_replace(name, fn, version, flags);
	return rc;
}

/* The driver's call for the image with marks, if there is one and the driver takes it; else for the
 * program's. `image` is its name in the call. */
#define LOAD(symbol, args, handle, library)                                         \
	const void *given = image;                                                  \
	struct fm_record_marked marked;                                             \
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;                                \
	bool ours;                                                                  \
                                                                                    \
	fm_record_mark(given, &marked);                                             \
	if (marked.text) {                                                          \
		image = marked.text;                                                \
		rc = NEXT(symbol, args);                                            \
		image = given;                                                      \
	}                                                                           \
	ours = !rc;                                                                 \
	if (rc)                                                                     \
		rc = NEXT(symbol, args);                                            \
	if (!rc)                                                                    \
		fm_record_loaded(*(handle), given, ours ? &marked : NULL, library); \
	fm_record_mark_free(&marked);                                               \
	return rc

fm_cu_result cuModuleLoadData(CUmodule *module, const void *image)
{
	LOAD(cuModuleLoadData, (module, image), module, false);
}

fm_cu_result cuModuleLoad(CUmodule *module, const char *path)
{
	FM_CLEAN_FREE void *image = fm_record_file(path);
	struct fm_record_marked marked;
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;
	bool ours;

	fm_record_mark(image, &marked);
	if (marked.text)
		rc = NEXT(cuModuleLoadData, (module, marked.text));
	ours = !rc;
	if (rc)
		rc = NEXT(cuModuleLoad, (module, path));
	if (!rc && image)
		fm_record_loaded(*module, image, ours ? &marked : NULL, false);
	fm_record_mark_free(&marked);
	return rc;
}

fm_cu_result cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned n, int *options, void **values)
{
	LOAD(cuModuleLoadDataEx, (module, image, n, options, values), module, false);
}

/* A text is loaded as data: this call takes fatbins alone. */
fm_cu_result cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	struct fm_record_marked marked;
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;
	bool ours;

	fm_record_mark(image, &marked);
	if (marked.text)
		rc = NEXT(cuModuleLoadData, (module, marked.text));
	ours = !rc;
	if (rc)
		rc = NEXT(cuModuleLoadFatBinary, (module, image));
	if (!rc)
		fm_record_loaded(*module, image, ours ? &marked : NULL, false);
	fm_record_mark_free(&marked);
	return rc;
}

fm_cu_result cuModuleUnload(CUmodule module)
{
	fm_record_unloaded(module);
	return NEXT(cuModuleUnload, (module));
}

static fm_cu_result load_library(CUlibrary *library, const void *image, int *jit, void **jit_values,
	unsigned n_jit, int *options, void **values, unsigned n)
{
	LOAD(cuLibraryLoadData, (library, image, jit, jit_values, n_jit, options, values, n),
		library, true);
}

fm_cu_result cuLibraryLoadData(CUlibrary *library, const void *image, int *jit, void **jit_values,
	unsigned n_jit, int *options, void **values, unsigned n)
{
	fm_cu_result rc;

	if (!fm_tap_preserved(options, values, n))
		return load_library(library, image, jit, jit_values, n_jit, options, values, n);
	rc = NEXT(cuLibraryLoadData, (library, image, jit, jit_values, n_jit, options, values, n));
	if (!rc)
		fm_record_loaded(*library, image, NULL, true);
	return rc;
}

fm_cu_result cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit,
	void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)
{
	FM_CLEAN_FREE void *image = fm_record_file(path);
	fm_cu_result rc = NEXT(
		cuLibraryLoadFromFile, (library, path, jit, jit_values, n_jit, options, values, n));

	if (!rc && image)
		fm_record_loaded(*library, image, NULL, true);
	return rc;
}

fm_cu_result cuLibraryUnload(CUlibrary library)
{
	fm_record_unloaded(library);
	return NEXT(cuLibraryUnload, (library));
}

#define HANDED_OUT(symbol, params, args, handle, of)      \
	fm_cu_result symbol params                        \
	{                                                 \
		fm_cu_result rc = NEXT(symbol, args);     \
                                                          \
		if (!rc)                                  \
			fm_record_belongs(*(handle), of); \
		return rc;                                \
	}
HANDED_OUT(cuModuleGetFunction, (CUfunction * f, CUmodule module, const char *name),
	(f, module, name), f, module)
HANDED_OUT(cuLibraryGetKernel, (CUkernel * k, CUlibrary library, const char *name),
	(k, library, name), k, library)
HANDED_OUT(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library), module,
	library)
HANDED_OUT(cuKernelGetFunction, (CUfunction * f, CUkernel k), (f, k), f, k)
