/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <string.h>

static int out_of_memory(struct fm_err *err)
{
	return fm_err_set(err, -ENOMEM, "out of memory");
}

static int refuse(const struct analysis *a, const struct fm_rta_fault *f, struct fm_err *err)
{
	char path[80] = "";

	if (f->task != FM_RTA_NONE && f->segment != FM_RTA_NONE)
		snprintf(path, sizeof(path), "tasks[%zu].segments[%zu].", f->task, f->segment);
	else if (f->task != FM_RTA_NONE)
		snprintf(path, sizeof(path), "tasks[%zu].", f->task);
	fm_err_set(err, -EINVAL, "%.120s: %s%s: %s", a->file, path, f->field, f->reason);
	fm_err_hint(err, "fermata-analyze(1) describes the file");
	return -EINVAL;
}

static int prepare(struct analysis *a, struct fm_err *err)
{
	struct fm_rta_fault fault;
	int rc = fm_rta_new(&a->rta, &a->ts.set, &fault);

	if (rc == -ENOMEM)
		return out_of_memory(err);
	if (rc)
		return refuse(a, &fault, err);
	a->bound = calloc(a->ts.set.tasks + 1, sizeof(*a->bound));
	return a->bound ? 0 : out_of_memory(err);
}

/* A bound has to hold, so the larger of two numbers for the same thing counts, as in the daemon. */
static void take_larger(const struct analysis *a, const char *name, int64_t *said, int64_t measured)
{
	char by_file[TASKSET_TIME], by_platform[TASKSET_TIME];

	if (measured == FM_PLATFORM_UNSET || *said == measured)
		return;
	if (*said != FM_RTA_UNSET)
		fprintf(stderr,
			"fermata: %.120s: %s: %s %s there, and %s %s in the platform file: the "
			"larger one is used\n",
			a->file, name, taskset_time(&a->ts, *said, by_file), a->ts.unit,
			taskset_time(&a->ts, measured, by_platform), a->ts.unit);
	*said = FM_MAX(*said, measured);
}

static void add_platform(struct analysis *a, const struct fm_platform *p)
{
	take_larger(a, "epsilon", &a->ts.set.epsilon, p->epsilon);
	take_larger(a, "slice", &a->ts.set.slice, p->slice);
	take_larger(a, "theta", &a->ts.set.theta, p->theta);
}

int analysis_load(struct analysis *a, const char *file, enum taskset_use use,
	const struct fm_platform *platform, struct fm_err *err)
{
	int rc = taskset_load(&a->ts, file, use, err);

	a->file = file;
	a->platform = platform;
	if (rc)
		return rc;
	if (platform && use == TASKSET_RTA)
		add_platform(a, platform);
	taskset_tell_unknown(&a->ts, file);
	return use == TASKSET_RTA ? prepare(a, err) : 0;
}

static int too_large(const struct analysis *a, struct fm_err *err)
{
	size_t k = 0;

	while (k + 1 < a->ts.set.tasks && a->bound[k].verdict != FM_RTA_OVERFLOW)
		k++;
	fm_err_set(err, -EINVAL,
		"%.120s: tasks[%zu]: overflow: its bound by %s does not fit 64 bits of nanoseconds",
		a->file, k, fm_rta_method_name(a->method));
	fm_err_hint(err, "are the times in the unit that the file names?");
	return -EINVAL;
}

static int try_gpu_priorities(struct analysis *a, struct fm_err *err)
{
	size_t n = a->ts.set.tasks;
	FM_CLEAN_FREE struct fm_rta_bound *bound = calloc(n + 1, sizeof(*bound));

	a->level = calloc(n + 1, sizeof(*a->level));
	if (!bound || !a->level ||
		fm_rta_gpu_priorities(a->rta, a->method, a->level, bound, &a->assigned))
		return out_of_memory(err);
	a->schedulable = a->base || a->assigned;
	a->by_level = a->assigned && !a->base;
	if (a->by_level && n)
		memcpy(a->bound, bound, n * sizeof(*bound));
	return 0;
}

int analysis_run(
	struct analysis *a, enum fm_rta_method method, bool gpu_priority, struct fm_err *err)
{
	const char *lacks = fm_rta_method_lacks(a->rta, method);
	int rc;

	a->method = method;
	a->by_level = a->assigned = false;
	free(a->level);
	a->level = NULL;
	if (lacks) {
		fm_err_set(err, -EINVAL, "%.120s: %s: is missing%s, and %s needs it", a->file,
			lacks, a->platform ? ", in the platform file, too" : "",
			fm_rta_method_name(method));
		fm_err_hint(err,
			a->platform ? "it was not measured on that device: give it in the file of "
				      "tasks"
				    : "fermata-analyze(1) describes the file; `fermata calibrate' "
				      "measures it for --platform");
		return -EINVAL;
	}
	rc = fm_rta_analyze(a->rta, method, a->bound, &a->base);
	if (rc)
		return rc == -EOVERFLOW ? too_large(a, err) : out_of_memory(err);
	a->schedulable = a->base;
	return gpu_priority ? try_gpu_priorities(a, err) : 0;
}

