/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "keys.h"
#include "ze.h"

/* --- commands --- */

struct launch {
	struct fm_ze_queue *q; /* NULL: the call only goes to the loader */
	uint64_t mark;
	bool locked;
};

/* In a queue whose calls may wait nothing is ours: they may overlap. */
static void lock(struct launch *l)
{
	l->locked = l->q->hw.made.desc.mode == FM_ZE_MODE_ASYNCHRONOUS;
	if (l->locked)
		fm_queue_lock_take(&l->q->hw.submit);
}

static void unlock(struct launch *l)
{
	if (l->locked)
		fm_queue_lock_give(&l->q->hw.submit);
}

static void begin(struct launch *l, uint64_t key)
{
	struct fm_xq *xq = l->q->xq;
	bool full = fm_ze_backlog(l->q) > FM_ZE_DEEP;

	if (FM_UNLIKELY(full)) {
		fm_xq_use(xq);
		fm_xq_await_gates(xq);
	}
	l->mark = fm_xq_mark(xq);
	fm_xq_begin(xq, key, true);
	if (FM_UNLIKELY(full))
		fm_xq_used(xq);
	lock(l);
}

static ze_result_t end(struct launch *l, ze_result_t rc)
{
	if (!l->q)
		return rc;
	unlock(l);
	if (l->q->hw.made.desc.mode == FM_ZE_MODE_SYNCHRONOUS && rc == FM_ZE_SUCCESS)
		fm_xq_end_synced(l->q->xq, l->mark);
	else
		fm_xq_end(l->q->xq);
	return rc;
}

/* A list without commands has no state that this would change. */
static struct fm_ze_queue *stands_in_order(const void *list)
{
	struct fm_ze_queue *q = fm_shim_has_client() ? fm_shim_find((uintptr_t)list) : NULL;

	if (q)
		fm_shim_order(&q->progress);
	return q;
}

/* While a list is recorded, a command for an immediate list may be recorded, too. */
static bool may_be_recorded(const void *list)
{
	if (FM_LIKELY(!atomic_load_explicit(&fm_ze_captures, memory_order_relaxed)))
		return false;
	stands_in_order(list);
	return true;
}

/* What is appended to a list that is not immediate runs later. */
static struct launch append(ze_command_list_handle_t list, uint64_t key, const char *call)
{
	struct launch l = {.q = NULL};

	if (!fm_ze_is_immediate(list) || may_be_recorded(list))
		return l;
	l.q = fm_shim_queue(list, call);
	if (l.q)
		begin(&l, key);
	return l;
}

