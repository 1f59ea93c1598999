// SPDX-License-Identifier: Apache-2.0
/* Tasks of a set: their checks, their releases, and what has happened to them. */
#include "task.h"
#include "base/util.h"
#include "engine.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT_MAX (1u << 20)

_Static_assert(FM_GPU_BACKLOG == FM_GS_BACKLOG, "what the header says");

static bool is_name(const char *name)
{
	size_t n = strnlen(name, FM_GPU_NAME_MAX);

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~' || strchr("\"'/\\", name[i]))
			return false;
	return n && n < FM_GPU_NAME_MAX;
}

/* One of the two releases it: "either" would be two rows of jobs in one task, and "both" is what a
 * task in between says. */
static int released_by(struct fm_gpu_set *s, const char *what)
{
	return fm_gpu_fail(s, -EINVAL,
		"%s: for jobs that need both, give that to a task whose enqueue launches nothing, "
		"and let this one come after it, too",
		what);
}

static int check_times(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	if (t->period_ns >= FM_GPU_TIME_MAX || t->deadline_ns >= FM_GPU_TIME_MAX ||
		t->phase_ns >= FM_GPU_TIME_MAX || t->wcet_ns >= FM_GPU_TIME_MAX)
		return fm_gpu_fail(s, -EINVAL, "times are less than 2^62 ns");
	if (t->period_ns && t->period_ns < FM_GPU_PERIOD_MIN)
		return fm_gpu_fail(s, -EINVAL, "a period of %llu ns: at least 1000 ns",
			(unsigned long long)t->period_ns);
	if (t->period_ns && !s->resident)
		return fm_gpu_fail(s, -EINVAL,
			"a period needs a set that is `resident'; or release the task by the host");
	if (t->period_ns && t->n_after)
		return released_by(s, "a task with a period comes after no others");
	if (t->phase_ns && !t->period_ns)
		return fm_gpu_fail(s, -EINVAL, "a phase without a period");
	if (t->period_ns && t->deadline_ns > t->period_ns)
		return fm_gpu_fail(s, -EINVAL,
			"the deadline of %llu ns is beyond the period, %llu ns",
			(unsigned long long)t->deadline_ns, (unsigned long long)t->period_ns);
	return 0;
}

static int check_task(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	if (!t || t->size < sizeof(*t))
		return fm_gpu_fail(s, -EINVAL, "no task, or one of an older header");
	if (t->name && !is_name(t->name))
		return fm_gpu_fail(s, -EINVAL,
			"a name has 1 to 63 printable characters without spaces, quotes and "
			"slashes");
	if (t->n_chunks > FM_GPU_CHUNKS_MAX)
		return fm_gpu_fail(
			s, -EINVAL, "%u chunks: at most %u", t->n_chunks, FM_GPU_CHUNKS_MAX);
	if (t->weight > WEIGHT_MAX)
		return fm_gpu_fail(s, -EINVAL, "a weight of %u: at most %u", t->weight, WEIGHT_MAX);
	if (t->n_after > FM_GPU_TASKS_MAX || (t->n_after && !t->after))
		return fm_gpu_fail(s, -EINVAL, "after %u tasks: at most %u, in an array",
			t->n_after, FM_GPU_TASKS_MAX);
	return check_times(s, t);
}

static int check_for_engine(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	int rc = check_task(s, t);

	return !rc && s->engine->check ? s->engine->check(s, t) : rc;
}

static int keep_graphs(struct fm_gpu_work *w, const struct fm_gpu_task *t)
{
	unsigned n = t->n_chunks ? t->n_chunks : 1;

	if (!t->graph)
		return 0;
	w->graph = calloc(n, sizeof(struct CUgraphExec_st *));
	if (!w->graph)
		return -ENOMEM;
	memcpy(w->graph, t->graph, n * sizeof(struct CUgraphExec_st *));
	return 0;
}

