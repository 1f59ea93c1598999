/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job for Level Zero, which the tests stop, kill and question, as tests/fault/cuda_worker.c
 * is one for CUDA: kernels of US microseconds, and after each one that mixes its number into a
 * buffer. It prints "ready", then "at KERNELS" after each few; on "stop" "done KERNELS wrong N". At
 * the end of stdin it exits at once.
 *
 * usage: US [queue | immediate | sync | syncqueue | defaultqueue]
 */
#include "ze_common.h"
#include <poll.h>
#include <unistd.h>

#define STRIDE 4u /* kernels of each kind between two reports */

static struct {
	ze_command_queue_handle_t queue;
	ze_command_list_handle_t list[2]; /* the immediate one, or two in turn */
	ze_event_handle_t done[2];
	ze_kernel_handle_t spin, mix;
	uint32_t *x;
	uint64_t ns;
	uint32_t number;
} job;

static void enqueue(unsigned turn)
{
	ze_command_list_handle_t l = job.list[job.queue ? turn : 0];

	OK(zeEventHostReset(job.done[turn]));
	if (job.queue)
		OK(zeCommandListReset(l));
	for (unsigned i = 0; i < STRIDE; i++) {
		launch(l, job.spin, (void *)(uintptr_t)job.ns, 0, NULL, NULL);
		barrier(l);
		launch(l, job.mix, job.x, job.number++, NULL, NULL);
		barrier(l);
	}
	OK(zeCommandListAppendBarrier(l, job.done[turn], 0, NULL));
	if (!job.queue)
		return;
	OK(zeCommandListClose(l));
	execute(job.queue, l, NULL);
}

static uint32_t expected(void)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < job.number; i++)
		v = 1664525u * v + i;
	return v;
}

/* 's': told to stop; 'e': the end of stdin. */
static char told(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char c;

	if (poll(&p, 1, 0) != 1)
		return 0;
	return read(0, &c, 1) == 1 ? 's' : 'e';
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "queue";
	ze_command_queue_mode_t mode = !strncmp(how, "sync", 4)      ? SYNC
				       : !strncmp(how, "default", 7) ? DEFAULT
								     : ASYNC;
	unsigned wrong = 0;
	char c = 0;

	if (argc < 2)
		return 2;
	load(false);
	set_up();
	setvbuf(stdout, NULL, _IOLBF, 0);
	job.ns = strtoull(argv[1], NULL, 10) * 1000;
	job.spin = kernel_new("spin");
	job.mix = kernel_new("mix");
	job.x = words_new();
	if (strstr(how, "queue")) {
		job.queue = queue_new(mode, COMPUTE);
		job.list[0] = list_new(COMPUTE);
		job.list[1] = list_new(COMPUTE);
	} else {
		job.list[0] = immediate_new(mode, COMPUTE);
	}
	for (unsigned i = 0; i < 2; i++) {
		job.done[i] = event_new(i);
		enqueue(i);
	}
	puts("ready");
	for (unsigned turn = 0; !c; turn = !turn) {
		OK(zeEventHostSynchronize(job.done[turn], UINT64_MAX));
		c = told();
		if (c == 'e')
			_exit(0);
		printf("at %u\n", job.number - STRIDE);
		enqueue(turn);
	}
	for (unsigned i = 0; i < 2; i++)
		OK(zeEventHostSynchronize(job.done[i], UINT64_MAX));
	if (job.queue)
		OK(zeCommandQueueSynchronize(job.queue, UINT64_MAX));
	for (unsigned i = 0; i < WORDS; i++)
		wrong += job.x[i] != expected();
	printf("done %u wrong %u\n", job.number, wrong);
	for (unsigned i = 0; i < 2; i++) {
		if (job.list[i])
			OK(zeCommandListDestroy(job.list[i]));
		OK(zeEventDestroy(job.done[i]));
	}
	if (job.queue)
		OK(zeCommandQueueDestroy(job.queue));
	OK(zeKernelDestroy(job.spin));
	OK(zeKernelDestroy(job.mix));
	OK(zeMemFree(gpu.context, job.x));
	tear_down();
	return wrong != 0;
}
