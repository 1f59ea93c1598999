/* SPDX-License-Identifier: Apache-2.0 */
#include "guard_place.h"
#include "base/lockorder.h"
#include <pthread.h>
#include <stdatomic.h>

#define PLACES 16

/* A place outlives its green context until its last guard goes, because what was launched there may
 * still be there. */
struct fm_cu_place {
	CUcontext ctx;    /* NULL: unused */
	CUgreenCtx green; /* NULL: it has ended */
	unsigned guards;
	CUstream own, otherwise;
	_Atomic(CUstream) stream;
};

static struct fm_cu_place places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, CU_PLACES);
static _Atomic unsigned streams;

/* Lock held. green: NULL for an unused place. */
static struct fm_cu_place *find(CUcontext ctx, CUgreenCtx green)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (places[i].ctx == ctx && places[i].green == green)
			return &places[i];
	return NULL;
}

static struct fm_cu_place *make(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, CUstream otherwise)
{
	struct fm_cu_place *p = find(NULL, NULL);
	int least = 0, greatest = 0;
	CUstream own;

	if (!p || !cu->green_stream_create || cu->priority_range(&least, &greatest) ||
		cu->green_stream_create(&own, green, FM_CU_STREAM_NON_BLOCKING, greatest))
		return NULL;
	*p = (struct fm_cu_place){
		.ctx = ctx, .green = green, .own = own, .otherwise = otherwise, .stream = own};
	atomic_fetch_add(&streams, 1);
	return p;
}

struct fm_cu_place *fm_cu_place_take(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, CUstream otherwise)
{
	struct fm_cu_place *p;

	if (!green)
		return NULL;
	pthread_mutex_lock(&lock);
	p = find(ctx, green);
	if (!p)
		p = make(cu, ctx, green, otherwise);
	if (p)
		p->guards++;
	pthread_mutex_unlock(&lock);
	return p;
}

void fm_cu_place_put(struct fm_cu_place *p)
{
	pthread_mutex_lock(&lock);
	if (p->guards && !--p->guards && !p->green)
		p->ctx = NULL;
	pthread_mutex_unlock(&lock);
}

CUstream fm_cu_place_stream(const struct fm_cu_place *p)
{
	return atomic_load(&p->stream);
}

unsigned fm_cu_places(void)
{
	return atomic_load_explicit(&streams, memory_order_relaxed);
}

CUcontext fm_cu_place_base(CUgreenCtx green)
{
	CUcontext base = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; green && i < PLACES; i++)
		if (places[i].green == green)
			base = places[i].ctx;
	pthread_mutex_unlock(&lock);
	return base;
}

void fm_cu_place_ends(const struct fm_cu_driver *cu, CUgreenCtx green)
{
	pthread_mutex_lock(&lock);
	for (struct fm_cu_place *p = places; green && p < places + PLACES; p++) {
		if (!p->ctx || p->green != green)
			continue;
		atomic_store(&p->stream, p->otherwise);
		cu->stream_destroy(p->own);
		atomic_fetch_sub(&streams, 1);
		p->green = NULL;
		if (!p->guards)
			p->ctx = NULL;
	}
	pthread_mutex_unlock(&lock);
}

/* Guards that are left are no longer used, but may still put their place back. */
void fm_cu_places_forget(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (struct fm_cu_place *p = places; p < places + PLACES; p++) {
		if (!p->ctx || p->ctx != ctx)
			continue;
		if (p->green)
			atomic_fetch_sub(&streams, 1);
		p->green = NULL;
		if (!p->guards)
			p->ctx = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void fm_cu_places_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (struct fm_cu_place *p = places; p < places + PLACES; p++)
		*p = (struct fm_cu_place){0};
	atomic_store(&streams, 0);
}
