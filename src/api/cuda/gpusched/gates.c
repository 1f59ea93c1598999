// SPDX-License-Identifier: Apache-2.0
#include "api/cuda/core/cuda.h"
#include "api/cuda/core/tune.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "gates_internal.h"
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Of one decision there are four for each task at most. */
#define NOTES_AT_ONCE (2 * 4 * FM_GATES_TASKS)

/* The kernel, once for each context, as long as that lives: to unload it would wait for the
 * device. */
#define MODULES 64

static struct {
	pthread_mutex_t lock; /* over the load, too */
	struct {
		CUcontext ctx;
		bool graphs; /* of sets of these */
		CUfunction set, chain;
	} of[MODULES];
} modules = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(modules.lock, GPU_MODULES);

static bool has_calls(const struct fm_cu_driver *cu)
{
	return cu->ctx_get_current && cu->module_load && cu->module_function && cu->launch &&
	       cu->mem_alloc && cu->mem_free && cu->host_alloc && cu->host_free &&
	       cu->host_device_pointer && cu->stream_create && cu->stream_destroy &&
	       cu->stream_synchronize && cu->stream_query && cu->stream_mem_ops &&
	       cu->copy_to_device && cu->copy_to_host && cu->priority_range;
}

static int error_of(fm_cu_result rc)
{
	if (!rc)
		return 0;
	if (rc == FM_CU_ERROR_OUT_OF_MEMORY)
		return -ENOMEM;
	return rc == FM_CU_ERROR_NOT_SUPPORTED ? -ENOSYS : -EIO;
}

static size_t tasks_size(const struct fm_cu_gates *g)
{
	return g->n * sizeof(struct fm_gs_task);
}

static size_t head_size(const struct fm_cu_gates *g)
{
	return fm_cu_gates_of_graphs(g) ? sizeof(struct fm_graphs) : sizeof(struct fm_gates);
}

static CUdeviceptr task_at(const struct fm_cu_gates *g, uint32_t task)
{
	return g->words + head_size(g) + task * sizeof(struct fm_gs_task);
}

static fm_cu_result launch(struct fm_cu_gates *g, CUstream stream, CUdeviceptr to, uint32_t task,
	uint32_t what, uint64_t jobs, uint64_t chunks)
{
	const struct fm_cu_launch_config config = {
		.grid = {1, 1, 1}, .block = {FM_GATES_LANES, 1, 1}, .stream = stream};
	void *params[] = {&g->words, &to, &jobs, &chunks, &task, &what};
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->launch(&config, g->set, params, NULL);

	fm_cu_leave(g->cu, mode);
	return rc;
}

static fm_cu_result put_op(struct fm_cu_gates *g, CUstream stream, union fm_cu_mem_op op)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->stream_mem_ops(stream, 1, &op, 0);

	fm_cu_leave(g->cu, mode);
	return rc;
}

fm_cu_result fm_cu_gates_await(struct fm_cu_gates *g, CUstream stream)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->stream_synchronize(stream);

	fm_cu_leave(g->cu, mode);
	return rc;
}

static fm_cu_result load_gates(struct fm_cu_gates *g)
{
	CUmodule module;
	fm_cu_result rc = fm_cu_gates_tried(
		g, "cuModuleLoadData", g->cu->module_load(&module, fm_gates_text));

	if (!rc)
		rc = fm_cu_gates_tried(g, "cuModuleGetFunction",
			g->cu->module_function(&g->set, module, FM_GATES_KERNEL));
	return rc;
}

/* The lock is held. */
static fm_cu_result load(struct fm_cu_gates *g, CUcontext ctx, unsigned at)
{
	bool graphs = fm_cu_gates_of_graphs(g);
	fm_cu_result rc = graphs ? fm_cu_graphs_load(g) : load_gates(g);

	if (rc)
		return rc;
	modules.of[at].ctx = ctx;
	modules.of[at].graphs = graphs;
	modules.of[at].set = g->set;
	modules.of[at].chain = g->graphs.chain;
	return 0;
}

static bool is_kernel(const struct fm_cu_gates *g, CUcontext ctx, unsigned at)
{
	return modules.of[at].ctx == ctx && modules.of[at].graphs == fm_cu_gates_of_graphs(g);
}

