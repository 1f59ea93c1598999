/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of so few blocks that all run at once, for so long that nobody wants to wait for the end
 * of one: what they compute must not change where they are stopped in the middle of their loops. */
#include "cuda_guard.h"

GUARD_IMAGE(loops_text, "../loops/loops.ptx")

#define FEW    3
#define ROUNDS 100000u

struct loops {
	CUmodule module;
	CUfunction grind;
};

static void open_module(struct loops *l)
{
	CU(cuModuleLoadData(&l->module, loops_text));
	CU(cuModuleGetFunction(&l->grind, l->module, "grind"));
}

static void close_module(struct loops *l)
{
	CU(cuCtxSynchronize());
	CU(cuModuleUnload(l->module));
}

static void grind(struct loops *l, CUstream s, CUdeviceptr x, unsigned blocks, uint32_t n)
{
	launch(l->grind, blocks, 32, s, (void *[]){&x, &n});
}

static void one_wave(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1);
	struct loops l;

	open_module(&l);
	grind(&l, s, x, FEW, ROUNDS);
	note_words(c, "one kernel", x, s);
	for (uint32_t i = 0; i < 6; i++)
		grind(&l, s, x, FEW, ROUNDS / 4 + i);
	note_words(c, "one after the other", x, s);
	close_module(&l);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Blocks that have not begun, and blocks in their loops; and kernels that have none. */
static void waves(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(2);
	struct loops l;
	struct guard g;

	guard_open(&g);
	open_module(&l);
	for (uint32_t i = 0; i < 8; i++) {
		grind(&l, s, x, 20, 3000 + i);
		chain(&g, s, x, i);
		toil(&g, s, x);
	}
	note_words(c, "between others", x, s);
	close_module(&l);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void two_streams(struct conform *c)
{
	CUstream s[2] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(0)};
	CUdeviceptr x[2] = {new_words(3), new_words(4)};
	struct loops l;

	open_module(&l);
	for (uint32_t i = 0; i < 8; i++)
		grind(&l, s[i & 1], x[i & 1], FEW, 20000 + i);
	note_words(c, "x", x[0], s[0]);
	note_words(c, "y", x[1], s[1]);
	close_module(&l);
	free_all(x, 2);
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuStreamDestroy_v2(s[1]));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"one wave", one_wave},
		{"waves", waves},
		{"two streams", two_streams},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
