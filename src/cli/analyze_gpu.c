/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata analyze --method gedf --gpu`: a set of tasks that schedules itself on a device, charged
 * with what the platform file says of its engine. */
#include "analyze.h"
#include "base/util.h"
#include "cmd/table.h"
#include <errno.h>
#include <string.h>

#define MAKE_ONE "`fermata calibrate --gpu-sched"

/* The engine that was asked for, or the last one that was measured: those on the device come last.
 */
static int find_engine(struct analysis *a, const char *name, struct fm_err *err)
{
	const struct fm_platform *p = a->platform;
	unsigned k = FM_PLATFORM_ENGINES;

	if (name)
		fm_platform_engine_find(name, &a->engine);
	while (!name && k && !p->engine[k - 1].rows)
		k--;
	if (!name && k)
		a->engine = (enum fm_platform_engine_id)(k - 1);
	if (name ? p->engine[a->engine].rows : k)
		return 0;
	if (name && p->engine[a->engine].skipped[0]) {
		fm_err_set(err, -EINVAL, "the engine %s was not measured: %.100s", name,
			p->engine[a->engine].skipped);
		return fm_err_hint(err, "--engine takes another, or measure where it is there");
	}
	if (!p->has_sets)
		fm_err_set(err, -EINVAL, "the platform file has no part gpu_sched");
	else
		fm_err_set(err, -EINVAL, "the platform file has no numbers of %s%s",
			name ? "the engine " : "any engine", name ? name : "");
	return fm_err_hint(err, MAKE_ONE " --update FILE' adds them to it");
}

static int find_costs(struct analysis *a, const char *engine, struct fm_err *err)
{
	size_t n = a->ts.set.tasks;
	const struct fm_platform_row *row;
	int rc = find_engine(a, engine, err);

	if (rc)
		return rc;
	row = fm_platform_row(&a->platform->engine[a->engine], n);
	if (!row) {
		fm_err_set(err, -EINVAL,
			"%.120s: has %zu tasks, and the platform file no numbers of %s for so many",
			a->file, n, fm_platform_engine_name(a->engine));
		if (n > FM_PLATFORM_TASKS_MAX)
			return fm_err_hint(
				err, "a set has %d tasks at most", FM_PLATFORM_TASKS_MAX);
		return fm_err_hint(err, MAKE_ONE " --tasks %zu --update FILE' measures them", n);
	}
	a->measured = row->tasks;
	a->costs.decision = row->decision;
	a->costs.start = row->start;
	return 0;
}

int analysis_gpu(struct analysis *a, uint32_t slots, const char *engine, struct fm_err *err)
{
	int rc = find_costs(a, engine, err);

	if (rc)
		return rc;
	a->costs.slots = slots ? slots : a->ts.slots;
	if (!a->costs.slots) {
		fm_err_set(err, -EINVAL, "%.120s: does not say how many slots there are", a->file);
		return fm_err_hint(err, "give --slots");
	}
	a->charge = calloc(a->ts.set.tasks + 1, sizeof(*a->charge));
	rc = a->charge ? fm_gedf_gpu_analyze(
				 a->ts.gpu, a->ts.set.tasks, &a->costs, a->charge, &a->schedulable)
		       : -ENOMEM;
	if (rc == -EOVERFLOW)
		return fm_err_set(err, -EINVAL,
			"%.120s: tasks: overflow: times do not fit 64 bits of nanoseconds",
			a->file);
	return rc ? fm_err_set(err, rc, "out of memory") : 0;
}

static const char *verdict(const struct analysis *a, size_t k)
{
	return !a->ts.gpu[k].deadline ? "-" : a->charge[k].meets ? "yes" : "NO";
}

static void json_task(FILE *f, const struct analysis *a, size_t k)
{
	const struct fm_gedf_gpu_charge *c = &a->charge[k];
	const struct fm_gedf_gpu_task *t = &a->ts.gpu[k];
	char time[5][TASKSET_TIME];

	fputs(k ? ",\n   {\"name\": " : "\n   {\"name\": ", f);
	json_text(f, a->ts.name[k]);
	fprintf(f, ", \"deadline\": %s, \"gpu_time\": %s, \"decisions\": %lld, ",
		t->deadline ? taskset_time(&a->ts, t->deadline, time[0]) : "null",
		taskset_time(&a->ts, t->time, time[1]), (long long)c->decisions);
	fprintf(f, "\"overhead\": %s, \"blocking\": %s, \"blocker\": ",
		taskset_time(&a->ts, c->overhead, time[2]),
		taskset_time(&a->ts, c->blocking, time[3]));
	if (c->blocker == FM_RTA_NONE)
		fputs("null", f);
	else
		json_text(f, a->ts.name[c->blocker]);
	fprintf(f, ", \"cost\": %s, \"load\": %.6f, \"meets\": %s}",
		taskset_time(&a->ts, c->cost, time[4]), (double)c->load / FM_RTA_ONE,
		!t->deadline ? "null"
		: c->meets   ? "true"
			     : "false");
}

