/* SPDX-License-Identifier: Apache-2.0 */
/* The calls themselves: each is the driver's, with a look before or after it. */
#include "calls.h"
#include "base/cleanup.h"
#include "marks.h"
#include <pthread.h>

static void begin(void)
{
	const struct fm_profile_wish *w = fm_profile_wish();

	if (w->by & 1u << FM_SOURCE_SANITIZER)
		fm_profile_sanitizer_start(w->sanitizer);
	else
		fm_profile_began(w->by, 0, "");
}

fm_cu_result cuInit(unsigned flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (fm_tap_wanted() && !fm_tap_inside)
		pthread_once(&once, begin);
	return NEXT(cuInit, (flags));
}

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

/* --- code --- */

fm_cu_result cuModuleLoad(CUmodule *module, const char *path)
{
	fm_cu_result rc = NEXT(cuModuleLoad, (module, path));

	if (!rc)
		fm_profile_loaded_file(*module, path);
	return rc;
}

/* The driver's call for the image with marks, if there is one and the driver takes it; else for the
 * program's. `image` is its name in the call. */
#define LOAD(symbol, args, handle, library)                                \
	const void *given = image;                                         \
	FM_CLEAN_FREE char *marked = fm_profile_marked(given);             \
	CUdeviceptr word = 0;                                              \
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;                       \
                                                                           \
	if (marked) {                                                      \
		image = marked;                                            \
		rc = NEXT(symbol, args);                                   \
		word = rc ? 0 : fm_profile_marks_word(*(handle), library); \
		image = given;                                             \
	}                                                                  \
	if (rc)                                                            \
		rc = NEXT(symbol, args);                                   \
	if (!rc)                                                           \
		fm_profile_loaded(*(handle), given, word);                 \
	return rc

fm_cu_result cuModuleLoadData(CUmodule *module, const void *image)
{
	LOAD(cuModuleLoadData, (module, image), module, false);
}

fm_cu_result cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned n, int *options, void **values)
{
	LOAD(cuModuleLoadDataEx, (module, image, n, options, values), module, false);
}

fm_cu_result cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	fm_cu_result rc = NEXT(cuModuleLoadFatBinary, (module, image));

	if (!rc)
		fm_profile_loaded(*module, image, 0);
	return rc;
}

fm_cu_result cuModuleUnload(CUmodule module)
{
	fm_profile_unloaded(module);
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
		fm_profile_loaded(*library, image, 0);
	return rc;
}

fm_cu_result cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit,
	void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)
{
	fm_cu_result rc = NEXT(
		cuLibraryLoadFromFile, (library, path, jit, jit_values, n_jit, options, values, n));

	if (!rc)
		fm_profile_loaded_file(*library, path);
	return rc;
}

fm_cu_result cuLibraryUnload(CUlibrary library)
{
	fm_profile_unloaded(library);
	return NEXT(cuLibraryUnload, (library));
}

fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	fm_cu_result rc = NEXT(cuModuleGetFunction, (f, module, name));

	if (!rc)
		fm_profile_belongs(*f, module);
	return rc;
}

fm_cu_result cuLibraryGetKernel(CUkernel *k, CUlibrary library, const char *name)
{
	fm_cu_result rc = NEXT(cuLibraryGetKernel, (k, library, name));

	if (!rc)
		fm_profile_belongs(*k, library);
	return rc;
}

fm_cu_result cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	fm_cu_result rc = NEXT(cuLibraryGetModule, (module, library));

	if (!rc)
		fm_profile_belongs(*module, library);
	return rc;
}

fm_cu_result cuKernelGetFunction(CUfunction *f, CUkernel k)
{
	fm_cu_result rc = NEXT(cuKernelGetFunction, (f, k));

	if (!rc)
		fm_profile_belongs(*f, k);
	return rc;
}

