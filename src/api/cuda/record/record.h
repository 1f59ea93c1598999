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
 * Owns: the trace, what is known of memory and streams (trace.c); what is known of code (code.c);
 * the table of marks (launch.c).
 *
 * Locks: `looking' (launch.c), held while a kernel runs whose marks are read; `lock' of code.c and
 * `the.lock' of trace.c, for a moment, the second under the first.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include "api/cuda/core/types.h"
#include "api/cuda/tap/tap.h"
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
/* Parts of rows may be left out, so what is written there is not known to be first. */
void fm_record_fill(CUstream stream, struct fm_record_span to, bool rows);
void fm_record_copy(CUstream stream, struct fm_record_span to, struct fm_record_span from);

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
void fm_record_put_kernel(const struct fm_record_kernel *k);

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
/* Where its module's word of the table is in this context; 0: it has none. */
CUdeviceptr fm_record_word(const struct fm_record_driver *cu, const struct fm_record_function *k);

/* The text with marks in it, to be loaded instead of the program's image. */
struct fm_record_marked {
	char *text; /* NULL: there is none */
	struct fm_natures natures;
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
