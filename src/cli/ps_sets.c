/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata ps --queues`: tasks of queues that schedule them themselves. */
#include "base/util.h"
#include "cmd/table.h"
#include "ps.h"

static void add_task(struct table *t, const json_t *queue, const json_t *set, const json_t *task)
{
	char time[TABLE_TIME];

	table_add(t, "%s", cli_str(queue, "id"));
	table_add(t, "%s", cli_str(task, "name"));
	table_add(t, "%s",
		json_is_true(json_object_get(task, "runs")) ? "runs"
		: cli_num(task, "pending") > 0              ? "waits"
							    : "idle");
	table_add(t, "%.0f", cli_num(task, "released"));
	table_add(t, "%.0f", cli_num(task, "done"));
	table_add(t, "%.0f", cli_num(task, "pending"));
	table_add(t, "%.0f", cli_num(task, "missed"));
	table_add(t, "%.0f", cli_num(task, "missed_stopped"));
	table_add(t, "%.0f", cli_num(task, "dropped"));
	table_add(t, "%s", table_ms(cli_num(task, "response_max_ms"), time));
	table_add(t, "%s", json_is_true(json_object_get(set, "resident")) ? "resident" : "-");
}

static bool add_set(struct table *t, const json_t *queue)
{
	const json_t *set = json_object_get(queue, "set");
	json_t *task;
	size_t i;

	json_array_foreach (json_object_get(set, "tasks"), i, task)
		add_task(t, queue, set, task);
	return set;
}

int ps_show_sets(const json_t *groups)
{
	static const struct table_column columns[] = {
		{"QUEUE", false, false},
		{"TASK", false, true},
		{"STATE", false, false},
		{"RELEASED", true, false},
		{"DONE", true, false},
		{"PENDING", true, false},
		{"MISSED", true, false},
		{"STOPPED", true, false},
		{"DROPPED", true, false},
		{"LONGEST", true, false},
		{"KIND", false, false},
	};
	TABLE_CLEAN struct table t;
	bool any = false;
	json_t *g, *q;
	size_t i, j;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (groups, i, g)
		json_array_foreach (json_object_get(g, "queues"), j, q)
			any |= add_set(&t, q);
	if (!any)
		return 0;
	putchar('\n');
	return table_print(&t);
}