fm_cu_result cuTensorMapEncodeTiled(void *map, unsigned type, unsigned rank, void *at,
	const uint64_t *dim, const uint64_t *stride, const unsigned *box, const unsigned *step,
	int interleave, int swizzle, int promotion, int fill)
{
	fm_cu_result rc =
		NEXT(cuTensorMapEncodeTiled, (map, type, rank, at, dim, stride, box, step,
						     interleave, swizzle, promotion, fill));

	if (!rc)
		fm_profile_map_made(map, type, interleave ? 0 : rank, (uintptr_t)at, dim, stride);
	return rc;
}

/* Beyond its sizes a map of this kind reads nothing, either: it gives zeros. */
fm_cu_result cuTensorMapEncodeIm2col(void *map, unsigned type, unsigned rank, void *at,
	const uint64_t *dim, const uint64_t *stride, const int *lower, const int *upper,
	unsigned channels, unsigned pixels, const unsigned *step, int interleave, int swizzle,
	int promotion, int fill)
{
	fm_cu_result rc = NEXT(cuTensorMapEncodeIm2col,
		(map, type, rank, at, dim, stride, lower, upper, channels, pixels, step, interleave,
			swizzle, promotion, fill));

	if (!rc)
		fm_profile_map_made(map, type, interleave ? 0 : rank, (uintptr_t)at, dim, stride);
	return rc;
}

fm_cu_result cuTensorMapEncodeIm2colWide(void *map, unsigned type, unsigned rank, void *at,
	const uint64_t *dim, const uint64_t *stride, int lower, int upper, unsigned channels,
	unsigned pixels, const unsigned *step, int interleave, int mode, int swizzle, int promotion,
	int fill)
{
	fm_cu_result rc = NEXT(cuTensorMapEncodeIm2colWide,
		(map, type, rank, at, dim, stride, lower, upper, channels, pixels, step, interleave,
			mode, swizzle, promotion, fill));

	if (!rc)
		fm_profile_map_made(map, type, interleave ? 0 : rank, (uintptr_t)at, dim, stride);
	return rc;
}

/* It reaches as far as it did. */
fm_cu_result cuTensorMapReplaceAddress(void *map, void *at)
{
	struct fm_profile_map was = {0};
	bool known = map && fm_tap_wanted() && fm_profile_map_find(map, &was);
	fm_cu_result rc = NEXT(cuTensorMapReplaceAddress, (map, at));

	if (!rc)
		fm_profile_map_moved(map, (uintptr_t)at, known ? was.bytes : 0);
	return rc;
}

/* --- launches --- */

static inline CUstream stream_of(CUstream given, bool own)
{
	return own && !given ? FM_CU_STREAM_PER_THREAD : given;
}

/* Where launches are timed, the driver's call is made for the stream in which that is to be. */
#define TIMED(call)                                                               \
	do {                                                                      \
		struct fm_profile_timing *t = fm_profile_time_before(&launching); \
                                                                                  \
		stream = t && t->moved ? t->stream : stream;                      \
		rc = call;                                                        \
		if (rc && t && t->moved) {                                        \
			fm_profile_time_stays(t);                                 \
			stream = given;                                           \
			rc = call;                                                \
		}                                                                 \
		fm_profile_time_after(t, rc);                                     \
		return rc;                                                        \
	} while (0)

static inline bool is_timed(void)
{
	return fm_tap_wanted() && !fm_tap_inside && fm_profile_wish()->times;
}

#define BY_DIMS(symbol, own, declared, args, its_extra, together)      \
	fm_cu_result symbol declared                                   \
	{                                                              \
		const struct fm_profile_launching launching = {.f = f, \
			.grid = {gx, gy, gz},                          \
			.block = {bx, by, bz},                         \
			.shared = shared,                              \
			.cooperative = together,                       \
			.stream = stream_of(stream, own),              \
			.params = params,                              \
			.extra = its_extra};                           \
		CUstream given = stream;                               \
		struct fm_profile_look *look;                          \
		fm_cu_result rc;                                       \
                                                                       \
		if (is_timed())                                        \
			TIMED(NEXT(symbol, args));                     \
		look = fm_profile_before(&launching);                  \
		rc = NEXT(symbol, args);                               \
		fm_profile_after(look, rc);                            \
		return rc;                                             \
	}
