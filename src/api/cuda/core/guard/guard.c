/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "code/cuda/image.h"
#include "guard_internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (FM_CU_BLOCK_MAP + FM_CU_BLOCKS_MAX / 8)

/* How many channels of the device there are, unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise. */
#define CHANNELS      8u
#define CHANNELS_MOST 32u

/* The driver waits for kernels when memory is given back. So what a queue leaves is kept for the
 * next queue, or until its context ends. */
static struct {
	pthread_mutex_t lock;
	struct fm_cu_guard *guards; /* all */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(kept.lock, CU_GUARDS);

/* A destroyed stream that reports nothing more may still have a gate that has to pass its hold, or
 * waits there; and others may wait for that stream. */
static bool pending(const struct fm_cu_guard *g)
{
	uint64_t progress = g->progress ? atomic_load(g->progress) : 2 * g->said;

	return progress & 1 || progress < 2 * g->said;
}

static bool is_free(const struct fm_cu_guard *g, CUcontext ctx)
{
	return g->ctx == ctx && !g->serves && !atomic_load(&g->broken) && !pending(g);
}

static struct fm_cu_guard *take(CUcontext ctx)
{
	struct fm_cu_guard *g;

	pthread_mutex_lock(&kept.lock);
	for (g = kept.guards; g && !is_free(g, ctx);)
		g = g->next;
	if (g)
		g->serves = true;
	pthread_mutex_unlock(&kept.lock);
	return g;
}

/* Graphs launched up to launch `last` are over. */
static void forget_graphs(struct fm_cu_guard *g, uint64_t last)
{
	for (uint64_t n = g->records.first; g->graphs && n <= last; n++) {
		struct fm_cu_record *rec = fm_cu_record(&g->records, n);

		if (!rec->graph)
			continue;
		fm_cu_graph_put(rec->graph);
		g->graphs--;
	}
}

/* Numbers go on, because the control block may know the last one. */
static void reset(struct fm_cu_guard *g)
{
	forget_graphs(g, g->records.next - 1);
	fm_cu_records_reset(&g->records);
	atomic_store(&g->covered, atomic_load(&g->launched));
	g->progress = NULL;
	g->said = 0;
	atomic_store(&g->wants_gate, false);
}

static void give_memory_back(struct fm_cu_guard *g)
{
	if (g->shared)
		g->cu->host_free(g->shared);
	if (g->area)
		g->cu->mem_free(g->area);
	if (g->block)
		g->cu->mem_free(g->block);
	g->shared = NULL;
	g->area = g->block = 0;
}

static void discard(struct fm_cu_guard *g)
{
	give_memory_back(g);
	free(g->records.ring);
	free(g);
}

bool fm_cu_guard_has_all(const struct fm_cu_driver *cu)
{
	return cu->ctx_push && cu->ctx_pop && cu->stream_mem_ops && cu->host_alloc &&
	       cu->host_free && cu->host_device_pointer && cu->mem_alloc && cu->mem_free &&
	       cu->copy_to_device && cu->copy_to_host && cu->launch && cu->priority_range &&
	       cu->stream_create && cu->stream_destroy && cu->stream_synchronize &&
	       cu->stream_query;
}

static _Atomic unsigned channels; /* 0: not counted yet */

/* The driver read this variable when it was initialized. */
static void count_channels(void)
{
	const char *v = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int n = v ? atoi(v) : 0;

	atomic_store(&channels, n > 0 ? FM_MIN((unsigned)n, CHANNELS_MOST) : CHANNELS);
}

unsigned fm_cu_channels(void)
{
	if (!atomic_load_explicit(&channels, memory_order_relaxed))
		count_channels();
	return atomic_load_explicit(&channels, memory_order_relaxed);
}

/* Neither call waits for a kernel of the program; a copy may wait for other copies. */
static bool clear(struct fm_cu_guard *g)
{
	static const char zeros[BLOCK_BYTES];

	if (g->cu->fill)
		return !g->cu->fill(g->block, 0, BLOCK_BYTES / 4, g->control);
	return !g->cu->copy_to_device(g->block, zeros, BLOCK_BYTES, g->control);
}

static bool furnish(struct fm_cu_guard *g, bool loops)
{
	const struct fm_cu_driver *cu = g->cu;
	void *shared = NULL;

	if (!fm_cu_records_init(&g->records) ||
		!fm_cu_guard_streams(cu, g->ctx, &g->control, &g->again, &g->look) ||
		cu->mem_alloc(&g->block, BLOCK_BYTES) ||
		cu->host_alloc(&shared, sizeof(*g->shared),
			FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP))
		return false;
	g->shared = shared;
	*g->shared = (struct fm_cu_shared){.limit = FM_CU_NO_LIMIT};
	if (cu->host_device_pointer(&g->shared_at, shared, 0) || !clear(g) ||
		cu->stream_synchronize(g->control))
		return false;
	fm_cu_look_try(g);
	return !loops || fm_cu_area_make(g);
}

/* Nothing is stopped meanwhile. */
static struct fm_cu_guard *make(
	const struct fm_cu_driver *cu, CUcontext ctx, struct fm_cu_turnstile *turnstile, bool loops)
{
	struct fm_cu_guard *g = calloc(1, sizeof(*g));
	bool ok;
	int mode;

	if (!g)
		return NULL;
	g->cu = cu;
	g->ctx = ctx;
	g->turnstile = turnstile;
	count_channels();
	mode = fm_cu_enter(cu);
	ok = furnish(g, loops);
	if (!ok)
		discard(g);
	fm_cu_leave(cu, mode);
	if (!ok)
		return NULL;
	g->serves = true;
	pthread_mutex_lock(&kept.lock);
	g->next = kept.guards;
	kept.guards = g;
	pthread_mutex_unlock(&kept.lock);
	return g;
}

static void forget(struct fm_cu_guard *g)
{
	forget_graphs(g, g->records.next - 1);
	free(g->records.ring);
	free(g);
}

static void keep(struct fm_cu_guard *g)
{
	bool gone;

	pthread_mutex_lock(&kept.lock);
	g->serves = false;
	gone = g->gone;
	pthread_mutex_unlock(&kept.lock);
	if (gone)
		forget(g);
}

static bool find_place(struct fm_cu_guard *g, CUgreenCtx green)
{
	int mode = fm_cu_enter(g->cu);

	g->place = fm_cu_place_take(g->cu, g->ctx, green, g->again);
	fm_cu_leave(g->cu, mode);
	return g->place;
}

struct fm_cu_guard *fm_cu_guard_new(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, bool loops)
{
	struct fm_cu_guard *g = take(ctx);
	struct fm_cu_turnstile *turnstile;

