/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of several layers, one behind the other, as it is told (cuda_job.h). Each use of a
 * layer computes with its first word, and the program knows what is to come of it.
 *
 *   alloc MIB    one more layer
 *   pass PAUSES  each layer is used, in its order, behind a kernel that takes a while. With 1,
 *                "first" when that is so of the first one; the others are not used before one more
 *                word
 *   stray N      a kernel is given the address of the first layer, and uses layer N
 *   most N       the last N layers are used, one behind the other, 100 times
 *   random SEED  layers are used in a drawn order, each some 30 times
 *   check 0      all layers hold what they are to hold
 *   tries 0      from now on, the driver counts how often it is asked for memory
 *   tried N      that was at most N times
 */
#include "../../fakes/cuda/fake_cuda.h"
#include "base/util.h"
#include "cuda_job.h"
#include <limits.h>
#include <semaphore.h>

#define LAYERS 16
#define MIB    ((size_t)1 << 20)

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
	CUfunction in_part;
	CUdeviceptr at[LAYERS];
	CUevent used[LAYERS];
	size_t bytes[LAYERS];
	uint32_t word[LAYERS], number;
	int n;
} is;

static void do_alloc(struct job *j, int mib)
{
	CUmodule module;
	int i = is.n++;

	(void)j;
	if (is.n > LAYERS)
		die("too many layers");
	if (!is.in_part) {
		CU(cuModuleLoadData(&module, ptx));
		CU(cuModuleGetFunction(&is.in_part, module, "in_part"));
	}
	is.bytes[i] = (size_t)mib * MIB;
	is.word[i] = 7;
	CU(cuMemAlloc_v2(&is.at[i], is.bytes[i]));
	CU(cuMemsetD32_v2(is.at[i], 7, is.bytes[i] / 4));
	CU(cuEventCreate(&is.used[i], 2));
}

static void use(struct job *j, int by, int i)
{
	uint32_t part = (uint32_t)((is.at[i] - is.at[by]) / MIB);

	is.number = is.number * 1664525u + 1013904223u;
	is.word[i] = is.word[i] * 3 + is.number;
	launch(is.in_part, 1, 1, j->s, (void *[]){&is.at[by], &part, &is.number});
}

static sem_t may_go;

static void wait_to_go(void *unused)
{
	(void)unused;
	while (sem_wait(&may_go))
		;
}

static void do_pass(struct job *j, int pauses)
{
	char word[32];

	for (int i = 0; i < is.n; i++) {
		spin(&j->c, j->s, j->x, 100000); /* a layer is a segment */
		use(j, i, i);
		CU(cuEventRecord(is.used[i], j->s));
		if (pauses && !i)
			CU(cuLaunchHostFunc(j->s, wait_to_go, NULL));
	}
	if (!pauses)
		return;
	CU(cuEventSynchronize(is.used[0]));
	puts("first");
	if (scanf("%31s", word) != 1)
		die("no line");
	sem_post(&may_go);
}

static void do_stray(struct job *j, int n)
{
	int by = 0;

	for (int i = 0; i < is.n; i++)
		by = is.at[i] < is.at[by] ? i : by;
	use(j, by, n);
}

static void do_most(struct job *j, int n)
{
	for (int k = 0; k < 100; k++)
		for (int i = is.n - n; i < is.n; i++)
			use(j, i, i);
}

static void do_random(struct job *j, int seed)
{
	uint32_t drawn = (uint32_t)seed;

	for (int k = 0; k < 30 * is.n; k++) {
		int i;

		drawn = drawn * 1664525u + 1013904223u;
		i = (int)((drawn >> 16) % (uint32_t)is.n);
		use(j, i, i);
	}
}

static void do_check(struct job *j, int n)
{
	(void)n;
	CU(cuStreamSynchronize(j->s));
	for (int i = 0; i < is.n; i++) {
		for (size_t at = 0; at < is.bytes[i]; at += MIB) {
			uint32_t word, want = at ? 7 : is.word[i];

			CU(cuMemcpyDtoH_v2(&word, is.at[i] + at, sizeof(word)));
			if (word != want)
				die("layer %d has %u at %zu, not %u", i, word, at, want);
		}
	}
}

static void do_tries(struct job *j, int n)
{
	fake_cuda_fail_fn *fail;

	(void)j;
	(void)n;
	*(void **)&fail = dlsym(driver_handle(), "fake_cuda_fail");
	fail("cuMemCreate", UINT_MAX, 0);
}

static void do_tried(struct job *j, int n)
{
	fake_cuda_counted_fn *counted;

	(void)j;
	*(void **)&counted = dlsym(driver_handle(), "fake_cuda_counted");
	if (counted() > (unsigned)n)
		die("%u times", counted());
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"alloc", do_alloc},
		{"pass", do_pass},
		{"stray", do_stray},
		{"most", do_most},
		{"random", do_random},
		{"check", do_check},
		{"tries", do_tries},
		{"tried", do_tried},
		{NULL, NULL},
	};

	sem_init(&may_go, 0, 0);
	return job_main(argc, argv, commands);
}
