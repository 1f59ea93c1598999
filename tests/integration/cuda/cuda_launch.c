/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are rare: on several devices at once, and those of before CUDA 4.0. */
#include "cuda_conform.h"

static void several_devices(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(14), arrived = new_words(15);
	uint32_t n = WORDS / 2, steps = 9;
	struct cu_launch_params one = {.f = c->relay,
		.grid = {8, 1, 1},
		.block = {BLOCK, 1, 1},
		.stream = s,
		.params = (void *[]){&x, &n, &steps, &arrived}};

	for (uint32_t i = 0; i < 20; i++) {
		mix(c, s, x, i);
		CU(cuMemsetD32Async(arrived, 0, 1, s));
		CU(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
	}
	note_words(c, "x", x, s);
	free_all((CUdeviceptr[]){x, arrived}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* Shape and parameters, as large as the function's and no larger, are set on it; then it is
 * launched. */
static void old_launches(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(18);
	struct {
		CUdeviceptr x;
		uint32_t n, number, rounds;
	} __attribute__((packed)) p = {x, WORDS, 0, 40};

	CU(cuFuncSetBlockShape(c->mix, BLOCK, 1, 1));
	CU(cuParamSetSize(c->mix, sizeof(p)));
	for (int i = 0; i < 30; i++) {
		p.number++;
		CU(cuParamSetv(c->mix, 0, &p, sizeof(p)));
		CU(cuLaunchGridAsync(c->mix, GRID, 1, s));
	}
	CU(cuStreamSynchronize(s));
	CU(cuLaunchGrid(c->mix, GRID, 1));
	CU(cuLaunch(c->mix));
	CU(cuCtxSynchronize());
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"several devices", several_devices},
		{"old launches", old_launches},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