static fm_cu_result find_kernel(struct fm_cu_gates *g)
{
	CUcontext ctx = NULL;
	fm_cu_result rc = fm_cu_gates_tried(g, "cuCtxGetCurrent", g->cu->ctx_get_current(&ctx));
	unsigned i, none = MODULES;

	if (rc || !ctx)
		return rc ? rc : FM_CU_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&modules.lock);
	for (i = 0; i < MODULES && !is_kernel(g, ctx, i); i++)
		if (!modules.of[i].ctx)
			none = FM_MIN(none, i);
	if (i < MODULES) {
		g->set = modules.of[i].set;
		g->graphs.chain = modules.of[i].chain;
	} else {
		rc = none < MODULES ? load(g, ctx, none) : FM_CU_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&modules.lock);
	return rc;
}

void fm_cu_gates_context_gone(CUcontext ctx)
{
	pthread_mutex_lock(&modules.lock);
	for (unsigned i = 0; ctx && i < MODULES; i++)
		if (modules.of[i].ctx == ctx)
			modules.of[i].ctx = NULL;
	pthread_mutex_unlock(&modules.lock);
}

void fm_cu_gates_fork_child(void)
{
	modules.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < MODULES; i++)
		modules.of[i].ctx = NULL;
}

static fm_cu_result make_stream(struct fm_cu_gates *g, CUstream *stream, int priority)
{
	fm_cu_result rc = fm_cu_gates_tried(g, "cuStreamCreateWithPriority",
		g->cu->stream_create(stream, FM_CU_STREAM_NON_BLOCKING, priority));

	if (rc)
		*stream = NULL;
	return rc;
}

/* Jobs give way to decisions. Of graphs both are in one stream, and the other is captured. */
static fm_cu_result make_streams(struct fm_cu_gates *g)
{
	uint32_t n = fm_cu_gates_of_graphs(g) ? g->slots : g->n;
	int least = 0, greatest = 0;
	fm_cu_result rc = fm_cu_gates_tried(
		g, "cuCtxGetStreamPriorityRange", g->cu->priority_range(&least, &greatest));

	if (!rc)
		rc = make_stream(g, &g->news, greatest);
	if (!rc && g->kind)
		rc = make_stream(g, &g->resident, fm_cu_gates_of_graphs(g) ? least : greatest);
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = make_stream(g, &g->stream[i], least);
	return rc;
}

static fm_cu_result allocate(struct fm_cu_gates *g, size_t words)
{
	size_t size = sizeof(struct fm_cu_gates_shared) + tasks_size(g) + sizeof(struct fm_gs);
	void *shared = NULL;
	fm_cu_result rc = fm_cu_gates_tried(g, "cuMemHostAlloc",
		g->cu->host_alloc(&shared, size,
			FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP));

	if (rc)
		return rc;
	g->shared = shared;
	memset(shared, 0, size);
	rc = fm_cu_gates_tried(g, "cuMemHostGetDevicePointer",
		g->cu->host_device_pointer(&g->shared_at, shared, 0));
	if (!rc)
		rc = fm_cu_gates_tried(g, "cuMemAlloc", g->cu->mem_alloc(&g->words, words));
	if (rc)
		g->words = 0;
	return rc;
}

static size_t n_after(const struct fm_gs *set)
{
	size_t n = 0;

	for (uint32_t i = 0; i < set->n; i++)
		if (set->task[i].n_after)
			n = FM_MAX(n, (size_t)set->task[i].first_after + set->task[i].n_after);
	return n;
}

void fm_cu_gates_begin_periods(
	struct fm_cu_gates *g, struct fm_gates *head, struct fm_gs_task *task)
{
	uint64_t now = fm_now();

	head->clock = g->clock.later;
	for (uint32_t i = 0; i < g->n; i++)
		if (task[i].period && g->clock.known) {
			task[i].next = now + task[i].phase;
			head->g.wake = FM_MIN(head->g.wake, task[i].next);
		}
	g->shared->told.wake = head->g.wake;
}

