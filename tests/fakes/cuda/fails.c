/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail because they were told to: by the environment, or by the program itself. */
#include "fake.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned counted; /* calls that the program's order is about, since it was given */
static struct {
	char call[64]; /* empty: there is none */
	unsigned nth;  /* 0: it has been carried out */
	int error;
} order;

static bool means(const char *pattern, const char *call)
{
	return !strcmp(pattern, "*") || !strcmp(pattern, call);
}

void fake_cuda_fail(const char *call, unsigned nth, int error)
{
	pthread_mutex_lock(&lock);
	snprintf(order.call, sizeof(order.call), "%s", call);
	order.nth = nth;
	order.error = error;
	counted = 0;
	pthread_mutex_unlock(&lock);
}

unsigned fake_cuda_counted(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = counted;
	pthread_mutex_unlock(&lock);
	return n;
}

static int ordered(const char *call)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	if (means(order.call, call) && ++counted == order.nth)
		error = order.error;
	pthread_mutex_unlock(&lock);
	return error;
}

/* A negative error is a signal: the process dies there, or stops, and then goes on. */
static fm_cu_result meet(int error)
{
	if (error >= 0)
		return error;
	raise(-error);
	return FM_CU_SUCCESS;
}

/* The device is lost with that. */
static fm_cu_result lost(int error)
{
	fake_cuda_lose(error);
	return error;
}

/* Another thread of the parent may have had the lock. */
void fk_fails_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

fm_cu_result fk_fails(const char *call)
{
	static _Atomic unsigned calls;
	const char *given = fk_env("FAKE_CUDA_FAIL");
	int error = ordered(call);
	unsigned from, each, n;
	char name[64], more = 0;

	if (error || !given)
		return meet(error);
	if (sscanf(given, "%63[^@]@%u/%u=%d%c", name, &from, &each, &error, &more) < 4 ||
		!means(name, call))
		return FM_CU_SUCCESS;
	n = ++calls;
	if (n != from && (!each || n < from || (n - from) % each))
		return FM_CU_SUCCESS;
	return more == '!' ? lost(error) : meet(error);
}
