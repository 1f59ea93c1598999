/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "sets_device.h"
#include "shim.h"
#include <errno.h>
#include <stdio.h>

__thread struct fm_cuda_enqueue *fm_cuda_enqueues __attribute__((tls_model("initial-exec")));

/* --- what the set calls --- */

static void note_off(struct fm_cuda_set *d, uint32_t task, int error, const char *reason)
{
	struct fm_gpu_work *w = &d->set->work[task];

	pthread_mutex_lock(&d->set->lock);
	if (!w->error)
		w->error = error;
	if (!w->reason)
		w->reason = reason;
	pthread_mutex_unlock(&d->set->lock);
}

/* A capture that goes on would swallow what comes next. */
static bool ends_capture(const struct fm_cu_driver *cu, CUstream stream)
{
	fm_cu_result (*destroy)(CUgraph) = fm_cuda_symbol("cuGraphDestroy");
	int status = FM_CU_CAPTURE_NONE;
	CUgraph graph = NULL;

	if (!cu->stream_is_capturing || cu->stream_is_capturing(stream, &status) ||
		status == FM_CU_CAPTURE_NONE)
		return false;
	if (!cuStreamEndCapture(stream, &graph) && graph && destroy)
		destroy(graph);
	return true;
}

static int judge(struct fm_cuda_set *d, const struct fm_cuda_enqueue *e, uint32_t task, int rc,
	uint64_t since)
{
	const char *reason = NULL;

	/* With graphs it is ours, and is looked at later. */
	if (!d->graphs && ends_capture(d->cu, e->stream)) {
		rc = -EINVAL;
		reason = "has left its stream in a capture";
	} else if (e->waited) {
		rc = -EDEADLK;
		reason = "has waited for the device, on which nothing of it runs before it returns";
	} else if (!rc && fm_now() - since > FM_CU_SET_ENQUEUE_MOST) {
		rc = -ETIME;
		reason = "took more than 10 s";
	}
	if (rc)
		note_off(d, task, rc, reason);
	return rc;
}

int fm_cuda_set_enqueue(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	struct fm_cuda_set_task *w = ctx;
	struct fm_cuda_set *d = w->of;
	const struct fm_gpu_work *of = &d->set->work[w->task];
	const struct fm_gpu_set *outer = fm_gpu_inside;
	struct fm_cuda_enqueue e = {.stream = stream,
		.guard = fm_cu_gates_guard(d->gates, w->task),
		.outer = fm_cuda_enqueues};
	uint64_t since = fm_now();
	int rc;

	fm_gpu_inside = d->set;
	fm_cuda_enqueues = &e;
	rc = of->enqueue(stream, chunk, of->ctx);
	fm_cuda_enqueues = e.outer;
	fm_gpu_inside = outer;
	return judge(d, &e, w->task, rc > 0 ? -EIO : rc, since);
}

static void begin_job(void *arg, uint32_t task)
{
	fm_cuda_set_queue_begin(((struct fm_cuda_set *)arg)->queue, task);
}

static void end_job(void *arg, uint32_t task)
{
	(void)task;
	fm_cuda_set_queue_end(((struct fm_cuda_set *)arg)->queue);
}

static void count(void *arg)
{
	fm_cuda_set_queue_count(((struct fm_cuda_set *)arg)->queue);
}

static void finished(void *arg, uint64_t jobs)
{
	fm_cuda_set_queue_finished(((struct fm_cuda_set *)arg)->queue, jobs);
}

static void failed(void *arg, uint32_t task, int error)
{
	note_off(arg, task, error, NULL);
}

static bool traces(void *arg)
{
	return fm_cuda_set_queue_traces(((struct fm_cuda_set *)arg)->queue);
}

static void note(void *arg, const struct fm_gates_note *note)
{
	fm_cuda_set_queue_note(((struct fm_cuda_set *)arg)->queue, note);
}

static bool may_run(void *arg)
{
	return fm_cuda_set_queue_may_run(((struct fm_cuda_set *)arg)->queue);
}

static void stands(void *arg)
{
	fm_cuda_set_queue_stands(((struct fm_cuda_set *)arg)->queue);
}

static bool runs(const struct fm_gs_task *t)
{
	return t->gate != t->seen_ended;
}

static void show_task(struct fm_cuda_set *d, uint32_t number, const struct fm_gs_task *t)
{
	struct fm_set_task row = {.number = number,
		.released = t->stats.released,
		.done = t->stats.done,
		.missed = t->stats.missed,
		.missed_stopped = t->stats.missed_stopped,
		.dropped = t->stats.dropped,
		.response_max = t->stats.response_max,
		.runs = runs(t)};

	snprintf(row.name, sizeof(row.name), "%s", d->set->work[number].name);
	fm_cuda_set_queue_show_task(d->queue, &row);
}

/* What stays on a device in spite of its gate is not for strict mode, and a daemon of that kind may
 * come after the start. */
static bool bars(void *arg)
{
	const struct fm_client *c = fm_shim_has_client();

	(void)arg;
	return c && fm_client_is_strict(c);
}

void fm_cuda_set_show(void *arg, const struct fm_cu_gates_words *words, bool parked)
{
	struct fm_cuda_set *d = arg;
	/* The program may have written into the device's words: they are numbers to be shown. */
	const struct fm_gs *made = &d->set->host.g;
	struct fm_set row = {.policy = fm_gpu_policy_name(made->policy),
		.slots = made->slots,
		.tasks = d->n,
		.stopped = parked,
		.resident = d->set->resident && !bars(d),
		.decisions = words->set->decisions};

	for (uint32_t i = 0; i < d->n && !row.running; i++)
		row.running = runs(&words->task[i]) ? i + 1 : 0;
	fm_cuda_set_queue_show(d->queue, &row);
	for (uint32_t i = 0; i < d->n; i++)
		show_task(d, i, &words->task[i]);
}

static bool leaves(void *arg)
{
	(void)arg;
	return fm_cuda_sets_are_left();
}

const struct fm_cu_feed_hooks fm_cuda_set_hooks = {
	.begin = begin_job,
	.end = end_job,
	.traces = traces,
	.note = note,
	.count = count,
	.finished = finished,
	.failed = failed,
	.may_run = may_run,
	.show = fm_cuda_set_show,
	.stands = stands,
	.leaves = leaves,
	.bars = bars,
};

/* --- the words --- */

void fm_cuda_set_take_stats(void *arg, const struct fm_cu_gates_words *words)
{
	struct fm_cuda_set *d = arg;
	struct fm_gs *g = &d->set->host.g;

	fm_gs_host_enter(&d->set->host);
	for (uint32_t i = 0; i < d->n; i++)
		g->task[i].stats = words->task[i].stats;
	g->decisions = words->set->decisions;
	g->decision_ns = words->set->decision_ns;
	g->decision_max = words->set->decision_max;
	g->opened = words->set->opened;
	g->running = words->set->running;
	fm_gs_host_leave(&d->set->host);
}

/* What a later start goes on with, too. */
void fm_cuda_set_take_all(void *arg, const struct fm_cu_gates_words *words)
{
	struct fm_cuda_set *d = arg;
	struct fm_gs *g = &d->set->host.g;

	fm_cuda_set_take_stats(arg, words);
	for (uint32_t i = 0; i < d->n; i++) {
		g->task[i].longest = words->task[i].longest;
		g->task[i].vtime = words->task[i].vtime;
		g->task[i].seen_word = words->task[i].seen_word;
	}
	g->vtime = words->set->vtime;
	g->running = 0;
}