int analysis_gedf(struct analysis *a, uint32_t cpus, enum fm_gedf_charge charge, struct fm_err *err)
{
	size_t n = a->ts.set.tasks;
	FM_CLEAN_FREE struct fm_gedf_task *task = calloc(n + 1, sizeof(*task));
	int rc;

	if (!task)
		return out_of_memory(err);
	for (size_t k = 0; k < n; k++)
		task[k] = (struct fm_gedf_task){a->ts.task[k].cpu_time, a->ts.task[k].period};
	rc = fm_gedf_analyze(task, n, cpus, charge, a->passes);
	if (rc == -EOVERFLOW)
		return fm_err_set(err, -EINVAL,
			"%.120s: tasks: overflow: times do not fit 64 bits of nanoseconds",
			a->file);
	if (rc)
		return out_of_memory(err);
	a->schedulable = false;
	for (int t = 0; t < FM_GEDF_TESTS; t++)
		a->schedulable |= a->passes[t];
	return 0;
}

void analysis_free(struct analysis *a)
{
	taskset_free(&a->ts);
	fm_rta_free(a->rta);
	free(a->bound);
	free(a->level);
	free(a->charge);
	*a = (struct analysis){0};
}

const char *analysis_method(const struct analysis *a, char buf[ANALYSIS_METHOD])
{
	snprintf(buf, ANALYSIS_METHOD, "%s%s", fm_rta_method_name(a->method),
		a->level ? "+gpu-priority" : "");
	return buf;
}

size_t analysis_failing(const struct analysis *a)
{
	for (size_t k = 0; k < a->ts.set.tasks; k++)
		if (a->bound[k].verdict != FM_RTA_SKIPPED && a->bound[k].verdict != FM_RTA_MEETS)
			return k;
	return FM_RTA_NONE;
}

static int largest_first(const void *a, const void *b)
{
	const struct fm_rta_term *x = a, *y = b;

	return x->total < y->total ? 1 : x->total > y->total ? -1 : 0;
}

int analysis_terms(const struct analysis *a, size_t task, struct fm_rta_term **term)
{
	const uint32_t *level = a->by_level ? a->level : NULL;
	int n = fm_rta_explain(a->rta, a->method, a->bound, level, task, NULL, 0);

	*term = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(**term));
	if (n < 0 || !*term)
		return n < 0 ? n : -ENOMEM;
	n = fm_rta_explain(a->rta, a->method, a->bound, level, task, *term, (size_t)n);
	if (n > 0)
		qsort(*term, (size_t)n, sizeof(**term), largest_first);
	return n;
}

static bool own_work(const struct fm_rta_term *t)
{
	return t->kind == FM_RTA_OWN_CPU || t->kind == FM_RTA_OWN_GPU;
}

/* The largest term: of those that other tasks cause, or, if the task's own work alone is too long,
 * of its own. */
static const struct fm_rta_term *dominant(const struct fm_rta_term *term, int n, int64_t deadline)
{
	int64_t own = 0;

	for (int k = 0; k < n; k++)
		own += own_work(&term[k]) ? term[k].total : 0;
	for (int k = 0; k < n; k++)
		if (own_work(&term[k]) == (own > deadline))
			return &term[k];
	return n > 0 ? &term[0] : NULL;
}

void analysis_why(const struct analysis *a, size_t task, char why[ANALYSIS_WHY])
{
	const struct fm_rta_bound *b = &a->bound[task];
	int64_t deadline = a->ts.task[task].deadline;
	char at_least[TASKSET_TIME], limit[TASKSET_TIME], total[TASKSET_TIME], each[TASKSET_TIME];
	FM_CLEAN_FREE struct fm_rta_term *term = NULL;
	char name[TASKSET_SHORT], other[TASKSET_SHORT];
	const struct taskset *ts = &a->ts;
	const struct fm_rta_term *most;
	int n = analysis_terms(a, task, &term);

	taskset_short(ts, task, name);
	most = dominant(term, n, deadline);
	if (b->verdict == FM_RTA_GAVE_UP) {
		snprintf(why, ANALYSIS_WHY, "%s: no bound was found within the limit of steps",
			name);
	} else if (!most) {
		snprintf(why, ANALYSIS_WHY, "%s misses %s %s", name,
			taskset_time(ts, deadline, limit), ts->unit);
	} else {
		snprintf(why, ANALYSIS_WHY,
			"%s takes %s %s or more, which is beyond %s; %s of it: %s%s%s "
			"(%lld x %s)",
			name, taskset_time(ts, b->wcrt, at_least), ts->unit,
			taskset_time(ts, deadline, limit), taskset_time(ts, most->total, total),
			fm_rta_kind_text(most->kind), most->task == FM_RTA_NONE ? "" : " ",
			most->task == FM_RTA_NONE ? "" : taskset_short(ts, most->task, other),
			(long long)most->count, taskset_time(ts, most->each, each));
	}
}
