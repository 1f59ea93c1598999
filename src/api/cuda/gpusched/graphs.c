// SPDX-License-Identifier: Apache-2.0
/* Of gates.h what is of sets of graphs alone. */
#include "api/cuda/core/cuda.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "device_runtime.h"
#include "gates_internal.h"
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fm_cu_graphs_has_calls(const struct fm_cu_driver *cu)
{
	return cu->link_create && cu->link_data && cu->link_file && cu->link_complete &&
	       cu->link_destroy && cu->capture_begin && cu->capture_end &&
	       cu->stream_is_capturing && cu->graph_instantiate && cu->graph_destroy &&
	       cu->graph_node_type && cu->graph_upload && cu->graph_launch && cu->graph_flags &&
	       cu->graph_end;
}

/* --- the kernels --- */

static fm_cu_result link_all(
	struct fm_cu_gates *g, CUlinkState state, const char *runtime, void **image)
{
	const struct fm_cu_driver *cu = g->cu;
	fm_cu_result rc = fm_cu_gates_tried(g, "cuLinkAddData",
		cu->link_data(state, FM_CU_LINK_PTX, (void *)(uintptr_t)fm_graphs_text,
			strlen(fm_graphs_text) + 1, FM_GRAPHS_KERNEL, 0, NULL, NULL));
	size_t size;

	if (!rc)
		rc = fm_cu_gates_tried(g, "cuLinkAddFile",
			cu->link_file(state, FM_CU_LINK_LIBRARY, runtime, 0, NULL, NULL));
	if (!rc)
		rc = fm_cu_gates_tried(g, "cuLinkComplete", cu->link_complete(state, image, &size));
	return rc;
}

/* What the linker has made lasts as long as its state. */
static fm_cu_result load_linked(
	struct fm_cu_gates *g, CUlinkState state, const char *runtime, CUmodule *module)
{
	void *image;
	fm_cu_result rc = link_all(g, state, runtime, &image);

	if (!rc)
		return fm_cu_gates_tried(g, "cuModuleLoadData", g->cu->module_load(module, image));
	return rc == FM_CU_ERROR_OUT_OF_MEMORY ? rc : FM_CU_ERROR_NOT_SUPPORTED;
}

static fm_cu_result load_chain(struct fm_cu_gates *g)
{
	char path[PATH_MAX], log[sizeof(g->failure.log)] = "";
	const char *runtime = fm_cu_device_runtime(path, sizeof(path));
	int option[] = {FM_CU_LINK_LOG, FM_CU_LINK_LOG_SIZE};
	void *value[] = {log, (void *)sizeof(log)};
	CUlinkState state;
	CUmodule module;
	fm_cu_result rc;

	if (!runtime)
		return FM_CU_ERROR_NOT_SUPPORTED;
	rc = fm_cu_gates_tried(
		g, "cuLinkCreate", g->cu->link_create(FM_ARRAY_LEN(option), option, value, &state));
	if (rc)
		return rc;
	rc = load_linked(g, state, runtime, &module);
	g->cu->link_destroy(state);
	if (!rc)
		return fm_cu_gates_tried(g, "cuModuleGetFunction",
			g->cu->module_function(&g->graphs.chain, module, FM_GRAPHS_KERNEL));
	snprintf(g->failure.log, sizeof(g->failure.log), "%.*s", (int)strcspn(log, "\n"), log);
	return rc;
}

fm_cu_result fm_cu_graphs_load(struct fm_cu_gates *g)
{
	fm_cu_result rc = load_chain(g);
	CUmodule module;

	if (!rc)
		rc = fm_cu_gates_tried(
			g, "cuModuleLoadData", g->cu->module_load(&module, fm_graphs_heard_text));
	if (!rc)
		rc = fm_cu_gates_tried(g, "cuModuleGetFunction",
			g->cu->module_function(&g->set, module, FM_GRAPHS_HEARD));
	return rc;
}

static fm_cu_result launch(
	const struct fm_cu_gates *g, CUfunction kernel, CUstream stream, void **params)
{
	const struct fm_cu_launch_config config = {
		.grid = {1, 1, 1}, .block = {FM_GATES_LANES, 1, 1}, .stream = stream};
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->launch(&config, kernel, params, NULL);

	fm_cu_leave(g->cu, mode);
	return rc;
}

