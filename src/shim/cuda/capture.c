/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams are being captured into graphs. While one is, every launch asks; so a capture that
 * ends in any way must be seen to end. Those that began it are kept here: only at them it ends.
 */
#include "shim.h"

#define ORIGINS 64

static _Atomic uintptr_t origin[ORIGINS];

bool fm_cuda_capturing(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int status = FM_CU_CAPTURE_NONE;

	if (!cu || !cu->stream_is_capturing)
		return false;
	/* An error: a capture that the default stream would disturb, or a stream that is none. */
	return cu->stream_is_capturing(stream, &status) || status != FM_CU_CAPTURE_NONE;
}

/* fm_cu_capture_begin() was before the driver's call. Without room here it is never over: launches
 * go on asking. */
void fm_cuda_capture_begun(CUstream stream, fm_cu_result rc)
{
	uintptr_t key, none;

	if (rc != FM_CU_SUCCESS) {
		fm_cu_capture_end();
		return;
	}
	key = fm_cuda_key(stream);
	for (size_t i = 0; i < ORIGINS; i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&origin[i], &none, key))
			return;
	}
}

/* The stream's capture was ended, or the stream is about to be destroyed. */
void fm_cuda_capture_ended(CUstream stream)
{
	uintptr_t key = fm_cuda_key(stream), expected;

	for (size_t i = 0; key && i < ORIGINS; i++) {
		expected = key;
		if (atomic_compare_exchange_strong(&origin[i], &expected, 0)) {
			fm_cu_capture_end();
			return;
		}
	}
}

void fm_cuda_captures_clear(void)
{
	for (size_t i = 0; i < ORIGINS; i++)
		atomic_store(&origin[i], 0);
	atomic_store(&fm_cu_captures, 0);
}
