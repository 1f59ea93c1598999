/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probes of device memory share: the driver, found at run time (a call that it lacks is
 * NULL), chunks of memory, a gate, a thread that may stand inside the driver, and a series of cases
 * of which each may hang or lose the device.
 */
#pragma once
#include "cuda.h"
#include <stdatomic.h>
#include <stdio.h>

#define MiB (1ull << 20)
#define GiB (1ull << 30)

typedef unsigned long long handle; /* CUmemGenericAllocationHandle */
typedef unsigned long long texture;

enum { ON_DEVICE = 1, ON_HOST = 3 }; /* CUmemLocationType: HOST_NUMA */
struct chunk_prop {                  /* CUmemAllocationProp */
	int type, handle_types;      /* type 1: pinned */
	struct cu_location where;
	void *windows;
	struct {
		unsigned char compression, rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};
struct chunk_access { /* CUmemAccessDesc; flags 3: read and write */
	struct cu_location where;
	int flags;
};

struct texture_source { /* CUDA_RESOURCE_DESC of linear memory: type 2; pitch2D: type 3 */
	int type, pad;
	union {
		struct {
			CUdeviceptr at;
			int format;
			unsigned channels;
			size_t size;
		} linear;
		struct {
			CUdeviceptr at;
			int format;
			unsigned channels;
			size_t width, height, pitch;
		} plane;
		int room[32];
	};
	unsigned flags;
};
struct texture_how { /* CUDA_TEXTURE_DESC */
	int address[3], filter;
	unsigned flags, anisotropy;
	int mip_filter;
	float bias, least, most, border[4];
	int reserved[12];
};

/* clang-format off */
/* Those that tests/cuda.h does not have. */
#define MEMORY_CALLS(X) \
	X(cuMemAddressReserve, (CUdeviceptr *p, size_t size, size_t align, CUdeviceptr at, unsigned long long flags)) \
	X(cuMemAddressFree, (CUdeviceptr p, size_t size)) \
	X(cuMemCreate, (handle *h, size_t size, const struct chunk_prop *prop, unsigned long long flags)) \
	X(cuMemRelease, (handle h)) \
	X(cuMemMap, (CUdeviceptr p, size_t size, size_t offset, handle h, unsigned long long flags)) \
	X(cuMemUnmap, (CUdeviceptr p, size_t size)) \
	X(cuMemSetAccess, (CUdeviceptr p, size_t size, const struct chunk_access *access, size_t n)) \
	X(cuMemGetAccess, (unsigned long long *flags, const struct cu_location *where, CUdeviceptr p)) \
	X(cuMemRetainAllocationHandle, (handle *h, void *p)) \
	X(cuMemGetHandleForAddressRange, (void *fd, CUdeviceptr p, size_t size, int type, unsigned long long flags)) \
	X(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *size, CUdeviceptr p)) \
	X(cuPointerGetAttributes, (unsigned n, int *which, void **values, CUdeviceptr p)) \
	X(cuPointerSetAttribute, (const void *value, int which, CUdeviceptr p)) \
	X(cuIpcGetMemHandle, (void *out, CUdeviceptr p)) \
	X(cuMemsetD16Async, (CUdeviceptr p, unsigned short v, size_t n, CUstream s)) \
	X(cuMemsetD2D8Async, (CUdeviceptr p, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s)) \
	X(cuMemsetD2D32_v2, (CUdeviceptr p, size_t pitch, unsigned v, size_t width, size_t height)) \
	X(cuTexObjectCreate, (texture *t, const struct texture_source *from, const struct texture_how *how, const void *view)) \
	X(cuTexObjectDestroy, (texture t)) \
	X(cuTensorMapEncodeTiled, (void *map, int type, uint32_t rank, void *at, const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)) \
	X(cuCtxSetLimit, (int limit, size_t value))
/* clang-format on */

