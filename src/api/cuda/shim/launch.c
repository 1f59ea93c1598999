/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that put something onto a stream. Each is counted before the driver's call (begin) and
 * after it (end); the driver's call is the program's own. order.h has what only orders work.
 */
#include "api/cuda/foreign.h"
#include "api/cuda/shim/graph/graph_guard.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/memory/memory.h"
#include "events.h"
#include "order.h"
#include "sets_guard.h"

struct launch {
	struct fm_cuda_queue *q;
	uint64_t mark;
	enum fm_cuda_call_kind way;
	bool first; /* of its kind: first.c */
};

/* While graphs are captured: is this launch captured, too, or is that not known? A captured launch
 * runs later, with its graph, and counts then. No other thread touches its stream. */
static FM_COLD bool captured(struct fm_cuda_queue *q, CUstream stream, uint64_t key, uint64_t kind,
	bool kernel, bool divisible)
{
	if (!fm_cuda_capturing(stream))
		return false;
	if (!q || q == &fm_cuda_refused)
		return true;
	if (FM_UNLIKELY(fm_cuda_by_wish_whole(q))) {
		divisible = false;
	} else if (kernel) {
		atomic_store(&q->unsealed, true);
	} else {
		fm_cuda_seal(q, stream);
		divisible = divisible && !atomic_load(&q->unsealed);
	}
	if (fm_cuda_graph_takes_gates(stream) &&
		fm_xq_capture(q->xq, key, kind, fm_cuda_graph_number(stream), divisible))
		fm_cuda_graph_gated(stream);
	return true;
}

static inline bool is_function(enum fm_cuda_id id, const void *what)
{
	return what && id != FM_CUDA_cuGraphLaunch && id != FM_CUDA_cuGraphLaunch_ptsz;
}

/* What a launch is, whatever its size: a kernel's function, or the call. */
static inline uint64_t kind_of(enum fm_cuda_id id, const void *what)
{
	return is_function(id, what) ? (uintptr_t)what : id;
}

/* guards: some queue may have a guard. The order of a queue that has one is held from here on.
 * what: the function or the graph that is launched, or NULL. kernel: set if the kernel takes
 * parameters of ours. divisible: the launch can be guarded in a graph, too. */
static inline FM_HOT struct launch enter(CUstream given, bool per_thread, uint64_t key,
	enum fm_cuda_id id, bool guards, const void *what, const struct fm_cuda_kernel *kernel,
	bool divisible)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct launch l = {0};

	if (FM_UNLIKELY(fm_cu_inside))
		return l;
	l.q = fm_cuda_find(stream);

	if (FM_UNLIKELY(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed)) &&
		captured(l.q, stream, key, kind_of(id, what), kernel && !kernel->left, divisible))
		return (struct launch){0};
	if (FM_UNLIKELY(!l.q || l.q == &fm_cuda_refused)) {
		l.q = fm_cuda_first(stream, l.q, fm_cuda_calls[id].name);
		if (!l.q) {
			fm_cuda_cover(stream);
			return l;
		}
	}
	if (guards)
		l.way = fm_cuda_guard_enter(
			l.q, stream, what, is_function(id, what), kernel, &l.first);
	l.mark = fm_xq_mark(l.q->xq);
	fm_xq_begin(l.q->xq, key, key_waits(key));
	return l;
}

/* The copies of all streams of a process share a few channels. A copy behind a closed gate keeps
 * its channel, and copies of other streams wait there, even those for which the gate was closed. So
 * where streams of one process stop each other, a copy is launched when no gate is in front of it.
 * Elsewhere all streams of the process stop together. A call that copies may still wait for the
 * device. This is always inlined: the compiler would inline it into some calls and not into others,
 * by their order. */
FM_INLINE_HOT struct launch begin(
	CUstream given, bool per_thread, uint64_t key, enum fm_cuda_id id, const void *what)
{
	bool guards = FM_UNLIKELY(atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed));
	struct launch l = enter(given, per_thread, key, id, guards, what, NULL, !what);

	if (guards && l.q && l.q->hw.guard) {
		if (key_waits(key))
			fm_cuda_guard_pass(l.q);
		else
			fm_cuda_guard_pass_heavy(l.q);
	}
	if (FM_UNLIKELY(l.q && (l.q->xq->steered || l.q->hw.guard)) && key_waits(key))
		l.way = fm_cuda_copy_enter(l.q, fm_cuda_stream(given, per_thread), l.way);
	return l;
}