	if (g)
		reset(g);
	if ((g && !green) || !fm_cu_guard_has_all(cu))
		return g;
	turnstile = fm_cu_turnstile(ctx, true);
	if (!turnstile || !fm_cu_wait_begin(turnstile, FM_CU_GUARD_MEMORY_MOST)) {
		if (g)
			keep(g);
		return NULL;
	}
	if (!g)
		g = make(cu, ctx, turnstile, loops);
	if (g && green && !find_place(g, green)) {
		keep(g);
		g = NULL;
	}
	fm_cu_wait_end(turnstile);
	return g;
}

void fm_cu_guard_runs(struct fm_cu_guard *g)
{
	fm_cu_pad_put(g);
	if (atomic_exchange(&g->stage, FM_CU_RUNS) != FM_CU_RUNS)
		fm_cu_stop_end(g->turnstile);
}

void fm_cu_guard_abandon(struct fm_cu_guard *g)
{
	if (atomic_exchange(&g->broken, true))
		return; /* its context may be gone by now */
	if (g->graph && g->stage != FM_CU_RUNS) {
		fm_cu_graph_spoilt(g->graph);
		fm_cu_graph_let_go(g->graph);
	}
	fm_cu_guard_hold(g, false);
	fm_cu_guard_runs(g);
}

/* A guard that the device may still write to, without a gate behind that, is never used again. */
void fm_cu_guard_release(struct fm_cu_guard *g)
{
	if (g->place)
		fm_cu_place_put(g->place);
	g->place = NULL;
	if (g->stage != FM_CU_RUNS || fm_cu_guard_uncovered(g)) {
		atomic_store(&g->broken, true);
		fm_cu_guard_runs(g);
	} else if (!atomic_load(&g->broken) && !pending(g)) {
		reset(g);
	}
	keep(g);
}

CUcontext fm_cu_guard_green_base(CUgreenCtx green)
{
	return fm_cu_places() ? fm_cu_place_base(green) : NULL;
}

void fm_cu_guard_green_ends(const struct fm_cu_driver *cu, CUgreenCtx green)
{
	int mode = fm_cu_enter(cu);

	fm_cu_place_ends(cu, green);
	fm_cu_leave(cu, mode);
}

void fm_cu_guards_end(CUcontext ctx)
{
	pthread_mutex_lock(&kept.lock);
	for (struct fm_cu_guard *g = kept.guards; g; g = g->next)
		if (g->ctx == ctx)
			fm_cu_guard_abandon(g);
	pthread_mutex_unlock(&kept.lock);
}

void fm_cu_guards_give_back(CUcontext ctx)
{
	fm_cu_guards_end(ctx);
	pthread_mutex_lock(&kept.lock);
	for (struct fm_cu_guard *g = kept.guards; g; g = g->next)
		if (g->ctx == ctx && g->stage == FM_CU_RUNS)
			give_memory_back(g);
	pthread_mutex_unlock(&kept.lock);
}

/* Their resources of the driver went with the context. Guards that still serve will still be given
 * back. */
static struct fm_cu_guard *take_gone(CUcontext ctx)
{
	struct fm_cu_guard **at = &kept.guards, *g, *unused = NULL;

