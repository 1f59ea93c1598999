/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata analyze compare`: all methods side by side. */
#include "analyze.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include <errno.h>
#include <string.h>

#define WAYS (FM_RTA_METHODS + 2)

/* A method's result. Methods for which the file does not say enough lack something. */
struct way {
	char method[ANALYSIS_METHOD];
	const char *lacks;
	bool schedulable;
	struct fm_rta_bound *bound;
	char why[ANALYSIS_WHY]; /* empty: schedulable */
};

struct comparison {
	struct analysis *a;
	size_t ways;
	struct way way[WAYS];
};

static void comparison_free(struct comparison *c)
{
	for (size_t k = 0; k < c->ways; k++)
		free(c->way[k].bound);
}

static int add_way(
	struct comparison *c, enum fm_rta_method method, bool gpu_priority, struct fm_err *err)
{
	struct analysis *a = c->a;
	struct way *w = &c->way[c->ways++];
	size_t n = a->ts.set.tasks, failing;
	int rc;

	snprintf(w->method, sizeof(w->method), "%s%s", fm_rta_method_name(method),
		gpu_priority ? "+gpu-priority" : "");
	w->lacks = fm_rta_method_lacks(a->rta, method);
	w->bound = calloc(n + 1, sizeof(*w->bound));
	if (!w->bound)
		return fm_err_set(err, -ENOMEM, "out of memory");
	if (w->lacks) {
		snprintf(w->why, sizeof(w->why), "the file does not say %s", w->lacks);
		return 0;
	}
	rc = analysis_run(a, method, gpu_priority, err);
	if (rc)
		return rc;
	memcpy(w->bound, a->bound, n * sizeof(*w->bound));
	w->schedulable = a->schedulable;
	failing = analysis_failing(a);
	if (failing != FM_RTA_NONE)
		analysis_why(a, failing, w->why);
	return 0;
}

static int add_ways(struct comparison *c, struct fm_err *err)
{
	int rc = 0;

	for (unsigned m = 0; !rc && m < FM_RTA_METHODS; m++) {
		rc = add_way(c, (enum fm_rta_method)m, false, err);
		if (!rc && fm_rta_method_gpu_priority((enum fm_rta_method)m))
			rc = add_way(c, (enum fm_rta_method)m, true, err);
	}
	return rc;
}

static void json_way(const struct comparison *c, const struct way *w)
{
	const struct taskset *ts = &c->a->ts;
	char time[TASKSET_TIME];

	printf("  {\"method\": \"%s\", \"schedulable\": %s,\n   \"tasks\": [", w->method,
		w->lacks         ? "null"
		: w->schedulable ? "true"
				 : "false");
	for (size_t k = 0; k < ts->set.tasks; k++) {
		const struct fm_rta_bound *b = &w->bound[k];
		int64_t deadline = ts->task[k].deadline;

		fputs(k ? ",\n    {\"name\": " : "\n    {\"name\": ", stdout);
		json_text(stdout, ts->name[k]);
		fputs(", \"wcrt\": ", stdout);
		json_bound(stdout, c->a, b);
		printf(", \"deadline\": %s", taskset_time(ts, deadline, time));
		printf(", \"slack\": %s, \"meets\": %s}",
			b->verdict == FM_RTA_MEETS ? taskset_time(ts, deadline - b->wcrt, time)
						   : "null",
			json_meets(b));
	}
	fputs("],\n   \"why\": ", stdout);
	if (w->why[0])
		json_text(stdout, w->why);
	else
		fputs("null", stdout);
	putchar('}');
}

static void as_json(const struct comparison *c)
{
	printf("{\"unit\": \"%s\", \"methods\": [\n", c->a->ts.unit);
	for (size_t k = 0; k < c->ways; k++) {
		json_way(c, &c->way[k]);
		puts(k + 1 < c->ways ? "," : "");
	}
	puts("]}");
}

static void as_csv(const struct comparison *c)
{
	const struct taskset *ts = &c->a->ts;
	char time[TASKSET_TIME], slack[TASKSET_TIME], limit[TASKSET_TIME];

	puts("method,task,unit,deadline,wcrt,slack,meets,why");
	for (size_t w = 0; w < c->ways; w++) {
		for (size_t k = 0; k < ts->set.tasks; k++) {
			const struct fm_rta_bound *b = &c->way[w].bound[k];
			int64_t deadline = ts->task[k].deadline;
			bool meets = b->verdict == FM_RTA_MEETS;

			printf("%s,", c->way[w].method);
			csv_text(stdout, ts->name[k]);
			printf(",%s,%s,%s,%s,%s,", ts->unit, taskset_time(ts, deadline, limit),
				meets ? taskset_time(ts, b->wcrt, time) : "",
				meets ? taskset_time(ts, deadline - b->wcrt, slack) : "",
				meets || b->verdict == FM_RTA_MISSES ? json_meets(b) : "");
			if (b->verdict == FM_RTA_MISSES || b->verdict == FM_RTA_GAVE_UP)
				csv_text(stdout, c->way[w].why);
			putchar('\n');
		}
	}
}

/* "153 (+37)": the bound, and what is left of the deadline. */
static void add_cell(struct table *t, const struct taskset *ts, size_t k, const struct way *w)
{
	const struct fm_rta_bound *b = &w->bound[k];
	char time[TASKSET_TIME], slack[TASKSET_TIME];

	if (b->verdict == FM_RTA_MEETS)
		table_add(t, "%s (+%s)", taskset_time(ts, b->wcrt, time),
			taskset_time(ts, ts->task[k].deadline - b->wcrt, slack));
	else if (b->verdict == FM_RTA_SKIPPED)
		table_add(t, "-");
	else
		table_add(t, "%s", b->verdict == FM_RTA_MISSES ? "MISSES" : "not known");
}

/* A line for each method and a column for each task would suit only few tasks. So there is a line
 * for each task, and half of the methods are shown at a time. */
static int table_part(const struct comparison *c, size_t from, size_t to)
{
	struct table_column columns[TABLE_COLUMNS] = {
		{"TASK", false, true}, {"DEADLINE", true, false}};
	const struct taskset *ts = &c->a->ts;
	TABLE_CLEAN struct table t;
	char time[TASKSET_TIME];

	for (size_t w = from; w < to; w++)
		columns[2 + w - from] = (struct table_column){c->way[w].method, true, false};
	table_init(&t, columns, 2 + to - from);
	for (size_t k = 0; k < ts->set.tasks; k++) {
		table_add(&t, "%s", ts->name[k]);
		table_add(&t, "%s", taskset_time(ts, ts->task[k].deadline, time));
		for (size_t w = from; w < to; w++)
			add_cell(&t, ts, k, &c->way[w]);
	}
	table_add(&t, "schedulable");
	table_add(&t, "%s", "");
	for (size_t w = from; w < to; w++)
		table_add(&t, "%s", c->way[w].lacks ? "-" : c->way[w].schedulable ? "yes" : "NO");
	return table_print(&t);
}

static int as_table(const struct comparison *c)
{
	size_t half = 4;
	char why[ANALYSIS_WHY];

	printf("Bounds and slack, in %s\n", c->a->ts.unit);
	if (table_part(c, 0, half))
		return CLI_FAILED;
	putchar('\n');
	if (table_part(c, half, c->ways))
		return CLI_FAILED;
	for (size_t k = 0, first = 1; k < c->ways; k++) {
		if (!c->way[k].why[0])
			continue;
		memcpy(why, c->way[k].why, sizeof(why));
		table_clean(why);
		printf("%s%s: %s\n", first ? "\n" : "", c->way[k].method, why);
		first = 0;
	}
	return CLI_OK;
}

int analyze_compare(struct analysis *a, enum analyze_format format)
{
	__attribute__((cleanup(comparison_free))) struct comparison c = {.a = a};
	struct fm_err err = {0};
	int rc = add_ways(&c, &err);

	if (rc)
		return cli_report(&err);
	if (format == FORMAT_TABLE)
		return as_table(&c);
	if (format == FORMAT_JSON)
		as_json(&c);
	else
		as_csv(&c);
	return CLI_OK;
}
