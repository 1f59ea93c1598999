/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `libfermata-record.so': preloaded by `fermata-lab idempotence record', it writes down what the
 * program's streams do: each kernel, copy, fill, event, host function and free, with the bytes that
 * it reads and writes (docs/idempotence.md). It stands in front of the calls of api/cuda/calls.def
 * that give a stream work, and of those that load code. Kernels that come as PTX are given marks
 * (code/cuda/pass/marks.h); each launch has its table cleared in front of it and read behind it,
 * and the caller waits for that. What cannot be seen exactly counts as touching all memory, and
 * never runs again. So does what is not recorded, wherever it could be told from nothing.
 *
 * Nothing here prints, ends the program or changes what it computes.
 *
 * For `idempotence try' it also cuts launches off and runs them again (again.c).
 *
 * Owns: the trace, what is known of memory and streams (trace.c); what is known of code (code.c);
 * the table of marks (launch.c).
 *
 * Locks: `looking' (launch.c), held while a kernel runs whose marks are read, and while it is
 * tried; `lock' of code.c, that of again.c, and `the.lock' of trace.c, for a moment, under the
 * first.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include "api/cuda/core/types.h"
#include "api/cuda/tap/tap.h"
#include "code/cuda/image.h"
#include "code/cuda/pass/nature.h"
#include "device/accessed.h"
#include "tune.h"
#include <stdatomic.h>

#define FM_RECORD_DIR "FERMATA_IDEMPOTENCE" /* the folder of traces */

/* --- hook.c: the driver's functions --- */

/* X(name here, symbol, parameters) */
/* clang-format off */
#define FM_RECORD_DRIVER(X) \
	X(current, "cuCtxGetCurrent", (CUcontext *ctx)) \
	X(device, "cuCtxGetDevice", (CUdevice *dev)) \
	X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice dev)) \
	X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr *d, size_t size)) \
	X(mem_free, "cuMemFree_v2", (CUdeviceptr d)) \
	X(host_alloc, "cuMemHostAlloc", (void **p, size_t size, unsigned flags)) \
	X(host_free, "cuMemFreeHost", (void *p)) \
	X(to_device, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t size, CUstream stream)) \
	X(to_host, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t size, CUstream stream)) \
	X(fill, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t n, CUstream stream)) \
	X(fill_16, "cuMemsetD16Async", (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
	X(fill_8, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t n, CUstream stream)) \
	X(copy, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)) \
	X(launch, "cuLaunchKernel", (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)) \
	X(module_load, "cuModuleLoadData", (CUmodule *module, const void *image)) \
	X(module_function, "cuModuleGetFunction", (CUfunction *f, CUmodule module, const char *name)) \
	X(func_set, "cuFuncSetAttribute", (CUfunction f, int attribute, int value)) \
	X(capturing, "cuStreamIsCapturing", (CUstream stream, int *status)) \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode)) \
	X(query, "cuStreamQuery", (CUstream stream)) \
	X(module_global, "cuModuleGetGlobal_v2", (CUdeviceptr *at, size_t *size, CUmodule module, const char *name)) \
	X(library_global, "cuLibraryGetGlobal", (CUdeviceptr *at, size_t *size, CUlibrary library, const char *name)) \
	X(func_module, "cuFuncGetModule", (CUmodule *module, CUfunction f)) \
	X(func_name, "cuFuncGetName", (const char **name, CUfunction f)) \
	X(func_param, "cuFuncGetParamInfo", (CUfunction f, size_t i, size_t *at, size_t *size)) \
	X(kernel_library, "cuKernelGetLibrary", (CUlibrary *library, CUkernel k)) \
	X(kernel_name, "cuKernelGetName", (const char **name, CUkernel k)) \
	X(kernel_param, "cuKernelGetParamInfo", (CUkernel k, size_t i, size_t *at, size_t *size)) \
	X(pointer, "cuPointerGetAttribute", (void *data, int attribute, CUdeviceptr p)) \
	X(primary_state, "cuDevicePrimaryCtxGetState", (CUdevice dev, unsigned *flags, int *active))
