/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "acl.h"
#include "keys.h"

__thread unsigned fm_acl_inside;

/* --- commands --- */

struct launch {
	struct fm_acl_queue *q; /* NULL: the call only goes to the library */
	uint64_t mark;
};

static struct launch begin(aclrtStream stream, uint64_t key, bool waits, const char *call)
{
	struct launch l = {.q = NULL};

	if (FM_UNLIKELY(fm_acl_inside++))
		return l;
	if (FM_UNLIKELY(atomic_load_explicit(&fm_shim_captures, memory_order_relaxed)) &&
		stream != FM_ACL_NO_STREAM && fm_acl_capturing(stream))
		return l;
	l.q = fm_acl_enter(stream, call);
	if (FM_UNLIKELY(!l.q))
		return l;
	l.mark = fm_xq_mark(l.q->xq);
	fm_shim_launches = true;
	fm_xq_begin(l.q->xq, key, waits);
	fm_shim_launches = false;
	return l;
}

/* A call without a stream is over, whether it has succeeded or not. */
static aclError end(struct launch l, bool waited, aclError rc)
{
	fm_acl_inside--;
	if (FM_UNLIKELY(!l.q))
		return rc;
	fm_xq_end(l.q->xq);
	if (waited && (rc == FM_ACL_SUCCESS || l.q->stream == FM_ACL_NO_STREAM))
		fm_xq_synced(l.q->xq, l.mark + 1);
	fm_acl_leave(l.q);
	return rc;
}

#define LAUNCH(symbol, params, stream, key, waits, waited)            \
	aclError symbol CALL_PARAMS(params)                           \
	{                                                             \
		struct launch l = begin(stream, key, waits, #symbol); \
                                                                      \
		return end(l, waited, NEXT(symbol, params));          \
	}
#define ON_kernel(symbol, per_thread, name, since, note, params, stream, key) \
	LAUNCH(symbol, params, stream, key, false, false)
#define ON_graph(symbol, per_thread, name, since, note, params, stream, key) \
	LAUNCH(symbol, params, stream, key, false, false)
#define ON_work(symbol, per_thread, name, since, note, params, stream, key, waited) \
	LAUNCH(symbol, params, stream, key, true, waited)
#include "api/acl/calls.def"

/* Not a call that the library itself makes. */
static bool is_known(void)
{
	return fm_shim_has_client() && !fm_acl_inside;
}

static void order(aclrtStream stream)
{
	if (is_known())
		fm_acl_order(stream);
}

#define ON_order(symbol, per_thread, name, since, note, params, stream) \
	CALLS_RETURN(symbol, params, (order(stream), NEXT(symbol, params)))
#include "api/acl/calls.def"

/* --- waiting --- */

struct wait {
	struct fm_shim_mark mark;
	uint64_t since;
};

static struct wait wait_begin(aclrtStream stream)
{
	struct wait w = {.since = 0};

	if (!is_known())
		return w;
	w.since = fm_now();
	w.mark = fm_acl_waits(stream, w.since);
	return w;
}

static aclError wait_end(struct wait w, aclError rc)
{
	if (w.mark.key && rc == FM_ACL_SUCCESS)
		fm_acl_waited(&w.mark, w.since);
	return rc;
}

/* A query sees our events, which must be invisible to the program. */
static aclError query_end(struct wait w, aclError rc, int *status)
{
	if (!w.mark.key || rc != FM_ACL_SUCCESS || !status)
		return rc;
	if (*status == FM_ACL_STREAM_NOT_READY && fm_acl_idle_but_for_us(&w.mark))
		*status = FM_ACL_STREAM_COMPLETE;
	else if (*status == FM_ACL_STREAM_COMPLETE)
		fm_acl_waited(&w.mark, w.since);
	return rc;
}

#define WAIT_QUEUE(symbol, params, stream)                \
	aclError symbol CALL_PARAMS(params)               \
	{                                                 \
		struct wait w = wait_begin(stream);       \
                                                          \
		return wait_end(w, NEXT(symbol, params)); \
	}
#define WAIT_STATUS(symbol, params, stream)                        \
	aclError symbol CALL_PARAMS(params)                        \
	{                                                          \
		struct wait w = wait_begin(stream);                \
                                                                   \
		return query_end(w, NEXT(symbol, params), status); \
	}
#define WAIT_CONTEXT(symbol, params, none)       \
	aclError symbol CALL_PARAMS(params)      \
	{                                        \
		struct fm_shim_marks m;          \
		aclError rc;                     \
                                                 \
		fm_acl_marks(&m);                \
		rc = NEXT(symbol, params);       \
		if (rc == FM_ACL_SUCCESS && m.n) \
			fm_acl_synced(&m);       \
		return rc;                       \
	}
#define ON_sync(symbol, per_thread, name, since, note, params, of, what) \
	WAIT_##of(symbol, params, what)
#include "api/acl/calls.def"

/* --- lives --- */

static aclError made(const aclrtStream *stream, uint32_t flags, aclError rc)
{
	if (rc == FM_ACL_SUCCESS && stream && !fm_acl_inside)
		fm_acl_made(*stream, flags);
	return rc;
}

#define ON_make(symbol, per_thread, name, since, note, params, stream, flags) \
	CALLS_RETURN(symbol, params, made(stream, flags, NEXT(symbol, params)))
#include "api/acl/calls.def"

#define END_STREAM(stream)   fm_acl_ends(stream)
#define END_WORK(stream)     fm_acl_aborts(stream)
#define END_CONTEXT(context) fm_acl_context_ends(context)
#define END_DEVICE(device)   fm_acl_device_ends(device)
#define END_ALL(none)        fm_acl_all_ends()
#define ON_end(symbol, per_thread, name, since, note, params, what, handle) \
	CALLS_RETURN(symbol, params, (END_##what(handle), NEXT(symbol, params)))
#include "api/acl/calls.def"

/* --- captures --- */

static aclError begun(aclrtStream stream, aclError rc)
{
	fm_acl_capture_begun(stream, rc);
	return rc;
}

static aclError ended(aclrtStream stream, aclError rc)
{
	fm_acl_capture_ended(stream, rc);
	return rc;
}

#define CAPTURE_BEGIN(stream, call) (fm_acl_capture_begins(stream), begun(stream, call))
#define CAPTURE_END(stream, call)   ended(stream, call)
#define ON_capture(symbol, per_thread, name, since, note, params, which, stream) \
	CALLS_RETURN(symbol, params, CAPTURE_##which(stream, NEXT(symbol, params)))
#include "api/acl/calls.def"
