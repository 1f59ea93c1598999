/* SPDX-License-Identifier: Apache-2.0 */
/* The batch's stream goes on beside the urgent one, for which it was stopped. */
#include "../../../fakes/cuda/fake_cuda.h"
#include "cuda_server.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static void bind_padding(int pad)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH);
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW);

	b.pad = pad;
	IS(0, fm_cuda_bind(urgent, &u));
	IS(0, fm_cuda_bind(batch, &b));
	MUST(fm_cuda_scheduled());
	/* What is needed for it is made before anything is stopped. */
	work(batch, out[1], 1);
	work(urgent, out[0], 1);
	CU(cuStreamSynchronize(batch));
	CU(cuStreamSynchronize(urgent));
	usleep(50000);
}

static bool batch_has_run(unsigned kernels)
{
	return words[1][0] == after(1 + kernels);
}

/* The batch is stopped for the urgent stream, which has work until it is let go. */
static void stop_for_urgent(void)
{
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
}

static void end(void)
{
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(2));
}

/* False: the urgent stream, which does not move, has given way meanwhile, as it does on a busy
 * machine. */
static bool pads_beside(unsigned round)
{
	unsigned before = round * (KERNELS + 10);
	uint32_t copy = 0;
	bool beside;

	stop_for_urgent();
	EVENTUALLY(batch_has_run(before + KERNELS));
	beside = !info(batch).scheduled;
	/* What is launched then, too, and a copy. */
	work(batch, out[1], 5);
	CU(cuMemcpyDtoHAsync_v2(&copy, out[1], sizeof(copy), batch));
	work(batch, out[1], 5);
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(before + KERNELS + 10));
	MUST(copy == after(1 + before + KERNELS + 5));
	beside = beside && !info(batch).scheduled;
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(2 + round));
	return beside;
}

static void pads(void)
{
	unsigned rounds = 0;

	bind_padding(16);
	while (!pads_beside(rounds++))
		MUST(rounds < 20);
}

/* The gate opens while it pads. */
static void moves(void)
{
	bind_padding(8);
	for (unsigned i = 1; i <= 20; i++) {
		uint32_t before;

		work(batch, out[1], 20);
		stand(urgent);
		work(urgent, out[0], 1);
		before = words[1][0];
		for (unsigned k = 0; k < 100 && words[1][0] == before; k++)
			usleep(100);
		let_go(urgent);
		CU(cuStreamSynchronize(urgent));
		MUST(words[0][0] == after(1 + i));
	}
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(400));
}

/* The pad is made when something is launched, and nothing is stopped; and a stream without work is
 * told how it was left. */
static void has_all(unsigned pad)
{
	for (unsigned i = 0; i < 1000 && (room(batch).pad != pad || room(batch).urgent); i++) {
		work(batch, out[1], 1);
		CU(cuStreamSynchronize(batch));
		usleep(5000);
	}
}

/* What a program is told of it, before, meanwhile and after. */
static void tells_room(void)
{
	const struct fm_cuda_version v[] = {
		{54000, 31000, 128, 32768, 256, 260, 1, 0},
		{60000, 18000, 64, 8192, 128, 1040, 4, 0},
	};
	struct fm_cuda_room r, small = {.size = sizeof(r) - 1};
	unsigned rounds = 0, all = multiprocessors();
	bool kept[2];

	IS(-EINVAL, fm_cuda_room(batch, &small));
	IS(-EINVAL, fm_cuda_room(batch, NULL));
	IS(-EINVAL, fm_cuda_room(NULL, &r));
	r.size = sizeof(r);
	IS(-ENOENT, fm_cuda_room(batch, &r));
	bind_padding(16);
	has_all(16);
	r = room(batch);
	MUST(!r.urgent && !r.padding && r.free == all && r.place == all && r.pad == 16);
	IS(0, fm_cuda_fit(v, 2, &r, 0));
	IS(1, fm_cuda_fit(v, 2, &r, 20000));
	r = room(urgent);
	MUST(!r.padding && r.place == all && r.pad == 0);
	/* The urgent stream may give way before it is seen. */
	do {
		MUST(rounds++ < 20);
		stop_for_urgent();
		for (unsigned i = 0; i < 2000 && !(r = room(batch)).padding; i++)
			usleep(200);
		MUST(!r.padding || r.free == 16);
		let_go(urgent);
		CU(cuStreamSynchronize(urgent));
		CU(cuStreamSynchronize(batch));
	} while (!r.padding || !r.urgent);
	MUST(r.free == 16 && r.pad == 16);
	IS(1, fm_cuda_fit(v, 2, &r, 0));
	IS(-ENOENT, fm_cuda_fit(v, 2, &r, 10000));
	EVENTUALLY(room(batch).free == all);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	MUST(room(batch).free == 0);
	IS(0, fm_cuda_resume(batch));
	IS(2, fm_cuda_prune(v, 2, kept));
	MUST(kept[0] && kept[1]);
	IS(-EINVAL, fm_cuda_prune(v, 100000, kept));
	IS(-EINVAL, fm_cuda_prune(NULL, 1, kept));
	IS(-EINVAL, fm_cuda_fit(NULL, 1, &r, 0));
	IS(-EINVAL, fm_cuda_fit(v, 2, &small, 0));
}