/* clang-format on */

/* The driver's own functions; one that it lacks is NULL. */
struct fm_record_driver {
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	FM_RECORD_DRIVER(MEMBER)
#undef MEMBER
};
/* NULL: there is no driver, or it lacks something that all need. */
const struct fm_record_driver *fm_record_driver(void);

/* Around our own calls: a capture elsewhere in the program must not forbid them. NULL: nothing is
 * to be recorded. */
const struct fm_record_driver *fm_record_enter(int *mode);
void fm_record_leave(int mode);
/* 1: what the stream is given is captured; 0: it is not; -1: the driver does not tell. */
int fm_record_captures(const struct fm_record_driver *cu, CUstream stream);

/* --- trace.c --- */

/* Of a stream of the current context, as the program names it in a call whose NULL stream is the
 * thread's own, or not. */
CUstream fm_record_stream(CUstream given, bool per_thread);

struct fm_record_span {
	uint64_t at, size;
};
/* Memory that the program has. */
void fm_record_allocated(uint64_t at, uint64_t size, bool visible);
/* Only the device has memory at that address, as the driver says. */
bool fm_record_is_private(CUdeviceptr at);
void fm_record_freed(uint64_t at, CUstream stream);
/* Those of a context that ends, or (NULL) all. */
void fm_record_forget_memory(CUcontext ctx);
/* From now on other processes may read and write the program's memory. */
void fm_record_exported(void);
/* The allocation at that address. */
bool fm_record_find(uint64_t at, struct fm_record_span *whole);

/* An operation without bytes. */
void fm_record_plain(const char *kind, CUstream stream);
/* One that touches nobody knows what. */
void fm_record_unknown(CUstream stream);
void fm_record_graph(CUstream stream);
#define FM_RECORD_NO_OP UINT64_MAX
/* Parts of rows may be left out, so what is written there is not known to be first. Its number in
 * the trace; NO_OP: it is no fill or copy of memory that is known. */
uint64_t fm_record_fill(CUstream stream, struct fm_record_span to, bool rows);
uint64_t fm_record_copy(CUstream stream, struct fm_record_span to, struct fm_record_span from);
/* The number of the next operation, if nothing comes between. */
uint64_t fm_record_next_op(void);

/* Why a kernel was not seen; the command counts them. */
enum fm_record_unseen {
#define FM_RECORD_UNSEEN_MAP(X)           \
	X(FM_RECORD_SEEN, "")             \
	X(FM_RECORD_MACHINE, "machine")   \
	X(FM_RECORD_STRANGE, "strange")   \
	X(FM_RECORD_PARAMS, "parameters") \
	X(FM_RECORD_OUTSIDE, "outside")   \
	X(FM_RECORD_LARGE, "large")       \
	X(FM_RECORD_SLOW, "slow")         \
	X(FM_RECORD_FAILED, "failed")
#define FM_RECORD_UNSEEN_ID(id, name) id,
	FM_RECORD_UNSEEN_MAP(FM_RECORD_UNSEEN_ID)
#undef FM_RECORD_UNSEEN_ID
};
struct fm_record_kernel {
	const char *name, *hash;
	uint32_t grid[3], block[3], shared;
	const unsigned char *params;
	unsigned bytes;
	const struct fm_accessed *seen; /* if why is SEEN */
	enum fm_record_unseen why;
	unsigned nature; /* code/cuda/pass/nature.h */
	CUstream stream;
};
/* Its number, or NO_OP; seen: what it touched is in the trace. */
uint64_t fm_record_put_kernel(const struct fm_record_kernel *k, bool *seen);

/* --- code.c --- */

/* A function, by its handle. Never freed: there are as many as the program launches. */
struct fm_record_function {
	char *name;
	char hash[33];   /* of its image; or "" */
	unsigned nature; /* fm_nature */
	bool known;      /* its parameters */
	struct fm_tap_params params;
	const void *code; /* NULL: it has no marks */
};
/* NULL: no memory. Under `looking'. */
const struct fm_record_function *fm_record_function(
	const struct fm_record_driver *cu, CUfunction f);
