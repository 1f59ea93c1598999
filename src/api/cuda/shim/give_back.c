/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools that look for leaks (compute-sanitizer) count what a context still has when it ends, or
 * when the process ends. They would also count our resources, so under such a tool those are given
 * back first. Without one the driver takes them back, and no call of ours delays a program's end.
 */
#include "give_back.h"
#include "api/cuda/core/give_back.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "shim.h"
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int is_tool(struct dl_phdr_info *i, size_t size, void *unused)
{
	const char *base = i->dlpi_name ? strrchr(i->dlpi_name, '/') : NULL;

	return base && !strncmp(base, "/libsanitizer-", strlen("/libsanitizer-"));
}

/* As found when the process made its first queue: a tool comes with cuInit() at the latest. */
static _Atomic bool wanted;

static bool is_wanted(void)
{
	const char *said = secure_getenv("FERMATA_GIVE_BACK");

	if (said && *said)
		return strcmp(said, "0") != 0;
	return dl_iterate_phdr(is_tool, NULL);
}

/* Only a thread itself can query its own default stream. Any other answer than "not ready" means
 * that no work of ours is there: the stream is captured into, or gone. */
static bool is_busy(const struct fm_cuda_queue *q)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();

	if (q->thread && q->key != fm_shim_thread_key(q->hw.ctx))
		return fm_slot_pending(q->xq->slot);
	return cu->stream_query(q->hw.stream) == FM_CU_ERROR_NOT_READY;
}

static bool is_idle(CUcontext ctx)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct fm_xq *busy[FM_BOARD_SLOTS];
	size_t n;
	CUcontext old;

	if (cu->ctx_push(ctx))
		return false;
	n = fm_cuda_keep(ctx, busy, is_busy, NULL);
	for (size_t i = 0; i < n; i++)
		fm_xq_unref(busy[i]);
	n += cu->stream_query(FM_CU_STREAM_LEGACY) == FM_CU_ERROR_NOT_READY;
	cu->ctx_pop(&old);
	return !n;
}

static bool is_idle_soon(CUcontext ctx)
{
	const struct timespec nap = {.tv_nsec = FM_CU_GIVE_BACK_LOOK};
	uint64_t until = fm_now() + FM_CU_GIVE_BACK_MOST;
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int mode = fm_cu_enter(cu);
	bool idle;
	FM_NO_CANCEL;

	while (!(idle = is_idle(ctx)) && fm_now() < until)
		nanosleep(&nap, NULL);
	fm_cu_leave(cu, mode);
	return idle;
}

bool fm_cuda_gives_back(CUcontext ctx)
{
	const struct fm_cu_driver *cu;

	if (!ctx || !atomic_load(&wanted) || !fm_shim_has_client() || !fm_cu_has_of(ctx))
		return false;
	cu = fm_cuda_driver();
	return cu && cu->stream_query && cu->ctx_push && cu->ctx_pop && is_idle_soon(ctx);
}

void fm_cuda_give_back(CUcontext ctx)
{
	fm_cu_give_back(fm_cuda_driver(), ctx);
}

/* This runs before the driver's own exit handler, and after the agent's, whose gates are open. A
 * context that is not idle keeps what it has, and so do those that come after it. */
void fm_cuda_give_back_at_exit(void)
{
	CUcontext ctx;

	while (atomic_load(&wanted) && fm_shim_has_client() && (ctx = fm_cu_has_of_any()) &&
		fm_cuda_gives_back(ctx) && fm_cu_give_back(fm_cuda_driver(), ctx))
		;
}

static void look(void)
{
	atomic_store(&wanted, is_wanted());
}

void fm_cuda_give_back_look(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look);
}