#define GPU_MEMBER(symbol, base, since, params)                 fm_cu_result(*symbol) params;
#define GPU_MEMBER_P(symbol, base, since, suffix, params, args) fm_cu_result(*symbol) params;
#define GPU_MEMBER_M(symbol, params)                            fm_cu_result(*symbol) params;
struct calls {
	CUDA_API(GPU_MEMBER, GPU_MEMBER_P)
};
struct memory_calls {
	MEMORY_CALLS(GPU_MEMBER_M)
};
extern struct calls cu;
extern struct memory_calls vm;

/* The environment of a process that has the device. */
extern struct gpu {
	CUdevice dev;
	CUcontext ctx;
	CUmodule kernels; /* those of tests/integration/cuda */
	CUfunction mix, spin;
	CUmodule textures; /* NULL: this driver has none */
	CUfunction through_texture;
	int numa;
} gpu;

/* Ends with status 77 where there is no device, or no driver with chunks. `lazy`: code is loaded at
 * first use. */
void gpu_open(bool lazy);
void gpu_find(void);                   /* the calls alone */
CUmodule gpu_module(const char *path); /* of a cubin beside the program, or PTX */
CUfunction gpu_function(CUmodule m, const char *name);

_Noreturn void gpu_fail(const char *call, int rc, const char *file, int line);
#define CK(call)                                                  \
	do {                                                      \
		int rc_ = (call);                                 \
		if (rc_)                                          \
			gpu_fail(#call, rc_, __FILE__, __LINE__); \
	} while (0)
const char *gpu_error(int rc); /* its name without CUDA_ERROR_; "ok"; "absent" */
enum { ABSENT = -1 };

double now_us(void);
void wait_us(double us);
double part_of(double *v, int n, double p); /* sorts */

CUstream gpu_stream(void); /* one that does not wait for the default stream */
CUdeviceptr gpu_reserve(size_t size, size_t align);
int chunk_new(handle *h, int where, size_t size);
int chunk_map(CUdeviceptr at, size_t size, handle h); /* and gives access */
int chunk_access(CUdeviceptr at, size_t size);
void *host_pinned(size_t size);
/* A memory file of huge pages where there are some, touched by several threads, registered. */
void *host_registered(size_t size);

/* A word that streams wait for: memory of the host, as the product's gates. */
struct gate {
	_Atomic uint32_t *word;
	CUdeviceptr at;
};
struct gate gate_new(void);
int gate_close(struct gate *g, CUstream s); /* and lets the stream wait there */
void gate_open(struct gate *g);

/* By which bounds are multiplied, where the machine has much else to do: GPU_PATIENCE. */
double gpu_patience(void);

/* A thread with the context of its own, for a call that may not return. One of each number. */
void helper_start(int which, void (*fn)(void *), void *arg);
bool helper_done(int which, double us); /* waits that long */
double helper_took(int which);          /* us; after it is done */

/* What came of a case. */
struct outcome {
	enum { NOT_RUN, RIGHT, WRONG, LOST, HUNG, MISSING, NOTED } is;
	int rc, after; /* of the call; of what came after it */
	int signal;    /* that killed the process */
	double us[4];
	char text[120];
};
extern const char *const outcome_names[];
struct series {
	const char *probe;
	int n;
	void (*name)(int i, char *out, size_t size);
	void (*begin)(void);
	void (*one)(int i, struct outcome *o);
	double case_s, all_s; /* at most */
};
/* Runs the cases, in a process that is begun anew when a case hangs or loses the device. NULL: no
 * device. */
struct outcome *series_run(const struct series *s);
enum { SERIES_HUNG = 4 }; /* a case ends its process with this where it hangs */
/* The context works: a copy and a kernel. */
int gpu_health(void);

int probe_flips(int argc, char **argv);
int probe_holes(int argc, char **argv);
int probe_returns(int argc, char **argv);
int probe_locks(int argc, char **argv);
int probe_rounds(int argc, char **argv);
int probe_pools(int argc, char **argv);
int probe_slowed(int argc, char **argv);
int touch_host(int argc, char **argv);
int probe_gates(int argc, char **argv);
