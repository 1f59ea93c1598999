/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata analyze FILE...`: bounds and verdicts. JSON is written here and not by the library:
 * times are exact decimals of the file's unit. */
#include "analyze.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include "json/json.h"
#include <string.h>

void json_text(FILE *f, const char *text)
{
	CLI_CLEAN_JSON json_t *s = fm_json_text(text);

	if (!s || json_dumpf(s, f, JSON_ENCODE_ANY))
		fputs("null", f);
}

void json_bound(FILE *f, const struct analysis *a, const struct fm_rta_bound *b)
{
	char time[TASKSET_TIME];

	fputs(b->verdict == FM_RTA_MEETS ? taskset_time(&a->ts, b->wcrt, time) : "null", f);
}

const char *json_meets(const struct fm_rta_bound *b)
{
	switch (b->verdict) {
	case FM_RTA_MEETS:
		return "true";
	case FM_RTA_MISSES:
		return "false";
	default:
		return "null";
	}
}

static void json_tasks(FILE *f, const struct analysis *a)
{
	char time[TASKSET_TIME];

	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		fputs(k ? ",\n   {\"name\": " : "\n   {\"name\": ", f);
		json_text(f, a->ts.name[k]);
		fputs(", \"wcrt\": ", f);
		json_bound(f, a, &a->bound[k]);
		fprintf(f, ", \"deadline\": %s, \"meets\": %s}",
			taskset_time(&a->ts, a->ts.task[k].deadline, time),
			json_meets(&a->bound[k]));
	}
}

static void json_levels(FILE *f, const struct analysis *a)
{
	fprintf(f, ",\n  \"gpu_priority\": {\"assigned\": %s, \"levels\": {",
		a->assigned ? "true" : "false");
	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		fputs(k ? ", " : "", f);
		json_text(f, a->ts.name[k]);
		fprintf(f, ": %u", a->level[k]);
	}
	fputs("}}", f);
}

static void json_one(FILE *f, const struct analysis *a)
{
	fprintf(f, " {\"method\": \"%s\", \"schedulable\": %s,\n  \"tasks\": [",
		fm_rta_method_name(a->method), a->schedulable ? "true" : "false");
	json_tasks(f, a);
	fputc(']', f);
	if (a->level)
		json_levels(f, a);
	fputs("}", f);
}

static void json_one_gedf(FILE *f, const struct analysis *a)
{
	fprintf(f, " {\"method\": \"gedf\", \"schedulable\": %s, \"tests\": {",
		a->schedulable ? "true" : "false");
	for (unsigned t = 0; t < FM_GEDF_TESTS; t++)
		fprintf(f, "%s\"%s\": %s", t ? ", " : "", fm_gedf_test_name((enum fm_gedf_test)t),
			a->passes[t] ? "true" : "false");
	fputs("}}", f);
}

/* One file: an object; several: an array. */
static int json_all(
	const struct analysis *a, size_t n, void (*one)(FILE *, const struct analysis *))
{
	fputs(n > 1 ? "[\n" : "", stdout);
	for (size_t k = 0; k < n; k++) {
		one(stdout, &a[k]);
		fputs(k + 1 < n ? ",\n" : "\n", stdout);
	}
	fputs(n > 1 ? "]\n" : "", stdout);
	return CLI_OK;
}

static void csv_row(const struct analysis *a, size_t k)
{
	const struct fm_rta_bound *b = &a->bound[k];
	char method[ANALYSIS_METHOD], limit[TASKSET_TIME], wcrt[TASKSET_TIME], slack[TASKSET_TIME];
	int64_t deadline = a->ts.task[k].deadline;
	bool meets = b->verdict == FM_RTA_MEETS;

	csv_text(stdout, a->file);
	printf(",%s,", analysis_method(a, method));
	csv_text(stdout, a->ts.name[k]);
	printf(",%s,%s,%s,%s,%s,", a->ts.unit, taskset_time(&a->ts, deadline, limit),
		meets ? taskset_time(&a->ts, b->wcrt, wcrt) : "",
		meets ? taskset_time(&a->ts, deadline - b->wcrt, slack) : "",
		meets || b->verdict == FM_RTA_MISSES ? json_meets(b) : "");
	if (a->level)
		printf("%u", a->level[k]);
	putchar('\n');
}

static int csv_all(const struct analysis *a, size_t n)
{
	puts("file,method,task,unit,deadline,wcrt,slack,meets,gpu_priority");
	for (size_t k = 0; k < n; k++)
		for (size_t t = 0; t < a[k].ts.set.tasks; t++)
			csv_row(&a[k], t);
	return CLI_OK;
}

static void add_verdict(struct table *t, const struct analysis *a, size_t k)
{
	const struct fm_rta_bound *b = &a->bound[k];
	char time[TASKSET_TIME];

	switch (b->verdict) {
	case FM_RTA_MEETS:
		table_add(t, "%s", taskset_time(&a->ts, b->wcrt, time));
		table_add(t, "%s", taskset_time(&a->ts, a->ts.task[k].deadline - b->wcrt, time));
		table_add(t, "yes");
		return;
	case FM_RTA_MISSES:
		table_add(t, "> %s", taskset_time(&a->ts, a->ts.task[k].deadline, time));
		table_add(t, "-");
		table_add(t, "NO");
		return;
	default:
		table_add(t, "-");
		table_add(t, "-");
		table_add(t, "%s",
			a->ts.task[k].priority == FM_RTA_BEST_EFFORT ? "best effort"
			: b->verdict == FM_RTA_GAVE_UP               ? "not known"
								     : "not evaluated");
	}
}

static int table_tasks(const struct analysis *a)
{
	static const struct table_column columns[] = {
		{"TASK", false, true},
		{"PRIO", true, false},
		{"CPU", true, false},
		{"DEADLINE", true, false},
		{"BOUND", true, false},
		{"SLACK", true, false},
		{"MEETS", false, false},
		{"GPU PRIO", true, false},
	};
	TABLE_CLEAN struct table t;
	char time[TASKSET_TIME];

	table_init(&t, columns, FM_ARRAY_LEN(columns) - !a->level);
	for (size_t k = 0; k < a->ts.set.tasks; k++) {
		const struct fm_rta_task *task = &a->ts.task[k];

		table_add(&t, "%s", a->ts.name[k]);
		table_add(&t, "%lld", (long long)task->priority);
		table_add(&t, "%lld", (long long)task->cpu);
		table_add(&t, "%s", taskset_time(&a->ts, task->deadline, time));
		add_verdict(&t, a, k);
		if (a->level)
			table_add(&t, a->level[k] ? "%u" : "-", a->level[k]);
	}
	return table_print(&t);
}

static void print_levels(const struct analysis *a)
{
	if (!a->level)
		return;
	if (!a->assigned)
		puts("GPU priorities: no assignment passes");
	else if (a->base)
		puts("GPU priorities: not needed; those of the last column pass as well");
	else
		puts("GPU priorities: needed; the bounds are for those of the last column");
}

static int table_one(const struct analysis *a)
{
	char why[ANALYSIS_WHY], file[160];
	size_t failing = analysis_failing(a);

	snprintf(file, sizeof(file), "%s", a->file);
	table_clean(file);
	printf("%s: %s: %s (times in %s)\n", file, fm_rta_method_name(a->method),
		a->schedulable ? "schedulable" : "NOT schedulable", a->ts.unit);
	if (table_tasks(a))
		return CLI_FAILED;
	if (failing != FM_RTA_NONE) {
		analysis_why(a, failing, why);
		table_clean(why);
		printf("%s\n", why);
	}
	print_levels(a);
	return CLI_OK;
}

int analyze_show(const struct analysis *a, size_t n, enum analyze_format format)
{
	int rc = CLI_OK;

	if (format == FORMAT_JSON)
		return json_all(a, n, json_one);
	if (format == FORMAT_CSV)
		return csv_all(a, n);
	for (size_t k = 0; rc == CLI_OK && k < n; k++) {
		if (k)
			putchar('\n');
		rc = table_one(&a[k]);
	}
	return rc;
}

static int table_gedf(const struct analysis *a, size_t n)
{
	static const struct table_column columns[] = {
		{"FILE", false, true},
		{"SCHEDULABLE", false, false},
		{"BAK", false, false},
		{"GFB", false, false},
		{"RTA", false, false},
		{"BAR", false, false},
	};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t k = 0; k < n; k++) {
		table_add(&t, "%s", a[k].file);
		table_add(&t, "%s", a[k].schedulable ? "yes" : "NO");
		for (int test = 0; test < FM_GEDF_TESTS; test++)
			table_add(&t, "%s", a[k].passes[test] ? "yes" : "no");
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static int csv_gedf(const struct analysis *a, size_t n)
{
	puts("file,method,test,passes");
	for (size_t k = 0; k < n; k++) {
		for (unsigned t = 0; t < FM_GEDF_TESTS; t++) {
			csv_text(stdout, a[k].file);
			printf(",gedf,%s,%s\n", fm_gedf_test_name((enum fm_gedf_test)t),
				a[k].passes[t] ? "true" : "false");
		}
	}
	return CLI_OK;
}

int analyze_show_gedf(const struct analysis *a, size_t n, enum analyze_format format)
{
	if (format == FORMAT_JSON)
		return json_all(a, n, json_one_gedf);
	return format == FORMAT_CSV ? csv_gedf(a, n) : table_gedf(a, n);
}