static void never(void)
{
	bind_padding(FM_CUDA_PAD_NEVER);
	MUST(room(batch).pad == 0 && room(batch).place == multiprocessors());
	stop_for_urgent();
	EVENTUALLY(info(batch).stalled);
	rests(batch, 1);
	MUST(room(batch).free == 0 && room(batch).urgent);
	MUST(!batch_has_run(KERNELS));
	end();
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS));
}

/* It stands in front of a wait for the program, and of nothing else. A device that has come to that
 * wait before it was stopped goes on by itself, as does all where the urgent stream has given way.
 */
static void stands_at_waits(void)
{
	bool before, gave_way;

	bind_padding(16);
	work(batch, out[1], KERNELS);
	stand(batch);
	work(batch, out[1], 1);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
	before = batch_has_run(KERNELS);
	EVENTUALLY(batch_has_run(KERNELS));
	let_go(batch);
	usleep(20000);
	gave_way = info(batch).scheduled;
	MUST(before || gave_way || batch_has_run(KERNELS));
	end();
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS + 1));
}

static void suspended(void)
{
	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(words[1][0] != after(1));
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	if (!batch_has_run(KERNELS))
		rests(batch, 1);
	IS(0, fm_cuda_resume(batch));
	EVENTUALLY(batch_has_run(KERNELS));
	end();
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS));
}

/* The urgent stream is suspended, and is at rest when its wait for the program is over: then the
 * batch has the device. */
static void urgent_suspended(void)
{
	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(words[1][0] != after(1));
	IS(0, fm_cuda_suspend(urgent, false, 0));
	let_go(urgent);
	EVENTUALLY(info(batch).scheduled);
	EVENTUALLY(batch_has_run(KERNELS));
	IS(0, fm_cuda_resume(urgent));
	end();
}

/* The stream is destroyed, and the urgent one as well, which ends its group. */
static void destroyed(void)
{
	bind_padding(16);
	stop_for_urgent();
	CU(cuStreamDestroy_v2(batch));
	let_go(urgent);
	CU(cuStreamDestroy_v2(urgent));
	EVENTUALLY(batch_has_run(KERNELS));
	MUST(words[0][0] == after(2));
}

static void *frees(void *arg)
{
	CUdeviceptr d;

	CU(cuCtxSetCurrent(c.ctx));
	CU(cuMemAlloc_v2(&d, 4096));
	CU(cuMemFree_v2(d));
	*(_Atomic bool *)arg = true;
	return NULL;
}

/* The context ends while it pads, with all that is in it. */
static void context_ends(void)
{
	CUdevice dev;

	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(words[1][0] != after(1));
	let_go(urgent);
	CU(cuCtxGetDevice(&dev));
	CU(cuDevicePrimaryCtxReset_v2(dev));
}

/* A thread frees memory: that ends it, and is over when the batch has gone on. */
static void gives_way_to_calls(void)
{
	_Atomic bool freed = false;
	pthread_t t;

	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(words[1][0] != after(1));
	MUST(!pthread_create(&t, NULL, frees, (void *)&freed));
	usleep(20000);
	end();
	MUST(!pthread_join(t, NULL));
	MUST(freed);
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS));
}

static void forks(void)
{
	int status;
	pid_t pid;

	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(words[1][0] != after(1));
	pid = fork();
	if (!pid)
		_exit(fm_cuda_suspend(batch, false, 0) == 0);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	EVENTUALLY(batch_has_run(KERNELS));
	end();
}

