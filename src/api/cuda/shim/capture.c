/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams are being captured into graphs. While there are any, every launch asks. So it must
 * be noticed when a capture ends in any way. The streams that began a capture are kept here,
 * because it ends only at them.
 */
#include "shim.h"
#include "shim/threads.h"

#define ORIGINS 64

static struct {
	_Atomic uintptr_t key;
	_Atomic(CUcontext) ctx; /* the context of a default stream; of another stream, once that
				   context is to end */
} origin[ORIGINS];

bool fm_cuda_capturing(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int status = FM_CU_CAPTURE_NONE;

	if (!cu || !cu->stream_is_capturing)
		return false;
	/* An error means that the default stream would disturb a capture, or that this is no
	 * stream. */
	return cu->stream_is_capturing(stream, &status) || status != FM_CU_CAPTURE_NONE;
}

void fm_cuda_capture_begin(void)
{
	atomic_fetch_add(&fm_cuda_hot.careful, FM_CUDA_CAPTURE);
	fm_cu_capture_begin();
}

static void capture_end(void)
{
	fm_cu_capture_end();
	atomic_fetch_sub(&fm_cuda_hot.careful, FM_CUDA_CAPTURE);
}

/* fm_cuda_capture_begin() ran before the driver's call. If there is no room here the capture never
 * counts as over, and launches go on asking. */
void fm_cuda_capture_begun(CUstream stream, fm_cu_result rc)
{
	uintptr_t key, none;

	if (rc != FM_CU_SUCCESS) {
		capture_end();
		return;
	}
	key = fm_cuda_key(stream);
	if (stream == FM_CU_STREAM_PER_THREAD)
		fm_shim_thread_hear();
	for (size_t i = 0; i < ORIGINS; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&origin[i].key, &none, key))
			continue;
		atomic_store(&origin[i].ctx, fm_cuda_is_default(stream) ? fm_cuda_current() : NULL);
		return;
	}
}

static bool end(size_t i, uintptr_t key)
{
	bool yes = atomic_compare_exchange_strong(&origin[i].key, &key, 0);

	if (yes)
		capture_end();
	return yes;
}

/* The stream's capture was ended, or the stream is about to be destroyed. */
void fm_cuda_capture_ended(CUstream stream)
{
	uintptr_t key = fm_cuda_key(stream);

	for (size_t i = 0; key && i < ORIGINS; i++)
		if (end(i, key))
			return;
}

/* A stream that is captured exists: before it ends, its capture is ended
 * (fm_cuda_capture_ended()). */
static void ask(const struct fm_cu_driver *cu, size_t i)
{
	uintptr_t key = atomic_load(&origin[i].key);
	CUcontext ctx = NULL;

	if (key && !atomic_load(&origin[i].ctx) && !cu->stream_get_ctx((CUstream)key, &ctx))
		atomic_store(&origin[i].ctx, ctx);
}

void fm_cuda_captures_look(void)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();

	if (!atomic_load(&fm_cu_captures) || !cu)
		return;
	fm_cu_inside++;
	for (size_t i = 0; i < ORIGINS; i++)
		ask(cu, i);
	fm_cu_inside--;
}

void fm_cuda_captures_gone(CUcontext ctx)
{
	for (size_t i = 0; i < ORIGINS; i++) {
		uintptr_t key = atomic_load(&origin[i].key);

		if (key && atomic_load(&origin[i].ctx) == ctx)
			end(i, key);
	}
}

void fm_cuda_captures_of_thread_end(void)
{
	for (size_t i = 0; atomic_load(&fm_cu_captures) && i < ORIGINS; i++) {
		uintptr_t key = atomic_load(&origin[i].key);
		CUcontext ctx = atomic_load(&origin[i].ctx);

		if (key && ctx && key == fm_shim_thread_key(ctx))
			end(i, key);
	}
}

void fm_cuda_captures_clear(void)
{
	for (size_t i = 0; i < ORIGINS; i++)
		atomic_store(&origin[i].key, 0);
	atomic_store(&fm_cu_captures, 0);
	atomic_fetch_and(&fm_cuda_hot.careful, FM_CUDA_EVER);
}