fm_cu_result fm_cu_graphs_say(struct fm_cu_gates *g, CUdeviceptr to, uint32_t what, uint64_t later)
{
	void *params[] = {&g->words, &to, &later, &what};

	return launch(g, g->set, g->news, params);
}

/* Into what is captured: the driver takes the kernel nowhere else. */
static fm_cu_result put_chain(struct fm_cu_gates *g, uint32_t task, uint32_t what)
{
	void *params[] = {&g->words, &task, &what};

	return fm_cu_gates_tried(
		g, "cuLaunchKernelEx", launch(g, g->graphs.chain, g->stream[0], params));
}

/* --- the graphs --- */

static size_t chunks_of(const struct fm_cu_gates *g)
{
	return g->graphs.first[g->n];
}

fm_cu_result fm_cu_graphs_make(
	struct fm_cu_gates *g, const struct fm_gs *set, char *words, size_t size)
{
	struct fm_cu_graphs *of = &g->graphs;
	struct fm_gs_task *task = (struct fm_gs_task *)(words + sizeof(*of->words));
	size_t chunks;
	fm_cu_result rc;

	pthread_mutex_init(&of->lock, NULL);
	fm_lock_rank(&of->lock, GPU_BEGIN);
	of->words = (struct fm_graphs *)words;
	of->size = size;
	for (uint32_t i = 0; i < g->n; i++) {
		of->first[i + 1] = of->first[i] + set->task[i].chunks;
		task[i].queued = INT64_MAX; /* its graphs are there for good */
	}
	chunks = chunks_of(g);
	of->list = calloc(chunks, 2 * sizeof(*of->list));
	of->captured = calloc(chunks + g->n, sizeof(*of->captured));
	of->own = calloc(chunks + g->n, sizeof(*of->own));
	if (!of->list || !of->captured || !of->own)
		return FM_CU_ERROR_OUT_OF_MEMORY;
	rc = g->cu->mem_alloc(&of->lists, 2 * chunks * sizeof(*of->list));
	if (rc)
		of->lists = 0;
	else
		fm_cu_graphs_make_blocks(g);
	return rc;
}

static fm_cu_result end_capture(struct fm_cu_gates *g, CUgraph *graph)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->capture_end(g->stream[0], graph);

	fm_cu_leave(g->cu, mode);
	return rc;
}

/* Has `enqueue' ended the capture itself, or done what ends one? */
static bool is_captured(const struct fm_cu_gates *g)
{
	int status = FM_CU_CAPTURE_NONE;

	return !g->cu->stream_is_capturing(g->stream[0], &status) && status == FM_CU_CAPTURE_ACTIVE;
}

static void drop(struct fm_cu_gates *g, CUgraph *graph)
{
	if (*graph)
		g->cu->graph_destroy(*graph);
	*graph = NULL;
}

/* What `enqueue' launches, if there is one, and the kernel behind it. */
static int capture(struct fm_cu_gates *g, uint32_t task, uint32_t what,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), unsigned chunk,
	void *ctx, CUgraph *graph)
{
	int rc = 0;

	if (fm_cu_gates_tried(g, "cuStreamBeginCapture",
		    g->cu->capture_begin(g->stream[0], FM_CU_CAPTURE_MODE_RELAXED)))
		return -EIO;
	if (enqueue)
		rc = enqueue(g->stream[0], chunk, ctx);
	rc = rc > 0 ? -EIO : rc;
	if (!rc && !is_captured(g))
		rc = -EINVAL;
	if (!rc && put_chain(g, task, what))
		rc = -EIO;
	*graph = NULL;
	if (end_capture(g, graph) && !rc)
		rc = -EINVAL;
	if (rc)
		drop(g, graph);
	return rc;
}

/* On several slots a chunk does not end with a decision, but the kernel is there all the same: what
 * launches nothing is no graph. */
static uint32_t what_of_chunk(const struct fm_cu_gates *g)
{
	return g->slots > 1 ? 0 : FM_GATES_ENDED;
}

static int told(struct fm_cu_gates *g, int rc, struct fm_cu_gates_refusal *r)
{
	r->failure = g->failure;
	return rc;
}