/* The words as the device is to find them, whose pointers are its own. */
static void describe(struct fm_cu_gates *g, const struct fm_gs *set, char *words)
{
	struct fm_gates head = {.g = *set};
	struct fm_gs_task *task = (struct fm_gs_task *)(words + head_size(g));

	head.g.task = (struct fm_gs_task *)(uintptr_t)task_at(g, 0);
	head.g.after = (uint32_t *)(uintptr_t)task_at(g, g->n);
	head.told = (struct fm_gates_told *)(uintptr_t)(g->shared_at +
							offsetof(struct fm_cu_gates_shared, told));
	memcpy(task, set->task, tasks_size(g));
	fm_cu_gates_begin_periods(g, &head, task);
	memcpy(words, &head, sizeof(head));
	if (n_after(set))
		memcpy(words + head_size(g) + tasks_size(g), set->after,
			n_after(set) * sizeof(*set->after));
}

static fm_cu_result write_words(
	struct fm_cu_gates *g, const struct fm_gs *set, char *words, size_t size)
{
	describe(g, set, words);
	return fm_cu_gates_tried(
		g, "cuMemcpyHtoDAsync", g->cu->copy_to_device(g->words, words, size, g->news));
}

/* Asks for the device's clock; `changes': and the set's is `later' from then on. */
static fm_cu_result launch_clock(struct fm_cu_gates *g, uint64_t later, bool changes)
{
	if (fm_cu_gates_of_graphs(g))
		return fm_cu_graphs_say(
			g, 0, FM_GATES_CLOCK | (changes ? FM_GRAPHS_LATER : 0), later);
	return launch(g, g->news, 0, 0, FM_GATES_CLOCK, later, changes);
}

static fm_cu_result look_at_clock(struct fm_cu_gates *g, struct fm_cu_clock_look *l)
{
	fm_cu_result rc;

	l->before = fm_now();
	rc = launch_clock(g, 0, false);
	if (!rc)
		rc = fm_cu_gates_await(g, g->news);
	l->after = fm_now();
	l->device = __atomic_load_n(&g->shared->told.clock, __ATOMIC_ACQUIRE);
	return rc;
}

/* By the narrowest of some looks. */
fm_cu_result fm_cu_gates_measure_clock(struct fm_cu_gates *g)
{
	struct fm_cu_clock_look best = {.after = UINT64_MAX}, l;
	fm_cu_result rc = 0;

	for (unsigned i = 0; i < FM_CU_SET_CLOCK_LOOKS && !rc; i++) {
		rc = fm_cu_gates_tried(g, "a look at its clock", look_at_clock(g, &l));
		if (fm_cu_clock_width(&l) < fm_cu_clock_width(&best))
			best = l;
	}
	if (!rc)
		fm_cu_clock_follow(&g->clock, &best);
	return rc;
}

/* Of graphs the words are written when these are known. */
static fm_cu_result begin_words(
	struct fm_cu_gates *g, const struct fm_gs *set, char *words, size_t size)
{
	if (!fm_cu_gates_of_graphs(g))
		return write_words(g, set, words, size);
	describe(g, set, words);
	return fm_cu_graphs_make(g, set, words, size);
}

/* The first launch may wait for the device, so it is made while nothing stands there. */
static fm_cu_result launch_first(struct fm_cu_gates *g)
{
	return fm_cu_gates_tried(g, "cuLaunchKernelEx",
		fm_cu_gates_of_graphs(g) ? fm_cu_graphs_say(g, 0, 0, 0)
					 : launch(g, g->news, 0, 0, 0, 0, 0));
}

static int make(struct fm_cu_gates *g, const struct fm_gs *set)
{
	size_t size = head_size(g) + tasks_size(g) + n_after(set) * sizeof(*set->after);
	char *words = calloc(1, size);
	fm_cu_result rc;
	int mode;

	if (!words)
		return -ENOMEM;
	mode = fm_cu_enter(g->cu);
	rc = find_kernel(g);
	if (!rc)
		rc = allocate(g, size);
	if (!rc)
		rc = make_streams(g);
	if (!rc)
		rc = begin_words(g, set, words, size);
	if (!rc)
		rc = launch_first(g);
	if (!rc)
		rc = fm_cu_gates_tried(
			g, "cuStreamSynchronize", g->cu->stream_synchronize(g->news));
	if (!rc && g->kind == FM_CU_GATES_RESIDENT) { /* of graphs: later */
		rc = fm_cu_gates_measure_clock(g);
		if (!rc)
			rc = write_words(g, set, words, size);
		if (!rc)
			rc = fm_cu_gates_tried(
				g, "cuStreamSynchronize", g->cu->stream_synchronize(g->news));
	}
	fm_cu_leave(g->cu, mode);
	if ((char *)g->graphs.words != words)
		free(words);
	return error_of(rc);
}

