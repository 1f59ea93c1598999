/* SPDX-License-Identifier: Apache-2.0 */
/* <fermata/cuda.h>: a partition of each device, and streams inside it and outside it. */
#pragma GCC visibility push(default)
#include <fermata/cuda.h>
#pragma GCC visibility pop
#include "api/cuda/core/guard/guard_pad.h"
#include "api/cuda/core/partition.h"
#include "base/lockorder.h"
#include "code/cuda/image.h"
#include "shim.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define DEVICES 64
#define SMS_MAX 1024

static struct {
	pthread_mutex_t lock; /* held over driver calls, but for those of pads */
	struct fm_cu_green cu;
	bool looked, there; /* whether its functions were looked for, and are there */
	struct {
		CUcontext ctx; /* the primary context while it lives; NULL: no partition */
		unsigned asked;
		struct fm_cu_partition p;
	} of[DEVICES];
	_Atomic unsigned n;
} parts = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(parts.lock, CUDA_PARTS);

void fm_cuda_partition_fork_child(void)
{
	parts.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&parts.n, 0);
	for (size_t i = 0; i < DEVICES; i++)
		parts.of[i].ctx = NULL;
}

static void gone(CUcontext ctx, bool ends)
{
	if (!ctx || !atomic_load(&parts.n))
		return;
	pthread_mutex_lock(&parts.lock);
	for (size_t i = 0; i < DEVICES; i++)
		if (parts.of[i].ctx == ctx) {
			if (ends) {
				parts.cu.destroy(parts.of[i].p.green);
				parts.cu.destroy(parts.of[i].p.rest);
			}
			parts.of[i].ctx = NULL;
			atomic_fetch_sub(&parts.n, 1);
		}
	pthread_mutex_unlock(&parts.lock);
}

/* A driver does not reset a primary context that has green contexts. */
void fm_cuda_partition_ends(CUcontext ctx)
{
	gone(ctx, true);
}

void fm_cuda_partition_gone(CUcontext ctx)
{
	gone(ctx, false);
}

/* The current context's device, if the context is the primary one: green contexts can be based on
 * no other. */
static int current(CUdevice *dev, CUcontext *ctx)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext primary;

	if (!cu)
		return -ENODEV;
	*ctx = fm_cuda_current();
	if (!*ctx)
		return -EINVAL;
	if (!cu->ctx_get_device || cu->ctx_get_device(dev) || (unsigned)*dev >= DEVICES)
		return -EOPNOTSUPP;
	if (NEXT(cuDevicePrimaryCtxRetain, (&primary, *dev)))
		return -EOPNOTSUPP;
	NEXT(cuDevicePrimaryCtxRelease_v2, (*dev));
	return *ctx == primary ? 0 : -EOPNOTSUPP;
}

/* Lock held. */
static bool are_there(void)
{
	if (!parts.looked)
		parts.there = fm_cu_green_load(&parts.cu, fm_cuda_symbol);
	parts.looked = true;
	return parts.there;
}

/* Lock held. */
static int reserve(CUdevice dev, CUcontext ctx, unsigned sms)
{
	int rc, code;

	if (parts.of[dev].ctx)
		return sms == parts.of[dev].asked || sms == parts.of[dev].p.sms ? 0 : -EBUSY;
	if (!are_there())
		return -EOPNOTSUPP;
	rc = fm_cu_partition(&parts.of[dev].p, &parts.cu, dev, sms, &code);
	if (rc)
		return rc;
	parts.of[dev].ctx = ctx;
	parts.of[dev].asked = sms;
	atomic_fetch_add(&parts.n, 1);
	fm_cu_pads_renew(ctx);
	return 0;
}

int fm_cuda_reserve(unsigned sms, unsigned *got)
{
	CUcontext ctx;
	CUdevice dev;
	int rc = sms ? current(&dev, &ctx) : -EINVAL;

	if (rc)
		return rc;
	if (atomic_load(&fm_cu_captures))
		return -EBUSY;
	pthread_mutex_lock(&parts.lock);
	rc = reserve(dev, ctx, sms);
	if (!rc && got)
		*got = parts.of[dev].p.sms;
	pthread_mutex_unlock(&parts.lock);
	return rc;
}

/* The driver may wait for the device, so the lock is not held then. What a partition has does not
 * change while its context is there. */
int fm_cuda_pad_green(CUcontext base, unsigned k, CUgreenCtx *green, unsigned *all)
{
	const struct fm_cu_partition *of = NULL;
	CUcontext ctx;
	CUdevice dev;
	int rc = current(&dev, &ctx);
	bool there;

	if (rc || ctx != base)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&parts.lock);
	there = are_there();
	if (parts.of[dev].ctx)
		of = &parts.of[dev].p;
	pthread_mutex_unlock(&parts.lock);
	return there ? fm_cu_partition_part(green, &parts.cu, dev, of, k, all) : -EOPNOTSUPP;
}

enum fm_cuda_place fm_cuda_place_of(CUgreenCtx green)
{
	enum fm_cuda_place place = FM_CUDA_WHOLE;

	if (!green || !atomic_load(&parts.n))
		return place;
	pthread_mutex_lock(&parts.lock);
	for (size_t i = 0; i < DEVICES; i++) {
		if (!parts.of[i].ctx)
			continue;
		if (green == parts.of[i].p.green)
			place = FM_CUDA_PARTITION;
		else if (green == parts.of[i].p.rest)
			place = FM_CUDA_REST;
	}
	pthread_mutex_unlock(&parts.lock);
	return place;
}

