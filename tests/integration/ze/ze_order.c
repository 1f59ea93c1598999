/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conformance set for Level Zero: what each case prints it prints in whatever way it is
 * scheduled.
 *
 *   ze_order [--dlsym] [SECONDS]   the cases, once or for so long; each line once
 */
#include "ze_common.h"
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define FOREVER UINT64_MAX

static void *thread_of(void *arg);

/* Commands of a queue in the order of their barriers. */
static uint32_t in_order(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_fence_handle_t f = fence_new(q);
	ze_command_list_handle_t l[50];
	uint32_t *x = words_new(), is;

	for (unsigned i = 0; i < 50; i++) {
		l[i] = list_new(COMPUTE);
		launch(l[i], mix, x, i, NULL, NULL);
		barrier(l[i]);
		OK(zeCommandListClose(l[i]));
		execute(q, l[i], i == 49 ? f : NULL);
	}
	OK(zeFenceHostSynchronize(f, FOREVER));
	is = sum(x);
	for (unsigned i = 0; i < 50; i++)
		OK(zeCommandListDestroy(l[i]));
	OK(zeFenceDestroy(f));
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

/* One list, executed again and again, and several in a call. */
static uint32_t lists(void)
{
	ze_command_queue_handle_t q = queue_new(DEFAULT, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_command_list_handle_t l[3];
	uint32_t *x = words_new(), is;

	for (unsigned i = 0; i < 3; i++) {
		l[i] = list_new(COMPUTE);
		for (unsigned k = 0; k < 10; k++) {
			launch(l[i], mix, x, 100 * i + k, NULL, NULL);
			barrier(l[i]);
		}
		OK(zeCommandListClose(l[i]));
	}
	for (unsigned i = 0; i < 5; i++) {
		OK(zeCommandQueueExecuteCommandLists(q, 3, l, NULL));
		OK(zeCommandQueueSynchronize(q, FOREVER));
	}
	is = sum(x);
	for (unsigned i = 0; i < 3; i++)
		OK(zeCommandListDestroy(l[i]));
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

static uint32_t immediate_in(ze_command_queue_mode_t mode, unsigned n)
{
	ze_command_list_handle_t l = immediate_new(mode, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_event_handle_t done = event_new(0);
	uint32_t *x = words_new(), is, ahead = 0;

	for (unsigned i = 0; i < n; i++) {
		launch(l, mix, x, i, NULL, NULL);
		if (mode != SYNC)
			barrier(l);
		else
			ahead = ahead * 31 + x[0];
	}
	OK(zeCommandListAppendBarrier(l, done, 0, NULL));
	OK(zeEventHostSynchronize(done, FOREVER));
	is = sum(x) ^ ahead;
	OK(zeCommandListDestroy(l));
	OK(zeEventDestroy(done));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

static uint32_t immediate(void)
{
	return immediate_in(ASYNC, 200) ^ immediate_in(DEFAULT, 20);
}

/* Each call returns when its command has been done. */
static uint32_t synchronous(void)
{
	ze_command_queue_handle_t q = queue_new(SYNC, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_command_list_handle_t l = list_new(COMPUTE);
	uint32_t *x = words_new(), is = immediate_in(SYNC, 30);

	launch(l, mix, x, 7, NULL, NULL);
	OK(zeCommandListClose(l));
	for (unsigned i = 0; i < 20; i++) {
		execute(q, l, NULL);
		is = is * 31 + sum(x);
	}
	OK(zeCommandListDestroy(l));
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

/* A diamond over three queues, one of them an immediate list, one of the group that copies. */
static uint32_t events(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	ze_command_list_handle_t im = immediate_new(ASYNC, COMPUTE),
				 cp = immediate_new(ASYNC, COPIES);
	ze_command_list_handle_t first = list_new(COMPUTE), last = list_new(COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix"), add = kernel_new("add");
	ze_event_handle_t a = event_new(1), b = event_new(2), c = event_new(3), both[2] = {b, c};
	uint32_t *x = words_new(), *y = words_new(), *z = words_new(), is = 0;

	launch(first, mix, x, 5, a, NULL);
	OK(zeCommandListClose(first));
	OK(zeCommandListAppendWaitOnEvents(last, 2, both));
	launch(last, add, y, (uintptr_t)z, NULL, NULL);
	barrier(last);
	OK(zeCommandListClose(last));
	for (unsigned i = 0; i < 10; i++) {
		execute(q, first, NULL);
		OK(zeCommandListAppendMemoryCopy(cp, z, x, WORDS * 4, c, 1, &a));
		launch(im, mix, y, i, b, a);
		execute(q, last, NULL);
		OK(zeCommandQueueSynchronize(q, FOREVER));
		is = is * 31 + sum(y);
		OK(zeEventHostReset(a));
		OK(zeEventHostReset(b));
		OK(zeEventHostReset(c));
	}
	OK(zeCommandListDestroy(first));
	OK(zeCommandListDestroy(last));
	OK(zeCommandListDestroy(im));
	OK(zeCommandListDestroy(cp));
	OK(zeCommandQueueDestroy(q));
	OK(zeEventDestroy(a));
	OK(zeEventDestroy(b));
	OK(zeEventDestroy(c));
	OK(zeKernelDestroy(mix));
	OK(zeKernelDestroy(add));
	OK(zeMemFree(gpu.context, x));
	OK(zeMemFree(gpu.context, y));
	OK(zeMemFree(gpu.context, z));
	return is;
}

/* A queue that stands until the host signals an event, while another one goes on; and timeouts,
 * also of 0, which ask. */
static uint32_t host_signals(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE), other = queue_new(ASYNC, COMPUTE);
	ze_command_list_handle_t l = list_new(COMPUTE), m = list_new(COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_event_handle_t go = event_new(4), done = event_new(5);
	ze_fence_handle_t f = fence_new(q), g = fence_new(other);
	uint32_t *x = words_new(), *y = words_new(), is = 0;

	OK(zeCommandListAppendBarrier(l, NULL, 1, &go));
	launch(l, mix, x, 3, done, NULL);
	OK(zeCommandListClose(l));
	launch(m, mix, y, 9, NULL, NULL);
	OK(zeCommandListClose(m));
	execute(q, l, f);
	execute(other, m, g);
	OK(zeFenceHostSynchronize(g, FOREVER));
	is = is * 8 + (uint32_t)ze.zeFenceHostSynchronize(f, 1000000);
	is = is * 8 + (uint32_t)ze.zeFenceQueryStatus(f);
	is = is * 8 + (uint32_t)ze.zeEventHostSynchronize(done, 1000000);
	is = is * 8 + (uint32_t)ze.zeEventQueryStatus(done);
	is = is * 8 + (uint32_t)ze.zeCommandQueueSynchronize(q, 0);
	is = is * 8 + (uint32_t)ze.zeCommandQueueSynchronize(q, 1000000);
	OK(zeEventHostSignal(go));
	OK(zeEventHostSynchronize(done, FOREVER));
	OK(zeFenceHostSynchronize(f, FOREVER));
	is = is * 8 + (uint32_t)ze.zeFenceQueryStatus(f);
	OK(zeCommandListDestroy(l));
	OK(zeCommandListDestroy(m));
	OK(zeFenceDestroy(f));
	OK(zeFenceDestroy(g));
	OK(zeCommandQueueDestroy(q));
	OK(zeCommandQueueDestroy(other));
	OK(zeEventDestroy(go));
	OK(zeEventDestroy(done));
	OK(zeKernelDestroy(mix));
	is ^= sum(x) ^ sum(y);
	OK(zeMemFree(gpu.context, x));
	OK(zeMemFree(gpu.context, y));
	return is;
}

/* A queue that was waited for is idle, however often one asks. */
static uint32_t polling(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	ze_command_list_handle_t l = list_new(COMPUTE);
	ze_kernel_handle_t spin = kernel_new("spin");
	uint32_t busy = 0;

	launch(l, spin, (void *)(uintptr_t)100000, 0, NULL, NULL);
	OK(zeCommandListClose(l));
	for (unsigned i = 0; i < 10; i++) {
		execute(q, l, NULL);
		OK(zeCommandQueueSynchronize(q, FOREVER));
		for (unsigned k = 0; k < 100; k++)
			busy += ze.zeCommandQueueSynchronize(q, 0) != ZE_RESULT_SUCCESS;
	}
	OK(zeCommandListDestroy(l));
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(spin));
	return busy;
}

/* Two lists in turn: one is recorded anew, while the other one runs. */
static uint32_t recorded_anew(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	ze_command_list_handle_t l[2] = {list_new(COMPUTE), list_new(COMPUTE)};
	ze_fence_handle_t f[2] = {fence_new(q), fence_new(q)};
	ze_kernel_handle_t mix = kernel_new("mix");
	uint32_t *x = words_new(), is;

	for (unsigned i = 0; i < 40; i++) {
		if (i > 1) {
			OK(zeFenceHostSynchronize(f[i % 2], FOREVER));
			OK(zeFenceReset(f[i % 2]));
			OK(zeCommandListReset(l[i % 2]));
		}
		launch(l[i % 2], mix, x, i, NULL, NULL);
		barrier(l[i % 2]);
		OK(zeCommandListClose(l[i % 2]));
		execute(q, l[i % 2], f[i % 2]);
	}
	OK(zeCommandQueueSynchronize(q, FOREVER));
	is = sum(x);
	for (unsigned i = 0; i < 2; i++) {
		OK(zeFenceHostSynchronize(f[i], FOREVER));
		OK(zeFenceDestroy(f[i]));
		OK(zeCommandListDestroy(l[i]));
	}
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

/* Queues and immediate lists that live for a few commands; handles come again, also as other
 * things. */
static uint32_t churn(void)
{
	uint32_t is = 0;

	for (unsigned i = 0; i < 12; i++)
		is = is * 31 + (i % 2 ? immediate_in(i % 4 == 1 ? ASYNC : SYNC, 5) : in_order());
	return is;
}

static uint32_t threads(void)
{
	static uint32_t of[4];
	pthread_t thread[4];
	uint32_t is = 0;

	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, thread_of, &of[i]))
			fail("no thread");
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		is ^= of[i] * (i + 1);
	}
	return is;
}

static void *thread_of(void *arg)
{
	*(uint32_t *)arg = in_order() ^ recorded_anew();
	return NULL;
}

/* Two threads execute lists on one queue. */
struct both {
	ze_command_queue_handle_t q;
	uint32_t *x;
};

static void *execute_some(void *arg)
{
	struct both *b = arg;
	ze_kernel_handle_t mix = kernel_new("mix");

	for (unsigned i = 0; i < 20; i++) {
		ze_command_list_handle_t l = list_new(COMPUTE);
		ze_fence_handle_t f = fence_new(b->q);

		launch(l, mix, b->x, i, NULL, NULL);
		barrier(l);
		OK(zeCommandListClose(l));
		execute(b->q, l, f);
		OK(zeFenceHostSynchronize(f, FOREVER));
		OK(zeCommandListDestroy(l));
		OK(zeFenceDestroy(f));
	}
	OK(zeKernelDestroy(mix));
	return NULL;
}

static uint32_t one_queue(void)
{
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	struct both b[2] = {{q, words_new()}, {q, words_new()}};
	pthread_t thread[2];
	uint32_t is;

	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, execute_some, &b[i]))
			fail("no thread");
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	is = sum(b[0].x) * 3 ^ sum(b[1].x);
	OK(zeCommandQueueDestroy(q));
	OK(zeMemFree(gpu.context, b[0].x));
	OK(zeMemFree(gpu.context, b[1].x));
	return is;
}

/* A context that ends with a queue in it. */
static uint32_t left_over(void)
{
	static ze_command_queue_handle_t kept[64];
	static unsigned n;
	const ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
	ze_context_handle_t own = gpu.context;
	ze_command_list_handle_t l;
	ze_kernel_handle_t mix = kernel_new("mix");
	uint32_t *x = words_new(), is;
	ze_command_queue_handle_t q;

	OK(zeContextCreate(gpu.driver, &desc, &gpu.context));
	q = kept[n++ % 64] = queue_new(ASYNC, COMPUTE);
	l = list_new(COMPUTE);
	launch(l, mix, x, 1, NULL, NULL);
	OK(zeCommandListClose(l));
	execute(q, l, NULL);
	OK(zeCommandQueueSynchronize(q, FOREVER));
	OK(zeCommandListDestroy(l));
	OK(zeContextDestroy(gpu.context));
	gpu.context = own;
	is = sum(x);
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

/* Lists that are executed on an immediate list, by a function that only the driver has. */
static uint32_t extension(void)
{
	ze_result_t (*append)(ze_command_list_handle_t, uint32_t, ze_command_list_handle_t *,
		ze_event_handle_t, uint32_t, ze_event_handle_t *);
	ze_command_list_handle_t im = immediate_new(ASYNC, COMPUTE), l = list_new(COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_event_handle_t done = event_new(6);
	uint32_t *x = words_new(), is;

	OK(zeDriverGetExtensionFunctionAddress(
		gpu.driver, "zeCommandListImmediateAppendCommandListsExp", (void **)&append));
	launch(l, mix, x, 1, NULL, NULL);
	barrier(l);
	OK(zeCommandListClose(l));
	for (unsigned i = 0; i < 20; i++) {
		if (append(im, 1, &l, done, 0, NULL))
			fail("lists cannot be appended");
		OK(zeEventHostSynchronize(done, FOREVER));
		OK(zeEventHostReset(done));
	}
	is = sum(x);
	OK(zeCommandListDestroy(im));
	OK(zeCommandListDestroy(l));
	OK(zeEventDestroy(done));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

static void *of_driver(const char *name)
{
	void *fn;

	OK(zeDriverGetExtensionFunctionAddress(gpu.driver, name, &fn));
	return fn;
}

/* A list is recorded; nothing of it runs, and then all of it, as often as it is asked for. */
static uint32_t recorded(void)
{
	ze_result_t (*begin)(ze_command_list_handle_t, const void *);
	ze_result_t (*end)(ze_command_list_handle_t, const void *, void **);
	ze_result_t (*instantiate)(void *, const void *, void **);
	ze_result_t (*run)(ze_command_list_handle_t, void *, const void *, ze_event_handle_t,
		uint32_t, ze_event_handle_t *);
	ze_result_t (*destroy)(void *);
	ze_command_list_handle_t im = immediate_new(ASYNC, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_event_handle_t done = event_new(6);
	uint32_t *x = words_new(), is;
	void *graph, *exec;

	*(void **)&begin = of_driver("zeCommandListBeginGraphCaptureExt");
	*(void **)&end = of_driver("zeCommandListEndGraphCaptureExt");
	*(void **)&instantiate = of_driver("zeGraphInstantiateExt");
	*(void **)&run = of_driver("zeCommandListAppendGraphExt");
	*(void **)&destroy = of_driver("zeGraphDestroyExt");
	launch(im, mix, x, 7, NULL, NULL);
	barrier(im);
	OK(zeCommandListAppendSignalEvent(im, done));
	OK(zeEventHostSynchronize(done, FOREVER));
	OK(zeEventHostReset(done));
	if (begin(im, NULL))
		fail("a list cannot be recorded");
	for (unsigned i = 0; i < 200; i++) {
		launch(im, mix, x, i, NULL, NULL);
		barrier(im);
	}
	is = sum(x);
	if (end(im, NULL, &graph) || instantiate(graph, NULL, &exec))
		fail("there is no graph");
	for (unsigned i = 0; i < 5; i++) {
		launch(im, mix, x, i, NULL, NULL);
		barrier(im);
		if (run(im, exec, NULL, done, 0, NULL))
			fail("a graph cannot be appended");
		OK(zeEventHostSynchronize(done, FOREVER));
		OK(zeEventHostReset(done));
		is = is * 3 ^ sum(x);
	}
	destroy(graph);
	OK(zeCommandListDestroy(im));
	OK(zeEventDestroy(done));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	return is;
}

static uint32_t errors(void)
{
	const ze_group_count_t one = {1, 1, 1};
	ze_command_queue_handle_t q = queue_new(ASYNC, COMPUTE);
	ze_command_list_handle_t cp = immediate_new(ASYNC, COPIES), l = list_new(COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	void *none = (void *)1;
	uint32_t is;

	is = (uint32_t)ze.zeCommandQueueExecuteCommandLists(q, 0, NULL, NULL);
	is = is * 31 + (uint32_t)ze.zeCommandListAppendLaunchKernel(cp, mix, &one, NULL, 0, NULL);
	is = is * 31 + (uint32_t)ze.zeCommandListReset(cp);
	OK(zeCommandListClose(l));
	is = is * 31 + (uint32_t)ze.zeCommandListAppendBarrier(l, NULL, 0, NULL);
	is = is * 31 +
	     (uint32_t)ze.zeDriverGetExtensionFunctionAddress(gpu.driver, "zeNone", &none);
	OK(zeCommandListDestroy(cp));
	OK(zeCommandListDestroy(l));
	OK(zeCommandQueueDestroy(q));
	OK(zeKernelDestroy(mix));
	return is;
}

/* More commands than a queue has gates for, and each other kind of command. */
static uint32_t deep(void)
{
	ze_command_list_handle_t l = immediate_new(ASYNC, COMPUTE);
	ze_kernel_handle_t mix = kernel_new("mix");
	ze_event_handle_t done = event_new(7), step = event_new(8);
	uint32_t *x = words_new(), *y = words_new(), pattern = 0x01020304, is;
	const size_t size = WORDS * 4;
	const void *range = x;
	uint64_t stamp = 0;

	for (unsigned i = 0; i < 600; i++) {
		launch(l, mix, x, i, NULL, NULL);
		barrier(l);
	}
	OK(zeCommandListAppendMemoryFill(l, y, &pattern, 4, WORDS * 4, step, 0, NULL));
	OK(zeCommandListAppendWaitOnEvents(l, 1, &step));
	OK(zeCommandListAppendMemoryRangesBarrier(l, 1, &size, &range, NULL, 0, NULL));
	OK(zeCommandListAppendEventReset(l, step));
	OK(zeCommandListAppendWriteGlobalTimestamp(l, &stamp, NULL, 0, NULL));
	OK(zeCommandListAppendMemoryPrefetch(l, x, WORDS * 4));
	barrier(l);
	OK(zeCommandListAppendSignalEvent(l, done));
	OK(zeEventHostSynchronize(done, FOREVER));
	is = sum(x) ^ sum(y) ^ (stamp != 0) ^ (uint32_t)ze.zeEventQueryStatus(step) << 8;
	OK(zeCommandListDestroy(l));
	OK(zeEventDestroy(done));
	OK(zeEventDestroy(step));
	OK(zeKernelDestroy(mix));
	OK(zeMemFree(gpu.context, x));
	OK(zeMemFree(gpu.context, y));
	return is;
}

static const struct {
	const char *name;
	uint32_t (*run)(void);
} cases[] = {{"in order", in_order}, {"lists", lists}, {"immediate", immediate},
	{"synchronous", synchronous}, {"events", events}, {"host signals", host_signals},
	{"polling", polling}, {"recorded anew", recorded_anew}, {"churn", churn},
	{"threads", threads}, {"one queue", one_queue}, {"left over", left_over},
	{"extension", extension}, {"recorded", recorded}, {"errors", errors}, {"deep", deep}};

int main(int argc, char **argv)
{
	bool by_dlsym = argc > 1 && !strcmp(argv[1], "--dlsym");
	double seconds = argc > 1 + by_dlsym ? atof(argv[1 + by_dlsym]) : 0;
	uint32_t first[sizeof(cases) / sizeof(cases[0])];
	struct timespec from, now;
	unsigned round = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	load(by_dlsym);
	set_up();
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			uint32_t is = cases[i].run();

			if (!round)
				printf("%s %08x\n", cases[i].name, first[i] = is);
			else if (is != first[i])
				printf("%s %08x in round %u\n", cases[i].name, is, round);
		}
		round++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - from.tv_sec) + 1e-9 * (double)(now.tv_nsec - from.tv_nsec) <
		 seconds);
	tear_down();
	return 0;
}
