/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the decisions of a set of tasks cost, by its public interface alone: a set of N tasks on one
 * slot, whose chunks note when they begin and end.
 */
#include "base/clock.h"
#include "base/util.h"
#include "calibrate.h"
#include <dlfcn.h>
#include <errno.h>
#include <fermata/gpu_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_NS   (20 * FM_US)
#define LOG        8192u
#define LEAST      40 /* rounds of each phase */
#define PATIENCE   (30 * FM_S)
#define LONG_NS    (100 * FM_MS) /* deadlines */
#define URGENT_NS  (1 * FM_MS)
#define PAUSE_NS   (50 * FM_US)
#define LOW_CHUNKS 60u

#define FUNCTIONS(X)                                                                            \
	X(struct fm_gpu_set *, set_new, (const struct fm_gpu_set_options *options, int *error)) \
	X(int, task_add, (struct fm_gpu_set * set, const struct fm_gpu_task *task))             \
	X(int, set_start, (struct fm_gpu_set * set))                                            \
	X(int, release, (struct fm_gpu_set * set, unsigned task, unsigned jobs))                \
	X(int, set_suspend, (struct fm_gpu_set * set))                                          \
	X(int, set_resume, (struct fm_gpu_set * set))                                           \
	X(void, set_free, (struct fm_gpu_set * set))                                            \
	X(int, cpu_launch,                                                                      \
		(struct CUstream_st * stream, uint64_t ns, void (*fn)(void *arg), void *arg))

struct sets;
struct sets_task {
	struct sets *s;
	unsigned number;
};

struct sets {
#define MEMBER(result, name, params) result(*name) params;
	FUNCTIONS(MEMBER)
#undef MEMBER
	struct calibrate_page *page;
	struct fm_gpu_set *set;
	unsigned n;
	struct sets_task *task;
	uint32_t random;
	_Atomic uint32_t chunks; /* in the log: of one slot, so one after the other */
	struct {
		unsigned task;
		uint64_t begin, end;
	} log[LOG];
};

