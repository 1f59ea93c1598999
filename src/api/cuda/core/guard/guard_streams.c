/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own streams, a pair for each context. A driver has few channels of the device, which streams
 * share, and a stream of ours must not end up behind a stream of the program's. They last as long
 * as the context, as do the words of its turnstile.
 */
#include "base/lockorder.h"
#include "guard_internal.h"
#include <pthread.h>
#include <string.h>

#define CONTEXTS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, CU_STREAMS);
static struct {
	CUcontext ctx;
	CUstream control, again;
	CUfunction look;
} streams[CONTEXTS];

/* The highest priority keeps them apart from the program's streams. They last as long as the
 * context. */
static bool make_streams(const struct fm_cu_driver *cu, CUstream *control, CUstream *again)
{
	int least = 0, greatest = 0;

	if (cu->priority_range(&least, &greatest) ||
		cu->stream_create(control, FM_CU_STREAM_NON_BLOCKING, greatest))
		return false;
	if (!cu->stream_create(again, FM_CU_STREAM_NON_BLOCKING, greatest))
		return true;
	cu->stream_destroy(*control);
	return false;
}

/* The words last as long as the context, too. */
static bool make_words(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(ctx, true);
	CUdeviceptr at;
	void *words;

	if (t && atomic_load(&fm_cu_turnstile_settle(t)->words))
		return true; /* the streams could not be made */
	if (!t || cu->host_alloc(&words, FM_CU_SETTLE_BYTES,
			  FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP))
		return false;
	if (cu->host_device_pointer(&at, words, 0)) {
		cu->host_free(words);
		return false;
	}
	memset(words, 0, FM_CU_SETTLE_BYTES);
	fm_cu_settle_init(fm_cu_turnstile_settle(t), words, at);
	return true;
}

bool fm_cu_guard_streams(const struct fm_cu_driver *cu, CUcontext ctx, CUstream *control,
	CUstream *again, CUfunction *look)
{
	unsigned i = 0;
	bool ok;

	pthread_mutex_lock(&lock);
	while (i < CONTEXTS && streams[i].ctx != ctx)
		i++;
	ok = i < CONTEXTS;
	for (i = ok ? i : 0; i < CONTEXTS && !ok; i++) {
		if (streams[i].ctx)
			continue;
		ok = make_words(cu, ctx) &&
		     make_streams(cu, &streams[i].control, &streams[i].again);
		streams[i].ctx = ok ? ctx : NULL;
		streams[i].look = ok ? fm_cu_look_load(cu) : NULL;
		break;
	}
	if (ok) {
		*control = streams[i].control;
		*again = streams[i].again;
		*look = streams[i].look;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

void fm_cu_guard_streams_forget(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (streams[i].ctx == ctx)
			streams[i].ctx = NULL;
	pthread_mutex_unlock(&lock);
}

static bool idle(const struct fm_cu_driver *cu, CUstream stream)
{
	return !cu->stream_query(stream);
}

bool fm_cu_guard_streams_idle(const struct fm_cu_driver *cu, CUcontext ctx)
{
	bool ok = true;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (streams[i].ctx == ctx)
			ok = idle(cu, streams[i].control) && idle(cu, streams[i].again);
	pthread_mutex_unlock(&lock);
	return ok;
}

void fm_cu_guard_streams_give_back(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(ctx, false);
	struct fm_cu_settle *s = t ? fm_cu_turnstile_settle(t) : NULL;
	void *words = s ? atomic_load(&s->words) : NULL;

	if (words) {
		fm_cu_settle_forget(s);
		cu->host_free(words);
	}
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (streams[i].ctx != ctx)
			continue;
		streams[i].ctx = NULL;
		cu->stream_destroy(streams[i].control);
		cu->stream_destroy(streams[i].again);
	}
	pthread_mutex_unlock(&lock);
}

void fm_cu_guard_streams_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < CONTEXTS; i++)
		streams[i].ctx = NULL;
}