static int capture_chunks(struct fm_cu_gates *g, uint32_t task,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), void *ctx,
	struct fm_cu_gates_refusal *r)
{
	size_t at = g->graphs.first[task], n = g->graphs.first[task + 1] - at;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		r->chunk = (uint32_t)i;
		g->graphs.guard[task].kernels = g->graphs.guard[task].whole = 0;
		rc = capture(g, task, what_of_chunk(g), enqueue, (unsigned)i, ctx,
			&g->graphs.captured[at + i]);
		if (!rc)
			g->graphs.list[chunks_of(g) + at + i] =
				fm_cu_graphs_stops(g, task, g->graphs.captured[at + i]);
	}
	return rc;
}

int fm_cu_gates_add(struct fm_cu_gates *g, uint32_t task,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), void *ctx,
	struct CUgraphExec_st *const *graph, struct fm_cu_gates_refusal *r)
{
	size_t at = g->graphs.first[task], n = g->graphs.first[task + 1] - at;

	*r = (struct fm_cu_gates_refusal){.task = task, .why = FM_CU_GRAPH_NOT_CAPTURED};
	if (!graph)
		return told(g, capture_chunks(g, task, enqueue, ctx, r), r);
	for (size_t i = 0; i < n; i++)
		g->graphs.list[at + i] = (uintptr_t)graph[i];
	if (g->slots > 1)
		return 0;
	return told(g,
		capture(g, task, FM_GATES_ENDED, NULL, 0, NULL,
			&g->graphs.captured[chunks_of(g) + task]),
		r);
}

static int refused(struct fm_cu_gates *g, const struct fm_cu_instantiate *how, fm_cu_result rc,
	struct fm_cu_gates_refusal *r)
{
	if (rc == FM_CU_ERROR_OUT_OF_MEMORY)
		return -ENOMEM;
	if (how->result != FM_CU_GRAPH_NODE && how->result != FM_CU_GRAPH_CONTEXTS)
		return -EIO;
	r->why = how->result == FM_CU_GRAPH_NODE ? FM_CU_GRAPH_HAS_NODE : FM_CU_GRAPH_HAS_CONTEXTS;
	r->node = -1;
	if (!how->failed || g->cu->graph_node_type(how->failed, &r->node))
		r->node = -1;
	return -EINVAL;
}

static int instantiate(struct fm_cu_gates *g, CUgraph graph, unsigned flags, CUgraphExec *exec,
	struct fm_cu_gates_refusal *r)
{
	struct fm_cu_instantiate how = {.flags = flags};
	fm_cu_result rc = g->cu->graph_instantiate(exec, graph, &how);

	if (!fm_cu_gates_tried(g, "cuGraphInstantiateWithParams", rc))
		return 0;
	*exec = NULL;
	return refused(g, &how, rc, r);
}

static int upload(struct fm_cu_gates *g, CUgraphExec exec)
{
	return fm_cu_gates_tried(g, "cuGraphUpload", g->cu->graph_upload(exec, g->news)) ? -EIO : 0;
}

/* One that was captured. */
static int make_own(struct fm_cu_gates *g, size_t at, struct fm_cu_gates_refusal *r)
{
	struct fm_cu_graphs *of = &g->graphs;
	int rc = instantiate(g, of->captured[at], FM_CU_GRAPH_BY_DEVICE, &of->own[at], r);

	drop(g, &of->captured[at]);
	return rc ? rc : upload(g, of->own[at]);
}

/* One of the program's. */
static int take(struct fm_cu_gates *g, uint64_t graph, struct fm_cu_gates_refusal *r)
{
	CUgraphExec exec = (CUgraphExec)(uintptr_t)graph;
	uint64_t flags = 0;

	r->why = FM_CU_GRAPH_NOT_UPLOADED;
	if (g->cu->graph_flags(exec, &flags))
		return -EINVAL;
	if (!(flags & FM_CU_GRAPH_BY_DEVICE)) {
		r->why = FM_CU_GRAPH_NOT_BY_DEVICE;
		return -EINVAL;
	}
	return g->cu->graph_upload(exec, g->news) ? -EINVAL : 0;
}

static int make_chunk(struct fm_cu_gates *g, size_t at, struct fm_cu_gates_refusal *r)
{
	struct fm_cu_graphs *of = &g->graphs;
	int rc;

	if (of->list[at])
		return take(g, of->list[at], r);
	rc = make_own(g, at, r);
	of->list[at] = (uintptr_t)of->own[at];
	return rc;
}

