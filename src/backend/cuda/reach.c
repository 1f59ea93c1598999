/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"
#include <pthread.h>
#include <sys/mman.h>

#define CONTEXTS 64

static struct {
	pthread_mutex_t lock; /* held over driver calls */
	void *map;
	struct fm_cu_reach at[CONTEXTS];
	unsigned n;
} board = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* Lock held. Places of contexts that have ended serve again. The first has the board itself. */
static struct fm_cu_reach *place(size_t size)
{
	struct fm_cu_reach *r;
	char *host;

	for (unsigned i = 0; i < board.n; i++)
		if (!atomic_load(&board.at[i].ctx))
			return &board.at[i];
	if (board.n == CONTEXTS)
		return NULL;
	host = board.n ? alias(board.map, size) : board.map;
	if (!host)
		return NULL;
	r = &board.at[board.n++];
	r->host = host;
	return r;
}

static struct fm_cu_reach *find(CUcontext ctx)
{
	for (unsigned i = 0; i < board.n; i++)
		if (atomic_load(&board.at[i].ctx) == ctx)
			return &board.at[i];
	return NULL;
}

/* Lock held. Registered already: by a context that has ended, if registrations outlive those. */
static struct fm_cu_reach *make(const struct fm_cu_driver *cu, CUcontext ctx, size_t size)
{
	struct fm_cu_reach *r = place(size);
	int rc;

	if (!r)
		return NULL;
	rc = cu->host_register(
		r->host, size, FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP);
	if ((rc && rc != FM_CU_ERROR_ALREADY_REGISTERED) ||
		cu->host_device_pointer(&r->device, r->host, 0))
		return NULL;
	atomic_store(&r->gates, FM_CU_UNTRIED);
	atomic_store(&r->ctx, ctx);
	return r;
}

struct fm_cu_reach *fm_cu_reach(
	const struct fm_cu_driver *cu, CUcontext ctx, void *map, size_t size)
{
	struct fm_cu_reach *r = NULL;

	pthread_mutex_lock(&board.lock);
	if (!board.map)
		board.map = map;
	if (board.map == map)
		r = find(ctx);
	if (!r && board.map == map)
		r = make(cu, ctx, size);
	pthread_mutex_unlock(&board.lock);
	return r;
}

void fm_cu_reach_forget(CUcontext ctx)
{
	struct fm_cu_reach *r;

	pthread_mutex_lock(&board.lock);
	r = ctx ? find(ctx) : NULL;
	if (r)
		atomic_store(&r->ctx, NULL);
	pthread_mutex_unlock(&board.lock);
}

void fm_cu_reach_fork_child(void)
{
	board.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	board.map = NULL;
	board.n = 0;
}