/* Called before end(). A launch that was let in while something was stopped may be left out itself.
 * A word behind it would then run ahead of it, so the kernel still counts as never launched. */
static inline void launched(struct launch l, const void *what, struct fm_cuda_kernel *kernel,
	CUstream stream, fm_cu_result rc)
{
	if (FM_UNLIKELY(l.first && l.way == FM_CUDA_WAITS && rc == FM_CU_SUCCESS))
		fm_cuda_first_launched(l.q, what, kernel, stream);
}

static __attribute__((noinline)) FM_HOT void end_of_way(
	struct fm_cuda_queue *q, enum fm_cuda_call_kind way)
{
	fm_xq_use(q->xq);
	fm_xq_end(q->xq);
	fm_cuda_way_end(q, way);
	fm_xq_used(q->xq);
}

static __attribute__((noinline)) FM_HOT void end_waited(struct launch l)
{
	fm_xq_use(l.q->xq);
	fm_xq_end(l.q->xq);
	if (l.way)
		fm_cuda_way_end(l.q, l.way);
	fm_xq_synced(l.q->xq, l.mark + 1);
	fm_xq_used(l.q->xq);
}

/* waited: the call has waited for everything before it on the stream, and for its own command. */
static inline void end(struct launch l, bool waited)
{
	if (FM_UNLIKELY(!l.q))
		return;
	if (waited)
		end_waited(l);
	else if (FM_UNLIKELY(l.way))
		end_of_way(l.q, l.way);
	else
		fm_xq_end(l.q->xq);
}

