/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's driver, found at run time; what does not succeed ends the program and says where. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st *stream;
typedef struct CUevent_st *event;
typedef unsigned long long device_ptr;

struct launch_attribute {
	int id;
	char pad[4];
	union {
		char bytes[64];
		unsigned dim[3];
		int on;
	} value;
};
enum { LAUNCH_COOPERATIVE = 2, LAUNCH_CLUSTER = 4, LAUNCH_OVERLAPS = 6 };

struct launch_config {
	unsigned grid[3], block[3], shared;
	stream s;
	struct launch_attribute *attrs;
	unsigned n_attrs;
};

#define DRIVER(X)                                                                              \
	X(cuInit, (unsigned))                                                                  \
	X(cuGetErrorName, (int, const char **))                                                \
	X(cuGetErrorString, (int, const char **))                                              \
	X(cuDriverGetVersion, (int *))                                                         \
	X(cuDeviceGet, (int *, int))                                                           \
	X(cuDeviceGetName, (char *, int, int))                                                 \
	X(cuDeviceGetAttribute, (int *, int, int))                                             \
	X(cuDevicePrimaryCtxRetain, (void **, int))                                            \
	X(cuCtxSetCurrent, (void *))                                                           \
	X(cuCtxGetStreamPriorityRange, (int *, int *))                                         \
	X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))               \
	X(cuModuleGetFunctionCount, (unsigned *, void *))                                      \
	X(cuModuleEnumerateFunctions, (void **, unsigned, void *))                             \
	X(cuModuleGetFunction, (void **, void *, const char *))                                \
	X(cuModuleGetGlobal_v2, (device_ptr *, size_t *, void *, const char *))                \
	X(cuModuleUnload, (void *))                                                            \
	X(cuFuncLoad, (void *))                                                                \
	X(cuFuncGetName, (const char **, void *))                                              \
	X(cuFuncGetParamInfo, (void *, size_t, size_t *, size_t *))                            \
	X(cuFuncGetAttribute, (int *, int, void *))                                            \
	X(cuFuncSetAttribute, (void *, int, int))                                              \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))           \
	X(cuMemAlloc_v2, (device_ptr *, size_t))                                               \
	X(cuMemFree_v2, (device_ptr))                                                          \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                                         \
	X(cuMemHostGetDevicePointer_v2, (device_ptr *, void *, unsigned))                      \
	X(cuMemcpyHtoD_v2, (device_ptr, const void *, size_t))                                 \
	X(cuMemcpyDtoH_v2, (void *, device_ptr, size_t))                                       \
	X(cuMemcpyDtoHAsync_v2, (void *, device_ptr, size_t, stream))                          \
	X(cuMemsetD8_v2, (device_ptr, unsigned char, size_t))                                  \
	X(cuMemsetD32Async, (device_ptr, unsigned, size_t, stream))                            \
	X(cuStreamCreateWithPriority, (stream *, unsigned, int))                               \
	X(cuStreamSynchronize, (stream))                                                       \
	X(cuStreamWriteValue32_v2, (stream, device_ptr, uint32_t, unsigned))                   \
	X(cuStreamWaitValue32_v2, (stream, device_ptr, uint32_t, unsigned))                    \
	X(cuEventCreate, (event *, unsigned))                                                  \
	X(cuEventRecord, (event, stream))                                                      \
	X(cuEventElapsedTime, (float *, event, event))                                         \
	X(cuCtxSynchronize, (void))                                                            \
	X(cuTensorMapEncodeTiled,                                                              \
		(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,            \
			const uint32_t *, const uint32_t *, int, int, int, int))               \
	X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
				  unsigned, stream, void **, void **))                         \
	X(cuLaunchKernelEx, (const struct launch_config *, void *, void **, void **))

struct driver {
#define MEMBER(name, params) int(*name) params;
	DRIVER(MEMBER)
#undef MEMBER
};
extern struct driver cu;

/* What the program is at, and for which case, for who looks at why it failed or hangs. */
extern const char *volatile doing;
extern char whose[64];

_Noreturn void fail(const char *form, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail_call(const char *call, int rc, const char *file, int line);
#define CU(call)                                                         \
	do {                                                             \
		int rc_ = cu.call;                                       \
		if (rc_)                                                 \
			fail_call("cu." #call, rc_, __FILE__, __LINE__); \
	} while (0)

struct device {
	int id, major, minor, multiprocessors, shared_most, khz;
	char name[128];
};
/* Ends with status 77 where there is no driver, or no device of compute capability 9.0. */
struct device open_device(void);

/* Loads an image, ELF or PTX; what the compiler or the loader says goes into the message. */
void *load_image(const char *what, const void *image);
/* The same, but NULL if the driver refuses it; `log` has its words. */
void *try_image(const void *image, char *log, size_t size, int *rc);

uint64_t now_ns(void);
void spin_until(uint64_t ns);
uint64_t dice(void);                        /* repeats from run to run */
double part_of(double *v, int n, double p); /* sorts */
/* The contents of a file and a zero behind; never NULL. */
void *file_contents(const char *path, size_t *size);
