/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that give streams work, and those that make memory and end it. Each is the driver's,
 * and is written down behind it. What is captured is not: its graph is, when it is launched. */
#include "calls.h"
#include <string.h>

/* --- copies and fills --- */

/* What a copy or fill names, by the names that its row gives its parameters. */
struct work {
	uint64_t dst, src, value;
	size_t n, width, rows, pitch, element;
	bool other; /* it has what is not understood here */
};
#define ARG(type, name) ARG_##name(name)
#define ARG_dst(v)      a.dst = (uintptr_t)(v)
#define ARG_src(v)      a.src = (uintptr_t)(v)
#define ARG_n(v)        a.n = (v)
#define ARG_w(v)        a.width = (v)
#define ARG_h(v)        a.rows = (v)
#define ARG_pitch(v)    a.pitch = (v)
#define ARG_value(v)    a.element = (a.value = (v), sizeof(v))
#define ARG_stream(v)   (void)(v)
#define ARG_dst_ctx(v)  (void)(v)
#define ARG_src_ctx(v)  (void)(v)
#define ARG_OTHER(v)    a.other = ((void)(v), true)
#define ARG_attrs(v)    (void)(v)
#define ARG_at(v)       ARG_OTHER(v)
#define ARG_dst_at(v)   ARG_OTHER(v)
#define ARG_src_at(v)   ARG_OTHER(v)
#define ARG_copy(v)     ARG_OTHER(v)
#define ARG_op(v)       ARG_OTHER(v)
#define ARG_ops(v)      ARG_OTHER(v)
#define ARG_list(v)     ARG_OTHER(v)
#define ARG_dsts(v)     ARG_OTHER(v)
#define ARG_srcs(v)     ARG_OTHER(v)
#define ARG_ptr(v)      ARG_OTHER(v)
#define ARG_ptrs(v)     ARG_OTHER(v)
#define ARG_sizes(v)    ARG_OTHER(v)
#define ARG_indices(v)  ARG_OTHER(v)
#define ARG_n_attrs(v)  ARG_OTHER(v)
#define ARG_failed(v)   ARG_OTHER(v)
#define ARG_flags(v)    ARG_OTHER(v)
#define ARG_to(v)       a.other = ((void)&(v), true)
#define ARG_n_to(v)     ARG_OTHER(v)

static void put_fill(const struct work *w, CUstream stream)
{
	uint64_t row = w->width * w->element, last = w->rows ? w->rows - 1 : 0;
	struct fm_record_span to = {w->dst, w->rows ? last * w->pitch + row : w->n * w->element};
	bool rows = w->rows ? w->pitch != row : w->width > 0;

	fm_record_again_fill(fm_record_fill(stream, to, rows), stream, to, w->value,
		w->rows ? 0 : (unsigned)w->element);
}

static void put_work(const struct work *w, CUstream stream)
{
	struct fm_record_span to = {w->dst, w->n}, from = {w->src, w->n};

	if (w->other)
		fm_record_unknown(stream);
	else if (w->element)
		put_fill(w, stream);
	else
		fm_record_again_copy(fm_record_copy(stream, to, from), stream, to, w->src);
}

/* NULL: it is not to be written down. */
static const struct fm_record_driver *begin(CUstream stream, fm_cu_result rc, int *mode)
{
	const struct fm_record_driver *cu = rc ? NULL : fm_record_enter(mode);

	if (cu && fm_record_captures(cu, stream) > 0) {
		fm_record_leave(*mode);
		return NULL;
	}
	return cu;
}

/* `put` may use `s`, the stream. */
#define WRITE_DOWN(given, per_thread, put)                        \
	do {                                                      \
		CUstream s = fm_record_stream(given, per_thread); \
		int entered;                                      \
                                                                  \
		if (begin(s, rc, &entered)) {                     \
			put;                                      \
			fm_record_leave(entered);                 \
		}                                                 \
	} while (0)

#define ON_work(symbol, per_thread, name, since, note, params, given, ...) \
	fm_cu_result symbol CALL_PARAMS(params)                            \
	{                                                                  \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params));         \
		struct work a = {0};                                       \
                                                                           \
		(void)(CALL_EACH(ARG, params));                            \
		WRITE_DOWN(given, per_thread, put_work(&a, s));            \
		return rc;                                                 \
	}
#include "api/cuda/calls.def"

/* --- what orders --- */

static void put_order(const char *name, CUstream stream)
{
	if (!strcmp(name, "cuStreamWaitEvent"))
		fm_record_plain("event_wait", stream);
	else if (!strcmp(name, "cuLaunchHostFunc") || !strcmp(name, "cuStreamAddCallback"))
		fm_record_plain("host_fn", stream);
	else
		fm_record_unknown(stream);
}

#define BEHIND(symbol, per_thread, params, given, put)             \
	fm_cu_result symbol CALL_PARAMS(params)                    \
	{                                                          \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params)); \
                                                                   \
		WRITE_DOWN(given, per_thread, put);                \
		return rc;                                         \
	}
#define ALONE(symbol, per_thread, params, given, others)                                      \
	fm_cu_result symbol CALL_PARAMS(params)                                               \
	{                                                                                     \
		bool alone = fm_record_alone();                                               \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params));                            \
                                                                                              \
		if (alone)                                                                    \
			fm_record_alone_end(fm_record_stream(given, per_thread), others, rc); \
		return rc;                                                                    \
	}
