/* SPDX-License-Identifier: Apache-2.0 */
#include "ps.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/ctl.h"
#include "cmd/table.h"
#include "commands.h"
#include <errno.h>
#include <string.h>

struct ps {
	struct cli *cli;
	char view; /* 'g', 'q', 'd', 'c', 'm' or 't' */
};

static const struct argp_option options[] = {
	{"queues", 'q', 0, 0, "Show each queue instead of groups", 0},
	{"devices", 'd', 0, 0, "Show devices and how long preemption takes", 0},
	{"calls", 'c', 0, 0, "Show the calls that were not scheduled, or could not be interrupted",
		0},
	{"memory", 'm', 0, 0, "Show the device memory of groups, by kind, and its limits", 0},
	{"tasks", 't', 0, 0, "Show the admitted tasks with their bounds and observed times", 0},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_ps(int key, char *arg, struct argp_state *state)
{
	struct ps *ps = state->input;

	switch (key) {
	case 'q':
	case 'd':
	case 'c':
	case 'm':
	case 't':
		ps->view = (char)key;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage(state, "ps takes no argument '%s'", arg);
	default:
		return cli_option(key, arg, ps->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_ps,
	.doc = "Show the groups that the daemon schedules, sorted by device time.",
};

/* A sum over the group's devices. */
static double sum(const json_t *group, const char *key)
{
	const json_t *devices = json_object_get(group, "devices");
	double total = 0;
	json_t *d;
	size_t i;

	json_array_foreach (devices, i, d)
		total += cli_num(d, key);
	return total;
}

/* The group's most active state on any device. */
static const char *state_of(const json_t *group)
{
	static const char *const order[] = {"idle", "ready", "running"};
	const json_t *devices = json_object_get(group, "devices");
	size_t best = 0, i;
	json_t *d;

	if (json_is_true(json_object_get(group, "suspended")))
		return "suspended";
	json_array_foreach (devices, i, d)
		for (size_t s = best; s < FM_ARRAY_LEN(order); s++)
			if (!strcmp(cli_str(d, "state"), order[s]))
				best = s;
	return order[best];
}

static void level_of(const json_t *group, char *text, size_t size)
{
	const json_t *queues = json_object_get(group, "queues");
	int low = 0, high = 0;
	json_t *q;
	size_t i;

	json_array_foreach (queues, i, q) {
		int level = (int)cli_num(q, "level");

		low = i == 0 ? level : FM_MIN(low, level);
		high = FM_MAX(high, level);
	}
	if (!json_array_size(queues))
		snprintf(text, size, "-");
	else if (low == high)
		snprintf(text, size, "%d", low);
	else
		snprintf(text, size, "%d-%d", low, high);
}

/* Rounded down, so that it is 100 % only if no call escaped. */
static void coverage_of(const json_t *group, char *text, size_t size)
{
	double governed = cli_num(group, "governed");
	double all = governed + cli_num(group, "ungoverned");

	if (all <= 0)
		snprintf(text, size, "-");
	else if (all <= governed)
		snprintf(text, size, "100%%");
	else
		snprintf(text, size, "%.1f%%", (double)(long)(governed / all * 1000) / 10);
}

static int by_device_time(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	double tx = sum(*x, "device_ms"), ty = sum(*y, "device_ms");

	if (tx != ty)
		return tx < ty ? 1 : -1;
	return strcmp(cli_str(*x, "name"), cli_str(*y, "name"));
}

/* Hints that have a column where the policy in force reads them. */
static const struct shown_hint {
	const char *name, *title, *unit;
} shown_hints[] = {{"weight", "WEIGHT", ""}, {"share", "SHARE", "%"}};

static bool reads(const json_t *policy, const char *hint)
{
	const json_t *list = json_object_get(policy, "reads"), *name;
	size_t i;

	json_array_foreach (list, i, name)
		if (!strcmp(json_string_value(name) ?: "", hint))
			return true;
	return false;
}

static void add_hints(struct table *t, const json_t *policy, const json_t *hints)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(shown_hints); i++) {
		const struct shown_hint *s = &shown_hints[i];
		double v = cli_num(hints, s->name);

		if (reads(policy, s->name))
			table_add(t, v > 0 ? "%.0f%s" : "-", v, s->unit);
	}
}

static void add_group(struct table *t, const json_t *policy, const json_t *g)
{
	char time[TABLE_TIME], wait[TABLE_TIME], level[16], coverage[16];

	level_of(g, level, sizeof(level));
	coverage_of(g, coverage, sizeof(coverage));
	table_add(t, "%s", cli_str(g, "name"));
	table_add(t, "%s", cli_str(g, "user"));
	table_add(t, "%.0f", cli_num(json_object_get(g, "hints"), "priority"));
	add_hints(t, policy, json_object_get(g, "hints"));
	table_add(t, "%s", state_of(g));
	table_add(t, "%s", level);
	table_add(t, "%s", table_ms(sum(g, "device_ms"), time));
	table_add(t, "%s", table_ms(sum(g, "wait_ms"), wait));
	table_add(t, "%.0f", sum(g, "preemptions"));
	table_add(t, "%zu", json_array_size(json_object_get(g, "queues")));
	table_add(t, "%s", coverage);
}

static int show_groups(const json_t *policy, const json_t *groups)
{
	static const struct table_column first[] = {
		{"GROUP", false, true},
		{"USER", false, true},
		{"PRIO", true, false},
	};
	static const struct table_column last[] = {
		{"STATE", false, false},
		{"LEVEL", true, false},
		{"DEVICE TIME", true, false},
		{"WAIT", true, false},
		{"PREEMPT", true, false},
		{"QUEUES", true, false},
		{"COVERAGE", true, false},
	};
	struct table_column
		columns[FM_ARRAY_LEN(first) + FM_ARRAY_LEN(shown_hints) + FM_ARRAY_LEN(last)];
	TABLE_CLEAN struct table t;
	FM_CLEAN_FREE json_t **sorted = NULL;
	size_t n = json_array_size(groups), c = FM_ARRAY_LEN(first);

	memcpy(columns, first, sizeof(first));
	for (size_t i = 0; i < FM_ARRAY_LEN(shown_hints); i++)
		if (reads(policy, shown_hints[i].name))
			columns[c++] = (struct table_column){shown_hints[i].title, true, false};
	memcpy(columns + c, last, sizeof(last));
	table_init(&t, columns, c + FM_ARRAY_LEN(last));
	sorted = calloc(n + 1, sizeof(json_t *));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = json_array_get(groups, i);
	qsort(sorted, n, sizeof(json_t *), by_device_time);
	for (size_t i = 0; i < n; i++)
		add_group(&t, policy, sorted[i]);
	return table_print(&t);
}

/* The level in use, and the deepest that the device can do where that differs. */
static void add_level(struct table *t, const json_t *queue)
{
	const json_t *levels = json_object_get(queue, "levels");
	int use = (int)cli_num(queue, "level"), deepest = use;
	json_t *l;
	size_t i;

	json_array_foreach (levels, i, l)
		deepest = FM_MAX(deepest, (int)json_integer_value(l));
	if (deepest == use)
		table_add(t, "%d", use);
	else
		table_add(t, "%d of %d", use, deepest);
}

/* How long the group keeps the device when it pauses. */
static void add_linger(struct table *t, const json_t *group, const json_t *queue)
{
	const char *device = cli_str(queue, "device");
	char time[TABLE_TIME] = "-";
	json_t *d, *linger;
	size_t i;

	json_array_foreach (json_object_get(group, "devices"), i, d) {
		linger = json_object_get(d, "linger");
		if (linger && !strcmp(cli_str(d, "device"), device))
			table_ms(cli_num(linger, "keeps_us") / 1e3, time);
	}
	table_add(t, "%s", time);
}

/* On how many multiprocessors it goes on while others have the device; with an asterisk while it
 * does, with a mark while it does not because these are in another context. */
static void add_pad(struct table *t, const json_t *q)
{
	if (!json_object_get(q, "pad"))
		table_add(t, "-");
	else
		table_add(t, "%.0f%s", cli_num(q, "pad"),
			cli_num(q, "padding") > 0                       ? "*"
			: json_is_true(json_object_get(q, "pad_apart")) ? "!"
									: "");
}

static void add_queue(struct table *t, const json_t *group, const json_t *q)
{
	char time[TABLE_TIME], held[TABLE_TIME];

	table_add(t, "%s", cli_str(q, "id"));
	table_add(t, "%s", cli_str(group, "name"));
	if (cli_num(q, "pid") > 0)
		table_add(t, "%.0f", cli_num(q, "pid"));
	else
		table_add(t, "-");
	table_add(t, "%s", cli_str(q, "program"));
	table_add(t, "%s", cli_str(q, "api"));
	table_add(t, "%s", cli_str(q, "device"));
	add_level(t, q);
	table_add(t, "%s", cli_str(q, "gate"));
	table_add(t, "%.0f", cli_num(q, "submitted"));
	table_add(t, "%.0f", cli_num(q, "done"));
	table_add(t, "%s", table_ms(cli_num(q, "device_ms"), time));
	table_add(t, "%.0f", cli_num(q, "gates"));
	table_add(t, "%s", table_ms(cli_num(q, "held_ms"), held));
	table_add(t, "%.0f", cli_num(q, "interrupts"));
	add_linger(t, group, q);
	add_pad(t, q);
}

static int show_queues(const json_t *groups)
{
	static const struct table_column columns[] = {
		{"QUEUE", false, false},
		{"GROUP", false, true},
		{"PID", true, false},
		{"PROGRAM", false, true},
		{"API", false, false},
		{"DEVICE", false, true},
		{"LEVEL", true, false},
		{"GATE", false, false},
		{"SUBMITTED", true, false},
		{"DONE", true, false},
		{"DEVICE TIME", true, false},
		{"GATES", true, false},
		{"HELD", true, false},
		{"INSIDE", true, false},
		{"LINGER", true, false},
		{"PAD", true, false},
	};
	TABLE_CLEAN struct table t;
	json_t *g, *q;
	size_t i, j;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (groups, i, g)
		json_array_foreach (json_object_get(g, "queues"), j, q)
			add_queue(&t, g, q);
	return table_print(&t) || ps_show_sets(groups);
}

static void add_us(struct table *t, const json_t *latency, const char *key)
{
	if (cli_num(latency, "count") > 0)
		table_add(t, "%.1f us", cli_num(latency, key));
	else
		table_add(t, "-");
}

static int show_devices(const json_t *devices)
{
	static const struct table_column columns[] = {
		{"DEVICE", false, true},
		{"PREEMPTIONS", true, false},
		{"MEASURED", true, false},
		{"P50", true, false},
		{"P99", true, false},
		{"MAX", true, false},
	};
	TABLE_CLEAN struct table t;
	json_t *d;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (devices, i, d) {
		const json_t *latency = json_object_get(d, "preempt_us");

		table_add(&t, "%s", cli_str(d, "key"));
		table_add(&t, "%.0f", cli_num(d, "preemptions"));
		table_add(&t, "%.0f", cli_num(latency, "count"));
		add_us(&t, latency, "p50");
		add_us(&t, latency, "p99");
		add_us(&t, latency, "max");
	}
	return table_print(&t);
}

static void add_call(struct table *t, const json_t *group, const char *call, const double *n)
{
	table_add(t, "%s", cli_str(group, "name"));
	table_add(t, "%s", call);
	table_add(t, "%.0f", n[0]);
	table_add(t, "%.0f", n[1]);
}

/* Only the first few calls have names. The rest are only counted. */
static void add_calls(struct table *t, const json_t *group)
{
	double rest[2] = {cli_num(group, "ungoverned"), cli_num(group, "undivided")};
	json_t *c;
	size_t i;

	json_array_foreach (json_object_get(group, "calls"), i, c) {
		double n[2] = {cli_num(c, "ungoverned"), cli_num(c, "undivided")};

		add_call(t, group, cli_str(c, "call"), n);
		for (int k = 0; k < 2; k++)
			rest[k] = FM_MAX(rest[k] - n[k], 0.0);
	}
	if (rest[0] > 0 || rest[1] > 0)
		add_call(t, group, "(others)", rest);
}

/* Shows how many images of code were rewritten, if there were any. */
static int show_images(const json_t *groups)
{
	static const struct table_column columns[] = {
		{"GROUP", false, true},
		{"IMAGES", true, false},
		{"LEFT", true, false},
		{"KERNELS", true, false},
		{"LEFT", true, false},
		{"MS", true, false},
	};
	static const char *const keys[] = {"images", "images_left", "kernels", "kernels_left"};
	TABLE_CLEAN struct table t;
	bool any = false;
	json_t *g;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (groups, i, g) {
		if (!json_object_get(g, "images"))
			continue;
		any = true;
		table_add(&t, "%s", cli_str(g, "name"));
		for (size_t k = 0; k < FM_ARRAY_LEN(keys); k++)
			table_add(&t, "%.0f", cli_num(g, keys[k]));
		table_add(&t, "%.1f", cli_num(g, "images_ms"));
	}
	return any ? table_print(&t) : 0;
}

static int show_calls(const json_t *groups)
{
	static const struct table_column columns[] = {
		{"GROUP", false, true},
		{"CALL", false, true},
		{"UNGOVERNED", true, false},
		{"UNDIVIDED", true, false},
	};
	TABLE_CLEAN struct table t;
	json_t *g;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (groups, i, g)
		add_calls(&t, g);
	if (table_print(&t) || show_images(groups))
		return 1;
	json_array_foreach (groups, i, g) {
		if (!cli_binary_hint(g))
			continue;
		printf("hint: %s\n", cli_binary_hint(g));
		break;
	}
	return 0;
}

static void add_ms(struct table *t, const json_t *task, const char *key)
{
	char buf[TABLE_TIME];

	table_add(t, "%s", table_ms(cli_num(task, key), buf));
}

static void add_response(struct table *t, const json_t *task, const char *key)
{
	if (cli_num(task, "jobs") > 0)
		add_ms(t, json_object_get(task, "response_ms"), key);
	else
		table_add(t, "-");
}

static int show_tasks(const json_t *tasks)
{
	static const struct table_column columns[] = {
		{"TASK", false, true},
		{"GROUP", false, true},
		{"PID", true, false},
		{"STATE", false, false},
		{"PERIOD", true, false},
		{"BUDGET", true, false},
		{"DEADLINE", true, false},
		{"BOUND", true, false},
		{"JOBS", true, false},
		{"P99", true, false},
		{"MAX", true, false},
		{"OVERRUNS", true, false},
		{"VIOLATIONS", true, false},
	};
	TABLE_CLEAN struct table t;
	json_t *task;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (tasks, i, task) {
		table_add(&t, "%s", cli_str(task, "name"));
		table_add(&t, "%s", cli_str(task, "group"));
		table_add(&t, "%.0f", cli_num(task, "pid"));
		table_add(&t, "%s", cli_str(task, "state"));
		add_ms(&t, task, "period_ms");
		add_ms(&t, task, "budget_ms");
		add_ms(&t, task, "deadline_ms");
		add_ms(&t, task, "bound_ms");
		table_add(&t, "%.0f", cli_num(task, "jobs"));
		add_response(&t, task, "p99");
		add_response(&t, task, "max");
		table_add(&t, "%.0f", cli_num(task, "overruns"));
		table_add(&t, "%.0f", cli_num(task, "violations"));
	}
	return table_print(&t);
}

static int show(char view, const json_t *reply)
{
	const json_t *groups = json_object_get(reply, "groups");

	switch (view) {
	case 'd':
		return show_devices(json_object_get(reply, "devices"));
	case 'q':
		return show_queues(groups);
	case 'c':
		return show_calls(groups);
	case 'm':
		return ps_show_memory(groups);
	case 't':
		return show_tasks(json_object_get(reply, "tasks"));
	default:
		return show_groups(json_object_get(reply, "policy"), groups);
	}
}

int cli_ps(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	struct ps ps = {.cli = cli, .view = 'g'};
	int rc;

	cli_parse(&argp, argc, argv, 0, &ps);
	rc = ctl_ask(cli, json_pack("{s:s}", "cmd", ps.view == 't' ? "tasks" : "ps"), &reply);
	if (rc || cli->json)
		return rc;
	cli_tell_fallback(json_object_get(reply, "policy"));
	return show(ps.view, reply) ? CLI_FAILED : CLI_OK;
}