static int keep_work(struct fm_gpu_work *w, uint32_t number, const struct fm_gpu_task *t)
{
	*w = (struct fm_gpu_work){.enqueue = t->enqueue, .ctx = t->ctx};
	if (keep_graphs(w, t))
		return -ENOMEM;
	if (t->n_after) {
		w->after = calloc(t->n_after, sizeof(*w->after));
		if (!w->after) {
			free(w->graph);
			return -ENOMEM;
		}
		for (unsigned i = 0; i < t->n_after; i++)
			w->after[i] = t->after[i];
	}
	if (t->name)
		strcpy(w->name, t->name);
	else
		snprintf(w->name, sizeof(w->name), "task%u", number);
	return 0;
}

static void keep_words(struct fm_gs_task *w, const struct fm_gpu_task *t)
{
	*w = (struct fm_gs_task){
		.period = t->period_ns,
		.deadline = t->deadline_ns ? t->deadline_ns : t->period_ns,
		.phase = t->phase_ns,
		.wcet = t->wcet_ns,
		.chunks = t->n_chunks ? t->n_chunks : 1,
		.weight = t->weight ? t->weight : FM_GS_WEIGHT,
		.n_after = t->n_after,
		.priority = t->priority,
		.next = UINT64_MAX,
	};
}

int fm_gpu_task_add(struct fm_gpu_set *s, const struct fm_gpu_task *task)
{
	int rc = fm_gpu_usable(s);
	struct fm_gs *g;
	bool busy, full;

	if (!rc)
		rc = check_for_engine(s, task);
	if (rc)
		return rc;
	g = &s->host.g;
	fm_gs_host_enter(&s->host);
	pthread_mutex_lock(&s->lock);
	busy = s->state == FM_GPU_STARTED || s->state == FM_GPU_DRAINS;
	full = g->n == s->engine->tasks;
	if (!busy && !full)
		rc = keep_work(&s->work[g->n], g->n, task);
	if (!busy && !full && !rc) {
		keep_words(&g->task[g->n], task);
		rc = (int)g->n++;
	}
	pthread_mutex_unlock(&s->lock);
	fm_gpu_cpu_leave(s);
	if (busy)
		return fm_gpu_fail(
			s, -EBUSY, "the set is started; tasks come before, or after a drain");
	if (full)
		return fm_gpu_fail(s, -E2BIG, "a set has %u tasks at most with the engine \"%s\"",
			s->engine->tasks, s->engine->name);
	return rc;
}

/* --- before a start --- */

static int check_after(struct fm_gpu_set *s, uint32_t task)
{
	const struct fm_gs *g = &s->host.g;
	const struct fm_gpu_work *w = &s->work[task];

	for (uint32_t i = 0; i < g->task[task].n_after; i++)
		if (w->after[i] >= g->n)
			return fm_gpu_fail(s, -EINVAL,
				"task %u \"%s\" comes after task %u: there are %u", task, w->name,
				w->after[i], g->n);
	return 0;
}

/* Is all that a task comes after in order already? */
static bool comes_now(const struct fm_gpu_set *s, uint32_t task, const bool *in_order)
{
	for (uint32_t i = 0; i < s->host.g.task[task].n_after; i++)
		if (!in_order[s->work[task].after[i]])
			return false;
	return true;
}

static int check_circles(struct fm_gpu_set *s)
{
	bool in_order[FM_GPU_TASKS_MAX] = {false}, more = true;
	uint32_t n = s->host.g.n, i;

	while (more) {
		more = false;
		for (i = 0; i < n; i++)
			if (!in_order[i] && comes_now(s, i, in_order))
				in_order[i] = more = true;
	}
	for (i = 0; i < n && in_order[i]; i++)
		;
	return i == n ? 0
		      : fm_gpu_fail(s, -EINVAL,
				"`after' goes in a circle through, or before, task %u \"%s\": "
				"leave one out",
				i, s->work[i].name);
}