static const char *load(struct sets *s, const char *libfermata)
{
	void *lib = dlopen(libfermata ? libfermata : "libfermata.so.0", RTLD_NOW | RTLD_LOCAL);
	bool whole = true;

	if (!lib)
		return "libfermata.so.0 is not found beside this program";
#define LOAD(result, name, params)                        \
	*(void **)&s->name = dlsym(lib, "fm_gpu_" #name); \
	whole = whole && s->name;
	FUNCTIONS(LOAD)
#undef LOAD
	return whole ? NULL : "libfermata.so.0 has no sets of tasks: it is of another version";
}

static void work(void *arg)
{
	const struct sets_task *t = arg;
	struct sets *s = t->s;
	uint32_t at = atomic_load_explicit(&s->chunks, memory_order_relaxed);
	uint64_t begin = fm_now(), end;

	do
		end = fm_now();
	while (end - begin < CHUNK_NS);
	if (at == LOG)
		return;
	s->log[at].task = t->number;
	s->log[at].begin = begin;
	s->log[at].end = fm_now();
	atomic_store_explicit(&s->chunks, at + 1, memory_order_release);
}

static int enqueue(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	struct sets_task *t = ctx;

	(void)chunk;
	return t->s->cpu_launch(stream, 0, work, t);
}

static void rest(struct sets *s)
{
	struct timespec t;

	s->random = s->random * 1664525u + 1013904223u;
	t = fm_timespec(PAUSE_NS + (s->random >> 8) % PAUSE_NS);
	nanosleep(&t, NULL);
}

static const char *await_chunks(struct sets *s, uint32_t n)
{
	uint64_t end = fm_now() + PATIENCE;

	while (atomic_load_explicit(&s->chunks, memory_order_acquire) < n) {
		if (fm_now() > end)
			return "a set of tasks did not run what was released";
		rest(s);
	}
	return NULL;
}

static void note(struct sets *s, uint64_t ns)
{
	uint32_t n = atomic_load_explicit(&s->page->notes, memory_order_relaxed);

	if (n == NOTES)
		return;
	s->page->note[n].end = ns;
	atomic_store_explicit(&s->page->notes, n + 1, memory_order_release);
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* All tasks have jobs; from the end of each chunk to the begin of the next. */
static const char *decision(struct sets *s)
{
	unsigned jobs = FM_MAX(2u, 64 / s->n), all = jobs * s->n;
	const char *wrong;
	int rc = s->set_suspend(s->set);

	atomic_store(&s->chunks, 0);
	for (unsigned k = 0; !rc && k < s->n; k++)
		rc = s->release(s->set, k, jobs);
	rc = rc ? rc : s->set_resume(s->set);
	wrong = rc ? "a set of tasks cannot be used" : await_chunks(s, all);
	for (unsigned i = 1; !wrong && i < all; i++)
		note(s, beyond(s->log[i].begin, s->log[i - 1].end));
	return wrong;
}

/* Nothing runs: from a release to the begin. */
static const char *start(struct sets *s)
{
	const char *wrong;
	uint64_t at;

	atomic_store(&s->chunks, 0);
	rest(s);
	at = fm_now();
	if (s->release(s->set, s->random % s->n, 1))
		return "a set of tasks cannot be used";
	wrong = await_chunks(s, 1);
	if (!wrong)
		note(s, beyond(s->log[0].begin, at));
	return wrong;
}

/* The chunk that ran when the urgent task was released has ended at the first end from then on. */
static void note_preemption(struct sets *s, uint64_t at, unsigned all)
{
	uint64_t from = at;
	unsigned i = 0;

	while (i < all && s->log[i].task && s->log[i].end < at)
		i++;
	if (i == all)
		return;
	if (s->log[i].task && s->log[i].begin <= at)
		from = s->log[i].end;
	while (i < all && s->log[i].task)
		i++;
	if (i + 1 < all) /* else nothing else was there to run */
		note(s, beyond(s->log[i].begin, from));
}

/* All others have jobs: from the end of the chunk that runs to the begin of the urgent one's. */
static const char *preemption(struct sets *s)
{
	unsigned jobs = FM_MIN(LOW_CHUNKS, 64 / (s->n - 1) + 1), all = jobs * (s->n - 1) + 1;
	const char *wrong;
	uint64_t at;
	int rc = 0;

	atomic_store(&s->chunks, 0);
	for (unsigned k = 1; !rc && k < s->n; k++)
		rc = s->release(s->set, k, jobs);
	wrong = rc ? "a set of tasks cannot be used" : await_chunks(s, 1);
	if (wrong)
		return wrong;
	rest(s);
	at = fm_now();
	if (s->release(s->set, 0, 1))
		return "a set of tasks cannot be used";
	wrong = await_chunks(s, all);
	if (!wrong)
		note_preemption(s, at, all);
	return wrong;
}

static const char *make(struct sets *s, const char *engine)
{
	struct fm_gpu_set_options o = {
		.size = sizeof(o), .policy = "edf", .slots = 1, .engine = engine};
	int rc;

	s->set = s->set_new(&o, &rc);
	if (rc == -ENOSYS) {
		s->page->skipped = true;
		snprintf(s->page->error, sizeof(s->page->error),
			"libfermata of this version has no engine %s", engine);
		return NULL;
	}
	/* Chunks are functions of this process, which no device runs. */
	if (s->set && strcmp(engine, "cpu")) {
		s->page->skipped = true;
		snprintf(s->page->error, sizeof(s->page->error),
			"this program has no work for the streams of the engine %s", engine);
		return NULL;
	}
	for (unsigned k = 0; s->set && k < s->n; k++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.deadline_ns = k ? LONG_NS : URGENT_NS,
			.enqueue = enqueue,
			.ctx = &s->task[k]};

		s->task[k] = (struct sets_task){s, k};
		if (s->task_add(s->set, &t) < 0)
			return "a set takes no such task";
	}
	return s->set && !s->set_start(s->set) ? NULL : "a set of tasks does not start";
}

const char *calibrate_sets_program(
	struct calibrate_page *page, const char *libfermata, const char *engine, unsigned tasks)
{
	static const char *(*const phase[SETS_PHASES])(struct sets *) = {
		[SETS_DECISION] = decision, [SETS_START] = start, [SETS_PREEMPTION] = preemption};
	struct sets *s = calloc(1, sizeof(*s));
	const char *wrong;

	if (!s || tasks < 2 || tasks > FM_GPU_TASKS_MAX)
		return s ? "2 to 1024 tasks" : "out of memory";
	s->page = page;
	s->n = tasks;
	s->random = tasks;
	s->task = calloc(tasks, sizeof(*s->task));
	wrong = s->task ? load(s, libfermata) : "out of memory";
	wrong = wrong ? wrong : make(s, engine);
	for (unsigned k = 0; !wrong && !page->skipped && k < SETS_PHASES; k++) {
		uint64_t end = fm_now() + page->budget_ns / SETS_PHASES;

		for (unsigned i = 0; !wrong && (i < LEAST || fm_now() < end); i++)
			wrong = phase[k](s);
		page->phase[k] = atomic_load(&page->notes);
	}
	return wrong; /* what was allocated goes with the process, whose threads may use it */
}
