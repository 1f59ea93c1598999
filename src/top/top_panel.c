/* SPDX-License-Identifier: Apache-2.0 */
/* Panels: help, choosers, and the details of one group. */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "top.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const help[] = {
	"Groups, sorted by device time. Bars show the groups that had a device; the mark before",
	"a group's name is that of its part. Rates are over the last interval.",
	"",
	"  arrows, j k, PgUp PgDn, Home End   select a group",
	"  Enter        its hints, devices, queues, tasks, and the groups it waited for",
	"  + -          its priority, one up or down       p  a priority by number",
	"  s            suspend it, or resume it           r  resume it",
	"  P            choose the policy",
	"  o or F       choose the column to sort by       R  the other way round",
	"  u            only groups of one user            d  another interval",
	"  space        stand still, go on                 q  quit, or close a panel",
	"",
	"  PRIO    hint `priority'; LVL  level of preemption in use",
	"  STATE   idle, ready (waits for the device), running, suspended",
	"  DEV%    part of the interval in which it had a device, WAIT% waited for one;",
	"          on several devices the sum",
	"  TIME    time that it had a device, since it joined",
	"  PRE/S   preemptions a second: stopped with work left",
	"  P50 P99 of its waits in the last minute, from having work to having the device",
	"  MEM     its device memory; ONDEV of it on devices, HOST on the host; LIMIT the most",
	"  MISS    jobs that took longer than the deadline of its tasks, else of its hint",
};

__attribute__((format(printf, 2, 3))) static void add(struct top_lines *l, const char *fmt, ...)
{
	char **line = realloc(l->line, (l->n + 1) * sizeof(*line));
	va_list ap;

	if (!line)
		return;
	l->line = line;
	va_start(ap, fmt);
	if (vasprintf(&line[l->n], fmt, ap) >= 0)
		l->n++;
	va_end(ap);
}

static char *hints_text(const json_t *hints)
{
	const char *name;
	char *text = NULL;
	json_t *v;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	json_object_foreach ((json_t *)hints, name, v)
		if (json_number_value(v) != 0)
			fprintf(f, "  %s=%g", name, json_number_value(v));
	return fclose(f) ? NULL : text;
}

static const char *part_of(const json_t *account, const char *key, char buf[16])
{
	double all = cli_num(account, "since_ms");

	return top_percent(all > 0 ? cli_num(account, key) / all : 0, all > 0, buf);
}

static void describe_account(struct top_lines *l, const json_t *account)
{
	char a[16], b[16], c[16], d[16], time[TABLE_TIME];
	const char *why;
	json_t *o;
	size_t i;

	if (!account)
		return;
	add(l, "    since it joined, %s: ran %s%%, waited %s%%, suspended %s%%, idle %s%%",
		table_ms(cli_num(account, "since_ms"), time), part_of(account, "ran_ms", a),
		part_of(account, "waited_ms", b), part_of(account, "suspended_ms", c),
		part_of(account, "idle_ms", d));
	json_array_foreach (json_object_get(account, "waited_for"), i, o)
		add(l, "    waited for %s: %s",
			json_string_value(json_object_get(o, "group")) ?: "others",
			table_ms(cli_num(o, "ms"), time));
	json_object_foreach (json_object_get(account, "waited_why"), why, o)
		add(l, "    waited because of %s: %s", why, table_ms(json_number_value(o), time));
}

static void describe_device(struct top_lines *l, const json_t *d)
{
	const char *reason = json_string_value(json_object_get(d, "reason"));
	const json_t *waits = json_object_get(d, "waits"),
		     *recent = json_object_get(waits, "recent");
	char a[TABLE_TIME], b[TABLE_TIME], p50[16], p99[16], max[16];

	add(l, "%s", "");
	add(l, "  on %s: %s, gate %s%s%s", cli_str(d, "device"), cli_str(d, "state"),
		cli_str(d, "gate"), reason ? ", " : "", reason ? reason : "");
	add(l, "    had it for %s, waited %s, preempted %.0f times",
		table_ms(cli_num(d, "device_ms"), a), table_ms(cli_num(d, "wait_ms"), b),
		cli_num(d, "preemptions"));
	if (cli_num(recent, "count") > 0)
		add(l, "    %.0f waits in the last minute: P50 %s, P99 %s",
			cli_num(recent, "count"), top_us(cli_num(recent, "p50_us"), p50),
			top_us(cli_num(recent, "p99_us"), p99));
	if (cli_num(waits, "count") > 0)
		add(l, "    %.0f waits since it joined: P50 %s, P99 %s, longest %s",
			cli_num(waits, "count"), top_us(cli_num(waits, "p50_us"), p50),
			top_us(cli_num(waits, "p99_us"), p99),
			top_us(cli_num(waits, "max_us"), max));
	describe_account(l, json_object_get(d, "account"));
}

