/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of tests/data/guard for the conformance sets: as machine code and as text, alone and
 * in fatbins. */
#pragma once
#include "../cuda_conform.h"

/* GUARD_IMAGES: their folder, from the build. */
#define GUARD_IMAGE(name, file)                                                        \
	extern const char name[], name##_end[];                                        \
	__asm__(".section .rodata\n"                                                   \
		".balign 16\n" #name ": .incbin \"" GUARD_IMAGES "/" file "\"\n" #name \
		"_end: .quad 0\n"                                                      \
		".previous");

GUARD_IMAGE(guard_cubin, "sm90.cubin")
GUARD_IMAGE(guard_fatbin, "all.fatbin")
GUARD_IMAGE(guard_text_fatbin, "text.fatbin")
GUARD_IMAGE(guard_text, "text.ptx")

#define TOIL_NS 20000u /* of each block of toil */

/* Of step and toil, up to 2048; CUDA_GUARD_BLOCKS says how many. More than a device has at once,
 * of the size that toil's are, is for who wants kernels stopped in the middle. */
static inline unsigned guard_blocks(void)
{
	const char *v = getenv("CUDA_GUARD_BLOCKS");
	unsigned n = v ? (unsigned)atoi(v) : 0;

	return n && n <= WORDS / 2 ? n : 24;
}
#define BLOCKS guard_blocks()

struct guard {
	CUmodule module;
	CUfunction step, chain, toil, meet, tick, odd, large, beyond;
};

static inline void guard_functions(struct guard *g)
{
	CU(cuModuleGetFunction(&g->step, g->module, "step"));
	CU(cuModuleGetFunction(&g->chain, g->module, "chain"));
	CU(cuModuleGetFunction(&g->toil, g->module, "toil"));
	CU(cuModuleGetFunction(&g->meet, g->module, "meet"));
	CU(cuModuleGetFunction(&g->tick, g->module, "tick"));
	CU(cuModuleGetFunction(&g->odd, g->module, "odd"));
	CU(cuModuleGetFunction(&g->large, g->module, "large"));
	CU(cuModuleGetFunction(&g->beyond, g->module, "beyond"));
}

static inline void guard_open(struct guard *g)
{
	CU(cuModuleLoadData(&g->module, guard_cubin));
	guard_functions(g);
}

static inline void guard_close(struct guard *g)
{
	CU(cuCtxSynchronize());
	CU(cuModuleUnload(g->module));
}

static inline void step(struct guard *g, CUstream s, CUdeviceptr x)
{
	launch(g->step, BLOCKS, 32, s, (void *[]){&x});
}

static inline void toil(struct guard *g, CUstream s, CUdeviceptr x)
{
	uint64_t ns = TOIL_NS;
	CUdeviceptr gate = 0;

	launch(g->toil, BLOCKS, 1024, s, (void *[]){&x, &ns, &gate});
}

/* On the two halves of the words. */
static inline void chain(struct guard *g, CUstream s, CUdeviceptr x, uint32_t number)
{
	uint32_t n = WORDS / 2;

	launch(g->chain, 16, BLOCK, s, (void *[]){&x, &n, &number});
}

struct thread {
	struct conform *c;
	struct guard *g;
	CUdeviceptr x;
};

#define THREADS_MOST 4

/* Threads with one module, each on words of its own. */
static inline void in_threads(struct conform *conform, unsigned n, void *(*main)(void *))
{
	struct thread t[THREADS_MOST];
	pthread_t id[THREADS_MOST];
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < n; i++)
		t[i] = (struct thread){conform, &g, new_words(30 + i)};
	CU(cuCtxSynchronize());
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&id[i], NULL, main, &t[i]))
			die("no thread");
	for (unsigned i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	for (unsigned i = 0; i < n; i++) {
		note_words(conform, "x", t[i].x, FM_CU_STREAM_LEGACY);
		CU(cuMemFree_v2(t[i].x));
	}
	guard_close(&g);
}
