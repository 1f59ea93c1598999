/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `libfermata-profile.so': preloaded by `fermata-lab profile', it looks at what the kernels of the
 * program touch. It stands in front of the calls that load code, hand out functions and launch
 * them. A launch that is looked at has its table of marks cleared in front of it in its stream, and
 * read behind it; the caller waits for that. Launches are looked at one at a time, some times for
 * each kernel and each set of numbers that it is given (tune.h), so that a program takes longer by
 * a bounded time, and its device needs a bounded amount of memory more. Of a graph a copy is
 * launched instead, node by node, the first times.
 *
 * Nothing here prints, ends the program or changes what it computes. What does not work is counted
 * and written to the records (profile/profile.h).
 *
 * Owns: what is known of code and functions (kernels.c); a table of marks and digests for each
 * context (context.c); the file of records (record.c).
 *
 * Or, with `--rooms', it times launches (rooms.c): each with nothing beside it, on the whole device
 * or on a part of it. Each launch runs once, so here, too, the program computes what it would.
 *
 * Locks: `looking' (launch.c), held while a launch is looked at, never waited for by other
 * launches; `timing' (rooms.c), in its place where launches are timed, waited for by others for
 * FM_PROFILE_WAIT; `lock' of kernels.c, of the images and functions; `lock' of graphs.c, of the
 * copies of graphs; `lock' of sanitizer.c, while a module is instrumented. None is taken under
 * another, but sanitizer.c's, which is taken in callbacks of the driver's, under any.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "api/cuda/core/types.h"
#include "api/cuda/tap/tap.h"
#include "device/touched.h"
#include "profile/profile.h"
#include "tune.h"
#include <stdatomic.h>
#include <sys/uio.h>

typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;

/* --- hook.c: the driver's functions --- */

/* X(name here, symbol, parameters) */
/* clang-format off */
#define FM_PROFILE_DRIVER(X) \
	X(current, "cuCtxGetCurrent", (CUcontext *ctx)) \
	X(device, "cuCtxGetDevice", (CUdevice *dev)) \
	X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice dev)) \
	X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr *d, size_t size)) \
	X(mem_free, "cuMemFree_v2", (CUdeviceptr d)) \
	X(host_alloc, "cuMemHostAlloc", (void **p, size_t size, unsigned flags)) \
	X(range, "cuMemGetAddressRange_v2", (CUdeviceptr *at, size_t *size, CUdeviceptr in)) \
	X(pointer_attribute, "cuPointerGetAttribute", (void *to, int attribute, CUdeviceptr at)) \
	X(to_device, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t size, CUstream stream)) \
	X(to_host, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t size, CUstream stream)) \
	X(fill, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t n, CUstream stream)) \
	X(capturing, "cuStreamIsCapturing", (CUstream stream, int *status)) \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode)) \
	X(query, "cuStreamQuery", (CUstream stream)) \
	X(module_load, "cuModuleLoadData", (CUmodule *module, const void *image)) \
	X(module_function, "cuModuleGetFunction", (CUfunction *f, CUmodule module, const char *name)) \
	X(module_global, "cuModuleGetGlobal_v2", (CUdeviceptr *at, size_t *size, CUmodule module, const char *name)) \
	X(launch, "cuLaunchKernel", (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)) \
	X(func_module, "cuFuncGetModule", (CUmodule *module, CUfunction f)) \
	X(func_name, "cuFuncGetName", (const char **name, CUfunction f)) \
	X(func_param, "cuFuncGetParamInfo", (CUfunction f, size_t i, size_t *at, size_t *size)) \
	X(kernel_library, "cuKernelGetLibrary", (CUlibrary *library, CUkernel k)) \
	X(kernel_name, "cuKernelGetName", (const char **name, CUkernel k)) \
	X(kernel_param, "cuKernelGetParamInfo", (CUkernel k, size_t i, size_t *at, size_t *size)) \
	X(kernel_function, "cuKernelGetFunction", (CUfunction *f, CUkernel k)) \
	X(library_global, "cuLibraryGetGlobal", (CUdeviceptr *at, size_t *size, CUlibrary library, const char *name)) \
	X(library_module, "cuLibraryGetModule", (CUmodule *module, CUlibrary library)) \
	X(graph_clone, "cuGraphClone", (CUgraph *clone, CUgraph graph)) \
	X(graph_destroy, "cuGraphDestroy", (CUgraph graph)) \
	X(graph_nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode *node, size_t *n)) \
	X(node_type, "cuGraphNodeGetType", (CUgraphNode node, int *type)) \
	X(node_behind, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode *behind, size_t *n)) \
	X(node_kernel, "cuGraphKernelNodeGetParams_v2", (CUgraphNode node, struct fm_cu_kernel_node *kernel)) \
	X(node_enable, "cuGraphNodeSetEnabled", (CUgraphExec exec, CUgraphNode node, unsigned enabled)) \
	X(instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	X(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream)) \
	X(exec_destroy, "cuGraphExecDestroy", (CUgraphExec exec)) \
	X(func_attribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction f)) \
	X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int *n, CUfunction f, int threads, size_t shared)) \
	X(device_name, "cuDeviceGetName", (char *name, int size, CUdevice dev)) \
	X(primary_retain, "cuDevicePrimaryCtxRetain", (CUcontext *ctx, CUdevice dev)) \
	X(primary_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice dev)) \
	X(event_create, "cuEventCreate", (CUevent *event, unsigned flags)) \
	X(event_record, "cuEventRecord", (CUevent event, CUstream stream)) \
	X(event_query, "cuEventQuery", (CUevent event)) \
	X(event_elapsed, "cuEventElapsedTime", (float *ms, CUevent start, CUevent end)) \
	X(stream_wait, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags)) \
	X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))
/* clang-format on */

/* The driver's own functions; one that it lacks is NULL. */
struct fm_profile_driver {
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	FM_PROFILE_DRIVER(MEMBER)
#undef MEMBER
};
/* NULL: there is no driver, or it lacks something that all need. */
const struct fm_profile_driver *fm_profile_driver(void);

/* --- record.c --- */

/* fm_tap_wanted() opens its file at first. */
struct fm_profile_wish {
	unsigned by; /* a bit for each source, in the order of FM_SOURCE_MAP */
	bool check;
	const char *sanitizer; /* path of its library; NULL: none was found */
	/* Launches are timed instead: on the whole device, and on so many multiprocessors each. */
	bool times;
	unsigned n_rooms, room[FM_PROFILE_ROOMS];
};
const struct fm_profile_wish *fm_profile_wish(void);
/* False: the file is full. */
bool fm_profile_put(enum fm_record_kind kind, const struct iovec *part, int n);
void fm_profile_count_launch(void);
void fm_profile_count_seen(uint64_t ns);
void fm_profile_unseen(enum fm_unseen why);
void fm_profile_count_module(int32_t error); /* of the Sanitizer; 0: it is instrumented */
void fm_profile_began(uint32_t by, int32_t sanitizer, const char *why);

/* --- kernels.c --- */

/* A function, by its handle. Never freed: there are as many as the program loads and launches. */
struct fm_profile_function {
	struct fm_profile_function *next;
	uintptr_t handle;
	CUfunction function; /* the same, as one of the current context; NULL: unknown */
	char image[FM_PROFILE_IMAGE];
	char *name;
	bool known;    /* all of it: image, name, parameters */
	bool together; /* its blocks may wait for each other; known where launches are timed */
	struct fm_tap_params params;
	CUdeviceptr marks; /* where the module's word of its table is (marks.h); 0: it has none */
	struct fm_profile_times *times;
};
/* How often the kernel of that name and image was looked at, and with which numbers: one for all of
 * its functions. */
struct fm_profile_times {
	struct fm_profile_times *next;
	const struct fm_profile_function *of;
	unsigned n;
	bool slow; /* it has not ended in time */
	struct {
		uint64_t key;
		unsigned n;
	} with[FM_PROFILE_KEYS];
};
/* Under `looking' alone. NULL: no memory. */
struct fm_profile_function *fm_profile_function(CUfunction f);

