/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of cuDLA's that end, or do not.
 *
 *   destroys  destroys a handle while a thread is in a call for it, and says "ready" when tasks
 *             have been submitted to another one since. Upon a line the thread comes back, and it
 *             says "right"; upon the next line it ends
 *   keeps     destroys a handle, which the library refuses, and submits to it once more; ends upon
 *             a line
 */
#include "cudla.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call)                                                                    \
	do {                                                                        \
		int rc_ = call;                                                     \
                                                                                    \
		if (rc_) {                                                          \
			fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, rc_); \
			exit(9);                                                    \
		}                                                                   \
	} while (0)

static uint64_t tensor[CUDLA_WORDS];
static uint64_t *const tensors[] = {tensor};
static cudlaDevHandle device, other;
static cudlaModule module;
static sem_t is_inside, may_leave;

static cudlaStatus submit(cudlaDevHandle to, _Atomic uint64_t *done)
{
	cudla_fence fence = {(void *)done, 1};
	cudla_signals signals = {NULL, &fence, 1};
	cudla_task task = {module, tensors, 1, 1, (const uint64_t *const *)tensors, NULL, &signals};

	return cudlaSubmitTask(to, &task, 1, NULL, 0);
}

static void submit_and_wait(cudlaDevHandle to)
{
	_Atomic uint64_t done = 0;

	OK(submit(to, &done));
	while (!atomic_load(&done))
		usleep(100);
}

/* The handle is gone: nothing is done for the task. */
static int stay_inside(void)
{
	sem_post(&is_inside);
	sem_wait(&may_leave);
	return 1;
}

static void *submits(void *arg)
{
	if (submit(device, NULL) != CUDLA_INVALID_PARAM)
		exit(9);
	return NULL;
}

static void destroys(void)
{
	pthread_t thread;

	fake_cudla_inside(stay_inside);
	if (pthread_create(&thread, NULL, submits, NULL))
		exit(9);
	sem_wait(&is_inside);
	fake_cudla_inside(NULL);
	OK(cudlaDestroyDevice(device));
	OK(cudlaCreateDevice(0, &other, CUDLA_STANDALONE));
	for (int i = 0; i < 200; i++)
		submit_and_wait(other);
	puts("ready");
	getchar();
	sem_post(&may_leave);
	pthread_join(thread, NULL);
	submit_and_wait(other);
	puts("right");
	getchar();
	OK(cudlaDestroyDevice(other));
}

static void keeps(void)
{
	if (cudlaDestroyDevice(device) != CUDLA_UNSUPPORTED)
		exit(9);
	submit_and_wait(device);
	puts("ready");
	getchar();
	OK(cudlaDestroyDevice(device));
}

int main(int argc, char **argv)
{
	static const uint8_t loadable[] = {7};

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&is_inside, 0, 0);
	sem_init(&may_leave, 0, 0);
	OK(cudlaCreateDevice(1, &device, CUDLA_STANDALONE));
	OK(cudlaModuleLoadFromMemory(device, loadable, sizeof(loadable), &module, 0));
	submit_and_wait(device);
	if (argc > 1 && !strcmp(argv[1], "destroys"))
		destroys();
	else
		keeps();
	OK(cudlaModuleUnload(module, 0));
	return 0;
}
