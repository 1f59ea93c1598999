/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL without a device: the functions of libascendcl over the engine of the fake CUDA driver
 * (../cuda/fake.h). Code is images as that engine reads them, so that one set of kernels does for
 * both. FAKE_CUDA_* (see there) hold here, too, besides:
 *
 *   FAKE_ACL_OLD    an older library: aclrtCtxGetCurrentDefaultStream, aclrtStreamGetFlags
 *                   and captures are not supported
 *
 * By the reference of its API (https://gitcode.com/cann/runtime, docs/zh):
 *   - "All streams of the runtime are non-blocking, the default stream is not implicitly
 *     synchronised with those that are created" (dev_guide/03-02); each context has its own default
 *     stream, and a NULL stream is that of the thread's context. A stream may be used only where
 *     its context is current (107003).
 *   - aclrtMemcpy() and aclrtMemset() act at once: "no implicit synchronisation of the device or of
 *     a stream" (api_ref/11-03). Captures forbid them, and nothing else (api_ref/15,
 *     aclmdlRICaptureThreadExchangeMode).
 *   - aclrtDestroyStream() waits for the stream; aclrtDestroyStreamForce() does not (api_ref/06).
 *     It is not said what the events in it come to: here those that had not come never do, nor
 *     after aclrtStreamAbort().
 *   - A stream waits for events that are made with ACL_EVENT_SYNC alone (api_ref/07).
 *   - What is put into a persistent stream does not run, until its model does (api_ref/06). Here no
 *     event may be put there: it ends the process.
 *   - A host function runs in a thread of the library's, a callback in the thread that is
 *     subscribed, when that calls aclrtProcessReport(); with ACL_CALLBACK_BLOCK the stream waits.
 *   - aclrtResetDevice() counts; aclrtResetDeviceForce() does not. Both wait for the streams.
 */
#pragma once
#include "../cuda/fake.h"
#define ACL_EXPORT __attribute__((visibility("default")))
#include "../../acl.h"

/* What an event is here. */
struct fa_event {
	CUevent event;
	unsigned flags;
	CUstream stream; /* where it was recorded last */
	bool never;      /* and that has ended by force before the event had come */
	struct fa_event *next;
};

/* Before each call: the thread's context, alive. */
fm_cu_result fa_ready(void);
aclError fa_done(fm_cu_result rc);
CUstream fa_default(CUcontext ctx); /* NULL: none */
void fa_context_begins(CUcontext ctx);
void fa_context_ends(CUcontext ctx);
/* Of a stream that the program names, in the thread's context. */
fm_cu_result fa_stream(aclrtStream named, CUstream *s);
bool fa_is_persistent(CUstream s);

/* A call that is one of the engine's, and of one of its streams, `s`. */
#define FA_CALL(call)                             \
	do {                                      \
		fm_cu_result ready_ = fa_ready(); \
		return fa_done(ready_ ?: (call)); \
	} while (0)
#define FA_IN_STREAM(stream, call)                                               \
	do {                                                                     \
		CUstream s = NULL;                                               \
		fm_cu_result ready_ = fa_ready() ?: fa_stream(stream, &s);       \
		return fa_done(ready_ ?: fa_is_persistent(s) ? ready_ : (call)); \
	} while (0)
#define FA_PTR(p) ((CUdeviceptr)(uintptr_t)(p))

/* The engine takes what AscendCL permits while a stream is captured. */
static inline int fa_relax(void)
{
	int was = fk_self.capture_mode;

	fk_self.capture_mode = CU_CAPTURE_RELAXED;
	return was;
}
#define FA_RELAXED(call)                     \
	do {                                 \
		int was_ = fa_relax();       \
		fm_cu_result rc_ = call;     \
                                             \
		fk_self.capture_mode = was_; \
		return rc_;                  \
	} while (0)