/* As pads, but for the number, of which no pad can be made. Errors are for the call. */
static void sizes(void)
{
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW);

	b.pad = 12;
	IS(-ERANGE, fm_cuda_bind(batch, &b));
	b.pad = 72;
	IS(-ERANGE, fm_cuda_bind(batch, &b));
	b.size = offsetof(struct fm_cuda_binding, pad);
	IS(0, fm_cuda_bind(batch, &b)); /* it is not looked at */
}

/* It pads until a line comes. */
static void stays(void)
{
	bind_padding(16);
	stop_for_urgent();
	EVENTUALLY(batch_has_run(KERNELS));
	puts("ready");
	fflush(stdout);
	MUST(getchar() != EOF);
	work(batch, out[1], 3);
	end();
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS + 3));
}

#define AHEAD    4
#define AHEAD_NS 50000000

/* The urgent stream always has work, and moves, so that it never gives way. */
static void *keep_urgent(void *over)
{
	unsigned begun = 1, ended = 1;
	uint32_t at = after(1);

	CU(cuCtxSetCurrent(c.ctx));
	while (!atomic_load((atomic_bool *)over)) {
		uint32_t now = words[0][0];

		for (; at != now && ended < begun; ended++)
			at = 3 * at + 1;
		if (begun - ended < AHEAD) {
			spin(&c, urgent, out[0], AHEAD_NS);
			begun++;
		} else {
			usleep(1000);
		}
	}
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(begun));
	return NULL;
}

static void stays_beside(void)
{
	atomic_bool over = false;
	pthread_t thread;

	bind_padding(16);
	work(batch, out[1], KERNELS);
	MUST(!pthread_create(&thread, NULL, keep_urgent, &over));
	EVENTUALLY(batch_has_run(KERNELS));
	puts("ready");
	fflush(stdout);
	MUST(getchar() != EOF);
	work(batch, out[1], 3);
	atomic_store(&over, true);
	MUST(!pthread_join(thread, NULL));
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS + 3));
}

static void reset(void)
{
	CUdevice dev;

	CU(cuCtxGetDevice(&dev));
	CU(cuDevicePrimaryCtxReset_v2(dev));
}

/* All work of the batch ends in the pad. A call that waits until nothing is stopped ends the
 * padding, and comes in when the urgent stream's work has ended, too: the batch has nothing to go
 * on with, but is stopped. */
static void ends_in_it(void)
{
	_Atomic bool freed = false;
	atomic_bool over = false;
	pthread_t thread, other;

	bind_padding(16);
	work(batch, out[1], KERNELS);
	MUST(!pthread_create(&thread, NULL, keep_urgent, &over));
	EVENTUALLY(batch_has_run(KERNELS));
	MUST(!pthread_create(&other, NULL, frees, (void *)&freed));
	EVENTUALLY(freed || !room(batch).padding);
	usleep(20000); /* and it has come to stand */
	atomic_store(&over, true);
	MUST(!pthread_join(thread, NULL));
	MUST(!pthread_join(other, NULL));
	work(batch, out[1], 2);
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(KERNELS + 2));
	reset();
}

/* Again and again, wherever the batch is when the urgent stream's work ends. */
static void ends_anywhere(void)
{
	unsigned kernels = 0;

	bind_padding(16);
	for (unsigned jobs = 0; jobs < 60; jobs++) {
		work(batch, out[1], 3);
		kernels += 3;
		work(urgent, out[0], 2);
		CU(cuStreamSynchronize(urgent));
	}
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(kernels));
	reset();
}

/* The urgent stream has jobs, and the batch always has something to do. */
static void takes_turns(void)
{
	unsigned kernels = 0, jobs = 0;

	bind_padding(FM_PAD_AUTO);
	for (; jobs < 100; jobs++) {
		work(batch, out[1], 4);
		kernels += 4;
		work(urgent, out[0], 2);
		CU(cuStreamSynchronize(urgent));
		MUST(words[0][0] == after(1 + 2 * (jobs + 1)));
	}
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(kernels));
	puts("done");
	fflush(stdout);
	MUST(getchar() != EOF);
}

/* --- auto: each size is made once, ahead --- */

#define SIZES 8u

static fake_cuda_counted_fn *greens; /* the driver's calls to make one */

