/* SPDX-License-Identifier: Apache-2.0 */
/* While a stream is captured, launches on it go into a graph, and are neither counted nor gated.
 * The streams that began a capture are kept here: a capture ends only at the stream where it began.
 */
#include "base/lockorder.h"
#include "hip.h"
#include <pthread.h>

#define ORIGINS 64

_Atomic unsigned fm_hip_captures;
static _Atomic uintptr_t origin[ORIGINS];
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(capture_lock, HIP_CAPTURE);

bool fm_hip_capturing(hipStream_t stream)
{
	const struct fm_hip_driver *hip = fm_hip_driver();
	int status = 0;
	hipError_t rc, before;

	if (!hip || !hip->stream_capturing)
		return false;
	before = hip->peek_error();
	fm_hip_inside++;
	rc = hip->stream_capturing(stream, &status);
	fm_hip_inside--;
	if (!before && hip->peek_error())
		hip->take_error();
	/* An error means a capture that the device's stream would disturb, or an invalid stream. */
	return rc || status;
}

void fm_hip_capture_begin(void)
{
	pthread_mutex_lock(&capture_lock);
	atomic_fetch_add(&fm_hip_captures, 1);
	pthread_mutex_unlock(&capture_lock);
}

/* Without room here a capture never counts as over, so launches go on asking. */
void fm_hip_capture_begun(uintptr_t key, hipError_t rc)
{
	for (size_t i = 0; !rc && i < ORIGINS; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&origin[i], &none, key))
			return;
	}
	if (rc)
		atomic_fetch_sub(&fm_hip_captures, 1);
}

void fm_hip_capture_ended(uintptr_t key)
{
	for (size_t i = 0; key && i < ORIGINS; i++) {
		uintptr_t it = key;

		if (atomic_compare_exchange_strong(&origin[i], &it, 0)) {
			atomic_fetch_sub(&fm_hip_captures, 1);
			return;
		}
	}
}

void fm_hip_captures_clear(void)
{
	for (size_t i = 0; i < ORIGINS; i++)
		atomic_store(&origin[i], 0);
	atomic_store(&fm_hip_captures, 0);
	capture_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

bool fm_hip_touch(void)
{
	pthread_mutex_lock(&capture_lock);
	/* A thread that launches has already asked about its own stream. */
	if (!atomic_load(&fm_hip_captures) || fm_hip_launches)
		return true;
	pthread_mutex_unlock(&capture_lock);
	return false;
}

void fm_hip_untouch(void)
{
	pthread_mutex_unlock(&capture_lock);
}
