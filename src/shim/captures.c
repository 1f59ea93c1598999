/* SPDX-License-Identifier: Apache-2.0 */
#include "captures.h"
#include "base/lockorder.h"
#include <pthread.h>

static bool exchange(struct fm_shim_set *s, uintptr_t was, uintptr_t is)
{
	for (size_t i = 0; i < FM_SHIM_SET; i++) {
		uintptr_t there = was;

		if (atomic_compare_exchange_strong(&s->of[i], &there, is))
			return true;
	}
	return false;
}

bool fm_shim_set_add(struct fm_shim_set *s, uintptr_t handle)
{
	if (!handle || !exchange(s, 0, handle))
		return false;
	atomic_fetch_add(&s->n, 1);
	return true;
}

bool fm_shim_set_take(struct fm_shim_set *s, uintptr_t handle)
{
	if (!atomic_load(&s->n) || !handle || !exchange(s, handle, 0))
		return false;
	atomic_fetch_sub(&s->n, 1);
	return true;
}

bool fm_shim_set_has(struct fm_shim_set *s, uintptr_t handle)
{
	if (FM_LIKELY(!atomic_load_explicit(&s->n, memory_order_relaxed)))
		return false;
	for (size_t i = 0; i < FM_SHIM_SET; i++)
		if (atomic_load_explicit(&s->of[i], memory_order_relaxed) == handle)
			return true;
	return false;
}

void fm_shim_set_clear(struct fm_shim_set *s)
{
	for (size_t i = 0; i < FM_SHIM_SET; i++)
		atomic_store(&s->of[i], 0);
	atomic_store(&s->n, 0);
}

_Atomic unsigned fm_shim_captures;
__thread bool fm_shim_launches __attribute__((tls_model("initial-exec")));
static struct fm_shim_set origins;
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(capture_lock, SHIM_CAPTURE);

void fm_shim_capture_begins(void)
{
	pthread_mutex_lock(&capture_lock);
	atomic_fetch_add(&fm_shim_captures, 1);
	pthread_mutex_unlock(&capture_lock);
}

/* Without room here a capture never counts as over, so launches go on asking. */
void fm_shim_capture_begun(uintptr_t origin, bool ok)
{
	if (ok)
		fm_shim_set_add(&origins, origin);
	else
		atomic_fetch_sub(&fm_shim_captures, 1);
}

void fm_shim_capture_ended(uintptr_t origin)
{
	if (fm_shim_set_take(&origins, origin))
		atomic_fetch_sub(&fm_shim_captures, 1);
}

bool fm_shim_touch(void)
{
	pthread_mutex_lock(&capture_lock);
	/* A thread that launches has already asked about its own stream. */
	if (!atomic_load(&fm_shim_captures) || fm_shim_launches)
		return true;
	pthread_mutex_unlock(&capture_lock);
	return false;
}

void fm_shim_untouch(void)
{
	pthread_mutex_unlock(&capture_lock);
}

void fm_shim_captures_fork_child(void)
{
	capture_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fm_shim_set_clear(&origins);
	atomic_store(&fm_shim_captures, 0);
}
