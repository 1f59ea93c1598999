/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with one large buffer, of whose parts it uses one or another, as it is told
 * (cuda_job.h). Each use of a part computes with its first word, and the program knows what is to
 * come of it.
 *
 *   alloc MIB    the buffer
 *   part N       a kernel is given the buffer's address, and uses what is N MiB from there on
 *   graph N      a graph is made with a kernel that does that, and play 0: is launched
 *   spin MS      a kernel takes so long
 *   check 0      all parts hold what they are to hold
 *
 * usage: [--via ...], or --templates DIR FIRST BYTES STEP: writes what a profile of that kernel
 * would give that touches BYTES from FIRST + STEP * N MiB on.
 */
#include "base/util.h"
#include "code/cuda/image.h"
#include "cuda_job.h"
#include "predict/template.h"

#define PARTS 1024
#define MIB   ((size_t)1 << 20)
#define SM    90

static const char ptx[] =
	".version 6.4\n.target sm_75\n.address_size 64\n"
	".visible .entry in_part(.param .u64 x, .param .u32 part, .param .u32 number)\n"
	"{\n.reg .pred %p;\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nor.b32 %r1, %r1, %r2;\n"
	"setp.ne.u32 %p, %r1, 0;\n@%p bra E;\n"
	"ld.param.u64 %rd1, [x];\ncvta.to.global.u64 %rd1, %rd1;\n"
	"ld.param.u32 %r3, [part];\nmul.wide.u32 %rd2, %r3, 1048576;\nadd.u64 %rd1, %rd1, %rd2;\n"
	"ld.param.u32 %r5, [number];\n"
	"ld.global.u32 %r4, [%rd1];\nmad.lo.u32 %r4, %r4, 3, %r5;\nst.global.u32 [%rd1], %r4;\n"
	"E: ret;\n}\n";

static struct {
	CUdeviceptr at;
	size_t mib;
	uint32_t word[PARTS], number;
	CUfunction in_part;
	CUgraphExec exec;
	int in_graph;
} is;

static void do_alloc(struct job *j, int mib)
{
	CUmodule module;

	(void)j;
	if (mib > PARTS)
		die("too large");
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&is.in_part, module, "in_part"));
	CU(cuMemAlloc_v2(&is.at, (size_t)mib * MIB));
	is.mib = (size_t)mib;
	CU(cuMemsetD32_v2(is.at, 7, is.mib * MIB / 4));
	for (int i = 0; i < mib; i++)
		is.word[i] = 7;
}

static void do_part(struct job *j, int n)
{
	uint32_t part = (uint32_t)n;

	is.number = is.number * 1664525u + 1013904223u;
	is.word[n] = is.word[n] * 3 + is.number;
	launch(is.in_part, 1, 1, j->s, (void *[]){&is.at, &part, &is.number});
}

/* So many milliseconds. Of those of one length it is soon known how long they take. It names a
 * word, which has a page of its own. */
static void do_spin(struct job *j, int n)
{
	spin(&j->c, j->s, j->x, (uint64_t)n * 1000000);
}

static void do_graph(struct job *j, int n)
{
	uint32_t part = (uint32_t)n, number = 11;
	struct cu_kernel_node k = {.f = is.in_part,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = (void *[]){&is.at, &part, &number}};
	CUgraphNode node;
	CUgraph graph;

	(void)j;
	is.in_graph = n;
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &k));
	CU(cuGraphInstantiateWithFlags(&is.exec, graph, 0));
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
	for (size_t i = 0; i < is.mib; i++) {
		uint32_t word;

		CU(cuMemcpyDtoH_v2(&word, is.at + i * MIB, sizeof(word)));
		if (word != is.word[i])
			die("part %zu begins with %u, not %u", i, word, is.word[i]);
	}
}

static int write_templates(char **arg)
{
	struct fm_kernel_id id = {.name = "in_part"};
	struct fm_fit *f = fm_fit_new();
	int64_t first = strtoll(arg[1], NULL, 0), bytes = strtoll(arg[2], NULL, 0),
		step = strtoll(arg[3], NULL, 0);
	const void *image = ptx, *part;
	size_t size = fm_image_extent(&image), n;
	struct fm_err err = {0};

	if (fm_image_part(image, size, SM, &part, &n))
		die("the image is not understood");
	fm_image_id(id.image, part, n);
	for (uint32_t i = 0; i < 8; i++) {
		struct fm_span span = {.from = first + step * (int64_t)(i * MIB), .to = 0};
		struct fm_observed x = {.spans = &span, .n = 1};
		struct {
			uint64_t x;
			uint32_t part, number;
		} params = {0x1000, i, i * i * 77};
		struct fm_observation o = {.kernel = &id,
			.grid = {1, 1, 1},
			.block = {1, 1, 1},
			.params = &params,
			.size = sizeof(params),
			.pointers = &x,
			.n = 1};

		span.to = span.from + bytes;
		if (fm_fit_add(f, &o))
			die("not a profile");
	}
	if (fm_fit_write(f, arg[0], &err))
		die("%s", err.text);
	fm_fit_free(f);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"alloc", do_alloc},
		{"part", do_part},
		{"spin", do_spin},
		{"graph", do_graph},
		{"play", do_play},
		{"check", do_check},
		{NULL, NULL},
	};

	if (argc == 6 && !strcmp(argv[1], "--templates"))
		return write_templates(argv + 2);
	return job_main(argc, argv, commands);
}