static int make_task(struct fm_cu_gates *g, uint32_t task, struct fm_cu_gates_refusal *r)
{
	struct fm_cu_graphs *of = &g->graphs;
	struct fm_graphs_task *t = &of->words->of[task];
	size_t end = chunks_of(g) + task;
	int rc = 0;

	t->chunk = (const uint64_t *)(uintptr_t)of->lists + of->first[task];
	t->stops = t->chunk + chunks_of(g);
	t->block = (struct fm_graphs_block *)(uintptr_t)of->guard[task].block;
	r->task = task;
	for (size_t at = of->first[task]; at < of->first[task + 1] && !rc; at++) {
		r->chunk = (uint32_t)(at - of->first[task]);
		rc = make_chunk(g, at, r);
	}
	if (!rc && of->captured[end]) {
		rc = make_own(g, end, r);
		t->end = (uintptr_t)of->own[end];
	}
	return rc;
}

/* A graph of the kernel alone. */
static int make_of_slot(struct fm_cu_gates *g, uint32_t slot, uint32_t what, unsigned flags,
	CUgraphExec *exec, struct fm_cu_gates_refusal *r)
{
	CUgraph graph;
	int rc = capture(g, slot, what | FM_GRAPHS_SLOT, NULL, 0, NULL, &graph);

	if (rc)
		return rc == -EINVAL ? -EIO : rc;
	rc = instantiate(g, graph, flags, exec, r);
	drop(g, &graph);
	return rc == -EINVAL ? -EIO : rc;
}

/* What begins its chain is launched by the host alone. */
static int make_slot(struct fm_cu_gates *g, uint32_t slot, struct fm_cu_gates_refusal *r)
{
	struct fm_cu_graphs *of = &g->graphs;
	int rc = make_of_slot(g, slot, FM_GRAPHS_BEGIN, 0, &of->begin[slot], r);

	if (!rc) /* else its first launch does that */
		rc = upload(g, of->begin[slot]);
	if (rc || g->slots == 1)
		return rc;
	rc = make_of_slot(g, slot, FM_GATES_ENDED, FM_CU_GRAPH_BY_DEVICE, &of->end[slot], r);
	if (!rc)
		rc = upload(g, of->end[slot]);
	of->words->end[slot] = (uintptr_t)of->end[slot];
	return rc;
}

struct shared {
	uint64_t graph;
	uint32_t task, chunk;
};

static int by_graph(const void *a, const void *b)
{
	const struct shared *x = a, *y = b;

	if (x->graph != y->graph)
		return x->graph < y->graph ? -1 : 1;
	return x->task < y->task ? -1 : x->task > y->task;
}

/* A device has a graph at work once, and two tasks may run at once. */
static int check_shared(struct fm_cu_gates *g, struct fm_cu_gates_refusal *r)
{
	size_t chunks = chunks_of(g), at = 1;
	struct shared *of = calloc(chunks, sizeof(*of));

	if (!of)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n; i++)
		for (size_t k = g->graphs.first[i]; k < g->graphs.first[i + 1]; k++)
			of[k] = (struct shared){
				g->graphs.list[k], i, (uint32_t)(k - g->graphs.first[i])};
	qsort(of, chunks, sizeof(*of), by_graph);
	while (at < chunks && (!of[at].graph || of[at].graph != of[at - 1].graph ||
				      of[at].task == of[at - 1].task))
		at++;
	if (at < chunks)
		*r = (struct fm_cu_gates_refusal){
			.task = of[at].task, .chunk = of[at].chunk, .why = FM_CU_GRAPH_IS_SHARED};
	free(of);
	return at < chunks ? -EINVAL : 0;
}

static fm_cu_result write_down(struct fm_cu_gates *g, CUdeviceptr to, const void *from, size_t size)
{
	return fm_cu_gates_tried(
		g, "cuMemcpyHtoDAsync", g->cu->copy_to_device(to, from, size, g->news));
}

static int write_words(struct fm_cu_gates *g)
{
	struct fm_cu_graphs *of = &g->graphs;
	fm_cu_result rc = write_down(g, g->words, of->words, of->size);

	if (!rc)
		rc = fm_cu_gates_tried(g, "cuStreamSynchronize", fm_cu_gates_await(g, g->news));
	return rc ? -EIO : 0;
}