#define ON_work(symbol, per_thread, name, since, note, params, stream, key, waits, ...)   \
	FM_HOT fm_cu_result symbol CALL_PARAMS(params)                                    \
	{                                                                                 \
		struct launch l = begin(stream, per_thread, key, FM_CUDA_##symbol, NULL); \
		fm_cu_result rc;                                                          \
                                                                                          \
		fm_cu_inside++;                                                           \
		rc = NEXT(symbol, CALL_ARGS(params));                                     \
		fm_cu_inside--;                                                           \
		end(l, rc == FM_CU_SUCCESS && (waits));                                   \
		return rc;                                                                \
	}
#define ON_order(symbol, per_thread, name, since, note, params, stream, what, ...) \
	FM_HOT fm_cu_result symbol CALL_PARAMS(params)                             \
	{                                                                          \
		struct fm_cuda_order o;                                            \
		fm_cu_result rc;                                                   \
                                                                                   \
		(void)((void)0, ##__VA_ARGS__);                                    \
		o = fm_cuda_ordering(stream, per_thread, FM_CUDA_FOR_##what);      \
		fm_cu_inside++;                                                    \
		rc = NEXT(symbol, CALL_ARGS(params));                              \
		fm_cu_inside--;                                                    \
		fm_cuda_ordered(o, fm_cuda_stream(stream, per_thread));            \
		return rc;                                                         \
	}
#define pins_word(at)      fm_cuda_pins_word(at)
#define pins_words(ops, n) fm_cuda_pins_words(ops, n)
#include "api/cuda/calls.def"

/* --- kernels --- */

/* For kernels that take parameters of ours and are not guarded. */
static const uint64_t unguarded[FM_GUARD_PARAMS];

/* The kernel that is launched, if parameters of ours are to be added. A call of the driver's own
 * that gets here has them already. */
static inline struct fm_cuda_kernel *rewritten(CUfunction f)
{
	return FM_LIKELY(!fm_cu_inside) ? fm_cuda_kernel(f) : NULL;
}

/* The room is on the stack of the function that says this, to its end. */
#define ADD_OURS(args, kernel, params, extra)                         \
	fm_cuda_args(args, (kernel)->image, params, extra, unguarded, \
		__builtin_alloca(fm_cuda_args_room((kernel)->image, extra != NULL)))

/* A launch can record events. These no longer stand where they were recorded before. */
static inline void forget_recorded(const struct fm_cu_launch_config *c)
{
	for (unsigned i = 0; c && c->attributes && i < c->n_attributes; i++)
		if (c->attributes[i].id == FM_CU_LAUNCH_EVENT ||
			c->attributes[i].id == FM_CU_LAUNCH_BEGUN_EVENT)
			fm_cuda_event_forget((CUevent)(uintptr_t)c->attributes[i].value[0]);
}

/* A launch that needs more than to be counted. This path need not be fast. */
struct launch_plan {
	struct launch l;
	struct fm_cuda_kernel *kernel;
	bool guarded;                   /* the queue's order is held until its end */
	bool early;                     /* it may begin while the work in front of it ends */
	bool ordered;                   /* likewise, though it is not guarded */
	CUgraphExec graph;              /* the graph to be launched, if any, */
	struct fm_cuda_exec *exec;      /* if it is launched instead of the program's, or strays */
	struct fm_cuda_loading loading; /* it is captured or ungoverned, while there are guards */
	bool loads;
};

static FM_HOT void begin_kernel(struct launch_plan *p, CUstream stream, bool per_thread,
	uint64_t key, enum fm_cuda_id id, CUfunction f, const struct fm_cu_launch_config *config,
	bool cooperative, struct fm_cuda_args *a)
{
	struct fm_cuda_kernel *kernel = p->kernel;
	bool guards = atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed);
	bool divisible =
		FM_UNLIKELY(atomic_load(&fm_cu_captures)) && fm_cuda_exec_takes(kernel, config);
	struct fm_cuda_queue *q;

	p->l = enter(stream, per_thread, key, id, guards, f, kernel, divisible);
	q = p->l.q;
	p->guarded = p->ordered = p->early = false;
	if (FM_UNLIKELY(fm_cuda_enqueues) && !fm_cu_inside)
		fm_cuda_set_guard(
			kernel, config, cooperative, fm_cuda_stream(stream, per_thread), a);
	p->loads = guards && !q;
	if (FM_UNLIKELY(p->loads))
		p->loading = fm_cuda_load_begin(f);
	if (!guards || !q || !q->hw.guard)
		return;
	p->early = kernel && config && !cooperative && !p->l.first &&
		   fm_cuda_may_be_early(kernel, config);
	p->guarded = kernel && config && fm_cuda_guard_launch(q, kernel, f, config, cooperative, a);
	if (!p->guarded)
		fm_cuda_guard_pass_heavy(q);
}

static FM_HOT void end_kernel(
	const struct launch_plan *p, const void *what, CUstream stream, fm_cu_result rc)
{
	launched(p->l, what, p->kernel, stream, rc);
	if (FM_UNLIKELY(p->loads))
		fm_cuda_load_end(p->loading, rc);
	if (!p->guarded && !p->ordered) {
		end(p->l, false);
		return;
	}
	fm_xq_use(p->l.q->xq);
	end(p->l, false);
	if (p->guarded)
		fm_cuda_guard_leave(p->l.q, rc == FM_CU_SUCCESS);
	else
		fm_xq_order_give(p->l.q->xq);
	fm_xq_used(p->l.q->xq);
}

static __attribute__((noinline)) FM_HOT struct fm_xq *find_plain(
	CUstream stream, enum fm_cuda_id id)
{
	struct fm_cuda_queue *q = fm_cuda_find(stream);

	if (FM_UNLIKELY(!q || q == &fm_cuda_refused)) {
		q = fm_cuda_first(stream, q, fm_cuda_calls[id].name);
		if (!q)
			fm_cuda_cover(stream);
	}
	return q ? q->xq : NULL;
}

/* Where nothing is rewritten or captured, a launch is only counted. */
FM_INLINE_HOT struct fm_xq *enter_plain(
	CUstream given, bool per_thread, uint64_t key, enum fm_cuda_id id)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct fm_xq *xq = NULL;

	if (FM_UNLIKELY(fm_cu_inside))
		return NULL;
	if (stream == FM_CU_STREAM_LEGACY)
		xq = atomic_load_explicit(&fm_cuda_hot.sole_xq, memory_order_acquire);
	if (!xq)
		xq = find_plain(stream, id);
	if (FM_LIKELY(xq))
		fm_xq_begin(xq, key, key_waits(key));
	return xq;
}

#define GIVEN_BY_DIMS                                                          \
	&(const struct fm_cu_launch_config)                                    \
	{                                                                      \
		.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, \
	}
#define GIVEN_BY_CONFIG ((const struct fm_cu_launch_config *)(const void *)config)

/* `packed` is the parameter `extra`, or `none` where the function has none. */
#define KERNEL(symbol, per_thread, given, stream, key, packed, how, cooperative)                   \
	static __attribute__((noinline)) FM_HOT fm_cu_result symbol##_careful CALL_PARAMS(given)   \
	{                                                                                          \
		struct fm_cuda_kernel *kernel = rewritten(f);                                      \
		void **none __attribute__((unused)) = NULL;                                        \
		struct fm_cuda_args a;                                                             \
		struct launch_plan p;                                                              \
		fm_cu_result rc;                                                                   \
                                                                                                   \
		if (kernel) {                                                                      \
			if (!ADD_OURS(&a, kernel, params, packed))                                 \
				return FM_CU_ERROR_INVALID_VALUE;                                  \
			params = a.params;                                                         \
			packed = a.extra;                                                          \
		}                                                                                  \
		p.kernel = kernel;                                                                 \
		begin_kernel(&p, stream, per_thread, key, FM_CUDA_##symbol, f, GIVEN_##how,        \
			cooperative, &a);                                                          \
		forget_recorded(GIVEN_##how);                                                      \
		fm_cu_inside++;                                                                    \
		if (!p.early || !fm_cuda_early(GIVEN_##how, fm_cuda_stream(stream, per_thread), f, \
					params, packed, &rc))                                      \
			rc = FM_CUDA_LAUNCH_WITH_ROOM(NEXT(symbol, CALL_ARGS(given)));             \
		fm_cu_inside--;                                                                    \
		end_kernel(&p, f, fm_cuda_stream(stream, per_thread), rc);                         \
		return rc;                                                                         \
	}                                                                                          \
	FM_HOT fm_cu_result symbol CALL_PARAMS(given)                                              \
	{                                                                                          \
		struct fm_xq *xq;                                                                  \
		fm_cu_result rc;                                                                   \
                                                                                                   \
		if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_hot.careful, memory_order_relaxed))) \
			return symbol##_careful CALL_ARGS(given);                                  \
		xq = enter_plain(stream, per_thread, key, FM_CUDA_##symbol);                       \
		forget_recorded(GIVEN_##how);                                                      \
		fm_cu_inside++;                                                                    \
		rc = FM_CUDA_LAUNCH_WITH_ROOM(NEXT(symbol, CALL_ARGS(given)));                     \
		fm_cu_inside--;                                                                    \
		if (FM_LIKELY(xq))                                                                 \
			fm_xq_end(xq);                                                             \
		return rc;                                                                         \
	}
#define KERNEL_BY_DIMS(symbol, per_thread, given, stream, key) \
	KERNEL(symbol, per_thread, given, stream, key, extra, BY_DIMS, false)
#define KERNEL_BY_CONFIG(symbol, per_thread, given, stream, key) \
	KERNEL(symbol, per_thread, given, stream, key, extra, BY_CONFIG, false)
#define KERNEL_COOPERATIVE(symbol, per_thread, given, stream, key) \
	KERNEL(symbol, per_thread, given, stream, key, none, BY_DIMS, true)

/* The program has stored its parameters in the function before. Ours go behind them. */
static fm_cu_result set_ours(CUfunction f)
{
	const struct fm_cuda_kernel *kernel = rewritten(f);
	fm_cu_result (*size)(CUfunction, unsigned), (*set)(CUfunction, int, const void *, unsigned);
	fm_cu_result rc;

	if (FM_LIKELY(!kernel))
		return FM_CU_SUCCESS;
	size = fm_cuda_symbol("cuParamSetSize");
	set = fm_cuda_symbol("cuParamSetv");
	if (!size || !set)
		return FM_CU_ERROR_NOT_SUPPORTED;
	rc = size(f, (unsigned)fm_cuda_args_bytes(kernel->image));
	return rc ? rc : set(f, kernel->image->guard_at, unguarded, sizeof(unguarded));
}

#define KERNEL_SET_BEFORE(symbol, per_thread, params, stream, key)            \
	fm_cu_result symbol CALL_PARAMS(params)                               \
	{                                                                     \
		fm_cu_result rc = set_ours(f);                                \
		struct launch l;                                              \
                                                                              \
		if (rc)                                                       \
			return rc;                                            \
		l = begin(stream, per_thread, key, FM_CUDA_##symbol, f);      \
		fm_cu_inside++;                                               \
		rc = NEXT(symbol, CALL_ARGS(params));                         \
		fm_cu_inside--;                                               \
		launched(l, f, NULL, fm_cuda_stream(stream, per_thread), rc); \
		end(l, false);                                                \
		return rc;                                                    \
	}
#define ON_kernel(symbol, per_thread, name, since, note, params, how, ...) \
	KERNEL_##how(symbol, per_thread, params, __VA_ARGS__)
#define KERNEL_(...) /* by hand: below */
#include "api/cuda/calls.def"

static __attribute__((noinline)) struct launch_plan begin_exec(CUstream given, bool per_thread,
	uint64_t key, enum fm_cuda_id id, CUgraphExec graph, struct fm_cuda_exec *e)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct launch_plan p = {0};

	fm_cuda_exec_settle(e, stream);
	p.l = enter(given, per_thread, key, id, true, fm_cuda_first_graph(graph), NULL, false);
	p.ordered = p.l.q && p.l.q->hw.guard;
	if (p.ordered)
		p.guarded = fm_cuda_exec_guard(e, p.l.q);
	else if (p.l.q || !atomic_load(&fm_cu_captures) || !fm_cuda_capturing(stream))
		fm_cuda_exec_astray(e, stream);
	p.graph = fm_cuda_exec_launched(e, stream);
	p.exec = p.graph != graph || fm_cuda_exec_strays(e) ? e : NULL;
	return p;
}

static inline struct launch_plan begin_graph(
	CUstream given, bool per_thread, uint64_t key, enum fm_cuda_id id, CUgraphExec graph)
{
	struct fm_cuda_exec *e = fm_cu_inside ? NULL : fm_cuda_exec_find(graph);

	if (FM_LIKELY(!e))
		return (struct launch_plan){
			.l = begin(given, per_thread, key, id, fm_cuda_first_graph(graph)),
			.graph = graph};
	return begin_exec(given, per_thread, key, id, graph, e);
}

/* Called for what was launched instead of the program's graph, or strays. True: the program's own
 * graph is to be launched. None of its kernels is ever left out, so there is no harm if it was to
 * be guarded. */
static bool refused(const struct launch_plan *p, CUstream stream, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS)
		fm_cuda_exec_ran(p->exec, p->graph, stream);
	return rc != FM_CU_SUCCESS && fm_cuda_exec_refused(p->exec, p->graph, stream, rc);
}