static void describe_memory(struct top_lines *l, const json_t *m)
{
	char a[16], b[16], c[16];
	double limit = cli_num(m, "limit_bytes");

	add(l, "%s", "");
	add(l, "  memory of %s: %s; %s movable, %s pinned, %s foreign", cli_str(m, "device"),
		top_bytes(cli_num(m, "committed_bytes"), (char[16]){0}),
		top_bytes(cli_num(m, "movable_bytes"), a), top_bytes(cli_num(m, "pinned_bytes"), b),
		top_bytes(cli_num(m, "foreign_bytes"), c));
	add(l, "    %s on the device, %s on the host; limit %s, %.0f allocations refused",
		top_bytes(cli_num(m, "resident_bytes"), a), top_bytes(cli_num(m, "host_bytes"), b),
		top_bytes(limit, c), cli_num(m, "refused"));
	if (json_is_number(json_object_get(m, "next_turn_ms")))
		add(l, "    its next turn there is in %s",
			table_ms(cli_num(m, "next_turn_ms"), (char[TABLE_TIME]){0}));
	if (json_object_get(m, "trouble"))
		add(l, "    %s; %s", cli_str(m, "trouble"), cli_str(m, "remedy"));
}

/* A queue that schedules its tasks itself. */
static void describe_set(struct top_lines *l, const json_t *set)
{
	json_t *task;
	size_t i;

	if (!set)
		return;
	add(l, "       decides itself, by %s%s%s: %.0f decisions", cli_str(set, "policy"),
		json_is_true(json_object_get(set, "resident")) ? ", resident" : "",
		json_is_true(json_object_get(set, "stopped")) ? ", stopped" : "",
		cli_num(set, "decisions"));
	json_array_foreach (json_object_get(set, "tasks"), i, task)
		add(l, "       %s%s: %.0f of %.0f jobs done, %.0f wait, %.0f missed (%.0f stopped)",
			cli_str(task, "name"),
			json_is_true(json_object_get(task, "runs")) ? ", runs" : "",
			cli_num(task, "done"), cli_num(task, "released"), cli_num(task, "pending"),
			cli_num(task, "missed"), cli_num(task, "missed_stopped"));
}

static void describe_queue(struct top_lines *l, const json_t *q)
{
	char time[TABLE_TIME];

	add(l, "  %-4s %s, pid %.0f, %s, level %.0f, gate %s: %.0f of %.0f done, %s",
		cli_str(q, "id"), cli_str(q, "program"), cli_num(q, "pid"), cli_str(q, "api"),
		cli_num(q, "level"), cli_str(q, "gate"), cli_num(q, "done"),
		cli_num(q, "submitted"), table_ms(cli_num(q, "device_ms"), time));
	describe_set(l, json_object_get(q, "set"));
}

static void describe_task(struct top_lines *l, const json_t *task)
{
	add(l,
		"  task %s, %s: %.0f jobs, %.0f after the deadline of %g ms, %.0f over the bound "
		"of "
		"%.4g ms, %.0f over the budget",
		cli_str(task, "name"), cli_str(task, "state"), cli_num(task, "jobs"),
		cli_num(task, "misses"), cli_num(task, "deadline_ms"), cli_num(task, "violations"),
		cli_num(task, "bound_ms"), cli_num(task, "overruns"));
}

static void describe_tasks(struct top *t, const struct top_group *g)
{
	bool any = false;
	json_t *task;
	size_t i;

	json_array_foreach (json_object_get(t->model.now.tasks, "tasks"), i, task) {
		if (json_integer_value(json_object_get(task, "uid")) != g->uid ||
			strcmp(cli_str(task, "group"), g->name) != 0)
			continue;
		if (!any)
			add(&t->detail, "%s", "");
		any = true;
		describe_task(&t->detail, task);
	}
}