#define DIMS                                                                           \
	CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
		unsigned bz, unsigned shared, CUstream stream, void **params
#define DIMS_ARGS f, gx, gy, gz, bx, by, bz, shared, stream, params
BY_DIMS(cuLaunchKernel, false, (DIMS, void **extra), (DIMS_ARGS, extra), extra, false)
BY_DIMS(cuLaunchKernel_ptsz, true, (DIMS, void **extra), (DIMS_ARGS, extra), extra, false)
BY_DIMS(cuLaunchCooperativeKernel, false, (DIMS), (DIMS_ARGS), NULL, true)
BY_DIMS(cuLaunchCooperativeKernel_ptsz, true, (DIMS), (DIMS_ARGS), NULL, true)

static bool is_cooperative(const struct fm_cu_launch_config *config)
{
	for (unsigned i = 0; config->attributes && i < config->n_attributes; i++)
		if (config->attributes[i].id == FM_CU_LAUNCH_COOPERATIVE &&
			(uint32_t)config->attributes[i].value[0])
			return true;
	return false;
}

#define BY_CONFIG(symbol, own)                                                                     \
	fm_cu_result symbol(const struct fm_cu_launch_config *config, CUfunction f, void **params, \
		void **extra)                                                                      \
	{                                                                                          \
		struct fm_profile_launching launching;                                             \
		struct fm_profile_look *look;                                                      \
		fm_cu_result rc;                                                                   \
                                                                                                   \
		if (!config)                                                                       \
			return NEXT(symbol, (config, f, params, extra));                           \
		launching = (struct fm_profile_launching){.f = f,                                  \
			.grid = {config->grid[0], config->grid[1], config->grid[2]},               \
			.block = {config->block[0], config->block[1], config->block[2]},           \
			.shared = config->shared,                                                  \
			.cooperative = is_cooperative(config),                                     \
			.stream = stream_of(config->stream, own),                                  \
			.params = params,                                                          \
			.extra = extra};                                                           \
		if (is_timed()) {                                                                  \
			struct fm_cu_launch_config there = *config;                                \
			CUstream given = config->stream, stream = given;                           \
                                                                                                   \
			TIMED((there.stream = stream, NEXT(symbol, (&there, f, params, extra))));  \
		}                                                                                  \
		look = fm_profile_before(&launching);                                              \
		rc = NEXT(symbol, (config, f, params, extra));                                     \
		fm_profile_after(look, rc);                                                        \
		return rc;                                                                         \
	}
BY_CONFIG(cuLaunchKernelEx, false)
BY_CONFIG(cuLaunchKernelEx_ptsz, true)

/* --- graphs --- */

#define MAKES(symbol, declared, args)                        \
	fm_cu_result symbol declared                         \
	{                                                    \
		fm_cu_result rc = NEXT(symbol, args);        \
                                                             \
		if (!rc && exec)                             \
			fm_profile_graph_made(*exec, graph); \
		return rc;                                   \
	}
MAKES(cuGraphInstantiate,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t size),
	(exec, graph, node, log, size))
MAKES(cuGraphInstantiate_v2,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t size),
	(exec, graph, node, log, size))
MAKES(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
	(exec, graph, flags))
MAKES(cuGraphInstantiateWithParams, (CUgraphExec * exec, CUgraph graph, void *how),
	(exec, graph, how))
MAKES(cuGraphInstantiateWithParams_ptsz, (CUgraphExec * exec, CUgraph graph, void *how),
	(exec, graph, how))

#define UPDATES(symbol, declared, args)                     \
	fm_cu_result symbol declared                        \
	{                                                   \
		fm_cu_result rc = NEXT(symbol, args);       \
                                                            \
		if (rc)                                     \
			fm_profile_graph_gone(exec);        \
		else                                        \
			fm_profile_graph_made(exec, graph); \
		return rc;                                  \
	}
UPDATES(cuGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result),
	(exec, graph, node, result))