int fm_cu_gates_create(const struct fm_cu_driver *cu, const struct fm_gs *set, unsigned room,
	unsigned kind, struct fm_cu_gates **out, struct fm_cu_gates_failure *why)
{
	struct fm_cu_gates *g;
	int rc;

	if (why)
		*why = (struct fm_cu_gates_failure){0};
	if (!has_calls(cu) || (kind & FM_CU_GATES_GRAPHS && !fm_cu_graphs_has_calls(cu)))
		return -ENOSYS;
	if (set->n > room || set->n > FM_GATES_TASKS)
		return -E2BIG;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->cu = cu;
	g->kind = kind;
	g->n = set->n;
	g->slots = set->slots;
	rc = make(g, set);
	if (why)
		*why = g->failure;
	if (rc)
		fm_cu_gates_destroy(g);
	else
		*out = g;
	return rc;
}

/* After that no decision writes a gate: a thread that reads the words has waited for the last that
 * could. */
static fm_cu_result end_decisions(struct fm_cu_gates *g)
{
	return fm_cu_gates_tell(g, 0, FM_GATES_PARK | FM_GATES_KICK, 0, 0) ||
	       fm_cu_gates_read(g, &(struct fm_cu_gates_words){0});
}

static fm_cu_result write_word(struct fm_cu_gates *g, uint32_t task, size_t at)
{
	union fm_cu_mem_op write = {.op = {.operation = FM_CU_OP_WRITE_VALUE_64,
					    .address = task_at(g, task) + at,
					    .value = INT64_MAX}};

	return put_op(g, g->news, write);
}

static fm_cu_result open_wide(struct fm_cu_gates *g, uint32_t task)
{
	return write_word(g, task, offsetof(struct fm_gs_task, gate));
}

/* A decision may come between any two of these. It takes no chunk for ended that has not run, since
 * it asks whether `ended` and `seen_ended` differ, and whether `seen_ended` and `gate` do. */
int fm_cu_gates_flush(struct fm_cu_gates *g, uint32_t task)
{
	if (fm_cu_gates_of_graphs(g))
		return 0; /* nothing stands anywhere */
	return write_word(g, task, offsetof(struct fm_gs_task, ended)) ||
			       write_word(g, task, offsetof(struct fm_gs_task, seen_ended)) ||
			       open_wide(g, task) || fm_cu_gates_tell(g, task, FM_GATES_KICK, 0, 0)
		       ? -EIO
		       : 0;
}

int fm_cu_gates_open(struct fm_cu_gates *g)
{
	fm_cu_result rc, one;

	if (fm_cu_gates_of_graphs(g))
		return fm_cu_graphs_close(g);
	if (g->shared)
		fm_cu_gates_lend(g, 0);
	rc = g->any_put || g->residents ? end_decisions(g) : 0;
	for (uint32_t i = 0; i < g->n; i++) {
		one = g->put[i] ? open_wide(g, i) : 0;
		rc = rc ? rc : one;
	}
	return rc ? -EIO : 0;
}

static int run_out(struct fm_cu_gates *g)
{
	int rc = fm_cu_gates_open(g);
	fm_cu_result one;

	for (uint32_t i = 0; i < g->n; i++) {
		one = g->stream[i] ? fm_cu_gates_await(g, g->stream[i]) : 0;
		rc = one ? -EIO : rc;
	}
	one = g->resident ? fm_cu_gates_await(g, g->resident) : 0;
	rc = one ? -EIO : rc;
	one = g->news ? fm_cu_gates_await(g, g->news) : 0;
	return one ? -EIO : rc;
}

int fm_cu_gates_destroy(struct fm_cu_gates *g)
{
	int rc, mode;

	if (!g)
		return 0;
	rc = run_out(g);
	mode = fm_cu_enter(g->cu);
	for (uint32_t i = 0; i < g->n; i++)
		if (g->stream[i])
			g->cu->stream_destroy(g->stream[i]);
	if (g->resident)
		g->cu->stream_destroy(g->resident);
	if (g->news)
		g->cu->stream_destroy(g->news);
	fm_cu_graphs_free(g, rc);
	/* What may still be written to is left alone. */
	if (!rc && g->words)
		g->cu->mem_free(g->words);
	if (!rc && g->shared)
		g->cu->host_free(g->shared);
	fm_cu_leave(g->cu, mode);
	free(g);
	return rc;
}

