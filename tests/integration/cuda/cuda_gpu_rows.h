/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that measure sets of tasks which decide on the device: kernels that note the
 * device's clock, and what makes tasks of them. */
#pragma once
#include "cuda_gpu_set.h"

#define LOG 8192u

static const char text[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .entry rows_chunk(.param .u64 log, .param .u64 flag, .param .u64 ns)\n{\n"
	".reg .pred %p<2>;\n.reg .b64 %rd<11>;\n"
	"mov.u64 %rd1, %globaltimer;\n"
	"ld.param.u64 %rd2, [log];\nld.param.u64 %rd3, [flag];\nld.param.u64 %rd4, [ns];\n"
	"atom.global.add.u64 %rd5, [%rd2], 1;\n"
	"add.s64 %rd6, %rd5, 1;\nst.volatile.global.u64 [%rd3], %rd6;\n"
	"and.b64 %rd5, %rd5, 8191;\nshl.b64 %rd7, %rd5, 4;\nadd.s64 %rd8, %rd2, %rd7;\n"
	"add.s64 %rd10, %rd1, %rd4;\n"
	"again:\nmov.u64 %rd9, %globaltimer;\nsetp.lt.u64 %p1, %rd9, %rd10;\n@%p1 bra again;\n"
	"st.global.u64 [%rd8+16], %rd1;\nst.global.u64 [%rd8+24], %rd9;\nret;\n}\n"
	".visible .entry rows_store(.param .u64 word, .param .u64 at)\n{\n.reg .b64 %rd<4>;\n"
	"ld.param.u64 %rd1, [word];\nld.param.u64 %rd2, [at];\n"
	"mov.u64 %rd3, %globaltimer;\nst.global.u64 [%rd2], %rd3;\n"
	"red.relaxed.sys.global.add.u64 [%rd1], 1;\nret;\n}\n"
	".visible .entry rows_toil(.param .u64 out, .param .u64 ns)\n{\n"
	".reg .pred %p<3>;\n.reg .b32 %r<5>;\n.reg .b64 %rd<7>;\n"
	"mov.u64 %rd1, %globaltimer;\n"
	"ld.param.u64 %rd2, [out];\nld.param.u64 %rd3, [ns];\nadd.s64 %rd3, %rd3, %rd1;\n"
	"again:\nmov.u64 %rd4, %globaltimer;\nsetp.lt.u64 %p1, %rd4, %rd3;\n@%p1 bra again;\n"
	"mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra done;\n"
	"mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %rd5, %r2, 4;\nadd.s64 %rd6, %rd2, %rd5;\n"
	"ld.global.u32 %r3, [%rd6];\nadd.s32 %r4, %r3, 1;\nst.global.u32 [%rd6], %r4;\n"
	"done:\nret;\n}\n";

static struct {
	CUfunction chunk, store, toil;
	CUdeviceptr log, at, flag_at;
	volatile uint64_t *flag; /* chunks that have begun */
	CUstream stream;
	struct {
		uint64_t n, unused, at[LOG][2];
	} read;
} m;

static int launch_chunk(struct CUstream_st *stream, uint64_t ns)
{
	void *params[] = {&m.log, &m.flag_at, &ns};

	return cuLaunchKernel(m.chunk, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

static inline int put_chunk(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	(void)chunk;
	return launch_chunk(stream, *(const uint64_t *)ctx);
}

/* The stream does not wait for it. */
static inline void forget_log(void)
{
	MUST(!cuMemsetD8_v2(m.log, 0, 16) && !cuCtxSynchronize());
	*m.flag = 0;
}

/* Each kernel runs once, so the driver loads nothing later. */
static void prepare(void)
{
	CUmodule module;
	void *host;

	begin();
	MUST(!cuModuleLoadData(&module, text));
	MUST(!cuModuleGetFunction(&m.chunk, module, "rows_chunk"));
	MUST(!cuModuleGetFunction(&m.store, module, "rows_store"));
	MUST(!cuModuleGetFunction(&m.toil, module, "rows_toil"));
	MUST(!cuMemAlloc_v2(&m.log, sizeof(m.read)) && !cuMemAlloc_v2(&m.at, 16));
	MUST(!cuMemsetD8_v2(m.log, 0, sizeof(m.read)));
	MUST(!cuMemHostAlloc(&host, 4096, 2) && !cuMemHostGetDevicePointer_v2(&m.flag_at, host, 0));
	m.flag = host;
	MUST(!cuStreamCreate(&m.stream, 1));
	MUST(!launch_chunk(m.stream, 0) && !cuStreamSynchronize(m.stream));
	forget_log();
}

static void read_log(void)
{
	MUST(!cuMemcpyDtoHAsync_v2(&m.read, m.log, sizeof(m.read), m.stream));
	MUST(!cuStreamSynchronize(m.stream));
}

static inline void print_row(const char *name, double *us, unsigned n)
{
	qsort(us, n, sizeof(*us), by_time);
	printf("row %s %.2f %.2f", name, us[n / 2], us[n * 99 / 100]);
}