static int write_all(struct fm_cu_gates *g)
{
	struct fm_cu_graphs *of = &g->graphs;
	struct fm_gs_task *task = (struct fm_gs_task *)((char *)of->words + sizeof(*of->words));

	of->words->asked =
		(struct fm_graphs_asked *)(uintptr_t)(g->shared_at +
						      offsetof(struct fm_cu_gates_shared, asked));
	of->words->said =
		(struct fm_graphs_said *)(uintptr_t)(g->shared_at +
						     offsetof(struct fm_cu_gates_shared, said));
	of->words->resides = fm_cu_gates_is_resident(g);
	for (uint32_t i = 0; i < g->slots; i++)
		of->words->rests[i] = g->shared->said.rests[i] = 1;
	if (write_down(g, of->lists, of->list, 2 * chunks_of(g) * sizeof(*of->list)) ||
		write_words(g))
		return -EIO;
	if (!fm_cu_gates_is_resident(g))
		return 0;
	if (fm_cu_gates_measure_clock(g)) /* the kernel needs its words for that */
		return -EIO;
	fm_cu_gates_begin_periods(g, &of->words->s, task);
	return write_words(g);
}

int fm_cu_gates_ready(struct fm_cu_gates *g, struct fm_cu_gates_refusal *r)
{
	int mode = fm_cu_enter(g->cu), rc = g->slots > 1 ? check_shared(g, r) : 0;

	for (uint32_t i = 0; i < g->n && !rc; i++)
		rc = make_task(g, i, r);
	for (uint32_t i = 0; i < g->slots && !rc; i++)
		rc = make_slot(g, i, r);
	if (!rc)
		rc = write_all(g);
	fm_cu_leave(g->cu, mode);
	g->graphs.ready = !rc;
	return told(g, rc, r);
}

/* --- what the host asks for --- */

static uint64_t rests(const struct fm_cu_gates *g, uint32_t slot)
{
	return __atomic_load_n(&g->shared->said.rests[slot], __ATOMIC_SEQ_CST);
}

static CUstream chain(const struct fm_cu_gates *g, uint32_t slot)
{
	return slot ? g->stream[slot] : g->resident;
}

/* The lock is held. */
static int begin(struct fm_cu_gates *g, uint32_t slot, uint64_t rest)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->graph_launch(g->graphs.begin[slot], chain(g, slot));

	fm_cu_leave(g->cu, mode);
	if (!rc)
		__atomic_store_n(&g->graphs.begun[slot], rest, __ATOMIC_RELAXED);
	return rc ? -EIO : 0;
}

static int hear(struct fm_cu_gates *g)
{
	return fm_cu_graphs_say(g, 0, FM_GRAPHS_HEAR, 0) ? -EIO : 0;
}

/* If it cannot be known, too. */
static bool chain_is_at_work(struct fm_cu_gates *g, uint32_t slot)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->stream_query(chain(g, slot));

	fm_cu_leave(g->cu, mode);
	return rc;
}

/* A chain that said that it rests, and found something new, has gone on. What begins then comes
 * behind it, so it is to be heard as well. The lock is held, and what is asked for has been
 * written. All that rest are begun: those for which there is nothing stay while others work. */
static int have_it_heard(struct fm_cu_gates *g)
{
	bool at_work = false;
	int rc = 0;

	for (uint32_t i = 0; i < g->slots && !rc; i++) {
		uint64_t rest = rests(g, i);

		if (rest == g->graphs.begun[i]) {
			at_work = true;
			continue;
		}
		at_work |= chain_is_at_work(g, i);
		rc = begin(g, i, rest);
	}
	return !rc && at_work ? hear(g) : rc;
}

/* The lock is held. */
static int begin_all(struct fm_cu_gates *g)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->slots && !rc; i++) {
		uint64_t rest = rests(g, i);

		if (rest != g->graphs.begun[i])
			rc = begin(g, i, rest);
	}
	return rc;
}

/* The lock is held. */
static void park(struct fm_cu_gates *g, uint32_t what)
{
	uint64_t park = FM_GRAPHS_GO;

	if (g->graphs.closed)
		park = FM_GRAPHS_CLOSE;
	else if (what & FM_GATES_PARK)
		park = what & FM_GATES_ASIDE ? FM_GRAPHS_ASIDE : FM_GRAPHS_STAND;
	__atomic_store_n(&g->shared->asked.park, park, __ATOMIC_SEQ_CST);
}

/* Each task's chunks are there for good, and nothing is to be left. */
static bool is_news(uint32_t what, uint64_t jobs, uint64_t chunks)
{
	if (jobs || what & (FM_GATES_PARK | FM_GATES_GO_ON | FM_GATES_DRAIN))
		return true;
	return what == FM_GATES_KICK && !chunks; /* something is due */
}

