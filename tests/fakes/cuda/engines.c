/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes time on a device: copies, by one engine each way, which share the link where both are
 * at work; and the calls for chunks. Processes that share a device share its engines.
 */
#include "engines.h"
#include "capacity.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PIECE_NS 1000000

static struct fk_engines own = {.lock = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER}};

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void sleep_for(double ns)
{
	if (ns > 0)
		sleep_until(fk_now() + (uint64_t)ns);
}

/* FAKE_CUDA_COPY=IN:OUT:BOTH, in GB/s, which are bytes per nanosecond. */
static bool rates(double rate[3])
{
	const char *given = fk_env("FAKE_CUDA_COPY");

	return given && sscanf(given, "%lf:%lf:%lf", &rate[0], &rate[1], &rate[2]) == 3 &&
	       rate[0] > 0 && rate[1] > 0 && rate[2] > 0;
}

bool fk_engine_takes_time(void)
{
	double rate[3];

	return rates(rate);
}

void fk_engine_copy(enum fk_way way, size_t bytes)
{
	struct fk_engines *e = fk_capacity_engines();
	double rate[3], left = (double)bytes, piece;
	uint64_t at;

	if (!rates(rate))
		return;
	e = e ? e : &own;
	if (pthread_mutex_lock(&e->lock[way]) == EOWNERDEAD)
		pthread_mutex_consistent(&e->lock[way]);
	atomic_store(&e->busy[way], 1);
	for (at = fk_now(); left > 0 && !fk.lost; left -= piece) {
		double r = atomic_load(&e->busy[!way]) && rate[2] / 2 < rate[way] ? rate[2] / 2
										  : rate[way];

		piece = left < r * PIECE_NS ? left : r * PIECE_NS;
		at += (uint64_t)(piece / r);
		sleep_until(at);
	}
	atomic_store(&e->busy[way], 0);
	pthread_mutex_unlock(&e->lock[way]);
}

/* FAKE_CUDA_VMM_US=CREATE:MAP:ACCESS:UNMAP */
void fk_engine_call(enum fk_vmm_call call)
{
	const char *given = fk_env("FAKE_CUDA_VMM_US");
	double us[4];

	if (given && sscanf(given, "%lf:%lf:%lf:%lf", &us[0], &us[1], &us[2], &us[3]) == 4)
		sleep_for(us[call] * 1000);
}

/* Chunks of the host are made one after the other, whatever the threads. */
void fk_engine_make(size_t bytes)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	const char *given = fk_env("FAKE_CUDA_MAKE");
	double rate = given ? atof(given) : 0;

	if (rate <= 0)
		return;
	pthread_mutex_lock(&one);
	sleep_for((double)bytes / rate);
	pthread_mutex_unlock(&one);
}

static void late(const char *given)
{
	static _Atomic uint32_t drawn = 12345;
	uint32_t v, next;

	if (!given)
		return;
	v = atomic_load(&drawn);
	do {
		next = v * 1664525u + 1013904223u;
	} while (!atomic_compare_exchange_weak(&drawn, &v, next));
	sleep_for((double)(next >> 8) / (1 << 24) * atof(given) * 1000);
}

/* FAKE_CUDA_LATE_US: at most so long after it has passed a wait the device says so. */
void fk_engine_late(void)
{
	late(fk_env("FAKE_CUDA_LATE_US"));
}

/* FAKE_CUDA_LATE_WORD_US: at most so long after what is before it the device writes a word that
 * stands alone. */
void fk_engine_late_word(void)
{
	late(fk_env("FAKE_CUDA_LATE_WORD_US"));
}
