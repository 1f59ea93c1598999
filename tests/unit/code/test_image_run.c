/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewritten images on a driver without a device (fakes/cuda), which reads them by itself and does
 * in front of each block what the guardian does: launches are stopped in the middle and go on, and
 * what they leave is what it would be.
 */
#define CU_EXPORT extern
#include "../../cuda.h"
#include "code/cuda/image.h"
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

#define BLOCKS 100
#define MAP    64 /* of a control block: its bits */

/* A control block whose first word is the stop word; memory of the device is the host's. */
struct control {
	_Atomic uint32_t stop, out;
	_Atomic uint64_t first, decided;
	uint64_t unused[5];
	_Atomic uint32_t map[64];
};
_Static_assert(offsetof(struct control, map) == MAP, "");

static struct {
	CUmodule module;
	CUstream s;
	struct control *c;
	_Atomic uint32_t *out;
} t;

static void *device_memory(size_t size)
{
	CUdeviceptr d;

	assert_int_equal(cuMemAlloc_v2(&d, size), 0);
	memset((void *)(uintptr_t)d, 0, size);
	return (void *)(uintptr_t)d;
}

static void *read_file(const char *name, size_t *size)
{
	char path[512];
	char *data;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", GUARD_IMAGES, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	data = calloc(1, *size + 1);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, *size, f), *size);
	fclose(f);
	return data;
}

static void open_device(void)
{
	CUcontext ctx;

	assert_int_equal(cuInit(0), 0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
	assert_int_equal(cuCtxSetCurrent(ctx), 0);
}

static CUmodule load_rewritten(const char *name)
{
	struct fm_image image;
	CUmodule m;
	size_t size;
	void *data = read_file(name, &size);

	assert_int_equal(fm_image_rewrite(data, size, 90, &image), FM_IMAGE_OK);
	/* Of text, large parameters are left alone. */
	assert_int_equal(image.n_rewritten, image.text ? image.n - 1 : image.n);
	assert_int_equal(cuModuleLoadData(&m, image.data), 0);
	fm_image_free(&image);
	free(data);
	return m;
}

static CUfunction function(const char *name)
{
	CUfunction f;

	assert_int_equal(cuModuleGetFunction(&f, t.module, name), 0);
	return f;
}

static int set_up(void **state)
{
	if (!t.s) {
		open_device();
		assert_int_equal(cuStreamCreate(&t.s, CU_STREAM_NON_BLOCKING), 0);
		t.c = device_memory(sizeof(*t.c));
		t.out = device_memory(4096 * sizeof(*t.out));
		t.module = load_rewritten("sm90.cubin");
	}
	memset(t.c, 0, sizeof(*t.c));
	memset((void *)t.out, 0, 4096 * sizeof(*t.out));
	return 0;
}

/* The kernel's own parameters, at most five, and the guardian's. */
static void launch(const char *name, unsigned blocks, void **own, unsigned n, uint64_t number,
	enum fm_guard_mode mode)
{
	uint64_t stop = (uintptr_t)&t.c->stop, block = (uintptr_t)t.c, word = number << 2 | mode;
	void *params[8];

	memcpy(params, own, n * sizeof(*own));
	params[n] = &stop;
	params[n + 1] = &block;
	params[n + 2] = &word;
	assert_int_equal(
		cuLaunchKernel(function(name), blocks, 1, 1, 32, 1, 1, 0, t.s, params, NULL), 0);
}

static void step(uint64_t number, enum fm_guard_mode mode)
{
	CUdeviceptr out = (uintptr_t)t.out;

	launch("step", BLOCKS, (void *[]){&out}, 1, number, mode);
}

static void finish(void)
{
	assert_int_equal(cuStreamSynchronize(t.s), 0);
}

static void all_are(uint32_t value)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(t.out[i], value);
}

/* --- launches that the driver has to complain of --- */

static void dies(void (*does)(void), const char *why)
{
	FILE *says = tmpfile();
	char text[256] = "";
	int status;
	pid_t pid;

	assert_non_null(says);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		set_up(NULL);
		dup2(fileno(says), STDERR_FILENO);
		does();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	rewind(says);
	assert_non_null(fgets(text, sizeof(text), says));
	assert_non_null(strstr(text, why));
	fclose(says);
}

