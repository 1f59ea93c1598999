/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata analyze explain`: a bound in its terms. */
#include "analyze.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include <errno.h>
#include <string.h>

static const char *whose(const struct analysis *a, const struct fm_rta_term *t)
{
	return t->task == FM_RTA_NONE ? "" : a->ts.name[t->task];
}

static void as_json(const struct analysis *a, size_t task, const struct fm_rta_term *term, int n)
{
	char time[TASKSET_TIME], each[TASKSET_TIME], method[ANALYSIS_METHOD];
	const struct fm_rta_bound *b = &a->bound[task];

	printf("{\"method\": \"%s\", \"task\": ", analysis_method(a, method));
	json_text(stdout, a->ts.name[task]);
	printf(", \"deadline\": %s, \"wcrt\": ",
		taskset_time(&a->ts, a->ts.task[task].deadline, time));
	json_bound(stdout, a, b);
	printf(", \"at_least\": %s, \"meets\": %s,\n \"terms\": [",
		b->verdict == FM_RTA_SKIPPED ? "null" : taskset_time(&a->ts, b->wcrt, time),
		json_meets(b));
	for (int k = 0; k < n; k++) {
		printf("%s\n  {\"kind\": \"%s\", \"task\": ", k ? "," : "",
			fm_rta_kind_name(term[k].kind));
		if (term[k].task == FM_RTA_NONE)
			fputs("null", stdout);
		else
			json_text(stdout, whose(a, &term[k]));
		printf(", \"count\": %lld, \"each\": %s, \"total\": %s}", (long long)term[k].count,
			taskset_time(&a->ts, term[k].each, each),
			taskset_time(&a->ts, term[k].total, time));
	}
	puts("]}");
}

static void as_csv(const struct analysis *a, size_t task, const struct fm_rta_term *term, int n)
{
	char time[TASKSET_TIME], each[TASKSET_TIME], method[ANALYSIS_METHOD];

	puts("method,task,kind,of,count,unit,each,total");
	for (int k = 0; k < n; k++) {
		printf("%s,", analysis_method(a, method));
		csv_text(stdout, a->ts.name[task]);
		printf(",%s,", fm_rta_kind_name(term[k].kind));
		csv_text(stdout, whose(a, &term[k]));
		printf(",%lld,%s,%s,%s\n", (long long)term[k].count, a->ts.unit,
			taskset_time(&a->ts, term[k].each, each),
			taskset_time(&a->ts, term[k].total, time));
	}
}

static void headline(const struct analysis *a, size_t task)
{
	const struct fm_rta_bound *b = &a->bound[task];
	char time[TASKSET_TIME], limit[TASKSET_TIME], text[ANALYSIS_WHY], method[ANALYSIS_METHOD],
		name[TASKSET_SHORT];
	const struct taskset *ts = &a->ts;

	if (b->verdict == FM_RTA_MEETS)
		snprintf(text, sizeof(text), "%s: at most %s %s by %s; the deadline is %s",
			taskset_short(ts, task, name), taskset_time(ts, b->wcrt, time), ts->unit,
			analysis_method(a, method),
			taskset_time(ts, ts->task[task].deadline, limit));
	else
		analysis_why(a, task, text);
	table_clean(text);
	puts(text);
}

static int as_table(const struct analysis *a, size_t task, const struct fm_rta_term *term, int n)
{
	static const struct table_column columns[] = {
		{"WHAT", false, true},
		{"COUNT", true, false},
		{"EACH", true, false},
		{"TOTAL", true, false},
		{"SHARE", true, false},
	};
	const struct fm_rta_bound *b = &a->bound[task];
	TABLE_CLEAN struct table t;
	char time[TASKSET_TIME];

	headline(a, task);
	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (int k = 0; k < n; k++) {
		table_add(&t, "%s%s%s", fm_rta_kind_text(term[k].kind),
			term[k].task == FM_RTA_NONE ? "" : " ", whose(a, &term[k]));
		table_add(&t, "%lld", (long long)term[k].count);
		table_add(&t, "%s", taskset_time(&a->ts, term[k].each, time));
		table_add(&t, "%s", taskset_time(&a->ts, term[k].total, time));
		table_add(&t, "%.1f%%", 100.0 * (double)term[k].total / (double)b->wcrt);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

/* Why there is nothing to explain. */
static void nothing(const struct analysis *a, size_t task)
{
	size_t failing = analysis_failing(a);
	char text[ANALYSIS_WHY], name[TASKSET_SHORT], other[TASKSET_SHORT] = "?";

	taskset_short(&a->ts, task, name);
	if (failing != FM_RTA_NONE)
		taskset_short(&a->ts, failing, other);
	if (a->ts.task[task].priority == FM_RTA_BEST_EFFORT)
		snprintf(text, sizeof(text), "%s is best effort, and has no bound", name);
	else
		snprintf(text, sizeof(text),
			"%s has not been evaluated: %s, before it, does not meet its deadline",
			name, other);
	table_clean(text);
	fprintf(stderr, "fermata: %s\n", text);
}

static size_t find_task(const struct analysis *a, const char *name)
{
	for (size_t k = 0; k < a->ts.set.tasks; k++)
		if (!strcmp(a->ts.name[k], name))
			return k;
	return FM_RTA_NONE;
}

int analyze_explain(const struct analysis *a, const char *name, enum analyze_format format)
{
	FM_CLEAN_FREE struct fm_rta_term *term = NULL;
	size_t task = find_task(a, name);
	struct fm_err err = {0};
	int n;

	if (task == FM_RTA_NONE) {
		fm_err_set(&err, -EINVAL, "%.120s: has no task '%.60s'", a->file, name);
		return cli_report(&err);
	}
	n = analysis_terms(a, task, &term);
	if (n == -ENOENT)
		nothing(a, task);
	else if (n < 0)
		return CLI_FAILED;
	if (format == FORMAT_JSON)
		as_json(a, task, term, n);
	else if (format == FORMAT_CSV)
		as_csv(a, task, term, n);
	else if (n >= 0)
		return as_table(a, task, term, n);
	return CLI_OK;
}
