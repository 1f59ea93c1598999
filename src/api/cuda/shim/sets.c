/* SPDX-License-Identifier: Apache-2.0 */
/* The engines "gates" and "graphs" of <fermata/gpu_sched.h>: a set from its start to its end.
 * sets_queue.c has its XQueue, sets_calls.c what is called while it runs. */
#include "api/cuda/gpusched/device_runtime.h"
#include "api/cuda/shim/guard/guarded.h"
#include "base/cancel.h"
#include "base/lockorder.h"
#include "device/gpugraphs.h"
#include "functions.h"
#include "gpusched/engine.h"
#include "gpusched/task.h"
#include "sets_device.h"
#include "shim.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SETS 32 /* started */

/* Sets that have streams. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond; /* a set is not held any more */
	struct fm_cuda_set *at[SETS];
} sets = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
FM_LOCK_RANK(sets.lock, CUDA_SETS);

_Atomic unsigned fm_cuda_sets_live, fm_cuda_sets_residents;
static _Atomic unsigned leaving; /* calls between leave and stay */

/* --- the list --- */

static int enlist(struct fm_cuda_set *d)
{
	unsigned i = 0;

	pthread_mutex_lock(&sets.lock);
	while (i < SETS && sets.at[i])
		i++;
	if (i < SETS) {
		sets.at[i] = d;
		atomic_fetch_add(&fm_cuda_sets_live, 1);
		atomic_fetch_add(&fm_cuda_sets_residents, d->set->resident);
	}
	pthread_mutex_unlock(&sets.lock);
	return i < SETS ? 0 : -E2BIG;
}

static void delist(const struct fm_cuda_set *d)
{
	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS; i++)
		if (sets.at[i] == d) {
			sets.at[i] = NULL;
			atomic_fetch_sub(&fm_cuda_sets_live, 1);
			atomic_fetch_sub(&fm_cuda_sets_residents, d->set->resident);
		}
	pthread_mutex_unlock(&sets.lock);
}

static unsigned channels_of(const struct fm_cuda_set *d)
{
	if (d->graphs) /* a chain for each slot, and what is heard */
		return d->set->host.g.slots + 1;
	return d->n + d->set->resident;
}

unsigned fm_cuda_sets_channels(void)
{
	unsigned n = 0;

	if (!atomic_load(&fm_cuda_sets_live))
		return 0;
	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS; i++)
		n += sets.at[i] ? channels_of(sets.at[i]) : 0;
	pthread_mutex_unlock(&sets.lock);
	return n;
}

bool fm_cuda_sets_own_slow(CUstream stream)
{
	bool own = false;

	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS && !own; i++)
		for (uint32_t k = 0; sets.at[i] && sets.at[i]->gates && k < sets.at[i]->n; k++)
			own |= fm_cu_gates_stream(sets.at[i]->gates, k) == stream;
	pthread_mutex_unlock(&sets.lock);
	return own;
}

/* The feed, which stays until it is let go; NULL: there is none. */
static struct fm_cu_feed *keep_feed(struct fm_cuda_set *d)
{
	struct fm_cu_feed *f;

	pthread_mutex_lock(&d->set->lock);
	f = d->ending ? NULL : d->feed;
	if (f)
		fm_cu_feed_keep(f);
	pthread_mutex_unlock(&d->set->lock);
	return f;
}

static size_t keep_feeds(struct fm_cu_feed **feed)
{
	size_t n = 0;

	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS; i++) {
		feed[n] = sets.at[i] ? keep_feed(sets.at[i]) : NULL;
		n += feed[n] != NULL;
	}
	pthread_mutex_unlock(&sets.lock);
	return n;
}

/* --- calls that wait for the device --- */

static FM_COLD void for_feeds(void (*what)(struct fm_cu_feed *f))
{
	struct fm_cu_feed *feed[SETS + 1];
	size_t n = keep_feeds(feed);

	for (size_t i = 0; i < n; i++) {
		what(feed[i]);
		fm_cu_feed_let_go(feed[i]);
	}
}