static void own_params_alone(void)
{
	CUdeviceptr out = (uintptr_t)t.out;
	void *params[] = {&out, NULL, NULL, NULL};

	cuLaunchKernel(function("step"), 1, 1, 1, 1, 1, 1, 0, t.s, params, NULL);
}

static void own_bytes_alone(void)
{
	CUdeviceptr out = (uintptr_t)t.out;
	size_t size = sizeof(out);
	void *extra[] = {(void *)1, &out, (void *)2, &size, NULL};

	cuLaunchKernel(function("step"), 1, 1, 1, 1, 1, 1, 0, t.s, NULL, extra);
}

static void no_params(void)
{
	cuLaunchKernel(function("tick"), 1, 1, 1, 1, 1, 1, 0, t.s, NULL, NULL);
}

static void stop_word_of_the_host(void)
{
	uint64_t out = (uintptr_t)t.out, stop = (uintptr_t)&out, launch_word = 4;

	cuLaunchKernel(function("step"), 1, 1, 1, 1, 1, 1, 0, t.s,
		(void *[]){&out, &stop, &stop, &launch_word}, NULL);
}

static void small_control_block(void)
{
	CUdeviceptr out = (uintptr_t)t.out;

	launch("step", 8 * sizeof(t.c->map) + 1, (void *[]){&out}, 1, 1, FM_GUARD_BLOCK);
}

static void blocks_that_wait_are_split(void)
{
	uint32_t n = 2048, steps = 3;
	CUdeviceptr out = (uintptr_t)t.out, arrived = (uintptr_t)device_memory(4);

	/* One block has still to run, the others ran before. */
	t.c->map[0] = 1;
	launch("meet", 8, (void *[]){&out, &n, &steps, &arrived}, 4, 1, FM_GUARD_AGAIN);
	finish();
}

/* Each is refused after launches that left out their blocks. */
static void left_out(void)
{
	t.c->stop = 1;
	step(1, FM_GUARD_BLOCK);
	step(2, FM_GUARD_BLOCK);
}

static void copy_runs_ahead(void)
{
	uint32_t word;

	left_out();
	assert_int_equal(cuMemcpyDtoHAsync_v2(&word, (uintptr_t)&t.c->stop, 4, t.s), 0);
	cuMemcpyDtoHAsync_v2(&word, (uintptr_t)t.out, 4, t.s);
}

static void kernel_runs_ahead(void)
{
	uint64_t out = (uintptr_t)t.out, none = 0;

	left_out();
	cuLaunchKernel(function("step"), 1, 1, 1, 1, 1, 1, 0, t.s,
		(void *[]){&out, &none, &none, &none}, NULL);
	finish();
}

static void see(void *arg)
{
}

static void host_runs_ahead(void)
{
	left_out();
	cuLaunchHostFunc(t.s, see, NULL);
	finish();
}

static void guarded_in_a_graph(void)
{
	cuStreamBeginCapture_v2(t.s, CU_CAPTURE_GLOBAL);
	step(1, FM_GUARD_BLOCK);
}

/* In processes of their own, and before this one has a driver, which would not outlive fork(). */
static void complaints(void **state)
{
	dies(own_params_alone, "step without the guardian's parameters");
	dies(own_bytes_alone, "step without the guardian's parameters: 8 bytes of 32");
	dies(no_params, "tick with no parameters");
	dies(stop_word_of_the_host, "which is not the device's");
	dies(small_control_block, "has no room for 2049 blocks");
	dies(blocks_that_wait_are_split, "others wait for them");
	dies(copy_runs_ahead, "a copy runs ahead of blocks");
	dies(kernel_runs_ahead, "step runs ahead of blocks");
	dies(host_runs_ahead, "a host function runs ahead of blocks");
	dies(guarded_in_a_graph, "step in a graph has a stop word");
}

/* --- all kinds of images --- */