/* Its image with guardians; NULL: there is none. */
const struct fm_image *fm_record_guarded(const struct fm_record_function *k);
/* Where its module's word of the table is in this context; 0: it has none. */
CUdeviceptr fm_record_word(const struct fm_record_driver *cu, const struct fm_record_function *k);

/* The text with marks in it, to be loaded instead of the program's image. */
struct fm_record_marked {
	char *text; /* NULL: there is none */
	struct fm_natures natures;
	struct fm_image guarded; /* the program's text with guardians, where a list is tried */
};
void fm_record_mark(const void *image, struct fm_record_marked *out);
void fm_record_mark_free(struct fm_record_marked *m);
/* The driver has loaded this image, or that text of ours in its place; NULL: not that. */
void fm_record_loaded(
	void *handle, const void *image, struct fm_record_marked *marked, bool library);
void fm_record_belongs(void *handle, void *to);
void fm_record_unloaded(void *handle);
void *fm_record_file(const char *path); /* its contents; to be freed */

/* --- launch.c --- */

struct fm_record_launch {
	CUfunction f;
	uint32_t grid[3], block[3], shared;
	CUstream stream;
	void *const *params, *const *extra;
	bool overlaps; /* it may begin before what is in front of it has ended */
	bool special;  /* it is not launched with these alone */
};
struct fm_record_look;
/* In front of the driver's call; behind it, if it gave something. */
struct fm_record_look *fm_record_before(const struct fm_record_launch *l);
void fm_record_after(struct fm_record_look *look, fm_cu_result rc);
/* Around a launch of nobody knows which kernels: no other one is looked at meanwhile. True: it is
 * to be ended. others: in other streams, too, which are not waited for: none is looked at again. */
bool fm_record_alone(void);
void fm_record_alone_end(CUstream stream, bool others, fm_cu_result rc);
void fm_record_alone_over(void); /* the same, of what is no launch */
/* That context ends, or (NULL) one of which only the device is known. Between those two. */
void fm_record_forget(CUcontext ctx);
/* Waits until the stream has done all; under `looking'. 0; -ETIMEDOUT: nothing is looked at any
 * more; -EIO. */
int fm_record_wait(const struct fm_record_driver *cu, CUstream stream);

/* --- again.c: is a list right? --- */

/*
 * A plan (FERMATA_IDEMPOTENCE_PLAN) has a line "K START b" for each launch that is to be tried: K
 * is the number of its operation, START that from which it runs again; b: any of its blocks may run
 * again; w: only all of them. Some of its blocks run on memory as it was in front of the launch, by
 * a copy of the kernel that has a guardian; then it runs again, and memory must be as the launch
 * had left it. The results (in the folder of traces) have a line "K 1" if it was, "K 0" if not, and
 * "K -" if it could not be tried.
 *
 * What is put back and compared are the bytes that the launch and those in front of it have written
 * by their marks.
 */
bool fm_record_tries(void);
/* element: its bytes; 0: it cannot run again. */
void fm_record_again_fill(
	uint64_t op, CUstream stream, struct fm_record_span to, uint64_t value, unsigned element);
void fm_record_again_copy(uint64_t op, CUstream stream, struct fm_record_span to, uint64_t from);
/* A launch that is seen: in front of it; behind it. All under `looking'. */
struct fm_record_tried {
	const struct fm_record_driver *cu;
	const struct fm_record_function *k;
	CUcontext ctx;
	const struct fm_record_launch *launch; /* its params and extra are not looked at */
	const unsigned char *params;
	const struct fm_accessed_region *region;
	unsigned n;
	const struct fm_accessed *seen; /* behind it; NULL: it was not seen */
};
void fm_record_again_before(const struct fm_record_tried *t);
void fm_record_again_behind(const struct fm_record_tried *t, uint64_t op);
/* Modules and addresses of that context, or (NULL) of all, are gone. */
void fm_record_again_forget(CUcontext ctx);
void fm_record_again_fork_child(void);
