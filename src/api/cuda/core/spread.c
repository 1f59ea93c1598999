/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If programs share one context (MPS), blocks of several programs are on the device at the same
 * time. The blocks of a kernel go wherever there is room first. A kernel that comes while another
 * program's kernel ends finds room on a few multiprocessors only. All of its blocks gather there
 * and slow each other down: they take three times as long (H200).
 *
 * So a kernel of ours is put in front of the work for which others are about to stop. It is one
 * warp, which finds room as soon as anything else would. It stays while the rest of the other
 * kernel's blocks end, which began together. The work behind it finds the whole device. It waits
 * for nothing.
 */
#include "internal.h"
#include "reach.h"

/* Four microseconds at 2 GHz. */
static const char image[] = ".version 7.0\n"
			    ".target sm_80\n"
			    ".address_size 64\n"
			    ".visible .entry fermata_spread()\n"
			    "{\n"
			    ".reg .u64 %from, %now;\n"
			    ".reg .pred %p;\n"
			    "mov.u64 %from, %clock64;\n"
			    "stay:\n"
			    "mov.u64 %now, %clock64;\n"
			    "sub.u64 %now, %now, %from;\n"
			    "setp.lt.u64 %p, %now, 8000;\n"
			    "@%p bra stay;\n"
			    "ret;\n"
			    "}\n";

static CUfunction load(const struct fm_cu_driver *cu)
{
	CUmodule module;
	CUfunction f;

	if (cu->module_load(&module, image) || cu->module_function(&f, module, "fermata_spread"))
		return NULL;
	return f;
}

static bool put(struct fm_cu_queue *q, CUfunction f)
{
	const struct fm_cu_launch_config config = {
		.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = q->stream};
	fm_cu_result rc;

	atomic_fetch_add(&q->ours, 1);
	rc = q->cu->launch(&config, f, NULL, NULL);
	atomic_fetch_add(&q->ours_put, 1);
	return !rc;
}

void fm_cu_spread_try(struct fm_cu_queue *q)
{
	const struct fm_cu_driver *cu = q->cu;
	CUfunction f;

	if (q->ctx != q->base || !fm_cu_shares_context(cu) || !cu->module_load ||
		!cu->module_function || !cu->launch)
		return;
	f = load(cu);
	if (f && put(q, f))
		atomic_store(&q->reach->spread, f);
}

static void spread(struct fm_cu_queue *q, CUfunction f)
{
	const struct fm_cu_driver *cu = q->cu;
	int mode = fm_cu_enter(cu);
	CUcontext now = NULL, old;
	bool push;

	push = !cu->ctx_get_current(&now) && now != q->base;
	if (!push || !cu->ctx_push(q->base)) {
		put(q, f);
		if (push)
			cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
}

bool fm_cu_enter_first(void *hwq, bool to_be_put)
{
	struct fm_cu_queue *q = hwq;
	CUfunction f =
		q->ctx == q->base && fm_cu_reaches(q) ? atomic_load(&q->reach->spread) : NULL;

	if (f && to_be_put)
		spread(q, f);
	return f;
}