UPDATES(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, void *result),
	(exec, graph, result))

#define CHANGES(symbol, declared, args)      \
	fm_cu_result symbol declared         \
	{                                    \
		fm_profile_graph_gone(exec); \
		return NEXT(symbol, args);   \
	}
CHANGES(cuGraphExecDestroy, (CUgraphExec exec), (exec))
CHANGES(cuGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const void *what),
	(exec, node, what))
CHANGES(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec exec, CUgraphNode node, const void *what),
	(exec, node, what))
CHANGES(cuGraphExecMemcpyNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const void *what, CUcontext ctx),
	(exec, node, what, ctx))
CHANGES(cuGraphExecMemsetNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const void *what, CUcontext ctx),
	(exec, node, what, ctx))
CHANGES(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, void *what),
	(exec, node, what))
CHANGES(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled),
	(exec, node, enabled))

/* One launch of an unknown number of kernels. */
static void count_graph(void)
{
	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	fm_profile_count_launch();
	fm_profile_unseen(FM_UNSEEN_GRAPH);
}

#define BY_GRAPH(symbol, own)                                                    \
	fm_cu_result symbol(CUgraphExec graph, CUstream stream)                  \
	{                                                                        \
		fm_cu_result rc;                                                 \
                                                                                 \
		if (fm_profile_graph_launch(graph, stream_of(stream, own), &rc)) \
			return rc;                                               \
		count_graph();                                                   \
		fm_profile_time_graph(stream_of(stream, own));                   \
		return NEXT(symbol, (graph, stream));                            \
	}
BY_GRAPH(cuGraphLaunch, false)
BY_GRAPH(cuGraphLaunch_ptsz, true)

/* --- ends --- */

fm_cu_result cuStreamDestroy_v2(CUstream stream)
{
	fm_profile_time_stream_ends(stream);
	return NEXT(cuStreamDestroy_v2, (stream));
}

#define DEVICES 64u

static _Atomic int retained[DEVICES]; /* how often the program has each primary context */

/* That context or, if `dev` is no NULL, the device's primary one. */
static void ends(CUcontext ctx, const CUdevice *dev)
{
	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	if (fm_profile_wish()->times) {
		fm_profile_time_context_ends(ctx, dev);
		return;
	}
	fm_profile_graph_context_ends(ctx, dev);
	fm_profile_look_context_ends(ctx, dev);
}

fm_cu_result cuCtxDestroy_v2(CUcontext ctx)
{
	ends(ctx, NULL);
	return NEXT(cuCtxDestroy_v2, (ctx));
}

fm_cu_result cuDevicePrimaryCtxReset(CUdevice dev)
{
	ends(NULL, &dev);
	return NEXT(cuDevicePrimaryCtxReset, (dev));
}

fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	ends(NULL, &dev);
	return NEXT(cuDevicePrimaryCtxReset_v2, (dev));
}

fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	fm_cu_result rc = NEXT(cuDevicePrimaryCtxRetain, (ctx, dev));

	if (!rc && !fm_tap_inside && (unsigned)dev < DEVICES)
		atomic_fetch_add(&retained[dev], 1);
	return rc;
}

/* The last one ends it. */
static void releases(CUdevice dev)
{
	if ((unsigned)dev < DEVICES && atomic_load(&retained[dev]) <= 1)
		ends(NULL, &dev);
}

/* It may have been retained by a way that we have not seen. */
static fm_cu_result released(CUdevice dev, fm_cu_result rc)
{
	if (!rc && !fm_tap_inside && (unsigned)dev < DEVICES &&
		atomic_fetch_sub(&retained[dev], 1) <= 0)
		atomic_fetch_add(&retained[dev], 1);
	return rc;
}

fm_cu_result cuDevicePrimaryCtxRelease(CUdevice dev)
{
	releases(dev);
	return released(dev, NEXT(cuDevicePrimaryCtxRelease, (dev)));
}

fm_cu_result cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	releases(dev);
	return released(dev, NEXT(cuDevicePrimaryCtxRelease_v2, (dev)));
}