static void images(void **state)
{
	static const char *const names[] = {"sm90.cubin", "all.fatbin", "text.fatbin", "text.ptx"};
	CUmodule was = t.module;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint32_t n = 1010, words[1500];
		CUdeviceptr out = (uintptr_t)t.out, ticks;
		size_t at, size;

		memset((void *)t.out, 0, sizeof(words));
		t.module = load_rewritten(names[i]);
		assert_int_equal(cuFuncGetParamInfo(function("odd"), 3, &at, &size), 0);
		assert_int_equal(at, 14);
		assert_int_equal(cuFuncGetParamInfo(function("odd"), 4, &at, &size), 0);
		assert_int_equal(at, 16);
		assert_int_equal(cuFuncGetParamInfo(function("odd"), 7, &at, &size), 1);
		for (uint32_t k = 0; k < n; k++)
			words[k] = k;
		launch("large", 3, (void *[]){words, &out}, 2, 1, FM_GUARD_BLOCK);
		launch("tick", 7, (void *[]){NULL}, 0, 2, FM_GUARD_BLOCK);
		finish();
		assert_memory_equal((void *)t.out, words, n * sizeof(*words));
		assert_int_equal(cuModuleGetGlobal_v2(&ticks, &size, t.module, "ticks"), 0);
		assert_int_equal(size, 4);
		assert_int_equal(*(uint32_t *)(uintptr_t)ticks, 7);
		assert_int_equal(cuModuleUnload(t.module), 0);
	}
	t.module = was;
}

static void beyond_4_kb(void **state)
{
	uint32_t words[1500];
	CUdeviceptr out = (uintptr_t)t.out;

	for (uint32_t k = 0; k < 1500; k++)
		words[k] = k * k;
	launch("beyond", 3, (void *[]){words, &out}, 2, 1, FM_GUARD_BLOCK);
	finish();
	assert_memory_equal((void *)t.out, words, sizeof(words));
}

/* --- stopped and resumed --- */

static void not_guarded(void **state)
{
	uint64_t out = (uintptr_t)t.out, none = 0;

	assert_int_equal(cuLaunchKernel(function("step"), BLOCKS, 1, 1, 1, 1, 1, 0, t.s,
				 (void *[]){&out, &none, &none, &none}, NULL),
		0);
	finish();
	all_are(1);
}

static void never_stopped(void **state)
{
	for (uint64_t i = 1; i <= 5; i++)
		step(i, FM_GUARD_BLOCK);
	finish();
	all_are(5);
	assert_int_equal(t.c->first, 0);
	assert_int_equal(t.c->out, 0);
}

/* The first leaves a bit for each of its blocks, those behind it leave nothing; then all is run. */
static void stopped_before(void **state)
{
	t.c->stop = 1;
	step(7, FM_GUARD_BLOCK);
	step(8, FM_GUARD_BLOCK);
	finish();
	all_are(0);
	assert_int_equal(t.c->first, 7);
	assert_int_equal(t.c->out, BLOCKS);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_true(t.c->map[i / 32] >> i % 32 & 1);
	assert_int_equal(t.c->map[BLOCKS / 32] >> BLOCKS % 32, 0);
	t.c->stop = 0;
	t.c->first = 0;
	step(7, FM_GUARD_AGAIN);
	step(8, FM_GUARD_BLOCK);
	finish();
	all_are(2);
	assert_int_equal(t.c->first, 0);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(t.c->map[i], 0);
}

static bool reach(_Atomic uint32_t *word, uint32_t value)
{
	for (unsigned i = 0; i < 100000 && atomic_load(word) < value; i++)
		usleep(100);
	return atomic_load(word) >= value;
}

/* Whenever a block is at the gate the launch is stopped: some blocks get through each time. */
static void stopped_in_the_middle(void **state)
{
	_Atomic uint32_t *gate = device_memory(8);
	CUdeviceptr out = (uintptr_t)t.out, at = (uintptr_t)gate;
	uint64_t ns = 0;
	unsigned stops = 0;

	launch("toil", BLOCKS, (void *[]){&out, &ns, &at}, 3, 3, FM_GUARD_BLOCK);
	step(4, FM_GUARD_BLOCK);
	for (;;) {
		assert_true(reach(gate, 1));
		t.c->stop = 1;
		finish();
		stops++;
		t.c->stop = 0;
		if (!t.c->first)
			break;
		assert_int_equal(t.c->first, 3);
		t.c->first = 0;
		*gate = 0;
		if (stops == 5)
			gate[1] = UINT32_MAX;
		launch("toil", BLOCKS, (void *[]){&out, &ns, &at}, 3, 3, FM_GUARD_AGAIN);
		if (stops == 5)
			break;
	}
	step(4, FM_GUARD_BLOCK);
	finish();
	assert_int_equal(stops, 5);
	assert_int_equal(t.c->first, 0);
	all_are(2);
	assert_int_equal(cuMemFree_v2(at), 0);
}

