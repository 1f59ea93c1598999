/* SPDX-License-Identifier: Apache-2.0 */
/* <fermata/cuda.h>: how much of the device a stream has now, and which version of a kernel fits. */
#pragma GCC visibility push(default)
#include <fermata/cuda.h>
#pragma GCC visibility pop
#include "api/cuda/core/partition.h"
#include "shim.h"
#include "versions/versions.h"
#include <errno.h>
#include <string.h>

#define VERSIONS_MOST 65536u
enum { MULTIPROCESSOR_COUNT = 16 }; /* CUdevice_attribute */

static unsigned in_green(CUgreenCtx green, unsigned all)
{
	fm_cu_result (*look)(CUgreenCtx, union fm_cu_resource *, int) =
		fm_cuda_symbol("cuGreenCtxGetDevResource");
	union fm_cu_resource r;

	memset(&r, 0, sizeof(r));
	if (!look || look(green, &r, FM_CU_RESOURCE_SM) || !r.sm.count || r.sm.count > all)
		return all;
	return r.sm.count;
}

void fm_cuda_room_learn(struct fm_cuda_queue *q, CUstream stream)
{
	const struct fm_cu_driver *cu = q->hw.cu;
	CUgreenCtx green = NULL;
	CUcontext base;
	CUdevice dev;
	int n = 0;

	if (!cu->ctx_get_device || !cu->device_get_attribute || cu->ctx_get_device(&dev) ||
		cu->device_get_attribute(&n, MULTIPROCESSOR_COUNT, dev) || n < 0)
		n = 0;
	q->all_sms = q->place_sms = (unsigned)n;
	if (!fm_cuda_is_default(stream) && cu->stream_get_both &&
		!cu->stream_get_both(stream, &base, &green) && green)
		q->place_sms = in_green(green, q->all_sms);
}

/* A queue that has asked to pad, and may not, waits: the urgent work is elsewhere, or has just
 * begun. */
static unsigned free_now(struct fm_xq *q, const struct fm_cuda_room *r)
{
	if (fm_xq_may_run(q))
		return r->place;
	return r->padding || fm_xq_may_pad(q) ? r->pad : 0;
}

int fm_cuda_room(struct CUstream_st *stream, struct fm_cuda_room *room)
{
	struct fm_cuda_room r = {.size = 0};
	struct fm_cuda_view v;

	if (!room || room->size < sizeof(r) || fm_cuda_is_default(stream))
		return -EINVAL;
	if (!fm_cuda_view(stream, &v))
		return -ENOENT;
	r.size = room->size;
	r.multiprocessors = v.all_sms;
	r.place = v.place_sms;
	r.pad = fm_xq_pad_on(v.xq);
	r.padding = fm_xq_is_padding(v.xq);
	r.urgent = atomic_load(atomic_load(&v.xq->gate)) != FM_GATE_OPEN;
	r.free = free_now(v.xq, &r);
	fm_xq_unref(v.xq);
	memcpy(room, &r, sizeof(r));
	return 0;
}

int fm_cuda_prune(const struct fm_cuda_version *versions, size_t n, bool *kept)
{
	if (n > VERSIONS_MOST || (n && (!versions || !kept)))
		return -EINVAL;
	return (int)fm_versions_prune(versions, n, kept);
}

int fm_cuda_fit(const struct fm_cuda_version *versions, size_t n, const struct fm_cuda_room *room,
	uint64_t block_ns)
{
	int found;

	if (!room || room->size < sizeof(*room) || n > VERSIONS_MOST || (n && !versions))
		return -EINVAL;
	found = fm_versions_fit(versions, n, room->free, room->multiprocessors, block_ns);
	return found < 0 ? -ENOENT : found;
}
