/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the fake CUDA driver itself. Each case runs in a process of its own, which has
 * called the driver for nothing yet: it may lose the device, or be ended by the driver.
 */
#pragma once
#define CU_EXPORT extern
#include "../../cuda.h"
#include "../../fakes/cuda/fake_cuda.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern fake_cuda_fail_fn fake_cuda_fail;
extern fake_cuda_counted_fn fake_cuda_counted;
extern fake_cuda_at_fn fake_cuda_at;
extern fake_cuda_engine_fn fake_cuda_engine;

#define MIB   ((size_t)1 << 20)
#define CHUNK (2 * MIB)

extern const char fake_ptx[];
__asm__(".section .rodata\n"
	".type fake_ptx, @object\n"
	"fake_ptx: .incbin \"" CUDA_PTX "\"\n"
	".byte 0\n"
	".size fake_ptx, . - fake_ptx\n"
	".previous");

/* In a process of a case, which has no frame of cmocka's to go back to. */
#define EXPECT(wanted, call)                                                                 \
	do {                                                                                 \
		long long got_ = (long long)(call), wanted_ = (long long)(wanted);           \
		if (got_ != wanted_) {                                                       \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, \
				#call, got_, wanted_);                                       \
			_exit(1);                                                            \
		}                                                                            \
	} while (0)
#define OK(call) EXPECT(0, call)

static struct {
	CUcontext ctx;
	CUmodule module;
	CUstream s;
} w;

static inline void world_open(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&w.ctx, 0));
	OK(cuCtxSetCurrent(w.ctx));
	OK(cuModuleLoadData(&w.module, fake_ptx));
	OK(cuStreamCreate(&w.s, CU_STREAM_NON_BLOCKING));
}

static inline CUfunction world_kernel(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, w.module, name));
	return f;
}

static inline void world_launch(const char *name, unsigned grid, CUstream s, void **params)
{
	OK(cuLaunchKernel(world_kernel(name), grid, 1, 1, 128, 1, 1, 0, s, params, NULL));
}

/* x[i] = value + i */
static inline void world_fill(CUdeviceptr x, uint32_t n, uint32_t value)
{
	world_launch("fill", 4, w.s, (void *[]){&x, &n, &value});
}

/* Its status as of waitpid(); words: NULL, or where what it said goes. */
static inline int world_child(void (*run)(void), char *words, size_t size)
{
	int status, out[2];
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (words)
			dup2(out[1], 2);
		close(out[0]);
		close(out[1]);
		alarm(120);
		run();
		_exit(0);
	}
	close(out[1]);
	while (words && got < size - 1 && (n = read(out[0], words + got, size - 1 - got)) > 0)
		got += (size_t)n;
	if (words)
		words[got] = 0;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void world_passes(void (*run)(void))
{
	assert_int_equal(world_child(run, NULL, 0), 0);
}

/* The driver ends the process, and says this among other words. */
static inline void world_dies(void (*run)(void), const char *says)
{
	char words[4096];
	int status = world_child(run, words, sizeof(words));

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(words, says))
		fail_msg("it ended with %#x and said: %s", (unsigned)status, words);
}

#define CASE(name)                            \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		world_passes(name);           \
	}

/* --- virtual memory --- */

static inline struct cu_chunk_prop world_prop(int type)
{
	return (struct cu_chunk_prop){.type = CU_CHUNK_PINNED,
		.handles = type == CU_LOCATION_HOST ? 0 : CU_HANDLE_FD,
		.location = {.type = type}};
}

static inline cu_chunk world_chunk(int type, size_t size)
{
	struct cu_chunk_prop prop = world_prop(type);
	cu_chunk c;

	OK(cuMemCreate(&c, size, &prop, 0));
	return c;
}

static inline CUdeviceptr world_range(size_t size)
{
	CUdeviceptr at;

	OK(cuMemAddressReserve(&at, size, 0, 0, 0));
	return at;
}

static inline void world_map(CUdeviceptr at, size_t size, cu_chunk c)
{
	struct cu_access access = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};

	OK(cuMemMap(at, size, 0, c, 0));
	OK(cuMemSetAccess(at, size, &access, 1));
}

static inline uint32_t world_word(CUdeviceptr at)
{
	uint32_t v;

	OK(cuMemcpyDtoHAsync_v2(&v, at, sizeof(v), w.s));
	OK(cuStreamSynchronize(w.s));
	return v;
}