void fm_cuda_sets_leave(void)
{
	atomic_fetch_add(&leaving, 1);
	if (FM_UNLIKELY(atomic_load(&fm_cuda_sets_live)) && !fm_cuda_enqueue_refuses())
		for_feeds(fm_cu_feed_leave);
}

void fm_cuda_sets_stay(void)
{
	atomic_fetch_sub(&leaving, 1);
	if (FM_UNLIKELY(atomic_load(&fm_cuda_sets_live)) && !fm_cuda_enqueues)
		for_feeds(fm_cu_feed_stay);
}

bool fm_cuda_sets_are_left(void)
{
	return atomic_load(&leaving);
}

/* --- start and end --- */

static bool enters(struct fm_cuda_set *d)
{
	return !d->cu->ctx_push(d->ctx);
}

static void exits(struct fm_cuda_set *d)
{
	CUcontext old;

	d->cu->ctx_pop(&old);
}

static int check_room(struct fm_cuda_set *d)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n = c ? fm_cuda_keep(NULL, xq, NULL, NULL) : 0;
	unsigned at_work = fm_cuda_sets_channels() + (d->set->resident && !d->graphs);
	unsigned channels = fm_cu_channels(), wanted, room;

	for (size_t i = 0; i < n; i++) {
		at_work += fm_xq_is_at_work(xq[i]);
		fm_xq_unref(xq[i]);
	}
	room = fm_cu_gates_room(channels, at_work);
	wanted = d->graphs ? channels_of(d) : d->set->host.g.n;
	if (wanted <= room)
		return 0;
	if (d->graphs)
		return fm_gpu_fail(d->set, -E2BIG,
			"the set has %u channels of the device, of %u that the process has "
			"(CUDA_DEVICE_MAX_CONNECTIONS, at most 32), of which %u are in use and %u "
			"are kept",
			wanted, channels, at_work, FM_CU_GATES_KEPT);
	return fm_gpu_fail(d->set, -E2BIG,
		"%u tasks, and room for %u: each has a channel of the device, of %u that the "
		"process has (CUDA_DEVICE_MAX_CONNECTIONS, at most 32), of which %u are in use and "
		"%u are kept",
		d->set->host.g.n, room, channels, at_work, FM_CU_GATES_KEPT);
}

/* The tasks as the device is to have them: with its own words. NULL: no memory. */
static struct fm_gs_task *copy_tasks(const struct fm_cuda_set *d)
{
	const struct fm_gs *g = &d->set->host.g;
	struct fm_gs_task *task = calloc(g->n, sizeof(*task));

	for (uint32_t i = 0; task && i < g->n; i++) {
		task[i] = g->task[i];
		if (d->words)
			task[i].word = (uint64_t *)(uintptr_t)d->words + i;
	}
	return task;
}

/* What the driver has said, if it was asked. */
static const char *what_failed(const struct fm_cu_gates_failure *f, char *text, size_t size)
{
	if (f->call)
		snprintf(text, size, ": %s is error %d%s%s%s", f->call, f->result,
			*f->log ? " (" : "", f->log, *f->log ? ")" : "");
	return f->call ? text : "";
}

static int refuse_gates(struct fm_cuda_set *d, int rc, const struct fm_cu_gates_failure *f)
{
	char path[PATH_MAX], text[sizeof(f->log) + 64];
	const char *runtime = d->graphs ? fm_cu_device_runtime(path, sizeof(path)) : NULL;
	const char *failed = what_failed(f, text, sizeof(text));

	if (rc != -ENOSYS)
		return fm_gpu_fail(d->set, rc,
			"the driver refuses what a set needs: streams, memory, a module%s", failed);
	if (!d->graphs)
		return fm_gpu_fail(
			d->set, rc, "the driver has no stream memory operations of 64 bits");
	if (runtime)
		return fm_gpu_fail(d->set, rc,
			"the driver does not take the kernel that launches graphs%s, with the "
			"device runtime %s",
			failed, runtime);
	return fm_gpu_fail(d->set, rc,
		"there is no device runtime (libcudadevrt.a of a CUDA toolkit of 12.4 or later; "
		"FERMATA_CUDA_DEVRT says where)");
}