void top_describe(struct top *t, const json_t *reply)
{
	const json_t *full = json_array_get(json_object_get(reply, "groups"), 0);
	const struct top_group *g = top_selected(t);
	FM_CLEAN_FREE char *hints = hints_text(json_object_get(full, "hints"));
	struct top_lines *l = &t->detail;
	json_t *o;
	size_t i;

	top_lines_free(l);
	if (!g)
		return;
	add(l, "%s of %s (uid %lld): %s, priority %d", g->name, g->user, (long long)g->uid,
		top_state_name(g->state), g->priority);
	if (!full) {
		add(l, "%s", g->queue ? "  ..." : "  it has no queues");
		return;
	}
	add(l, "  hints:%s", hints && hints[0] ? hints : " none");
	add(l, "  %.0f calls governed, %.0f not, %.0f not divided", cli_num(full, "governed"),
		cli_num(full, "ungoverned"), cli_num(full, "undivided"));
	if (json_object_get(full, "deadline_jobs"))
		add(l, "  %.0f jobs ended while it had a deadline, %.0f took longer",
			cli_num(full, "deadline_jobs"), cli_num(full, "deadline_misses"));
	json_array_foreach (json_object_get(full, "devices"), i, o)
		describe_device(l, o);
	json_array_foreach (json_object_get(full, "memory"), i, o)
		describe_memory(l, o);
	describe_tasks(t, g);
	add(l, "%s", "");
	json_array_foreach (json_object_get(full, "queues"), i, o)
		describe_queue(l, o);
}

size_t top_panel_rows(const struct top *t)
{
	switch (t->panel) {
	case TOP_HELP:
		return FM_ARRAY_LEN(help);
	case TOP_DETAIL:
		return t->detail.n;
	case TOP_CHOOSE_POLICY:
		return json_array_size(json_object_get(t->policies, "available"));
	case TOP_CHOOSE_SORT:
		return TOP_SORTS;
	default:
		return 0;
	}
}

static void draw_line(struct top *t, int row, size_t i)
{
	const json_t *policy = json_array_get(json_object_get(t->policies, "available"), i);
	const char *now = cli_str(json_object_get(t->model.now.ps, "policy"), "name");
	struct top_grid *g = &t->grid;

	switch (t->panel) {
	case TOP_HELP:
		top_grid_text(g, row, 0, g->columns, TOP_PLAIN, help[i]);
		break;
	case TOP_DETAIL:
		top_grid_text(g, row, 0, g->columns, i ? TOP_PLAIN : TOP_BOLD, t->detail.line[i]);
		break;
	case TOP_CHOOSE_POLICY:
		top_grid_printf(g, row, 0, g->columns, TOP_PLAIN, " %c %-22s %s",
			strcmp(cli_str(policy, "name"), now) ? ' ' : '*', cli_str(policy, "name"),
			cli_str(policy, "summary"));
		break;
	default:
		top_grid_printf(g, row, 0, g->columns, TOP_PLAIN, " %c %s",
			i == t->sort ? '*' : ' ', top_sort_name((enum top_sort)i));
	}
}

void top_draw_panel(struct top *t, int row, int rows)
{
	static const char *const titles[] = {
		[TOP_LIST] = "",
		[TOP_HELP] = "HELP",
		[TOP_DETAIL] = "GROUP",
		[TOP_CHOOSE_POLICY] = "POLICY",
		[TOP_CHOOSE_SORT] = "SORT BY",
	};
	bool chooser = t->panel == TOP_CHOOSE_POLICY || t->panel == TOP_CHOOSE_SORT;
	size_t n = top_panel_rows(t);

	if (rows < 2)
		return;
	top_grid_text(&t->grid, row, 1, t->grid.columns - 1, TOP_BOLD, titles[t->panel]);
	top_grid_paint(&t->grid, row, 0, t->grid.columns, TOP_REVERSE);
	t->page = (size_t)rows - 1;
	if (chooser && t->cursor < t->panel_scroll)
		t->panel_scroll = t->cursor;
	if (chooser && t->cursor >= t->panel_scroll + t->page)
		t->panel_scroll = t->cursor - t->page + 1;
	t->panel_scroll = FM_MIN(t->panel_scroll, fm_sub_sat(n, t->page));
	for (size_t i = 0; i < t->page && t->panel_scroll + i < n; i++) {
		draw_line(t, row + 1 + (int)i, t->panel_scroll + i);
		if (chooser && t->panel_scroll + i == t->cursor)
			top_grid_paint(&t->grid, row + 1 + (int)i, 0, t->grid.columns, TOP_REVERSE);
	}
}