int fm_cu_graphs_tell(
	struct fm_cu_gates *g, uint32_t task, uint32_t what, uint64_t jobs, uint64_t chunks)
{
	const uint32_t notes = what & (FM_GATES_NOTE | FM_GATES_QUIET);
	int rc = 0;

	if (notes)
		return fm_cu_graphs_say(g, 0, notes, 0) ? -EIO : 0;
	if (!is_news(what, jobs, chunks))
		return 0;
	pthread_mutex_lock(&g->graphs.lock);
	if (jobs)
		__atomic_fetch_add(&g->shared->asked.jobs[task], jobs, __ATOMIC_SEQ_CST);
	if (what & (FM_GATES_PARK | FM_GATES_GO_ON))
		park(g, what);
	if (what & FM_GATES_DRAIN)
		__atomic_store_n(&g->shared->asked.drain, 1, __ATOMIC_SEQ_CST);
	rc = what == FM_GATES_KICK && !jobs ? hear(g) : have_it_heard(g);
	if (!rc && what & FM_GATES_DRAIN) /* before what is read behind that */
		rc = hear(g);
	pthread_mutex_unlock(&g->graphs.lock);
	return rc;
}

uint64_t fm_cu_gates_refused(const struct fm_cu_gates *g)
{
	return __atomic_load_n(&g->shared->said.error, __ATOMIC_ACQUIRE);
}

int fm_cu_gates_follow(struct fm_cu_gates *g)
{
	int rc = 0;

	if (!fm_cu_gates_of_graphs(g))
		return 0;
	pthread_mutex_lock(&g->graphs.lock);
	if (fm_cu_gates_refused(g))
		rc = -EIO;
	else if (!g->shared->asked.park &&
		 __atomic_load_n(&g->shared->told.pending, __ATOMIC_ACQUIRE))
		rc = begin_all(g);
	pthread_mutex_unlock(&g->graphs.lock);
	return rc;
}

int fm_cu_graphs_reside(struct fm_cu_gates *g, uint64_t idle, bool has_words)
{
	int rc = 0;

	pthread_mutex_lock(&g->graphs.lock);
	__atomic_store_n(&g->shared->asked.idle, idle, __ATOMIC_SEQ_CST);
	__atomic_store_n(&g->shared->asked.has_words, has_words, __ATOMIC_SEQ_CST);
	if (!g->shared->asked.park)
		rc = begin_all(g);
	pthread_mutex_unlock(&g->graphs.lock);
	return rc;
}

bool fm_cu_graphs_resides(const struct fm_cu_gates *g)
{
	for (uint32_t i = 0; i < g->slots; i++)
		if (rests(g, i) == __atomic_load_n(&g->graphs.begun[i], __ATOMIC_RELAXED))
			return true;
	return false;
}

int fm_cu_graphs_close(struct fm_cu_gates *g)
{
	int rc;

	if (!g->graphs.ready)
		return 0;
	pthread_mutex_lock(&g->graphs.lock);
	g->graphs.closed = true;
	park(g, FM_GATES_PARK);
	rc = hear(g);
	pthread_mutex_unlock(&g->graphs.lock);
	return rc;
}

static void free_device(struct fm_cu_gates *g)
{
	struct fm_cu_graphs *of = &g->graphs;

	for (size_t i = 0; of->own && i < chunks_of(g) + g->n; i++)
		if (of->own[i])
			g->cu->graph_end(of->own[i]);
	for (uint32_t i = 0; i < FM_GRAPHS_SLOTS; i++) {
		if (of->begin[i])
			g->cu->graph_end(of->begin[i]);
		if (of->end[i])
			g->cu->graph_end(of->end[i]);
	}
	if (of->lists)
		g->cu->mem_free(of->lists);
	if (of->blocks)
		g->cu->mem_free(of->blocks);
}

void fm_cu_graphs_free(struct fm_cu_gates *g, bool runs)
{
	struct fm_cu_graphs *of = &g->graphs;

	if (!of->words)
		return;
	for (size_t i = 0; of->captured && i < chunks_of(g) + g->n; i++)
		drop(g, &of->captured[i]);
	if (!runs)
		free_device(g);
	free(of->own);
	free(of->captured);
	free(of->list);
	free(of->words);
	pthread_mutex_destroy(&of->lock);
}