static fm_cu_result put_wait(struct fm_cu_gates *g, uint32_t task)
{
	union fm_cu_mem_op wait = {
		.op = {.operation = FM_CU_OP_WAIT_VALUE_64,
			.address = task_at(g, task) + offsetof(struct fm_gs_task, gate),
			.value = g->put[task] + 1,
			.flags = FM_CU_WAIT_VALUE_GEQ}};

	return put_op(g, g->stream[task], wait);
}

int fm_cu_gates_put(struct fm_cu_gates *g, uint32_t task,
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx), unsigned chunk,
	void *ctx)
{
	int rc;

	if (fm_cu_gates_of_graphs(g))
		return 0; /* it is there, and has no gate that stands in a stream */
	if (g->broken[task] || put_wait(g, task))
		return -EIO;
	g->put[task]++;
	g->any_put = true;
	rc = enqueue(g->stream[task], chunk, ctx);
	rc = rc > 0 ? -EIO : rc;
	if (!rc && launch(g, g->stream[task], 0, task, FM_GATES_ENDED | FM_GATES_KICK, 0, 0))
		rc = -EIO;
	g->broken[task] = rc;
	return rc;
}

int fm_cu_gates_tell(
	struct fm_cu_gates *g, uint32_t task, uint32_t what, uint64_t jobs, uint64_t chunks)
{
	if (fm_cu_gates_of_graphs(g))
		return fm_cu_graphs_tell(g, task, what, jobs, chunks);
	return launch(g, g->news, 0, task, what, jobs, chunks) ? -EIO : 0;
}

const struct fm_gates_told *fm_cu_gates_told(const struct fm_cu_gates *g)
{
	return &g->shared->told;
}

int fm_cu_gates_read(struct fm_cu_gates *g, struct fm_cu_gates_words *words)
{
	CUdeviceptr to = g->shared_at + offsetof(struct fm_cu_gates_shared, task);

	fm_cu_result rc = fm_cu_gates_of_graphs(g) ? fm_cu_graphs_say(g, to, 0, 0)
						   : launch(g, g->news, to, 0, 0, 0, 0);

	if (rc || fm_cu_gates_await(g, g->news))
		return -EIO;
	words->set = (const struct fm_gs *)&g->shared->task[g->n];
	words->task = g->shared->task;
	return 0;
}

static fm_cu_result query(struct fm_cu_gates *g, CUstream stream, bool *busy)
{
	fm_cu_result rc = stream ? g->cu->stream_query(stream) : 0;

	*busy |= rc == FM_CU_ERROR_NOT_READY;
	return rc == FM_CU_ERROR_NOT_READY ? 0 : rc;
}

int fm_cu_gates_look(struct fm_cu_gates *g, bool *busy)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc, one;

	*busy = false;
	rc = query(g, g->news, busy);
	one = query(g, g->resident, busy);
	rc = one ? one : rc;
	for (uint32_t i = 0; i < g->n; i++) {
		one = query(g, g->stream[i], busy);
		rc = one ? one : rc;
	}
	fm_cu_leave(g->cu, mode);
	return rc ? -EIO : 0;
}

CUstream fm_cu_gates_stream(const struct fm_cu_gates *g, uint32_t task)
{
	return task < g->n ? g->stream[fm_cu_gates_of_graphs(g) ? 0 : task] : NULL;
}

/* --- a resident --- */

int fm_cu_gates_words_new(const struct fm_cu_driver *cu, uint32_t n, CUdeviceptr *words)
{
	const uint64_t zero[FM_GATES_TASKS] = {0};
	int mode = fm_cu_enter(cu);
	CUstream stream = NULL;
	fm_cu_result rc = cu->stream_create(&stream, FM_CU_STREAM_NON_BLOCKING, 0);

	if (!rc) {
		rc = cu->mem_alloc(words, sizeof(zero));
		if (!rc) {
			rc = cu->copy_to_device(*words, zero, n * sizeof(*zero), stream);
			if (!rc)
				rc = cu->stream_synchronize(stream);
			if (rc)
				cu->mem_free(*words);
		}
		cu->stream_destroy(stream);
	}
	fm_cu_leave(cu, mode);
	return error_of(rc);
}