/* The nth of them fails. */
static void count_greens(unsigned nth)
{
	fake_cuda_fail_fn *fail;

	*(void **)&fail = dlsym(driver_handle(), "fake_cuda_fail");
	*(void **)&greens = dlsym(driver_handle(), "fake_cuda_counted");
	MUST(fail && greens);
	fail("cuGreenCtxCreate", nth, 2);
}

static void *keep_batch(void *over)
{
	unsigned *kernels = over;

	CU(cuCtxSetCurrent(c.ctx));
	while (greens() < SIZES) {
		work(batch, out[1], 2);
		*kernels += 2;
		usleep(300);
	}
	return NULL;
}

/* Whatever number is chosen then, the driver makes none any more; and the context can be reset,
 * which it could not if one of them were left. */
static void all_are_made(unsigned kernels, unsigned sizes)
{
	for (unsigned jobs = 0; jobs < 60; jobs++) {
		work(batch, out[1], 3);
		kernels += 3;
		work(urgent, out[0], 2);
		CU(cuStreamSynchronize(urgent));
		MUST(words[0][0] == after(1 + 2 * (jobs + 1)));
	}
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(kernels));
	MUST(greens() == sizes);
	reset();
}

static void ahead(void)
{
	count_greens(0);
	bind_padding(FM_PAD_AUTO);
	EVENTUALLY(greens() >= SIZES);
	all_are_made(0, SIZES);
}

/* One fails: the others serve. */
static void ahead_fails(void)
{
	count_greens(3);
	bind_padding(FM_PAD_AUTO);
	EVENTUALLY(greens() >= SIZES);
	all_are_made(0, SIZES);
}

/* The batch always has work, so there is never a moment without. */
static void ahead_busy(void)
{
	unsigned kernels = 0;
	pthread_t t;

	count_greens(0);
	bind_padding(FM_PAD_AUTO);
	MUST(!pthread_create(&t, NULL, keep_batch, &kernels));
	MUST(!pthread_join(t, NULL));
	all_are_made(kernels, SIZES);
}

/* The context ends while they are made. */
static void ahead_ends(void)
{
	count_greens(0);
	bind_padding(FM_PAD_AUTO);
	EVENTUALLY(greens() >= 2);
	reset();
}

/* Waits for a line then. */
static void says(const char *line)
{
	int ch;

	puts(line);
	fflush(stdout);
	while ((ch = getchar()) != '\n')
		MUST(ch != EOF);
}

/* The batch alone, which waits for a program that is more urgent. */
static void waits_with(unsigned kernels)
{
	bind_padding(16);
	says("bound");
	work(batch, out[1], kernels);
	says("launched");
	CU(cuStreamSynchronize(batch));
	MUST(batch_has_run(kernels));
}

/* What comes behind the first kernel would wait in its launch. */
static void waits(void)
{
	waits_with(1);
}

static void waits_long(void)
{
	waits_with(KERNELS);
}

/* That program: it has the device until a line comes. */
static void elsewhere(void)
{
	struct fm_cuda_binding u = binding("elsewhere", FM_PRIORITY_REALTIME);

	IS(0, fm_cuda_bind(urgent, &u));
	MUST(fm_cuda_scheduled());
	stand(urgent);
	work(urgent, out[0], 1);
	says("stands");
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(1));
}

int main(int argc, char **argv)
{
	static const struct server_case cases[] = {
		{"pads", pads},
		{"tells-room", tells_room},
		{"moves", moves},
		{"never", never},
		{"stands-at-waits", stands_at_waits},
		{"suspended", suspended},
		{"urgent-suspended", urgent_suspended},
		{"destroyed", destroyed},
		{"context-ends", context_ends},
		{"gives-way-to-calls", gives_way_to_calls},
		{"forks", forks},
		{"sizes", sizes},
		{"stays", stays},
		{"stays-beside", stays_beside},
		{"takes-turns", takes_turns},
		{"ends-in-it", ends_in_it},
		{"ends-anywhere", ends_anywhere},
		{"ahead", ahead},
		{"ahead-fails", ahead_fails},
		{"ahead-busy", ahead_busy},
		{"ahead-ends", ahead_ends},
		{"waits", waits},
		{"waits-long", waits_long},
		{"elsewhere", elsewhere},
		{NULL, NULL},
	};

	return server_main(argc, argv, cases);
}