static int gather_after(struct fm_gpu_set *s)
{
	struct fm_gs *g = &s->host.g;
	uint32_t n = 0, *after;

	for (uint32_t i = 0; i < g->n; i++)
		n += g->task[i].n_after;
	after = calloc(n + 1, sizeof(*after));
	if (!after)
		return fm_gpu_fail(s, -ENOMEM, "no memory");
	n = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		g->task[i].first_after = n;
		for (uint32_t k = 0; k < g->task[i].n_after; k++)
			after[n++] = s->work[i].after[k];
	}
	free(s->after);
	s->after = g->after = after;
	return 0;
}

int fm_gpu_check_set(struct fm_gpu_set *s)
{
	const struct fm_gs *g = &s->host.g;
	int rc = 0;

	if (!g->n)
		return fm_gpu_fail(s, -EINVAL, "the set has no tasks");
	if (g->slots > g->n)
		return fm_gpu_fail(
			s, -EINVAL, "%u slots for %u tasks: at most one for each", g->slots, g->n);
	for (uint32_t i = 0; i < g->n && !rc; i++)
		rc = check_after(s, i);
	if (!rc)
		rc = check_circles(s);
	if (rc)
		return rc;
	fm_gs_host_enter(&s->host);
	rc = gather_after(s);
	fm_gpu_cpu_leave(s);
	return rc;
}

/* --- while it runs --- */

static int no_task(struct fm_gpu_set *s, unsigned task)
{
	return fm_gpu_fail(s, -EINVAL, "there is no task %u", task);
}

/* What was admitted with a deadline comes at its period, and not more often. */
static bool only_by_period(const struct fm_gpu_set *s, unsigned task)
{
	return s->admit && s->host.g.task[task].deadline;
}

static int not_by_period(struct fm_gpu_set *s, unsigned task)
{
	return fm_gpu_fail(s, -EINVAL,
		"task %u has a deadline, and is admitted: it is released by its period alone",
		task);
}

/* A task whose enqueue has failed says so, whatever its error is; other errors are the engine's. */
static int not_released(struct fm_gpu_set *s, unsigned task, int error)
{
	const char *reason;
	bool off;

	pthread_mutex_lock(&s->lock);
	off = s->work[task].error;
	reason = s->work[task].reason;
	pthread_mutex_unlock(&s->lock);
	if (!off && error == -ESHUTDOWN)
		return fm_gpu_fail(s, error, "the set is not started, or drains");
	if (!off)
		return fm_gpu_over(s, error);
	return fm_gpu_fail(s, error, "enqueue of task %u %s, and the task is off", task,
		reason ? reason : "has failed");
}

int fm_gpu_release(struct fm_gpu_set *s, unsigned task, unsigned jobs)
{
	int rc = fm_gpu_usable(s), error = 0;
	bool started, admitted;

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	started = s->state == FM_GPU_STARTED;
	rc = task >= s->host.g.n ? -EINVAL : 0;
	if (!rc)
		error = s->work[task].error;
	admitted = !rc && only_by_period(s, task);
	if (!rc && started && !error && jobs && !admitted)
		error = s->engine->ask(s, task, jobs);
	pthread_mutex_unlock(&s->lock);
	if (rc)
		return no_task(s, task);
	if (admitted)
		return not_by_period(s, task);
	if (!jobs)
		return fm_gpu_fail(s, -EINVAL, "no jobs to release");
	if (!started)
		return fm_gpu_fail(s, -ESHUTDOWN, "the set is not started, or drains");
	if (!error)
		error = s->engine->release(s, task, jobs);
	return error ? not_released(s, task, error) : 0;
}