static unsigned kind_of(const struct fm_cuda_set *d)
{
	unsigned kind = (d->graphs ? FM_CU_GATES_GRAPHS : 0) |
			(d->set->resident ? FM_CU_GATES_RESIDENT : 0);

	/* What is admitted was not charged for stops inside kernels. A chain that stays hears of a
	 * release when its chunk has ended, and on several slots a graph of the slot decides. */
	if (kind == FM_CU_GATES_GRAPHS && d->set->host.g.slots == 1 &&
		atomic_load(&fm_cuda_rewrites) && !d->set->admit)
		kind |= FM_CU_GATES_STOPS;
	return kind;
}

static int make_gates(struct fm_cuda_set *d)
{
	struct fm_gs set = d->set->host.g;
	struct fm_gs_task *task = copy_tasks(d);
	struct fm_cu_gates_failure failure;
	struct fm_cu_turnstile *t;
	int rc;

	if (!task)
		return fm_gpu_fail(d->set, -ENOMEM, "no memory");
	t = fm_cuda_wait_begin(d->ctx);
	set.park = 0; /* told when there is somebody to tell it */
	set.task = task;
	rc = fm_cu_gates_create(d->cu, &set, FM_GATES_TASKS, kind_of(d), &d->gates, &failure);
	fm_cuda_wait_end(t);
	free(task);
	if (rc)
		return refuse_gates(d, rc, &failure);
	for (uint32_t i = 0; i < (d->graphs ? 1 : set.n); i++)
		fm_shim_enter(&fm_cuda_refused.entry, (uintptr_t)fm_cu_gates_stream(d->gates, i));
	return 0;
}

/* From the list of sets nobody comes to the gates any more. */
static struct fm_cu_gates *take_gates(struct fm_cuda_set *d)
{
	struct fm_cu_gates *g;

	pthread_mutex_lock(&sets.lock);
	g = d->gates;
	d->gates = NULL;
	pthread_mutex_unlock(&sets.lock);
	return g;
}

static void end_gates(struct fm_cuda_set *d)
{
	struct fm_cu_turnstile *t;
	struct fm_cu_gates *g;
	bool busy = true;

	/* What stands there runs before anything waits in the driver. */
	if (!fm_cu_gates_open(d->gates))
		while (!fm_cu_gates_look(d->gates, &busy) && busy)
			nanosleep(&(struct timespec){.tv_nsec = FM_CU_SET_END_LOOK}, NULL);
	for (uint32_t i = 0; i < (d->graphs ? 1 : d->n); i++)
		fm_cuda_close_stream(fm_cu_gates_stream(d->gates, i));
	g = take_gates(d);
	t = fm_cuda_wait_begin(d->ctx);
	fm_cu_gates_destroy(g);
	fm_cuda_wait_end(t);
}

/* --- the graphs of tasks --- */

static const char *name_of_node(int type)
{
	static const char *const name[] = {[3] = "a host function",
		[5] = "an empty node",
		[6] = "a wait for an event",
		[7] = "a record of an event",
		[8] = "a signal of a semaphore",
		[9] = "a wait for a semaphore",
		[10] = "an allocation",
		[11] = "a release of memory",
		[12] = "a memory operation",
		[13] = "a condition"};

	if (type < 0 || (size_t)type >= FM_ARRAY_LEN(name) || !name[type])
		return "a node of a kind, or with arguments,";
	return name[type];
}