/* The driver has loaded this image, and given that handle; or handed out one that belongs to
 * another. Images without a size have it in their headers. */
void fm_profile_loaded(void *handle, const void *image, CUdeviceptr marks);
void fm_profile_loaded_file(void *handle, const char *path);
void fm_profile_belongs(void *handle, void *to);
void fm_profile_unloaded(void *handle);

/* Tensor maps. */
struct fm_profile_map {
	uint64_t at, bytes; /* the address in it, and how far its box reaches; 0: not known */
};
/* rank 0: its sizes do not say how far it reaches. */
void fm_profile_map_made(const void *map, unsigned type, unsigned rank, uint64_t at,
	const uint64_t *dim, const uint64_t *stride);
void fm_profile_map_moved(const void *map, uint64_t at, uint64_t bytes);
bool fm_profile_map_find(const void *map, struct fm_profile_map *out);

/* --- context.c --- */

struct fm_profile_context {
	CUcontext ctx;
	CUdevice dev;
	unsigned lost;            /* tables that a launch may still write to */
	CUdeviceptr table;        /* struct fm_touched, with FM_PROFILE_TABLE_CELLS */
	struct fm_touched *host;  /* the same on the host */
	CUdeviceptr digests;      /* FM_PROFILE_PIECES of them, */
	struct fm_digest *digest; /* and twice as many on the host: before and after */
	CUfunction hash;
	unsigned char *copy; /* FM_PROFILE_COPY bytes, twice */
};
/* Of the current context. NULL: there is none, or the driver refuses. */
struct fm_profile_context *fm_profile_context(const struct fm_profile_driver *cu);
/* The program is about to end that context or, if `dev` is no NULL, the primary one of that device;
 * what is known of others there is forgotten, too. So it is in all files. Under `looking'. */
