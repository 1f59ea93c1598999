/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses parts of its memory, one way or another, as it is told (cuda_job.h). Each use
 * of block N computes with its first word, and the program knows what is to come of it.
 *
 *   alloc MIB    one more block
 *   direct N     a kernel is given its address
 *   struct N     within a struct; and extra N: in a buffer of parameters
 *   copy N       a copy within it
 *   table N      a table of pointers with its address alone is copied to the device; and through N:
 *                a kernel is given that table, whatever is in it
 *   map N        a kernel is given a tensor map of it; im2col N: of that kind; packed N: of packed
 *                elements
 *   texture N    a texture is made of it, and stays
 *   graph N      a graph is made with a kernel that is given its address, and play N: is launched
 *   turn N       the kernel in that graph is given the address of N instead
 *   hide N       its address comes into device memory by fills alone, and hidden N: a kernel
 * follows it check 0      all blocks hold what they are to hold
 */
#include "base/util.h"
#include "cuda_job.h"

#define BLOCKS 32
#define MIB    ((size_t)1 << 20)

static const char ptx[] =
	".version 6.4\n.target sm_75\n.address_size 64\n"
	".visible .entry in_struct(.param .align 8 .b8 p[24])\n"
	"{\n.reg .pred %p;\n.reg .b32 %r<5>;\n.reg .b64 %rd<2>;\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nor.b32 %r1, %r1, %r2;\n"
	"setp.ne.u32 %p, %r1, 0;\n@%p bra E;\n"
	"ld.param.u32 %r3, [p+4];\nld.param.u64 %rd1, [p+8];\ncvta.to.global.u64 %rd1, %rd1;\n"
	"ld.global.u32 %r4, [%rd1];\nmad.lo.u32 %r4, %r4, 3, %r3;\nst.global.u32 [%rd1], %r4;\n"
	"E: ret;\n}\n"
	".visible .entry through_table(.param .u64 table, .param .u32 n, .param .u32 number)\n"
	"{\n.reg .pred %p;\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nor.b32 %r1, %r1, %r2;\n"
	"setp.ne.u32 %p, %r1, 0;\n@%p bra E;\n"
	"ld.param.u32 %r3, [number];\nld.param.u32 %r5, [n];\n"
	"ld.param.u64 %rd1, [table];\ncvta.to.global.u64 %rd1, %rd1;\n"
	"L: setp.eq.u32 %p, %r5, 0;\n@%p bra E;\n"
	"ld.global.u64 %rd2, [%rd1];\ncvta.to.global.u64 %rd2, %rd2;\n"
	"ld.global.u32 %r4, [%rd2];\nmad.lo.u32 %r4, %r4, 3, %r3;\nst.global.u32 [%rd2], %r4;\n"
	"add.u64 %rd1, %rd1, 8;\nsub.u32 %r5, %r5, 1;\nbra L;\n"
	"E: ret;\n}\n"
	/* The fake driver's, whose maps it can read. */
	".visible .entry through_map(.param .align 64 .b8 map[128], .param .u32 number)\n"
	"{\nret;\n}\n";

static struct {
	CUdeviceptr at[BLOCKS];
	uint32_t word[BLOCKS]; /* that it begins with */
	int n;
	CUfunction in_struct, through_table, through_map;
	CUdeviceptr table, hidden;
	int in_table, in_hidden, in_graph;
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	uint32_t number;
} is;

struct within { /* as in_struct has it */
	uint32_t before, number;
	CUdeviceptr x;
	uint64_t behind;
};

static void ready(void)
{
	CUmodule module;

	if (is.in_struct)
		return;
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&is.in_struct, module, "in_struct"));
	CU(cuModuleGetFunction(&is.through_table, module, "through_table"));
	CU(cuModuleGetFunction(&is.through_map, module, "through_map"));
	CU(cuMemAlloc_v2(&is.table, 4096));
	CU(cuMemAlloc_v2(&is.hidden, 4096));
}

/* The next number to be computed with, into that block. */
static uint32_t next(int n)
{
	is.number = is.number * 1664525u + 1013904223u;
	is.word[n] = is.word[n] * 3 + is.number;
	return is.number;
}

static void do_alloc(struct job *j, int mib)
{
	(void)j;
	if (is.n == BLOCKS)
		die("too many blocks");
	ready();
	CU(cuMemAlloc_v2(&is.at[is.n], (size_t)mib * MIB));
	CU(cuMemsetD32_v2(is.at[is.n], 7, (size_t)mib * MIB / 4));
	is.word[is.n++] = 7;
}

static void do_direct(struct job *j, int n)
{
	uint32_t words = 1024, value = is.number + 5;

	is.word[n] = value;
	launch(j->c.fill, 1, 128, j->s, (void *[]){&is.at[n], &words, &value});
}

static void do_struct(struct job *j, int n)
{
	struct within w = {.number = next(n), .x = is.at[n]};

	launch(is.in_struct, 1, 1, j->s, (void *[]){&w});
}

static void do_extra(struct job *j, int n)
{
	struct within w = {.number = next(n), .x = is.at[n]};
	size_t size = sizeof(w);
	void *extra[] = {(void *)1, &w, (void *)2, &size, NULL};

	CU(cuLaunchKernel(is.in_struct, 1, 1, 1, 1, 1, 1, 0, j->s, NULL, extra));
}

static void do_copy(struct job *j, int n)
{
	CU(cuMemcpyDtoDAsync_v2(is.at[n] + 4096, is.at[n], 2048, j->s));
}