bool fm_cu_gates_is_of_graphs(const struct fm_cu_gates *g)
{
	return fm_cu_gates_of_graphs(g);
}

bool fm_cu_gates_is_resident(const struct fm_cu_gates *g)
{
	return g->kind & FM_CU_GATES_RESIDENT;
}

void fm_cu_gates_lend(struct fm_cu_gates *g, uint64_t until)
{
	__atomic_store_n(&g->shared->told.until, until, __ATOMIC_RELEASE);
}

bool fm_cu_gates_resides(const struct fm_cu_gates *g)
{
	if (fm_cu_gates_of_graphs(g))
		return fm_cu_gates_is_resident(g) && fm_cu_graphs_resides(g);
	return g->residents != __atomic_load_n(&g->shared->told.left, __ATOMIC_ACQUIRE);
}

int fm_cu_gates_reside(struct fm_cu_gates *g, uint64_t idle, bool has_words)
{
	if (fm_cu_gates_of_graphs(g))
		return fm_cu_graphs_reside(g, idle, has_words);
	if (fm_cu_gates_resides(g))
		return 0;
	if (launch(g, g->resident, 0, 0, FM_GATES_RESIDE, idle, has_words))
		return -EIO;
	g->residents++;
	return 0;
}

int fm_cu_gates_follow_clock(struct fm_cu_gates *g)
{
	struct fm_cu_clock_look l;

	if (look_at_clock(g, &l))
		return -EIO;
	fm_cu_clock_follow(&g->clock, &l);
	return launch_clock(g, g->clock.later, true) ? -EIO : 0;
}

int fm_cu_gates_copy_words(struct fm_cu_gates *g, CUdeviceptr from, uint64_t *to, uint32_t n)
{
	int mode = fm_cu_enter(g->cu);
	fm_cu_result rc = g->cu->copy_to_host(g->shared->word, from, n * sizeof(*to), g->news);

	fm_cu_leave(g->cu, mode);
	if (rc || fm_cu_gates_await(g, g->news))
		return -EIO;
	memcpy(to, g->shared->word, n * sizeof(*to));
	return 0;
}

/* Is it the one that is to come next, and was it there all the time in which it was read? */
static bool read_note(const struct fm_gates_note *from, uint64_t number, struct fm_gates_note *to)
{
	if (__atomic_load_n(&from->number, __ATOMIC_ACQUIRE) != number)
		return false;
	to->number = number;
	to->at = __atomic_load_n(&from->at, __ATOMIC_ACQUIRE);
	to->what = __atomic_load_n(&from->what, __ATOMIC_ACQUIRE);
	to->b = __atomic_load_n(&from->b, __ATOMIC_ACQUIRE);
	to->c = __atomic_load_n(&from->c, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->number, __ATOMIC_RELAXED) == number;
}

/* Has the device come so far that it may have been written to already, meanwhile? The number is
 * written last. Notes of one decision come in any order, but they are not so many. */
static bool is_overrun(const struct fm_gates_told *told, uint64_t number)
{
	uint64_t later = number + FM_GATES_NOTES - NOTES_AT_ONCE;

	return __atomic_load_n(
		       &told->note[(later - 1) % FM_GATES_NOTES].number, __ATOMIC_ACQUIRE) >= later;
}

uint32_t fm_cu_gates_notes(
	struct fm_cu_gates *g, struct fm_gates_note *out, uint32_t most, uint64_t *lost)
{
	uint32_t n = 0;

	while (n < most) {
		const struct fm_gates_note *from = &g->shared->told.note[g->notes % FM_GATES_NOTES];
		uint64_t number = __atomic_load_n(&from->number, __ATOMIC_ACQUIRE);

		if (number <= g->notes || number - 1 - g->notes > INT64_MAX)
			break;
		*lost += number - 1 - g->notes;
		if (read_note(from, number, &out[n]) && !is_overrun(&g->shared->told, number))
			n++;
		else
			++*lost;
		g->notes = number;
	}
	return n;
}