#define APPEND(symbol, params, list, key)                     \
	ze_result_t symbol CALL_PARAMS(params)                \
	{                                                     \
		struct launch l = append(list, key, #symbol); \
                                                              \
		return end(&l, NEXT(symbol, params));         \
	}
#define ON_kernel(symbol, per_thread, name, since, note, params, list, key) \
	APPEND(symbol, params, list, key)
#define ON_work(symbol, per_thread, name, since, note, params, list, key) \
	APPEND(symbol, params, list, key)
#define RECORDED_EXECUTED(on) false
#define RECORDED_APPENDED(on) may_be_recorded(on)
#define ON_graph(symbol, per_thread, name, since, note, params, how, on, n, lists, key)          \
	ze_result_t symbol CALL_PARAMS(params)                                                   \
	{                                                                                        \
		struct launch l = {.q = RECORDED_##how(on) ? NULL : fm_shim_queue(on, #symbol)}; \
                                                                                                 \
		if (FM_LIKELY(l.q)) {                                                            \
			begin(&l, key);                                                          \
			fm_ze_stands(l.q, n, lists);                                             \
		}                                                                                \
		return end(&l, NEXT(symbol, params));                                            \
	}
#include "api/ze/calls.def"

static struct launch order(ze_command_list_handle_t list)
{
	struct launch l = {.q = stands_in_order(list)};

	if (l.q) {
		fm_xq_use(l.q->xq);
		lock(&l);
	}
	return l;
}

static ze_result_t ordered(struct launch *l, ze_result_t rc)
{
	if (l->q) {
		unlock(l);
		fm_xq_used(l->q->xq);
	}
	return rc;
}

#define ON_order(symbol, per_thread, name, since, note, params, list) \
	ze_result_t symbol CALL_PARAMS(params)                        \
	{                                                             \
		struct launch l = order(list);                        \
                                                                      \
		return ordered(&l, NEXT(symbol, params));             \
	}
#include "api/ze/calls.def"

#define CAPTURE_BEGIN(symbol, params, list) \
	ze_result_t rc;                     \
                                            \
	fm_ze_capture_begins();             \
	rc = NEXT(symbol, params);          \
	fm_ze_capture_begun(list, rc);      \
	return rc;
#define CAPTURE_END(symbol, params, list)      \
	ze_result_t rc = NEXT(symbol, params); \
                                               \
	fm_ze_capture_ended(list);             \
	return rc;
#define ON_capture(symbol, per_thread, name, since, note, params, what, list) \
	ze_result_t symbol CALL_PARAMS(params)                                \
	{                                                                     \
		CAPTURE_##what(symbol, params, list)                          \
	}
#include "api/ze/calls.def"

/* --- waiting --- */

struct wait {
	struct fm_ze_queue *q;
	struct fm_shim_mark mark;
	uint64_t since;
};

static struct wait wait_begin(const void *handle)
{
	struct wait w = {.q = fm_shim_has_client() ? fm_shim_find((uintptr_t)handle) : NULL};

	if (!w.q)
		return w;
	fm_xq_use(w.q->xq);
	w.mark = fm_shim_mark(&w.q->entry, &w.q->progress, atomic_load(&w.q->hw.placed));
	w.since = fm_now();
	fm_xq_waits(w.q->xq, w.since);
	return w;
}

static ze_result_t wait_end(struct wait w, ze_result_t rc)
{
	if (!w.q)
		return rc;
	if (rc == FM_ZE_NOT_READY &&
		fm_shim_idle_but_for_us(&w.q->entry, &w.q->progress, atomic_load(&w.q->hw.placed)))
		rc = FM_ZE_SUCCESS;
	else if (rc == FM_ZE_SUCCESS)
		fm_shim_finished(&w.q->entry, &w.q->progress, &w.mark, w.since);
	fm_xq_used(w.q->xq);
	return rc;
}

static ze_result_t finished_some(ze_result_t rc)
{
	if (rc == FM_ZE_SUCCESS)
		fm_shim_nudge();
	return rc;
}

#define WAIT_QUEUE(symbol, params, handle)  \
	struct wait w = wait_begin(handle); \
                                            \
	return wait_end(w, NEXT(symbol, params));
#define WAIT_ANY(symbol, params, none) return finished_some(NEXT(symbol, params));
#define ON_sync(symbol, per_thread, name, since, note, params, of, handle) \
	ze_result_t symbol CALL_PARAMS(params)                             \
	{                                                                  \
		WAIT_##of(symbol, params, handle)                          \
	}
#include "api/ze/calls.def"

/* --- lives --- */

/* Where the program leaves to the driver whether calls wait, they do not: nothing could stop what
 * is inside such a call. */
static bool wish(ze_command_queue_desc_t *mine, const ze_command_queue_desc_t *desc)
{
	if (!desc || desc->mode != FM_ZE_MODE_DEFAULT || fm_client_switched_off())
		return false;
	*mine = *desc;
	mine->mode = FM_ZE_MODE_ASYNCHRONOUS;
	return true;
}

#define MAKES_QUEUE false
#define MAKES_LIST  true
#define ON_make(symbol, per_thread, name, since, note, params, what, handle)                 \
	ze_result_t symbol CALL_PARAMS(params)                                               \
	{                                                                                    \
		const ze_command_queue_desc_t *given = desc;                                 \
		ze_command_queue_desc_t mine;                                                \
		ze_result_t rc;                                                              \
                                                                                             \
		desc = wish(&mine, desc) ? &mine : given;                                    \
		rc = NEXT(symbol, params);                                                   \
		if (rc != FM_ZE_SUCCESS && desc != given) {                                  \
			desc = given;                                                        \
			rc = NEXT(symbol, params);                                           \
		}                                                                            \
		if (rc == FM_ZE_SUCCESS && desc && handle)                                   \
			fm_ze_made(*handle,                                                  \
				&(struct fm_ze_made){context, device, *desc, MAKES_##what}); \
		return rc;                                                                   \
	}
#include "api/ze/calls.def"

static void list_changes(ze_command_list_handle_t list, bool destroyed)
{
	fm_ze_capture_ended(list);
	if (!fm_ze_is_immediate(list))
		fm_ze_list_changes(list);
	else if (destroyed)
		fm_ze_queue_ends(list);
}

#define END_QUEUE(queue)     fm_ze_queue_ends(queue)
#define END_LIST(list)       list_changes(list, true)
#define END_RESET(list)      list_changes(list, false)
#define END_CONTEXT(context) fm_ze_context_ends(context)
#define ON_end(symbol, per_thread, name, since, note, params, what, handle) \
	CALLS_RETURN(symbol, params, (END_##what(handle), NEXT(symbol, params)))
#include "api/ze/calls.def"
