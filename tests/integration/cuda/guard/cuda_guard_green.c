// SPDX-License-Identifier: Apache-2.0
/* Streams of green contexts whose kernels are stopped between their blocks: each block runs once,
 * and on the multiprocessors that its green context has. */
#include "cuda_guard.h"

#define SEEN 1024 /* words: one for each multiprocessor */

/* Each block says where it ran, and counts. */
static const char place_ptx[] = ".version 6.4\n"
				".target sm_75\n"
				".address_size 64\n"
				".visible .entry place(.param .u64 place_0, .param .u64 place_1,\n"
				"	.param .u64 place_2)\n"
				"{\n"
				"	.reg .pred %p<3>;\n"
				"	.reg .b32 %r<10>;\n"
				"	.reg .b64 %rd<12>;\n"
				"	mov.u32 %r1, %tid.x;\n"
				"	setp.ne.s32 %p1, %r1, 0;\n"
				"	@%p1 bra $L_end;\n"
				"	ld.param.u64 %rd1, [place_0];\n"
				"	ld.param.u64 %rd2, [place_1];\n"
				"	ld.param.u64 %rd3, [place_2];\n"
				"	mov.u32 %r2, %smid;\n"
				"	mul.wide.u32 %rd4, %r2, 4;\n"
				"	add.s64 %rd4, %rd2, %rd4;\n"
				"	mov.u32 %r5, 1;\n"
				"	st.global.u32 [%rd4], %r5;\n"
				"	mov.u64 %rd5, %globaltimer;\n"
				"	add.s64 %rd5, %rd5, %rd3;\n"
				"$L_wait:\n"
				"	mov.u64 %rd6, %globaltimer;\n"
				"	setp.lt.u64 %p2, %rd6, %rd5;\n"
				"	@%p2 bra $L_wait;\n"
				"	mov.u32 %r7, %ctaid.x;\n"
				"	mul.wide.u32 %rd7, %r7, 4;\n"
				"	add.s64 %rd7, %rd1, %rd7;\n"
				"	ld.global.u32 %r8, [%rd7];\n"
				"	add.s32 %r8, %r8, 1;\n"
				"	st.global.u32 [%rd7], %r8;\n"
				"$L_end:\n"
				"	ret;\n"
				"}\n";

struct part {
	CUgreenCtx green;
	unsigned sms;
	CUstream s;
	CUdeviceptr x, seen;
};

struct green {
	struct guard g;
	CUmodule module;
	CUfunction place;
	struct part part[2]; /* half of the device, and the rest */
};

static void zero(CUdeviceptr d, unsigned words)
{
	CU(cuMemsetD32_v2(d, 0, words));
	CU(cuCtxSynchronize());
}

static void make_part(struct conform *c, struct part *p, struct cu_resource *r, uint32_t seed)
{
	CUdevResourceDesc desc;

	p->sms = r->sm.count;
	CU(cuDevResourceGenerateDesc(&desc, r, 1));
	CU(cuGreenCtxCreate(&p->green, desc, c->dev, CU_GREEN_DEFAULT_STREAM));
	CU(cuGreenCtxStreamCreate(&p->s, p->green, CU_STREAM_NON_BLOCKING, 0));
	p->x = new_words(seed);
	p->seen = new_words(seed);
	zero(p->seen, WORDS);
}

static bool there(void)
{
	return cu.cuGreenCtxCreate && cu.cuGreenCtxStreamCreate && cu.cuDevSmResourceSplitByCount;
}

/* False: the driver has no green contexts. */
static bool green_open(struct conform *c, struct green *g)
{
	struct cu_resource whole, part, rest;
	unsigned n = 1;

	if (!there()) {
		note(c, "none");
		return false;
	}
	CU(cuDeviceGetDevResource(c->dev, &whole, CU_RESOURCE_SM));
	CU(cuDevSmResourceSplitByCount(&part, &n, &whole, &rest, 0, whole.sm.count / 2));
	guard_open(&g->g);
	CU(cuModuleLoadData(&g->module, place_ptx));
	CU(cuModuleGetFunction(&g->place, g->module, "place"));
	make_part(c, &g->part[0], &part, 1);
	make_part(c, &g->part[1], &rest, 2);
	return true;
}

static void green_close(struct green *g)
{
	for (int i = 0; i < 2; i++) {
		CU(cuStreamDestroy_v2(g->part[i].s));
		CU(cuGreenCtxDestroy(g->part[i].green));
		free_all((CUdeviceptr[]){g->part[i].x, g->part[i].seen}, 2);
	}
	guard_close(&g->g);
	CU(cuModuleUnload(g->module));
}

static void place(struct green *g, struct part *p)
{
	uint64_t ns = TOIL_NS;

	launch(g->place, BLOCKS, 1024, p->s, (void *[]){&p->x, &p->seen, &ns});
}