/* All blocks or none, as the first one finds it; again by another number. */
static void whole_grids(void **state)
{
	uint32_t n = 2048, steps = 4, want[4096];
	CUdeviceptr x = (uintptr_t)t.out, arrived = (uintptr_t)device_memory(4);
	void *own[] = {&x, &n, &steps, &arrived};

	for (unsigned i = 0; i < 4096; i++)
		t.out[i] = i;
	launch("meet", 8, own, 4, 1, FM_GUARD_GRID);
	finish();
	assert_int_equal(t.c->decided, 1 << 2 | 1);
	memcpy(want, (void *)t.out, sizeof(want));
	t.c->stop = 1;
	launch("meet", 8, own, 4, 2, FM_GUARD_GRID);
	finish();
	assert_memory_equal(want, (void *)t.out, sizeof(want));
	assert_int_equal(t.c->decided, 2 << 2 | 2);
	assert_int_equal(t.c->first, 2);
	assert_int_equal(t.c->out, 8);
	t.c->stop = 0;
	launch("meet", 8, own, 4, 2, FM_GUARD_GRID); /* it is decided */
	finish();
	assert_memory_equal(want, (void *)t.out, sizeof(want));
	*(uint32_t *)(uintptr_t)arrived = 0;
	launch("meet", 8, own, 4, 3, FM_GUARD_GRID);
	finish();
	assert_int_equal(t.c->decided, 3 << 2 | 1);
	assert_true(memcmp(want, (void *)t.out, sizeof(want)));
	assert_int_equal(cuMemFree_v2(arrived), 0);
}

/* Who resumes may read the control block and write words, in the stream itself; then the way is
 * free for what is behind. */
static void resumed_in_the_stream(void **state)
{
	struct control head;
	uint32_t last;

	t.c->stop = 1;
	step(1, FM_GUARD_BLOCK);
	assert_int_equal(cuMemcpyDtoHAsync_v2(&head, (uintptr_t)t.c, 24, t.s), 0);
	assert_int_equal(head.first, 1);
	assert_int_equal(cuStreamWriteValue32_v2(t.s, (uintptr_t)&t.c->stop, 0, 0), 0);
	assert_int_equal(cuStreamWriteValue64_v2(t.s, (uintptr_t)&t.c->first, 0, 0), 0);
	step(1, FM_GUARD_AGAIN);
	assert_int_equal(cuMemcpyDtoHAsync_v2(&last, (uintptr_t)&t.out[BLOCKS - 1], 4, t.s), 0);
	assert_int_equal(last, 1);
}

/* A grid of three dimensions: the bit is the block's number, not its first coordinate. */
static void dimensions(void **state)
{
	uint64_t out = (uintptr_t)t.out, stop = (uintptr_t)t.c, block = stop, word = 1 << 2;
	uint32_t width = 1;
	uint16_t by = 3;
	signed char sign = -1;
	void *params[] = {&out, &width, &by, &sign, &stop, &block, &word};

	t.c->stop = 1;
	assert_int_equal(
		cuLaunchKernel(function("odd"), 3, 4, 5, 8, 2, 1, 0, t.s, params, NULL), 0);
	finish();
	assert_int_equal(t.c->map[0], UINT32_MAX);
	assert_int_equal(t.c->map[1], UINT32_MAX >> 4);
	t.c->stop = 0;
	t.c->map[1] = 1 << 5;
	t.c->map[0] = 1;
	word |= FM_GUARD_AGAIN;
	assert_int_equal(
		cuLaunchKernel(function("odd"), 3, 4, 5, 8, 2, 1, 0, t.s, params, NULL), 0);
	finish();
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal((int)t.out[i], i == 0 || i == 37 ? -3 : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complaints),
		cmocka_unit_test_setup(images, set_up),
		cmocka_unit_test_setup(beyond_4_kb, set_up),
		cmocka_unit_test_setup(not_guarded, set_up),
		cmocka_unit_test_setup(never_stopped, set_up),
		cmocka_unit_test_setup(stopped_before, set_up),
		cmocka_unit_test_setup(stopped_in_the_middle, set_up),
		cmocka_unit_test_setup(resumed_in_the_stream, set_up),
		cmocka_unit_test_setup(whole_grids, set_up),
		cmocka_unit_test_setup(dimensions, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
