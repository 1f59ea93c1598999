/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuDLA library without a DLA. In hybrid mode its tasks run in the order of a CUDA stream: it is
 * linked to the driver (the fake one, ../cuda), as a client of which it puts them there. In
 * standalone mode each handle has a thread. By the documentation:
 *
 *   - a stream must be NULL in standalone mode, and is the one to use in hybrid mode; there, events
 *     and tasks without tensors are refused, and so is a stream that is captured;
 *   - who destroys a handle must have seen to it that its tasks are completed: else the process is
 *     ended with a word.
 *
 * A module mixes its first byte into the words of a tensor. A fence of a signal event is a word of
 * memory here, which becomes 1.
 *
 * FAKE_CUDLA_US     each task takes so many microseconds
 * FAKE_CUDLA_KEEPS  so many calls that would destroy a handle are refused
 */
#define CUDLA_EXPORT __attribute__((visibility("default")))
#include "../../cudla.h"
#define CU_EXPORT extern
#include "../../cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct task {
	struct task *next;
	cudlaDevHandle device;
	uint64_t *out;
	const uint64_t *in;
	_Atomic uint64_t *fence; /* or NULL */
	uint8_t number;
};

struct cudlaDevHandle_t {
	bool standalone, ends;
	_Atomic unsigned held;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *first, **last;
};

struct cudlaModule_t {
	uint8_t number;
};

static int (*_Atomic inside)(void);
static _Atomic long kept;

void fake_cudla_inside(int (*call)(void))
{
	atomic_store(&inside, call);
}

static void run(void *arg)
{
	struct task *t = arg;
	const char *us = getenv("FAKE_CUDLA_US");
	long ns = us ? atol(us) * 1000 : 0;

	nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
	for (unsigned i = 0; i < CUDLA_WORDS; i++)
		t->out[i] = 6364136223846793005u * t->in[i] + t->number;
	atomic_fetch_sub(&t->device->held, 1);
	if (t->fence)
		atomic_store(t->fence, 1);
	free(t);
}

static void *work(void *arg)
{
	cudlaDevHandle d = arg;
	struct task *t;

	pthread_mutex_lock(&d->lock);
	while (d->first || !d->ends) {
		t = d->first;
		if (!t) {
			pthread_cond_wait(&d->changed, &d->lock);
			continue;
		}
		d->first = t->next;
		if (!d->first)
			d->last = &d->first;
		pthread_mutex_unlock(&d->lock);
		run(t);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

cudlaStatus cudlaDeviceGetCount(uint64_t *n)
{
	*n = 2;
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaCreateDevice(uint64_t number, cudlaDevHandle *device, uint32_t flags)
{
	cudlaDevHandle d;

	if (!device || number > 1 || flags > CUDLA_STANDALONE)
		return CUDLA_INVALID_PARAM;
	d = calloc(1, sizeof(*d));
	if (!d)
		return CUDLA_INVALID_PARAM;
	d->standalone = flags;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	d->last = &d->first;
	if (d->standalone && pthread_create(&d->thread, NULL, work, d)) {
		free(d);
		return CUDLA_INVALID_PARAM;
	}
	*device = d;
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaDestroyDevice(cudlaDevHandle d)
{
	const char *keeps = getenv("FAKE_CUDLA_KEEPS");

	if (!d)
		return CUDLA_INVALID_PARAM;
	if (keeps && atomic_fetch_add(&kept, 1) < atol(keeps))
		return CUDLA_UNSUPPORTED;
	if (atomic_load(&d->held)) {
		fputs("fake cuDLA: a handle is destroyed that has tasks\n", stderr);
		abort();
	}
	pthread_mutex_lock(&d->lock);
	d->ends = true;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
	if (d->standalone)
		pthread_join(d->thread, NULL);
	free(d);
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaModuleLoadFromMemory(
	cudlaDevHandle d, const uint8_t *bytes, size_t size, cudlaModule *module, uint32_t flags)
{
	if (!d || !size)
		return CUDLA_INVALID_PARAM;
	*module = malloc(sizeof(**module));
	(*module)->number = bytes[0];
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaModuleUnload(cudlaModule module, uint32_t flags)
{
	free(module);
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaMemRegister(
	cudlaDevHandle d, const uint64_t *p, size_t size, uint64_t **registered, uint32_t flags)
{
	*registered = (uint64_t *)(uintptr_t)p;
	return CUDLA_SUCCESS;
}

static cudlaStatus put(cudlaDevHandle d, const cudla_task *given, CUstream stream)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		return CUDLA_INVALID_PARAM;
	*t = (struct task){NULL, d, given->outputs[0], given->inputs[0],
		given->signals ? given->signals->fences[0].fence : NULL, given->module->number};
	atomic_fetch_add(&d->held, 1);
	if (!d->standalone && cuLaunchHostFunc(stream, run, t)) {
		atomic_fetch_sub(&d->held, 1);
		free(t);
		return CUDLA_CUDA_ERROR;
	}
	if (!d->standalone)
		return CUDLA_SUCCESS;
	pthread_mutex_lock(&d->lock);
	*d->last = t;
	d->last = &t->next;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return CUDLA_SUCCESS;
}

cudlaStatus cudlaSubmitTask(
	cudlaDevHandle d, const cudla_task *tasks, uint32_t n, void *stream, uint32_t flags)
{
	int (*call)(void) = atomic_load(&inside);
	cudlaStatus rc = CUDLA_SUCCESS;
	int capturing = 0;

	if (call && call())
		return CUDLA_INVALID_PARAM;
	if (!d || !tasks || (d->standalone && stream))
		return CUDLA_INVALID_PARAM;
	if (!d->standalone && cuStreamIsCapturing(stream, &capturing))
		return CUDLA_CUDA_ERROR;
	for (uint32_t i = 0; i < n; i++)
		if (capturing || (!d->standalone && (!tasks[i].inputs || tasks[i].signals)))
			return CUDLA_UNSUPPORTED;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = tasks[i].inputs ? put(d, &tasks[i], stream) : CUDLA_SUCCESS;
	return rc;
}