static int refuse_graph(struct fm_cuda_set *d, int rc, const struct fm_cu_gates_refusal *r)
{
	static const char *const why[] = {[FM_CU_GRAPH_HAS_CONTEXTS] = "is of several contexts",
		[FM_CU_GRAPH_NOT_BY_DEVICE] = "was not instantiated for launch by the device "
					      "(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)",
		[FM_CU_GRAPH_NOT_UPLOADED] = "is no executable graph of the set's context",
		[FM_CU_GRAPH_NOT_CAPTURED] = "has something that cannot be captured, or has ended "
					     "the capture itself",
		[FM_CU_GRAPH_IS_SHARED] = "is that of another task, too, which may run at the same "
					  "time on another slot"};
	const char *name = d->set->work[r->task].name;
	char text[sizeof(r->failure.log) + 64];

	if (rc != -EINVAL)
		return fm_gpu_fail(d->set, rc,
			"task %u \"%s\", chunk %u: its graph could not be made%s", r->task, name,
			r->chunk, what_failed(&r->failure, text, sizeof(text)));
	if (r->why == FM_CU_GRAPH_HAS_NODE)
		return fm_gpu_fail(d->set, rc,
			"task %u \"%s\", chunk %u: %s is nothing that the device can launch: "
			"kernels, "
			"copies and fills of device memory alone",
			r->task, name, r->chunk, name_of_node(r->node));
	return fm_gpu_fail(d->set, rc, "task %u \"%s\", chunk %u: its graph %s", r->task, name,
		r->chunk, why[r->why]);
}

static int add_task(struct fm_cuda_set *d, uint32_t task)
{
	struct fm_gpu_work *w = &d->set->work[task];
	struct fm_cu_gates_refusal r;
	int rc = fm_cu_gates_add(d->gates, task, fm_cuda_set_enqueue, &d->work[task], w->graph, &r);
	int error;
	const char *reason;

	pthread_mutex_lock(&d->set->lock);
	error = w->error;
	reason = w->reason;
	w->error = 0; /* the set is not started, and may be tried again */
	w->reason = NULL;
	pthread_mutex_unlock(&d->set->lock);
	if (!rc)
		return 0;
	if (!error)
		return refuse_graph(d, rc, &r);
	return fm_gpu_fail(d->set, rc, "task %u \"%s\", chunk %u: its enqueue %s", task, w->name,
		r.chunk, reason ? reason : "has failed");
}

/* The program's functions are called, so nothing is kept out meanwhile. */
static int make_graphs(struct fm_cuda_set *d)
{
	struct fm_cu_gates_refusal r = {0};
	struct fm_cu_turnstile *t;
	int rc = 0;

	for (uint32_t i = 0; d->graphs && i < d->n && !rc; i++)
		rc = add_task(d, i);
	if (rc || !d->graphs)
		return rc;
	t = fm_cuda_wait_begin(d->ctx);
	rc = fm_cu_gates_ready(d->gates, &r);
	fm_cuda_wait_end(t);
	return rc ? refuse_graph(d, rc, &r) : 0;
}

static int make_feed(struct fm_cuda_set *d)
{
	struct fm_cu_feed_hooks hooks = fm_cuda_set_hooks;
	const struct fm_gpu_set *s = d->set;
	struct fm_cu_feed_task task[FM_GATES_TASKS];
	struct fm_cu_feed *f;
	int rc;

	for (uint32_t i = 0; i < d->n; i++) {
		task[i] = (struct fm_cu_feed_task){.enqueue = fm_cuda_set_enqueue,
			.ctx = &d->work[i],
			.period = s->host.g.task[i].period != 0,
			.chunks = s->host.g.task[i].chunks,
			.dropped = s->host.g.task[i].stats.dropped,
			.n_after = s->host.g.task[i].n_after,
			.after = s->work[i].after};
	}
	hooks.arg = d;
	if (!d->queue)
		hooks.show = NULL;
	rc = fm_cu_feed_create(d->cu, d->ctx, d->gates, task, d->n, s->depth, d->words, &hooks, &f);
	if (rc)
		return fm_gpu_fail(d->set, rc, "no thread for the set");
	for (uint32_t i = 0; i < d->n; i++)
		if (s->work[i].has_word)
			fm_cu_feed_word(f, i);
	fm_cuda_set_queue_feed(d->queue, f);
	pthread_mutex_lock(&d->set->lock);
	d->feed = f;
	pthread_mutex_unlock(&d->set->lock);
	fm_cu_feed_park(f, fm_gs_read(&s->host.g.park));
	return 0;
}

/* Nothing is decided yet, and nothing runs. */
static void show_first(struct fm_cuda_set *d)
{
	const struct fm_gs *g = &d->set->host.g;
	const struct fm_cu_gates_words words = {.set = g, .task = g->task};

	if (d->queue)
		fm_cuda_set_show(d, &words, fm_gs_read(&g->park));
}