/* The green context of a place; NULL: there is no partition. */
static CUgreenCtx green_of(enum fm_cuda_place place, CUdevice dev)
{
	CUgreenCtx green = NULL;

	pthread_mutex_lock(&parts.lock);
	if (parts.of[dev].ctx)
		green = place == FM_CUDA_PARTITION ? parts.of[dev].p.green : parts.of[dev].p.rest;
	pthread_mutex_unlock(&parts.lock);
	return green;
}

static int most_urgent(void)
{
	fm_cu_result (*range)(int *, int *) = fm_cuda_symbol("cuCtxGetStreamPriorityRange");
	int least = 0, greatest = 0;

	return range && !range(&least, &greatest) ? greatest : 0;
}

static int create(CUstream *stream, enum fm_cuda_place place)
{
	int rc, priority = place == FM_CUDA_PARTITION ? most_urgent() : 0;
	CUgreenCtx green;
	CUcontext ctx;
	CUdevice dev;

	if (place == FM_CUDA_WHOLE) {
		if (!fm_cuda_driver())
			return -ENODEV;
		return cuStreamCreate(stream, FM_CU_STREAM_NON_BLOCKING) ? -EIO : 0;
	}
	rc = current(&dev, &ctx);
	if (rc)
		return rc;
	green = green_of(place, dev);
	if (!green)
		return -ENOENT;
	return cuGreenCtxStreamCreate(stream, green, FM_CU_STREAM_NON_BLOCKING, priority) ? -EIO
											  : 0;
}

/* FERMATA_PARTITION: how many multiprocessors, and the groups whose streams are there. NULL: it
 * does not say, or makes no sense. */
static const char *wanted(unsigned *sms)
{
	const char *text = secure_getenv("FERMATA_PARTITION");
	unsigned long n;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return NULL;
	n = strtoul(text, &end, 10);
	*sms = (unsigned)n;
	return n > 0 && n <= SMS_MAX && *end == ':' ? end + 1 : NULL;
}

/* The place that the environment chooses for a group. This is a wish: without a partition it is the
 * whole device. */
static enum fm_cuda_place by_group(const char *group)
{
	unsigned sms;
	const char *groups = wanted(&sms), *own = secure_getenv("FERMATA_GROUP");
	CUcontext ctx;
	CUdevice dev;

	if (!groups || current(&dev, &ctx))
		return FM_CUDA_WHOLE;
	fm_cuda_reserve(
		sms, NULL); /* or there is one of another size, which the program has made */
	if (!green_of(FM_CUDA_PARTITION, dev))
		return FM_CUDA_WHOLE;
	return fm_listed(groups, group ? group : own ? own : "") ? FM_CUDA_PARTITION : FM_CUDA_REST;
}

int fm_cuda_stream_create(struct CUstream_st **stream, enum fm_cuda_place place,
	const struct fm_cuda_binding *binding)
{
	CUstream s;
	int rc;

	if (!stream || (unsigned)place > FM_CUDA_BY_GROUP || !binding)
		return -EINVAL;
	if (place == FM_CUDA_BY_GROUP)
		place = by_group(binding->group);
	rc = create(&s, place);
	if (rc)
		return rc;
	rc = fm_cuda_bind(s, binding);
	if (rc) {
		cuStreamDestroy_v2(s);
		return rc;
	}
	*stream = s;
	return 0;
}

/* --- elastic --- */

struct fm_cuda_elastic {
	CUstream whole, rest, now;
	CUevent behind; /* behind what was launched into the other */
	CUgreenCtx partition;
	uint64_t idle_ns;
};

static int make_event(CUevent *e)
{
	enum { WITHOUT_TIMING = 2 };
	const struct fm_cu_driver *cu = fm_cuda_driver();

	return cu && cu->event_create && !cu->event_create(e, WITHOUT_TIMING) ? 0 : -EIO;
}

static int make_elastic(struct fm_cuda_elastic *e, const struct fm_cuda_binding *b)
{
	int rc = fm_cuda_stream_create(&e->rest, FM_CUDA_REST, b);

	if (rc)
		return rc;
	rc = fm_cuda_stream_create(&e->whole, FM_CUDA_WHOLE, b);
	if (!rc) {
		rc = make_event(&e->behind);
		if (!rc)
			return 0;
		cuStreamDestroy_v2(e->whole);
	}
	cuStreamDestroy_v2(e->rest);
	return rc;
}

int fm_cuda_elastic_create(
	struct fm_cuda_elastic **e, uint64_t idle_ns, const struct fm_cuda_binding *binding)
{
	struct fm_cuda_elastic *new;
	CUcontext ctx;
	CUdevice dev;
	int rc;

	if (!e || !binding)
		return -EINVAL;
	rc = current(&dev, &ctx);
	if (rc)
		return rc;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->idle_ns = idle_ns;
	new->partition = green_of(FM_CUDA_PARTITION, dev);
	rc = make_elastic(new, binding);
	if (rc) {
		free(new);
		return rc;
	}
	new->now = new->rest;
	*e = new;
	return 0;
}

int fm_cuda_elastic_stream(struct fm_cuda_elastic *e, struct CUstream_st **stream)
{
	CUstream to;

	if (!e || !stream)
		return -EINVAL;
	to = fm_cuda_idle_for(e->partition, e->idle_ns) ? e->whole : e->rest;
	if (to != e->now &&
		(cuEventRecord(e->behind, e->now) || cuStreamWaitEvent(to, e->behind, 0)))
		return -EIO;
	e->now = to;
	*stream = to;
	return 0;
}

int fm_cuda_elastic_destroy(struct fm_cuda_elastic *e)
{
	if (!e)
		return 0;
	cuStreamDestroy_v2(e->whole);
	cuStreamDestroy_v2(e->rest);
	cuEventDestroy_v2(e->behind);
	free(e);
	return 0;
}
