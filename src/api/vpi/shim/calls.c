/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "shim/calls/keys.h"
#include "vpi.h"

__thread bool fm_vpi_hushed;
/* The library may call its own functions as part of another call. */
static __thread unsigned inside __attribute__((tls_model("initial-exec")));

/* --- commands --- */

static struct fm_vpi_queue *begin(VPIStream stream, uint64_t key, const char *call)
{
	struct fm_vpi_queue *q = inside++ ? NULL : fm_shim_queue(stream, call);

	if (q)
		fm_xq_begin(q->xq, key, true);
	return q;
}

static VPIStatus end(struct fm_vpi_queue *q, VPIStatus rc)
{
	inside--;
	if (!q)
		return rc;
	fm_vpi_hushed = rc != FM_VPI_SUCCESS;
	fm_xq_end(q->xq);
	fm_vpi_hushed = false;
	return rc;
}

/* For estimates: algorithms cost alike by backend and payload, which is made for a size of images.
 */
#define ON_work(symbol, per_thread, name, since, note, params, to, on, what)                     \
	VPIStatus symbol CALL_PARAMS(params)                                                     \
	{                                                                                        \
		uint64_t key = key_mix((uintptr_t)(what), (uint64_t)(on) << 48 ^ CALL_##symbol); \
		struct fm_vpi_queue *q = begin(to, key, #symbol);                                \
                                                                                                 \
		return end(q, NEXT(symbol, params));                                             \
	}
#include "api/vpi/calls.def"

/* --- waiting --- */

static VPIStatus finished_some(VPIStatus rc)
{
	if (rc == FM_VPI_SUCCESS)
		fm_shim_nudge();
	return rc;
}

#define WAIT_STREAM(symbol, params, stream)                        \
	struct fm_vpi_queue *q = fm_shim_find((uintptr_t)stream);  \
	uint64_t mark = q ? fm_xq_mark(q->xq) : 0, now = fm_now(); \
	VPIStatus rc;                                              \
                                                                   \
	if (q)                                                     \
		fm_xq_use(q->xq);                                  \
	if (q)                                                     \
		fm_xq_waits(q->xq, now);                           \
	rc = NEXT(symbol, params);                                 \
	if (q && rc == FM_VPI_SUCCESS)                             \
		fm_xq_waited(q->xq, mark, now);                    \
	if (q)                                                     \
		fm_xq_used(q->xq);                                 \
	return rc;
#define WAIT_ANY(symbol, params, none) return finished_some(NEXT(symbol, params));
#define ON_sync(symbol, per_thread, name, since, note, params, of, handle) \
	VPIStatus symbol CALL_PARAMS(params)                               \
	{                                                                  \
		WAIT_##of(symbol, params, handle)                          \
	}
#include "api/vpi/calls.def"

/* --- lives --- */

static VPIStatus made(const VPIStream *stream, VPIStatus rc)
{
	if (rc == FM_VPI_SUCCESS && stream)
		fm_vpi_stream_made(*stream);
	return rc;
}

#define ON_make(symbol, per_thread, name, since, note, params, stream) \
	CALLS_RETURN(symbol, params, made(stream, NEXT(symbol, params)))
#include "api/vpi/calls.def"

#define END_STREAM(stream)   fm_vpi_stream_ends(stream)
#define END_CONTEXT(context) fm_vpi_context_ends(context)
#define ON_end(symbol, per_thread, name, since, note, params, what, handle) \
	void symbol CALL_PARAMS(params)                                     \
	{                                                                   \
		END_##what(handle);                                         \
		NEXT_OF(void, symbol, params);                              \
	}
#include "api/vpi/calls.def"