static void do_table(struct job *j, int n)
{
	uint64_t table[4] = {is.at[n]};

	(void)j;
	CU(cuMemcpyHtoD_v2(is.table, table, sizeof(table)));
	is.in_table = n;
}

static void follow(struct job *j, CUdeviceptr table, int n)
{
	uint32_t one = 1, number = next(n);

	launch(is.through_table, 1, 1, j->s, (void *[]){&table, &one, &number});
}

static void do_through(struct job *j, int n)
{
	(void)n;
	follow(j, is.table, is.in_table);
}

static void do_hide(struct job *j, int n)
{
	CU(cuMemsetD32Async(is.hidden, (unsigned)is.at[n], 1, j->s));
	CU(cuMemsetD32Async(is.hidden + 4, (unsigned)(is.at[n] >> 32), 1, j->s));
	is.in_hidden = n;
}

static void do_hidden(struct job *j, int n)
{
	(void)n;
	follow(j, is.hidden, is.in_hidden);
}

static void do_map(struct job *j, int n)
{
	static const uint64_t sizes[] = {256};
	static const unsigned box[] = {64}, steps[] = {1};
	struct cu_tensor_map map;
	uint32_t number = next(n);

	CU(cuTensorMapEncodeTiled(
		&map, 2, 1, (void *)(uintptr_t)is.at[n], sizes, NULL, box, steps, 0, 0, 0, 0));
	launch(is.through_map, 1, 1, j->s, (void *[]){&map, &number});
}

/* Of 2 * 3 * 4 rows of 64 words; and it is made for the first block, and given another address. */
static void do_im2col(struct job *j, int n)
{
	static const uint64_t sizes[] = {64, 4, 3, 2}, strides[] = {256, 1024, 3072};
	static const unsigned steps[] = {1, 1, 1, 1};
	static const int corner[] = {0, 0};
	struct cu_tensor_map map;
	uint32_t number = next(n);

	CU(cuTensorMapEncodeIm2col(&map, 2, 4, (void *)(uintptr_t)is.at[0], sizes, strides, corner,
		corner, 64, 4, steps, 0, 0, 0, 0));
	if (n)
		CU(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)is.at[n]));
	launch(is.through_map, 1, 1, j->s, (void *[]){&map, &number});
}

/* Its elements are packed, so what is known of it does not say how far it reaches. */
static void do_packed(struct job *j, int n)
{
	static const uint64_t sizes[] = {256};
	static const unsigned box[] = {64}, steps[] = {1};
	struct cu_tensor_map map;
	uint32_t number = next(n);

	CU(cuTensorMapEncodeTiled(
		&map, 13, 1, (void *)(uintptr_t)is.at[n], sizes, NULL, box, steps, 0, 0, 0, 0));
	launch(is.through_map, 1, 1, j->s, (void *[]){&map, &number});
}

static void do_texture(struct job *j, int n)
{
	const struct cu_texture what = {.type = CU_TEXTURE_LINEAR,
		.linear = {.d = is.at[n], .format = 3, .channels = 1, .size = 4096}};
	const char how[128] = {0};
	uint64_t texture;

	(void)j;
	CU(cuTexObjectCreate(&texture, &what, how, NULL));
}

/* The parameters of its kernel are copied when it is made, and when it is changed. */
static struct cu_kernel_node kernel_for(int n, struct within *w, void **params)
{
	*w = (struct within){.number = 11, .x = is.at[n]};
	params[0] = w;
	is.in_graph = n;
	return (struct cu_kernel_node){
		.f = is.in_struct, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
}

static void do_graph(struct job *j, int n)
{
	struct within w;
	void *params[1];
	struct cu_kernel_node k = kernel_for(n, &w, params);

	(void)j;
	CU(cuGraphCreate(&is.graph, 0));
	CU(cuGraphAddKernelNode_v2(&is.node, is.graph, NULL, 0, &k));
	CU(cuGraphInstantiateWithFlags(&is.exec, is.graph, 0));
}

static void do_turn(struct job *j, int n)
{
	struct within w;
	void *params[1];
	struct cu_kernel_node k = kernel_for(n, &w, params);

	(void)j;
	CU(cuGraphExecKernelNodeSetParams_v2(is.exec, is.node, &k));
}

static void do_play(struct job *j, int n)
{
	(void)n;
	is.word[is.in_graph] = is.word[is.in_graph] * 3 + 11;
	CU(cuGraphLaunch(is.exec, j->s));
}

static void do_check(struct job *j, int n)
{
	(void)j, (void)n;
	for (int i = 0; i < is.n; i++) {
		uint32_t word;

		CU(cuMemcpyDtoH_v2(&word, is.at[i], sizeof(word)));
		if (word != is.word[i])
			die("block %d begins with %u, not %u", i, word, is.word[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"alloc", do_alloc},
		{"direct", do_direct},
		{"struct", do_struct},
		{"extra", do_extra},
		{"copy", do_copy},
		{"table", do_table},
		{"through", do_through},
		{"hide", do_hide},
		{"hidden", do_hidden},
		{"map", do_map},
		{"im2col", do_im2col},
		{"packed", do_packed},
		{"texture", do_texture},
		{"graph", do_graph},
		{"turn", do_turn},
		{"play", do_play},
		{"check", do_check},
		{NULL, NULL},
	};

	return job_main(argc, argv, commands);
}