#define ON_order(symbol, per_thread, name, since, note, params, given, ...) \
	BEHIND(symbol, per_thread, params, given, put_order(#name, s))
#define ON_record(symbol, per_thread, name, since, note, params, given, ...) \
	BEHIND(symbol, per_thread, params, given, fm_record_plain("event_record", s))
#define ON_graph(symbol, per_thread, name, since, note, params, given, ...) \
	ALONE(symbol, per_thread, params, given, false)
#include "api/cuda/calls.def"

/* --- kernels --- */

#define LAUNCH(symbol, params, ...)                                                \
	fm_cu_result symbol CALL_PARAMS(params)                                    \
	{                                                                          \
		struct fm_record_look *look =                                      \
			fm_record_before(&(struct fm_record_launch){__VA_ARGS__}); \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params));                 \
                                                                                   \
		fm_record_after(look, rc);                                         \
		return rc;                                                         \
	}
#define GIVEN_DIMS .f = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared
#define KERNEL_BY_DIMS(symbol, per_thread, given, ...)                      \
	LAUNCH(symbol, given, GIVEN_DIMS, .params = params, .extra = extra, \
		.stream = fm_record_stream(stream, per_thread))
#define KERNEL_COOPERATIVE(symbol, per_thread, given, ...)  \
	LAUNCH(symbol, given, GIVEN_DIMS, .params = params, \
		.stream = fm_record_stream(stream, per_thread), .special = true)

static struct fm_record_launch by_config(const struct CUlaunchConfig_st *config, CUfunction f,
	void *const *params, void *const *extra, bool per_thread)
{
	const struct fm_cu_launch_config *c = (const void *)config;
	struct fm_record_launch l = {.f = f, .params = params, .extra = extra};

	if (!c)
		return l;
	memcpy(l.grid, c->grid, sizeof(l.grid));
	memcpy(l.block, c->block, sizeof(l.block));
	l.shared = c->shared;
	l.stream = fm_record_stream(c->stream, per_thread);
	l.special = c->n_attributes;
	for (unsigned i = 0; c->attributes && i < c->n_attributes; i++)
		l.overlaps |= c->attributes[i].id == FM_CU_LAUNCH_OVERLAPS;
	return l;
}
#define KERNEL_BY_CONFIG(symbol, per_thread, given, ...)                                     \
	fm_cu_result symbol CALL_PARAMS(given)                                               \
	{                                                                                    \
		struct fm_record_launch l = by_config(config, f, params, extra, per_thread); \
		struct fm_record_look *look = fm_record_before(&l);                          \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(given));                            \
                                                                                             \
		fm_record_after(look, rc);                                                   \
		return rc;                                                                   \
	}
/* Its parameters were set before. */
#define KERNEL_SET_BEFORE(symbol, per_thread, given, stream, ...) \
	ALONE(symbol, per_thread, given, stream, false)
/* Of several devices and streams. */
#define KERNEL_(symbol, per_thread, given, ...) ALONE(symbol, per_thread, given, NULL, true)
#define ON_kernel(symbol, per_thread, name, since, note, params, ...) \
	KERNEL_OF(symbol, per_thread, params, __VA_ARGS__, )
#define KERNEL_OF(symbol, per_thread, given, how, ...) \
	KERNEL_##how(symbol, per_thread, given, __VA_ARGS__)
#include "api/cuda/calls.def"

/* --- memory --- */

#define HAS(at, size, visible)                                  \
	do {                                                    \
		if (!rc && fm_tap_wanted() && !fm_tap_inside)   \
			fm_record_allocated(at, size, visible); \
	} while (0)
#define ALLOC_(...)         (void)0
#define ALLOC_ARRAY(...)    (void)0
#define ALLOC_PLAIN(p, n)   HAS(*(p), n, false)
#define ALLOC_LINEAR(p, n)  HAS(*(p), n, false)
#define ALLOC_MANAGED(p, n) HAS(*(p), n, true)
/* A pool of the program's may be of memory of the host. */
#define ALLOC_ORDERED(p, n, pool, ...)            HAS(*(p), n, (pool) && !fm_record_is_private(*(p)))
#define ALLOC_PITCH(p, pitch, width, height, ...) HAS(*(p), (uint64_t) * (pitch) * (height), false)
#define ALLOC_ONE(how, ...)                       ALLOC_##how(__VA_ARGS__)
#define ON_alloc(symbol, per_thread, name, since, note, params, ...) \
	fm_cu_result symbol CALL_PARAMS(params)                      \
	{                                                            \
		fm_cu_result rc = NEXT(symbol, CALL_ARGS(params));   \
                                                                     \
		ALLOC_ONE(__VA_ARGS__);                              \
		return rc;                                           \
	}
/* Another thread may have the same address as soon as it has ended. */
#define GONE(at, stream)                               \
	do {                                           \
		if (fm_tap_wanted() && !fm_tap_inside) \
			fm_record_freed(at, stream);   \
	} while (0)
#define RELEASE_(...)              (void)0
#define RELEASE_ARRAY(...)         (void)0
#define RELEASE_HOST(...)          (void)0
#define RELEASE_DEVICE(p)          GONE(p, NULL)
#define RELEASE_ORDERED(p, stream) GONE(p, fm_record_stream(stream, own))
#define RELEASE_ONE(how, ...)      RELEASE_##how(__VA_ARGS__)
#define ON_release(symbol, per_thread, name, since, note, params, ...) \
	fm_cu_result symbol CALL_PARAMS(params)                        \
	{                                                              \
		const bool own __attribute__((unused)) = per_thread;   \
                                                                       \
		RELEASE_ONE(__VA_ARGS__);                              \
		return NEXT(symbol, CALL_ARGS(params));                \
	}
#include "api/cuda/calls.def"