/* A graph without gates runs to its end once it has begun, so long ones are counted. A graph whose
 * launch is captured becomes a part of another graph. */
static inline void graph_launched(
	struct launch_plan p, CUgraphExec graph, uint64_t key, CUstream stream)
{
	if (FM_LIKELY(p.l.q)) {
		fm_cuda_awaits_others(p.l.q, stream); /* it may contain host functions */
		if (!p.guarded && fm_cuda_graph_plain(graph) && fm_xq_long(p.l.q->xq, key))
			fm_client_count_undivided(p.l.q->xq->client, "cuGraphLaunch");
	} else if (atomic_load(&fm_cu_captures) && !fm_cu_inside) {
		fm_cuda_graph_nested(stream, graph);
	}
}

#define ON_graph(symbol, per_thread, name, since, note, params, stream, handle)                   \
	fm_cu_result symbol CALL_PARAMS(params)                                                   \
	{                                                                                         \
		const uint64_t key = (uintptr_t)handle | 1;                                       \
		struct launch_plan p =                                                            \
			begin_graph(stream, per_thread, key, FM_CUDA_##symbol, handle);           \
		CUgraphExec given = handle;                                                       \
		fm_cu_result rc;                                                                  \
                                                                                                  \
		fm_cu_inside++;                                                                   \
		handle = p.graph;                                                                 \
		rc = FM_CUDA_LAUNCH_WITH_ROOM(NEXT(symbol, CALL_ARGS(params)));                   \
		handle = given;                                                                   \
		if (FM_UNLIKELY(p.exec) && refused(&p, fm_cuda_stream(stream, per_thread), rc))   \
			rc = NEXT(symbol, CALL_ARGS(params));                                     \
		fm_cu_inside--;                                                                   \
		if (rc == FM_CU_SUCCESS)                                                          \
			graph_launched(p, handle, key, fm_cuda_stream(stream, per_thread));       \
		end_kernel(                                                                       \
			&p, fm_cuda_first_graph(handle), fm_cuda_stream(stream, per_thread), rc); \
		fm_cuda_graph_settle();                                                           \
		return rc;                                                                        \
	}
#include "api/cuda/calls.def"

/* One kernel on several devices, with a stream on each, is a launch on each of these streams. */
#define MULTI_MAX 64

/* begin and end around the driver's call. */
static fm_cu_result launch_multi(
	const struct fm_cu_launch_params *p, unsigned launches, unsigned n, unsigned flags)
{
	struct launch l[MULTI_MAX];
	fm_cu_result rc;

	for (unsigned i = 0; i < launches; i++)
		l[i] = begin(p[i].stream, false,
			key_kernel(p[i].function,
				(uint64_t)p[i].grid[0] * p[i].grid[1] * p[i].grid[2],
				(uint64_t)p[i].block[0] * p[i].block[1] * p[i].block[2]),
			FM_CUDA_cuLaunchCooperativeKernelMultiDevice, p[i].function);
	fm_cu_inside++;
	rc = NEXT(cuLaunchCooperativeKernelMultiDevice, ((void *)p, n, flags));
	fm_cu_inside--;
	for (unsigned i = 0; i < launches; i++) {
		launched(l[i], p[i].function, NULL, fm_cuda_stream(p[i].stream, false), rc);
		end(l[i], false);
	}
	return rc;
}

fm_cu_result cuLaunchCooperativeKernelMultiDevice(
	struct CUDA_LAUNCH_PARAMS_st *list, unsigned n, unsigned flags)
{
	const struct fm_cu_launch_params *given = (const void *)list;
	const unsigned launches = given ? FM_MIN(n, (unsigned)MULTI_MAX) : 0;
	struct fm_cu_launch_params p[MULTI_MAX];
	struct fm_cuda_args a[MULTI_MAX];
	void **const none = NULL;

	for (unsigned i = 0; i < launches; i++) {
		const struct fm_cuda_kernel *kernel = rewritten(given[i].function);

		p[i] = given[i];
		if (kernel && !ADD_OURS(&a[i], kernel, given[i].params, none))
			return FM_CU_ERROR_INVALID_VALUE;
		if (kernel)
			p[i].params = a[i].params;
	}
	if (launches < n && atomic_load_explicit(&fm_cuda_rewrote, memory_order_relaxed))
		return FM_CU_ERROR_INVALID_VALUE; /* more than there can be devices */
	return launch_multi(launches == n ? p : given, launches, n, flags);
}

/* --- what other APIs put onto a stream --- */

/* The last of the kinds of key_bytes(). */
#define FOREIGN 1023u

/* It waits like a copy: what it puts onto another engine must not stand behind a closed gate, since
 * others of that engine would stand behind it. */
EXPORT int fm_cuda_on_stream(
	void *given, unsigned kind, const char *name, int (*call)(void *arg), void *arg)
{
	CUstream stream = fm_cuda_stream(given, false);
	struct fm_cuda_queue *q = fm_cu_inside ? NULL : fm_cuda_find(stream);
	struct launch l = {0};
	int rc;

	if (!fm_cu_inside && (!q || q == &fm_cuda_refused) &&
		!(atomic_load(&fm_cu_captures) && fm_cuda_capturing(stream))) {
		q = fm_cuda_first(stream, q, name);
		if (!q)
			fm_cuda_cover(stream);
	}
	if (q && q != &fm_cuda_refused)
		l = begin(given, false, key_bytes(FOREIGN, (size_t)1 << kind % 64),
			FM_CUDA_cuMemcpyAsync, NULL);
	fm_cu_inside++;
	rc = call(arg);
	fm_cu_inside--;
	end(l, false);
	return rc;
}