/* Where blocks of the two ran. */
static void note_places(struct conform *c, struct green *g)
{
	uint32_t seen[2][SEEN];
	unsigned n[2] = {0}, both = 0;

	CU(cuCtxSynchronize());
	for (int p = 0; p < 2; p++) {
		CU(cuMemcpyDtoH_v2(seen[p], g->part[p].seen, sizeof(seen[p])));
		for (int i = 0; i < SEEN; i++)
			n[p] += seen[p][i];
		note(c, "in its multiprocessors: %d", n[p] <= g->part[p].sms);
	}
	for (int i = 0; i < SEEN; i++)
		both += seen[0][i] & seen[1][i];
	note(c, "in those of both: %u", both);
}

static void in_a_partition(struct conform *c)
{
	struct green g;

	if (!green_open(c, &g))
		return;
	for (int i = 0; i < 30; i++)
		place(&g, &g.part[0]);
	note_words(c, "30 launches", g.part[0].x, g.part[0].s);
	for (uint32_t i = 0; i < 10; i++) {
		place(&g, &g.part[0]);
		chain(&g.g, g.part[0].s, g.part[0].x, i);
		mix(c, g.part[0].s, g.part[0].x, i);
	}
	note_words(c, "among others", g.part[0].x, g.part[0].s);
	note_places(c, &g);
	green_close(&g);
}

/* Beside each other, and beside a stream of the whole device, which waits for both. */
static void two_partitions(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3);
	struct green g;

	if (green_open(c, &g)) {
		for (uint32_t i = 0; i < 24; i++) {
			struct part *p = &g.part[i & 1];

			place(&g, p);
			chain(&g.g, p->s, p->x, i);
			toil(&g.g, s, x);
			place(&g, p);
			order(p->s, s);
			join(c, s, x, p->x, x);
			order(s, p->s);
		}
		note_words(c, "x", x, s);
		note_words(c, "of the one", g.part[0].x, g.part[0].s);
		note_words(c, "of the other", g.part[1].x, g.part[1].s);
		note_places(c, &g);
		green_close(&g);
	}
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* From a thread to which the green context is current, and memory that it frees there. */
static void current(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(4);
	CUcontext ctx;
	struct green g;

	if (green_open(c, &g)) {
		CU(cuCtxFromGreenCtx(&ctx, g.part[0].green));
		for (uint32_t i = 0; i < 10; i++) {
			CUdeviceptr y;

			CU(cuCtxPushCurrent_v2(ctx));
			CU(cuMemAlloc_v2(&y, BYTES));
			place(&g, &g.part[0]);
			CU(cuMemcpyDtoDAsync_v2(y, g.part[0].x, BYTES, g.part[0].s));
			toil(&g.g, g.part[0].s, y);
			order(g.part[0].s, s);
			join(c, s, x, y, x);
			toil(&g.g, s, x);
			chain(&g.g, FM_CU_STREAM_LEGACY, g.part[1].x, i);
			CU(cuStreamSynchronize(s));
			CU(cuMemFree_v2(y));
			CU(cuCtxSynchronize());
			CU(cuCtxPopCurrent_v2(&ctx));
		}
		note_words(c, "x", x, s);
		note_words(c, "of the one", g.part[0].x, g.part[0].s);
		note_words(c, "by its default stream", g.part[1].x, s);
		note_places(c, &g);
		green_close(&g);
	}
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Streams, and with them green contexts, end behind what they have to do; others come. */
static void given_back(struct conform *c)
{
	CUdeviceptr x = new_words(5);

	for (uint32_t i = 0; i < 6; i++) {
		struct green g;

		if (!green_open(c, &g))
			break;
		toil(&g.g, g.part[0].s, x);
		place(&g, &g.part[0]);
		order(g.part[0].s, g.part[1].s);
		chain(&g.g, g.part[1].s, x, i);
		place(&g, &g.part[1]);
		if (i & 1)
			CU(cuCtxSynchronize());
		green_close(&g);
	}
	note_words(c, "x", x, NULL);
	CU(cuMemFree_v2(x));
}

/* A graph whose kernels are guarded elsewhere. */
static void graphs(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(6);
	struct green g;

	if (green_open(c, &g)) {
		CUgraph graph;
		CUgraphExec exec;

		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
		toil(&g.g, s, x);
		chain(&g.g, s, x, 1);
		CU(cuStreamEndCapture(s, &graph));
		CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
		CU(cuGraphDestroy(graph));
		for (int i = 0; i < 12; i++) {
			CU(cuGraphLaunch(exec, i % 4 == 3 ? s : g.part[0].s));
			place(&g, &g.part[0]);
		}
		note_words(c, "x", x, s);
		CU(cuGraphExecDestroy(exec));
		note_places(c, &g);
		green_close(&g);
	}
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"in a partition", in_a_partition},
		{"two partitions", two_partitions},
		{"current", current},
		{"given back", given_back},
		{"graphs", graphs},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
