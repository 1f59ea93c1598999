/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where programs share one context (MPS) the blocks of several are on the device at one time, and
 * those of a kernel go to wherever there is room first. One that comes while another program's
 * kernel ends finds that room on a few multiprocessors, all of its blocks gather there, and take
 * each other's time: three times what they need (H200).
 *
 * So in front of the work that others are about to stop for stands a kernel of ours that does
 * nothing: a block for each multiprocessor, each of more than half of one's shared memory. They
 * come one to a multiprocessor, when it has become free, and what follows finds the whole device.
 */
#include "internal.h"
#include "reach.h"

static const char image[] = ".version 7.0\n"
			    ".target sm_80\n"
			    ".address_size 64\n"
			    ".visible .entry fermata_spread()\n"
			    "{\n"
			    "ret;\n"
			    "}\n";

/* Two blocks of that, with what the driver keeps of each, are more than there is. */
static bool size(const struct fm_cu_driver *cu, struct fm_cu_reach *r)
{
	int sms, all, most;
	CUdevice dev;

	if (cu->ctx_get_device(&dev) ||
		cu->device_get_attribute(&sms, FM_CU_ATTRIBUTE_MULTIPROCESSORS, dev) ||
		cu->device_get_attribute(&all, FM_CU_ATTRIBUTE_SHARED_OF_ONE, dev) ||
		cu->device_get_attribute(&most, FM_CU_ATTRIBUTE_SHARED_OF_BLOCK, dev) || sms < 1 ||
		all < 2 || most < all / 2)
		return false;
	r->spread_blocks = (unsigned)sms;
	r->spread_bytes = (unsigned)all / 2;
	return true;
}

static CUfunction load(const struct fm_cu_driver *cu, unsigned bytes)
{
	CUmodule module;
	CUfunction f;

	if (cu->module_load(&module, image))
		return NULL;
	if (cu->module_function(&f, module, "fermata_spread") ||
		cu->function_set(f, FM_CU_FUNCTION_SHARED_MOST, (int)bytes))
		return NULL;
	return f;
}

static bool put(struct fm_cu_queue *q)
{
	const struct fm_cu_reach *r = q->reach;
	const struct fm_cu_launch_config config = {
		.grid = {r->spread_blocks, 1, 1},
		.block = {1, 1, 1},
		.shared = r->spread_bytes,
		.stream = q->stream,
	};

	atomic_fetch_add(&q->ours, 1);
	return !q->cu->launch(&config, r->spread, NULL, NULL);
}

void fm_cu_spread_try(struct fm_cu_queue *q)
{
	const struct fm_cu_driver *cu = q->cu;
	struct fm_cu_reach *r = q->reach;

	r->spread = NULL;
	if (q->ctx != q->base || !fm_cu_shares_context(cu) || !cu->module_load ||
		!cu->module_function || !cu->function_set || !cu->launch || !size(cu, r))
		return;
	r->spread = load(cu, r->spread_bytes);
	if (r->spread && !put(q))
		r->spread = NULL;
}

bool fm_cu_spreads(void *hwq)
{
	struct fm_cu_queue *q = hwq;

	return q->ctx == q->base && fm_cu_reaches(q) && q->reach->spread;
}

void fm_cu_spread(void *hwq)
{
	struct fm_cu_queue *q = hwq;
	const struct fm_cu_driver *cu = q->cu;
	CUcontext now = NULL, old;
	bool push;
	int mode;

	mode = fm_cu_enter(cu);
	push = !cu->ctx_get_current(&now) && now != q->base;
	if (!push || !cu->ctx_push(q->base)) {
		put(q);
		if (push)
			cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
}