void fm_profile_context_forget(CUcontext ctx, const CUdevice *dev);
/* What hashing needs. */
bool fm_profile_context_hashes(const struct fm_profile_driver *cu, struct fm_profile_context *c);
bool fm_profile_context_marks(const struct fm_profile_driver *cu, struct fm_profile_context *c);

/* --- around our own calls --- */

/* A capture elsewhere in the program must not forbid them. */
static inline int fm_profile_enter(const struct fm_profile_driver *cu)
{
	int mode = FM_CU_CAPTURE_MODE_RELAXED;

	fm_tap_inside++;
	cu->capture_mode(&mode);
	return mode;
}

static inline void fm_profile_leave(const struct fm_profile_driver *cu, int mode)
{
	cu->capture_mode(&mode);
	fm_tap_inside--;
}

/* --- launch.c --- */

struct fm_profile_launching {
	CUfunction f;
	uint32_t grid[3], block[3], shared;
	bool cooperative;
	CUstream stream; /* as the driver's other calls name it */
	void *const *params, *const *extra;
};
/* In front of the driver's call and behind it, if the first said so. */
struct fm_profile_look;
struct fm_profile_look *fm_profile_before(const struct fm_profile_launching *l);
void fm_profile_after(struct fm_profile_look *look, fm_cu_result rc);
void fm_profile_look_context_ends(CUcontext ctx, const CUdevice *dev);

/* --- graphs.c: kernels in graphs --- */

/* An executable graph was made of that graph, or updated to it. */
void fm_profile_graph_made(CUgraphExec exec, CUgraph graph);
/* It ends, or is changed otherwise. */
void fm_profile_graph_gone(CUgraphExec exec);
void fm_profile_graph_context_ends(CUcontext ctx, const CUdevice *dev);
/* Launches it node by node, each kernel with a look at it. False: nothing was launched, and it is
 * to be launched as it is. */
bool fm_profile_graph_launch(CUgraphExec exec, CUstream stream, fm_cu_result *rc);

/* --- rooms.c --- */

/* The same where launches are timed. The launch goes to the stream that it says; if the driver
 * refuses it there, to the program's. */
struct fm_profile_timing {
	CUstream stream;
	bool moved; /* that is not the program's */
};
struct fm_profile_timing *fm_profile_time_before(const struct fm_profile_launching *l);
void fm_profile_time_after(struct fm_profile_timing *t, fm_cu_result rc);
/* The launch was made in the program's stream after all. */
void fm_profile_time_stays(struct fm_profile_timing *t);
/* A graph is launched there, which is not timed. */
void fm_profile_time_graph(CUstream stream);
/* The program is about to end a stream. */
void fm_profile_time_stream_ends(CUstream stream);
void fm_profile_time_context_ends(CUcontext ctx, const CUdevice *dev);
enum fm_rooms_why fm_profile_rooms_why(void);

/* --- hash.c --- */

/* What is in the regions of the table: into the first or the second half. 0 or -EIO. */
int fm_profile_hash(const struct fm_profile_driver *cu, struct fm_profile_context *c,
	CUstream stream, bool after);
/* When the stream has passed both: each piece that differs, rising. */
typedef void fm_profile_changed(void *arg, uint64_t at, uint64_t bytes);
/* True: by the byte. */
bool fm_profile_changes(const struct fm_profile_context *c, fm_profile_changed *changed, void *arg);

/* --- sanitizer.c --- */

/* Before the driver is initialized. */
void fm_profile_sanitizer_start(const char *path);
bool fm_profile_sanitizer_works(void);
/* What this thread loads is ours, and stays as it is. */
void fm_profile_sanitizer_ours(bool yes);
/* Launches of the function mark that table from now on; 0: none. */
bool fm_profile_sanitizer_table(struct fm_profile_context *c, CUfunction f, CUdeviceptr table);