static int make_rest(struct fm_cuda_set *d)
{
	int rc = make_graphs(d);

	if (rc)
		return rc;
	d->queue = fm_cuda_set_queue_new(d->ctx);
	show_first(d);
	rc = make_feed(d);
	if (rc) {
		fm_cuda_set_queue_close(d->queue);
		d->queue = NULL;
	}
	return rc;
}

/* The context is current. */
static int make_all(struct fm_cuda_set *d)
{
	int rc = check_room(d);

	if (rc)
		return rc;
	d->n = d->set->host.g.n;
	for (uint32_t i = 0; i < d->n; i++)
		d->work[i] = (struct fm_cuda_set_task){.of = d, .task = i};
	rc = make_gates(d);
	if (rc)
		return rc;
	rc = enlist(d);
	if (rc) {
		end_gates(d);
		return fm_gpu_fail(d->set, rc, "a process has %u sets at a time at most", SETS);
	}
	/* Behind that the program's threads load what they get. What is launched for a capture
	 * waits for nothing. */
	if (!d->graphs)
		fm_cuda_functions_load(d->ctx);
	rc = make_rest(d);
	if (rc) {
		end_gates(d);
		delist(d);
	}
	return rc;
}

/* docs/strict.md */
static int check_strict(struct fm_gpu_set *s)
{
	struct fm_client *c = fm_shim_client();

	if (!s->resident || !c || !fm_client_finds_strict(c))
		return 0;
	return fm_gpu_fail(s, -EPERM,
		"the daemon is strict, and a resident set stays on the device by words that this "
		"program can write: release its tasks by fm_gpu_release(), in a set that is not "
		"`resident', or have the daemon run with strict = no");
}

static int start(struct fm_gpu_set *s)
{
	struct fm_cuda_set *d = s->device;
	int rc = -ENODEV, strict;
	FM_NO_CANCEL;

	strict = check_strict(s);
	if (strict)
		return strict;
	pthread_mutex_lock(&d->life);
	if (d->gone || !enters(d)) {
		fm_gpu_fail(s, rc, "the context of the set is gone");
	} else {
		rc = make_all(d);
		exits(d);
	}
	pthread_mutex_unlock(&d->life);
	return rc;
}

static void end(struct fm_cuda_set *d)
{
	struct fm_cu_feed *f;
	FM_NO_CANCEL;

	pthread_mutex_lock(&d->life);
	pthread_mutex_lock(&d->set->lock);
	f = d->feed;
	d->ending = f != NULL;
	pthread_mutex_unlock(&d->set->lock);
	if (!f) {
		pthread_mutex_unlock(&d->life);
		return;
	}
	/* What stands in streams would run now, whatever the group's gate says. */
	fm_cu_feed_await_turn(f, fm_now() + FM_CU_SET_END_MOST);
	if (d->set->resident && !d->graphs) /* of graphs nothing stands in advance */
		fm_cu_feed_retire(f, fm_now() + FM_CU_SET_END_MOST);
	if (fm_cu_feed_read(
		    f, fm_cuda_set_take_all, d)) /* a call that fails once costs no counts */
		fm_cu_feed_read(f, fm_cuda_set_take_all, d);
	d->refused = fm_cu_feed_refused(f);
	fm_cuda_set_queue_feed(d->queue, NULL);
	fm_cu_feed_destroy(f);
	if (enters(d)) {
		end_gates(d);
		exits(d);
	}
	delist(d); /* as long as it is there, a thread that ends the context waits for all this */
	fm_cuda_set_queue_close(d->queue);
	d->queue = NULL;
	pthread_mutex_lock(&d->set->lock);
	d->feed = NULL;
	d->ending = false;
	pthread_mutex_unlock(&d->set->lock);
	pthread_mutex_unlock(&d->life);
}

/* --- lives of others --- */

