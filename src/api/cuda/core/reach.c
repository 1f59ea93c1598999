/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"
#include "base/lockorder.h"
#include <pthread.h>
#include <sys/mman.h>

#define CONTEXTS 64

struct area {
	void *map;
	size_t size;
	struct fm_cu_reach at[CONTEXTS];
	unsigned n;
};

static struct {
	pthread_mutex_t lock; /* held over driver calls */
	struct area area[FM_CU_AREAS];
} reaches = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(reaches.lock, CU_REACH);

/* The same pages at another address; not in children, which have a board of their own. */
static char *alias(void *map, size_t size)
{
	void *p = mremap(map, 0, size, MREMAP_MAYMOVE);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, size, MADV_DONTFORK)) {
		munmap(p, size);
		return NULL;
	}
	return p;
}

/* Lock held. Places of contexts that have ended are used again. The first place maps the area
 * itself. */
static struct fm_cu_reach *place(struct area *a, size_t size)
{
	struct fm_cu_reach *r;
	char *host;

	for (unsigned i = 0; i < a->n; i++)
		if (!atomic_load(&a->at[i].ctx))
			return &a->at[i];
	if (a->n == CONTEXTS)
		return NULL;
	host = a->n ? alias(a->map, size) : a->map;
	if (!host)
		return NULL;
	r = &a->at[a->n++];
	r->host = host;
	return r;
}

static struct fm_cu_reach *find(struct area *a, CUcontext ctx)
{
	for (unsigned i = 0; i < a->n; i++)
		if (atomic_load(&a->at[i].ctx) == ctx)
			return &a->at[i];
	return NULL;
}

/* Lock held. The pages may be registered already by a context that has ended, if registrations
 * outlive contexts. */
static struct fm_cu_reach *make(
	const struct fm_cu_driver *cu, CUcontext ctx, enum fm_cu_area area, size_t size)
{
	struct fm_cu_reach *r = place(&reaches.area[area], size);
	unsigned flags = FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP;
	int rc;

	if (!r)
		return NULL;
	if (area == FM_CU_GATE_PAGE)
		flags |= FM_CU_HOST_REGISTER_READ_ONLY;
	rc = cu->host_register(r->host, size, flags);
	if ((rc && rc != FM_CU_ERROR_ALREADY_REGISTERED) ||
		cu->host_device_pointer(&r->device, r->host, 0))
		return NULL;
	atomic_store(&r->gates, FM_CU_UNTRIED);
	atomic_store(&r->spread, NULL);
	atomic_store(&r->ctx, ctx);
	return r;
}

struct fm_cu_reach *fm_cu_reach(
	const struct fm_cu_driver *cu, CUcontext ctx, enum fm_cu_area area, void *map, size_t size)
{
	struct area *a = &reaches.area[area];
	struct fm_cu_reach *r = NULL;

	pthread_mutex_lock(&reaches.lock);
	if (!a->map)
		a->map = map;
	a->size = a->map == map ? size : a->size;
	if (a->map == map)
		r = find(a, ctx);
	if (!r && a->map == map)
		r = make(cu, ctx, area, size);
	pthread_mutex_unlock(&reaches.lock);
	return r;
}

void *fm_cu_reach_host(CUdeviceptr at)
{
	void *host = NULL;

	pthread_mutex_lock(&reaches.lock);
	for (unsigned i = 0; i < FM_CU_AREAS; i++) {
		struct area *a = &reaches.area[i];

		for (unsigned k = 0; k < a->n && !host; k++) {
			const struct fm_cu_reach *r = &a->at[k];

			if (atomic_load(&r->ctx) && at >= r->device && at - r->device < a->size)
				host = (char *)a->map + (at - r->device);
		}
	}
	pthread_mutex_unlock(&reaches.lock);
	return host;
}

bool fm_cu_reach_known(CUcontext ctx)
{
	bool known = false;

	pthread_mutex_lock(&reaches.lock);
	for (unsigned i = 0; ctx && i < FM_CU_AREAS && !known; i++)
		known = find(&reaches.area[i], ctx);
	pthread_mutex_unlock(&reaches.lock);
	return known;
}

CUcontext fm_cu_reach_any(void)
{
	CUcontext ctx = NULL;

	pthread_mutex_lock(&reaches.lock);
	for (unsigned i = 0; i < FM_CU_AREAS; i++)
		for (unsigned k = 0; k < reaches.area[i].n && !ctx; k++)
			ctx = atomic_load(&reaches.area[i].at[k].ctx);
	pthread_mutex_unlock(&reaches.lock);
	return ctx;
}

void fm_cu_reach_give_back(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct fm_cu_reach *r;

	pthread_mutex_lock(&reaches.lock);
	for (unsigned i = 0; ctx && i < FM_CU_AREAS; i++) {
		r = find(&reaches.area[i], ctx);
		if (!r)
			continue;
		atomic_store(&r->ctx, NULL);
		cu->host_unregister(r->host);
	}
	pthread_mutex_unlock(&reaches.lock);
}

void fm_cu_reach_forget(CUcontext ctx)
{
	struct fm_cu_reach *r;

	pthread_mutex_lock(&reaches.lock);
	for (unsigned i = 0; ctx && i < FM_CU_AREAS; i++) {
		r = find(&reaches.area[i], ctx);
		if (r)
			atomic_store(&r->ctx, NULL);
	}
	pthread_mutex_unlock(&reaches.lock);
}

void fm_cu_reach_fork_child(void)
{
	reaches.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < FM_CU_AREAS; i++) {
		reaches.area[i].map = NULL;
		reaches.area[i].n = 0;
	}
}