	while ((g = *at)) {
		if (g->ctx != ctx) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		g->gone = true;
		if (g->serves)
			continue;
		g->next = unused;
		unused = g;
	}
	return unused;
}

void fm_cu_guards_forget(CUcontext ctx)
{
	struct fm_cu_guard *unused, *g;

	fm_cu_guard_streams_forget(ctx);
	pthread_mutex_lock(&kept.lock);
	unused = take_gone(ctx);
	pthread_mutex_unlock(&kept.lock);
	while ((g = unused)) {
		unused = g->next;
		forget(g);
	}
	fm_cu_places_forget(ctx);
	fm_cu_pads_forget(ctx);
	fm_cu_turnstile_forget(ctx);
	fm_cu_graphs_forget(ctx);
}

void fm_cu_guard_fork_child(void)
{
	fm_cu_turnstile_fork_child();
	kept.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	kept.guards = NULL;
	fm_cu_guard_streams_fork_child();
	fm_cu_places_fork_child();
	fm_cu_pads_fork_child();
	fm_cu_graphs_fork_child();
}

bool fm_cu_guard_enter(struct fm_cu_guard *g, int *mode)
{
	*mode = fm_cu_enter(g->cu);
	if (!g->cu->ctx_push(g->ctx))
		return true;
	fm_cu_leave(g->cu, *mode);
	return false;
}

void fm_cu_guard_leave(struct fm_cu_guard *g, int mode)
{
	CUcontext old;

	g->cu->ctx_pop(&old);
	fm_cu_leave(g->cu, mode);
}

/* --- launching --- */

/* Is the cluster larger than one block? Some drivers have attributes that say one, or nothing. */
static FM_HOT bool is_cluster(const struct fm_cu_attribute *a)
{
	uint32_t size[3];

	memcpy(size, a->value, sizeof(size));
	return size[0] > 1 || size[1] > 1 || size[2] > 1;
}

FM_HOT bool fm_cu_guard_repeats(const struct fm_cu_launch_config *c, bool *whole)
{
	if (FM_UNLIKELY(c->n_attributes && !c->attributes))
		return false; /* as the driver will say */
	for (unsigned i = 0; i < c->n_attributes; i++) {
		const struct fm_cu_attribute *a = &c->attributes[i];

		switch (a->id) {
		case FM_CU_LAUNCH_COOPERATIVE:
			*whole |= (uint32_t)a->value[0] != 0;
			break;
		case FM_CU_LAUNCH_CLUSTER:
		case FM_CU_LAUNCH_PREFERRED_CLUSTER:
			*whole |= is_cluster(a);
			break;
		case FM_CU_LAUNCH_IGNORE:
		case FM_CU_LAUNCH_OVERLAPS: /* it looks when all in front have looked (guardian.ptx)
					     */
		case FM_CU_LAUNCH_WINDOW:
		case FM_CU_LAUNCH_CLUSTER_POLICY:
		case FM_CU_LAUNCH_PRIORITY:
		case FM_CU_LAUNCH_DOMAIN_MAP:
		case FM_CU_LAUNCH_DOMAIN:
		case FM_CU_LAUNCH_CARVEOUT:
			break;
		default:
			return false;
		}
	}
	return true;
}

FM_HOT void *fm_cu_guard_begin(
	struct fm_cu_guard *g, const struct fm_cu_guarded *l, uint64_t ours[FM_GUARD_PARAMS])
{
	struct fm_cu_record *rec;
	bool whole = l->whole;

