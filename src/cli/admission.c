/* SPDX-License-Identifier: Apache-2.0 */
#include "admission.h"
#include "base/util.h"
#include "cmd/table.h"
#include <errno.h>
#include <string.h>

static void set(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

json_t *admission_task(
	const char *name, const char *group, const char *overrun, const struct fm_rta_task *t)
{
	json_t *o = json_object(), *segments = json_array();

	for (size_t i = 0; i < t->segments; i++)
		json_array_append_new(segments,
			json_pack("{s:I, s:I, s:I}", "total_ns", (json_int_t)t->segment[i].total,
				"misc_ns", (json_int_t)t->segment[i].misc, "gpu_ns",
				(json_int_t)t->segment[i].gpu));
	set(o, "name", json_string(name));
	if (group)
		set(o, "group", json_string(group));
	if (overrun)
		set(o, "overrun", json_string(overrun));
	set(o, "priority", json_integer(t->priority));
	if (t->cpu >= 0)
		set(o, "cpu", json_integer(t->cpu));
	set(o, "period_ns", json_integer(t->period));
	set(o, "deadline_ns", json_integer(t->deadline));
	set(o, "cpu_ns", json_integer(t->cpu_time));
	if (t->gpu_total != FM_RTA_UNSET)
		set(o, "gpu_total_ns", json_integer(t->gpu_total));
	set(o, "segments", segments);
	return o;
}

int admission_ask(const struct cli *cli, json_t *request, json_t **reply, char found[CTL_PATH])
{
	struct fm_err err = {0};

	if (!request) {
		fprintf(stderr, "fermata: out of memory, or a name is not text in UTF-8\n");
		return CLI_USAGE;
	}
	if (!ctl_call(cli, request, reply, found, &err))
		return CLI_OK;
	return cli_report(&err);
}

static int show_admitted(const json_t *reply)
{
	static const struct table_column columns[] = {
		{"TASK", false, true},
		{"DEADLINE", true, false},
		{"BOUND", true, false},
		{"SLACK", true, false},
	};
	char buf[TABLE_TIME];
	TABLE_CLEAN struct table t;
	json_t *task;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (json_object_get(reply, "tasks"), i, task) {
		table_add(&t, "%s", cli_str(task, "name"));
		table_add(&t, "%s", table_ms(cli_num(task, "deadline_ms"), buf));
		table_add(&t, "%s", table_ms(cli_num(task, "bound_ms"), buf));
		table_add(&t, "%s", table_ms(cli_num(task, "slack_ms"), buf));
	}
	return table_print(&t) || fflush(stdout) ? CLI_FAILED : CLI_OK;
}

void admission_warn(const json_t *reply, const char *who, int64_t epsilon)
{
	const json_t *machine = json_object_get(reply, "machine_epsilon_ms");
	double said = (double)epsilon / 1e6, knows = json_number_value(machine);

	if (epsilon == FM_RTA_UNSET || !json_is_number(machine) || said == knows)
		return;
	fprintf(stderr,
		"fermata: %.120s: epsilon: %.9g ms there, and %.9g ms in the daemon's settings: "
		"the larger one is used\n",
		who, said, knows);
}

int admission_show(const json_t *reply, bool quiet)
{
	const json_t *m = json_object_get(reply, "misses");
	const char *name = json_string_value(json_object_get(m, "name"));

	if (json_is_true(json_object_get(reply, "admitted")))
		return quiet ? CLI_OK : show_admitted(reply);
	fprintf(stderr, "fermata: not admitted: %s%s %s\n", name ? "task " : "",
		name ? name : "a task of another user", cli_str(m, "why"));
	fprintf(stderr,
		"  hint: longer periods and deadlines, or less time on the device; `fermata ps "
		"--tasks' lists the admitted tasks\n");
	return CLI_NO;
}

void admission_check_overrun(const struct argp_state *state, const char *name)
{
	if (strcmp(name, "demote") && strcmp(name, "stop") && strcmp(name, "report"))
		cli_usage(state, "'%s' is neither demote, stop nor report", name);
}