/* The set, which is held: another thread that frees it waits for that. */
static struct fm_cuda_set *hold_on(CUcontext ctx)
{
	struct fm_cuda_set *d = NULL;

	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS && !d; i++)
		if (sets.at[i] && sets.at[i]->ctx == ctx && !sets.at[i]->gone) {
			d = sets.at[i];
			d->gone = true;
			d->held++;
		}
	pthread_mutex_unlock(&sets.lock);
	return d;
}

static void let_go(struct fm_cuda_set *d)
{
	pthread_mutex_lock(&sets.lock);
	d->held--;
	pthread_cond_broadcast(&sets.cond);
	pthread_mutex_unlock(&sets.lock);
}

static void await_holders(struct fm_cuda_set *d)
{
	pthread_mutex_lock(&sets.lock);
	while (d->held)
		pthread_cond_wait(&sets.cond, &sets.lock);
	pthread_mutex_unlock(&sets.lock);
}

void fm_cuda_sets_context_ends(CUcontext ctx)
{
	struct fm_cuda_set *d;

	if (!ctx || !atomic_load(&fm_cuda_sets_live) || fm_cuda_enqueue_refuses())
		return;
	while ((d = hold_on(ctx))) {
		end(d);
		let_go(d);
	}
}

/* No more chunks come, and what stands in streams runs, as what other streams have does. What the
 * program has registered before may still free its sets. */
static void at_exit(void)
{
	for_feeds(fm_cu_feed_end);
	pthread_mutex_lock(&sets.lock);
	for (unsigned i = 0; i < SETS; i++)
		if (sets.at[i] && sets.at[i]->gates && enters(sets.at[i])) {
			fm_cu_gates_open(sets.at[i]->gates);
			exits(sets.at[i]);
		}
	pthread_mutex_unlock(&sets.lock);
}

void fm_cuda_sets_fork_child(void)
{
	sets.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	sets.cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	memset(sets.at, 0, sizeof(sets.at));
	atomic_store(&fm_cuda_sets_live, 0);
	atomic_store(&fm_cuda_sets_residents, 0);
	atomic_store(&leaving, 0);
	fm_cu_gates_fork_child();
}

/* --- the engine --- */

static void hear_exit(void)
{
	atexit(at_exit);
}

static const struct fm_gpu_engine graphs;

static int open_set(struct fm_gpu_set *s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fm_cuda_set *d;
	CUcontext ctx = fm_cuda_current();

	if (!ctx)
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	fm_shim_hear_forks();
	fm_shim_client();
	pthread_once(&once, hear_exit);
	d->set = s;
	d->cu = fm_cuda_driver();
	d->ctx = ctx;
	d->graphs = s->engine == &graphs;
	if (s->resident && fm_cu_gates_words_new(d->cu, FM_GATES_TASKS, &d->words)) {
		free(d);
		return -ENOMEM;
	}
	pthread_mutex_init(&d->life, NULL);
	fm_lock_rank(&d->life, CUDA_SET);
	s->device = d;
	return 0;
}

static void free_words(struct fm_cuda_set *d)
{
	struct fm_cu_turnstile *t;
	int mode;

	if (!d->words || d->gone || !enters(d))
		return;
	t = fm_cuda_wait_begin(d->ctx);
	mode = fm_cu_enter(d->cu);
	d->cu->mem_free(d->words);
	fm_cu_leave(d->cu, mode);
	fm_cuda_wait_end(t);
	exits(d);
}

static void close_set(struct fm_gpu_set *s)
{
	struct fm_cuda_set *d = s->device;

	end(d);
	await_holders(d);
	free_words(d);
	pthread_mutex_destroy(&d->life);
	free(d);
}

static int check_task(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	if (t->graph)
		return fm_gpu_fail(s, -EOPNOTSUPP,
			"the engine \"gates\" takes no graphs: launch the graph in enqueue");
	if (!t->enqueue)
		return fm_gpu_fail(s, -EINVAL, "no enqueue: what is its work?");
	return 0;
}

static int check_graphs(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	if (!t->graph == !t->enqueue)
		return fm_gpu_fail(s, -EINVAL,
			t->graph ? "graphs, and an enqueue: which one is its work?"
				 : "no enqueue, and no graphs: what is its work?");
	for (unsigned i = 0; t->graph && i < (t->n_chunks ? t->n_chunks : 1); i++)
		if (!t->graph[i])
			return fm_gpu_fail(s, -EINVAL, "chunk %u has no graph", i);
	return 0;
}