	if (atomic_load_explicit(&g->broken, memory_order_relaxed) ||
		!fm_cu_guard_repeats(l->config, &whole) || fm_cu_guard_graph_open(g))
		return NULL;
	rec = fm_cu_records_room(&g->records, l->config, l->bytes);
	if (!rec)
		return NULL;
	rec->function = l->function;
	rec->number = fm_cu_guard_number(g->records.next);
	rec->whole = whole || rec->blocks > FM_CU_BLOCKS_MAX;
	rec->graph = NULL;
	rec->cuts = 0;
	rec->follows = fm_cu_guard_uncovered(g) &&
		       fm_cu_guard_follows(rec, fm_cu_record(&g->records, g->records.next - 1));
	g->graph_last = false;
	fm_cu_guard_params(ours, g->block, rec);
	return rec->params;
}

void fm_cu_guard_kill(struct fm_cu_guard *g, uint64_t ours[FM_GUARD_PARAMS])
{
	struct fm_cu_record *rec = fm_cu_record(&g->records, g->records.next);

	if (rec->whole)
		return;
	rec->number |= FM_GUARD_KILL;
	fm_cu_guard_params(ours, g->block, rec);
}

bool fm_cu_guard_mark(struct fm_cu_guard *g, CUstream stream)
{
	union fm_cu_mem_op op = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32,
		g->shared_at + offsetof(struct fm_cu_shared, past), g->marks + 1);
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->stream_mem_ops(stream, 1, &op, 0);

	fm_cu_leave(g->cu, mode);
	g->marks += !rc;
	return !rc;
}

FM_HOT void fm_cu_guard_end(struct fm_cu_guard *g, bool launched)
{
	struct fm_cu_record *rec = fm_cu_record(&g->records, g->records.next);
	struct fm_cu_graph *graph = rec->graph;

	if (!launched)
		return;
	rec->mark = g->marks;
	if (graph) {
		fm_cu_graph_keep(graph);
		g->graphs++;
	}
	fm_cu_records_add(&g->records);
	atomic_store_explicit(&g->launched, g->records.next - 1, memory_order_release);
}

FM_HOT bool fm_cu_guard_uncovered(const struct fm_cu_guard *g)
{
	return atomic_load_explicit(&g->launched, memory_order_acquire) !=
	       atomic_load_explicit(&g->covered, memory_order_relaxed);
}

uint64_t fm_cu_guard_open(const struct fm_cu_guard *g)
{
	return atomic_load_explicit(&g->launched, memory_order_relaxed) -
	       atomic_load_explicit(&g->covered, memory_order_relaxed);
}

/* --- launching graphs --- */

FM_HOT bool fm_cu_guard_graph_open(const struct fm_cu_guard *g)
{
	return g->graph_last && fm_cu_guard_uncovered(g);
}

uint64_t fm_cu_guard_said(const struct fm_cu_guard *g)
{
	return g->said;
}

bool fm_cu_guard_graph(struct fm_cu_guard *g, struct fm_cu_graph *graph, CUstream stream)
{
	static const struct fm_cu_launch_config none;
	struct fm_cu_record *rec;

	if (atomic_load_explicit(&g->broken, memory_order_relaxed) || fm_cu_guard_uncovered(g) ||
		graph->ctx != g->ctx || g->place || atomic_load(&graph->loose))
		return false;
	rec = fm_cu_records_room(&g->records, &none, 0);
	if (!rec || !fm_cu_graph_prepare(graph, stream))
		return false;
	rec->number = 0; /* the stream's own block does not know it */
	rec->graph = graph;
	rec->from = 2 * g->said;
	g->graph_last = true;
	return true;
}

/* --- gates --- */

uint64_t fm_cu_guard_waiting(const struct fm_cu_guard *g)
{
	return 2 * g->said + 1;
}

union fm_cu_mem_op fm_cu_guard_wait(const struct fm_cu_guard *g)
{
	union fm_cu_mem_op o = {.pad = {0}};

	o.op.operation = FM_CU_OP_WAIT_VALUE_32;
	o.op.address = g->shared_at + offsetof(struct fm_cu_shared, hold);
	o.op.flags = FM_CU_WAIT_VALUE_EQ;
	return o;
}

void fm_cu_guard_gated(struct fm_cu_guard *g, _Atomic uint64_t *progress, uint64_t finished)
{
	uint64_t launched = atomic_load(&g->launched);

	g->progress = progress;
	forget_graphs(g, fm_cu_records_past(&g->records, atomic_load(progress)));
	fm_cu_records_retire(&g->records, atomic_load(progress));
	if (launched != atomic_load(&g->covered))
		fm_cu_records_cover(&g->records, 2 * g->said + 1, 2 * finished);
	atomic_store_explicit(&g->covered, launched, memory_order_release);
	g->said = FM_MAX(g->said, finished);
}