static void json_set(const struct analysis *a)
{
	char time[2][TASKSET_TIME];

	printf(" {\"method\": \"gedf\", \"schedulable\": %s, \"slots\": %u, \"engine\": \"%s\",\n",
		a->schedulable ? "true" : "false", a->costs.slots,
		fm_platform_engine_name(a->engine));
	printf("  \"charged\": {\"decision\": %s, \"start\": %s, \"measured_tasks\": %lld},\n"
	       "  \"tasks\": [",
		taskset_time(&a->ts, a->costs.decision, time[0]),
		taskset_time(&a->ts, a->costs.start, time[1]), (long long)a->measured);
	for (size_t k = 0; k < a->ts.set.tasks; k++)
		json_task(stdout, a, k);
	fputs("]}", stdout);
}

static void csv_set(const struct analysis *a)
{
	char time[5][TASKSET_TIME];

	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		const struct fm_gedf_gpu_charge *c = &a->charge[k];
		const struct fm_gedf_gpu_task *t = &a->ts.gpu[k];

		csv_text(stdout, a->file);
		printf(",gedf,%s,%u,", fm_platform_engine_name(a->engine), a->costs.slots);
		csv_text(stdout, a->ts.name[k]);
		printf(",%s,%s,%s,%lld,%s,%s,%s,%.6f,%s\n", a->ts.unit,
			t->deadline ? taskset_time(&a->ts, t->deadline, time[0]) : "",
			taskset_time(&a->ts, t->time, time[1]), (long long)c->decisions,
			taskset_time(&a->ts, c->overhead, time[2]),
			taskset_time(&a->ts, c->blocking, time[3]),
			taskset_time(&a->ts, c->cost, time[4]), (double)c->load / FM_RTA_ONE,
			!t->deadline ? ""
			: c->meets   ? "true"
				     : "false");
	}
}

static int table_tasks(const struct analysis *a)
{
	static const struct table_column columns[] = {
		{"TASK", false, true},
		{"DEADLINE", true, false},
		{"GPU TIME", true, false},
		{"DECISIONS", true, false},
		{"OVERHEAD", true, false},
		{"BLOCKING", true, false},
		{"BY", false, true},
		{"LOAD", true, false},
		{"MEETS", false, false},
	};
	TABLE_CLEAN struct table t;
	char time[TASKSET_TIME];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		const struct fm_gedf_gpu_charge *c = &a->charge[k];
		int64_t deadline = a->ts.gpu[k].deadline;

		table_add(&t, "%s", a->ts.name[k]);
		table_add(&t, "%s", deadline ? taskset_time(&a->ts, deadline, time) : "-");
		table_add(&t, "%s", taskset_time(&a->ts, a->ts.gpu[k].time, time));
		table_add(&t, "%lld", (long long)c->decisions);
		table_add(&t, "%s", taskset_time(&a->ts, c->overhead, time));
		table_add(&t, "%s", taskset_time(&a->ts, c->blocking, time));
		table_add(&t, "%s", c->blocker == FM_RTA_NONE ? "-" : a->ts.name[c->blocker]);
		if (deadline)
			table_add(&t, "%.1f%%", 100.0 * (double)c->load / FM_RTA_ONE);
		else
			table_add(&t, "-");
		table_add(&t, "%s", verdict(a, k));
	}
	return table_print(&t);
}

/* The tasks that would miss, on one slot; of several the set as a whole. */
static void tell_missing(const struct analysis *a)
{
	const char *between = "not shown to meet: ";
	char name[TASKSET_SHORT];

	if (a->schedulable)
		return;
	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		if (a->charge[k].meets)
			continue;
		taskset_short(&a->ts, k, name);
		table_clean(name);
		printf("%s%s", between, name);
		between = ", ";
	}
	printf("%s\n",
		a->costs.slots > 1 ? " (on several slots the set passes as a whole, or not)" : "");
}

static int table_set(const struct analysis *a)
{
	char file[160], time[2][TASKSET_TIME];
	int64_t start = FM_MAX(a->costs.start, a->costs.decision);

	snprintf(file, sizeof(file), "%s", a->file);
	table_clean(file);
	printf("%s: gedf on %u slot%s of the engine %s: %s (times in %s)\n", file, a->costs.slots,
		a->costs.slots > 1 ? "s" : "", fm_platform_engine_name(a->engine),
		a->schedulable ? "schedulable" : "NOT schedulable", a->ts.unit);
	printf("charged: two decisions a chunk, of %s, the first of a job a start, of %s, and one "
	       "chunk of a later\ndeadline; as measured with %lld tasks\n",
		taskset_time(&a->ts, a->costs.decision, time[0]),
		taskset_time(&a->ts, start, time[1]), (long long)a->measured);
	if (table_tasks(a))
		return CLI_FAILED;
	tell_missing(a);
	return CLI_OK;
}

int analyze_show_gpu(const struct analysis *a, size_t n, enum analyze_format format)
{
	int rc = CLI_OK;

	if (format == FORMAT_CSV)
		puts("file,method,engine,slots,task,unit,deadline,gpu_time,decisions,overhead,"
		     "blocking,cost,load,meets");
	if (format == FORMAT_JSON && n > 1)
		puts("[");
	for (size_t k = 0; rc == CLI_OK && k < n; k++) {
		if (format == FORMAT_JSON) {
			json_set(&a[k]);
			puts(k + 1 < n ? "," : n > 1 ? "\n]" : "");
		} else if (format == FORMAT_CSV) {
			csv_set(&a[k]);
		} else {
			if (k)
				putchar('\n');
			rc = table_set(&a[k]);
		}
	}
	return rc;
}