static int drain(struct fm_gpu_set *s, uint64_t timeout_ns)
{
	struct fm_cuda_set *d = s->device;
	struct fm_cu_feed *f = keep_feed(d);
	int rc;

	if (!f)
		return d->gone ? -ENODEV : 0;
	if (s->resident)
		fm_cu_feed_drain(f);
	rc = fm_cu_feed_wait(f, fm_add_sat(fm_now(), timeout_ns));
	fm_gs_write(&s->host.g.pending, fm_cu_feed_pending(f));
	fm_cu_feed_let_go(f);
	if (rc != -ETIMEDOUT)
		end(d);
	return rc;
}

static void park(struct fm_gpu_set *s)
{
	struct fm_cu_feed *f = keep_feed(s->device);

	if (!f)
		return;
	fm_cu_feed_park(f, fm_gs_read(&s->host.g.park));
	fm_cu_feed_let_go(f);
}

static int ask(struct fm_gpu_set *s, uint32_t task, unsigned jobs)
{
	struct fm_cuda_set *d = s->device;

	if (d->gone)
		return -ENODEV;
	return d->feed && !d->ending ? fm_cu_feed_ask(d->feed, task, jobs) : -ESHUTDOWN;
}

/* Since it has been asked, the feed stays. */
static int release(struct fm_gpu_set *s, uint32_t task, unsigned jobs)
{
	struct fm_cuda_set *d = s->device;

	return fm_cu_feed_release(d->feed, task, jobs);
}

static int word(struct fm_gpu_set *s, uint32_t task, uint64_t **word)
{
	struct fm_cuda_set *d = s->device;
	struct fm_cu_feed *f;

	if (d->gone)
		return fm_gpu_fail(s, -ENODEV, "the context of the set is gone");
	pthread_mutex_lock(&s->lock);
	s->work[task].has_word = true;
	pthread_mutex_unlock(&s->lock);
	f = keep_feed(d);
	if (f) {
		fm_cu_feed_word(f, task);
		fm_cu_feed_let_go(f);
	}
	*word = (uint64_t *)(uintptr_t)d->words + task;
	return 0;
}

static int read_stats(struct fm_gpu_set *s)
{
	struct fm_cu_feed *f = keep_feed(s->device);
	int rc;

	if (!f)
		return 0;
	rc = fm_cu_feed_read(f, fm_cuda_set_take_stats, s->device);
	fm_cu_feed_let_go(f);
	return rc ? -ENODEV : 0;
}

static uint64_t refused(struct fm_gpu_set *s)
{
	struct fm_cuda_set *d = s->device;
	struct fm_cu_feed *f = keep_feed(d);
	uint64_t error;

	if (!f)
		return d->refused;
	error = fm_cu_feed_refused(f);
	fm_cu_feed_let_go(f);
	return error;
}

static const struct fm_gpu_engine gates = {
	.name = "gates",
	.tasks = FM_GATES_TASKS,
	.resident = true,
	.no_end = "the device has failed, or the context of the set has ended: the set is over",
	.open = open_set,
	.close = close_set,
	.check = check_task,
	.start = start,
	.drain = drain,
	.park = park,
	.ask = ask,
	.release = release,
	.word = word,
	.read = read_stats,
	.refused = refused,
};

static const struct fm_gpu_engine graphs = {
	.name = "graphs",
	.tasks = FM_GATES_TASKS,
	.slots = FM_GRAPHS_SLOTS,
	.resident = true,
	.no_end = "the device has failed, or the context of the set has ended: the set is over",
	.open = open_set,
	.close = close_set,
	.check = check_graphs,
	.start = start,
	.drain = drain,
	.park = park,
	.ask = ask,
	.release = release,
	.word = word,
	.read = read_stats,
	.refused = refused,
};

static __attribute__((constructor)) void offer(void)
{
	fm_gpu_engine_offer(&gates);
	fm_gpu_engine_offer(&graphs);
}