int fm_gpu_release_word(struct fm_gpu_set *s, unsigned task, uint64_t **word)
{
	int rc = fm_gpu_usable(s);
	bool known, started, admitted, after;

	if (rc || !word)
		return rc ? rc : -EINVAL;
	if (!s->resident)
		return fm_gpu_fail(s, -EINVAL, "a word needs a set that is `resident'");
	pthread_mutex_lock(&s->lock);
	known = task < s->host.g.n;
	started = s->state == FM_GPU_STARTED;
	admitted = known && only_by_period(s, task);
	after = known && s->host.g.task[task].n_after;
	if (known && !admitted && !after && !s->engine->word)
		s->work[task].has_word = true;
	pthread_mutex_unlock(&s->lock);
	if (!known)
		return no_task(s, task);
	if (admitted)
		return not_by_period(s, task);
	if (after)
		return released_by(s, "a task that comes after others has no word");
	if (s->engine->word)
		return s->engine->word(s, task, word);
	*word = &s->work[task].word;
	fm_gs_host_enter(&s->host);
	s->host.g.task[task].word = *word;
	fm_gpu_cpu_leave(s);
	if (started)
		fm_gpu_fill(s, task);
	fm_gpu_cpu_kick(s);
	return 0;
}

static void add_stats(struct fm_gs_stats *sum, const struct fm_gs_stats *t)
{
	sum->released += t->released;
	sum->done += t->done;
	sum->missed += t->missed;
	sum->missed_stopped += t->missed_stopped;
	sum->dropped = fm_add_sat(sum->dropped, t->dropped);
	sum->overruns += t->overruns;
	sum->spare = fm_add_sat(sum->spare, t->spare);
	sum->device_ns = fm_add_sat(sum->device_ns, t->device_ns);
	sum->response_max = FM_MAX(sum->response_max, t->response_max);
	for (unsigned b = 0; b < FM_GS_BUCKETS; b++)
		sum->response[b] += t->response[b];
}

static void read_words(
	struct fm_gpu_set *s, unsigned task, struct fm_gs_stats *sum, struct fm_gpu_stats *out)
{
	struct fm_gs *g = &s->host.g;

	fm_gs_host_enter(&s->host);
	for (uint32_t i = 0; i < g->n; i++) {
		if (task == i || task == FM_GPU_SET)
			add_stats(sum, &g->task[i].stats);
	}
	out->decisions = g->decisions;
	out->decision_ns = s->host.is_virtual ? g->decisions * g->gap : g->decision_ns;
	out->decision_max_ns = s->host.is_virtual ? g->gap : g->decision_max;
	out->started = g->opened;
	out->running = g->running;
	fm_gpu_cpu_leave(s);
}

int fm_gpu_set_stats(struct fm_gpu_set *s, unsigned task, struct fm_gpu_stats *stats)
{
	struct fm_gs_stats sum = {0};
	struct fm_gpu_stats out = {.size = sizeof(out)};
	int rc = fm_gpu_usable(s);
	bool known;

	if (rc || !stats || stats->size < sizeof(*stats))
		return rc ? rc : -EINVAL;
	pthread_mutex_lock(&s->lock);
	known = task == FM_GPU_SET || task < s->host.g.n;
	for (uint32_t i = 0; i < s->host.g.n && !out.error; i++)
		if (task == i || task == FM_GPU_SET)
			out.error = s->work[i].error;
	pthread_mutex_unlock(&s->lock);
	if (!known)
		return no_task(s, task);
	rc = s->engine->read ? s->engine->read(s) : 0;
	if (rc)
		return fm_gpu_over(s, rc);
	read_words(s, task, &sum, &out);
	out.released = sum.released;
	out.done = sum.done;
	out.missed = sum.missed;
	out.missed_stopped = sum.missed_stopped;
	out.dropped = sum.dropped;
	out.overruns = sum.overruns;
	out.spare = sum.spare;
	out.device_ns = sum.device_ns;
	out.response_max_ns = sum.response_max;
	out.response_p99_ns = fm_gs_host_quantile(&sum, 99);
	out.size = stats->size;
	*stats = out;
	return 0;
}
