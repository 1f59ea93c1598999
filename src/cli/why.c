/* SPDX-License-Identifier: Apache-2.0 */
#include "why.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "base/util.h"
#include "cmd/ctl.h"
#include "cmd/table.h"
#include "commands.h"
#include <string.h>

static const struct argp_option options[] = {
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = cli_target,
	.args_doc = "TARGET",
	.doc = "Explain what a group does now, what it has waited for and how long, and what "
	       "would change that.\vTARGET is a group's name, a process id, or a queue such as "
	       "q3; `fermata ps' lists them.",
};

/* A group of the reply by its number; NULL: it is gone, or the user may not see it. */
static const json_t *why_group(const json_t *reply, double id)
{
	json_t *g;
	size_t i;

	json_array_foreach (json_object_get(reply, "groups"), i, g)
		if (cli_num(g, "id") == id)
			return g;
	return NULL;
}

const json_t *why_on(const json_t *group, const char *device)
{
	json_t *d;
	size_t i;

	json_array_foreach (json_object_get(group, "devices"), i, d)
		if (!strcmp(cli_str(d, "device"), device))
			return d;
	return NULL;
}

static const json_t *account_of(const json_t *device)
{
	return json_object_get(device, "account");
}

static const json_t *waiting_of(const json_t *device)
{
	return json_object_get(account_of(device), "waiting");
}

const json_t *why_culprit(const struct why *w)
{
	const json_t *now = waiting_of(w->device), *g, *who;
	const char *device = cli_str(w->device, "device");
	size_t i;

	g = why_group(w->reply, cli_num(now, "id"));
	if (g && why_on(g, device))
		return g;
	if (json_is_true(json_object_get(now, "hidden")))
		return NULL;
	json_array_foreach (json_object_get(account_of(w->device), "waited_for"), i, who) {
		g = why_group(w->reply, cli_num(who, "id"));
		if (g && g != w->group && why_on(g, device))
			return g;
	}
	return NULL;
}

bool why_other_user(const struct why *w)
{
	const json_t *now = waiting_of(w->device), *g;

	if (strcmp(cli_str(json_object_get(w->reply, "policy"), "fair_by"), "user") != 0)
		return false;
	if (json_is_true(json_object_get(now, "hidden")))
		return true;
	g = why_group(w->reply, cli_num(now, "id"));
	return g && cli_num(g, "uid") != cli_num(w->group, "uid");
}

/* The group that has the device that this one waits for. */
static const char *holder_of(const json_t *now)
{
	const char *name = json_string_value(json_object_get(now, "group"));

	if (name)
		return name;
	return json_is_true(json_object_get(now, "hidden")) ? "a group that you may not see"
							    : "nobody";
}

static json_t *doing_waits(const struct why *w, const json_t *now)
{
	const char *why = cli_str(now, "why"), *rule = cli_str(now, "rule");
	const char *policy = cli_str(json_object_get(w->reply, "policy"), "name");
	char time[TABLE_TIME];

	table_ms(cli_num(now, "ms"), time);
	if (!strcmp(why, "gang"))
		return json_sprintf("waits, for %s now: %s", time, cli_str(w->device, "reason"));
	if (!strcmp(why, "draining"))
		return json_sprintf("waits, for %s now: it is chosen, but %s has not stopped yet",
			time, holder_of(now));
	if (!strcmp(why, "resource") && why_memory_out(w->group))
		return why_where_memory_is(w, "is held for memory, now for ", time);
	if (!strcmp(why, "resource"))
		return json_sprintf("waits, for %s now: it is chosen, but a resource that it "
				    "needs is not ready",
			time);
	if (!strcmp(why, "nobody"))
		return json_sprintf("waits, for %s now: the policy %s lets no group run here (%s)",
			time, policy, rule);
	if (why_other_user(w))
		return json_sprintf("waits, for %s now: user %s has had its part, and %s has the "
				    "device (policy %s, among users first: %s)",
			time, cli_str(w->group, "user"), holder_of(now), policy, rule);
	return json_sprintf("waits, for %s now%s: %s has the device (policy %s: %s)", time,
		strcmp(why, "demoted") ? "" : ", over its budget and below all others",
		holder_of(now), policy, rule);
}

/* Suspended by hand, and perhaps its memory is out. */
static json_t *by_hand(const struct why *w)
{
	const json_t *away = json_object_get(w->group, "away");
	const char *trouble = cli_str(away, "trouble");
	char host[FM_SIZE_TEXT], all[FM_SIZE_TEXT], when[WHY_WHEN];
	bool told = away && *trouble;

	fm_size_short((uint64_t)cli_num(away, "host"), host);
	fm_size_short((uint64_t)cli_num(away, "movable"), all);
	if (!away)
		return json_string("is suspended by hand");
	if (!strcmp(cli_str(away, "wish"), "in") && json_is_false(json_object_get(away, "goes_on")))
		return json_sprintf("is suspended by hand; its memory comes in, and %s of %s are "
				    "still on the host%s%s%s",
			host, all, why_when_in(w->group, when), told ? ": " : "",
			told ? trouble : "");
	if (!strcmp(cli_str(away, "wish"), "in"))
		return json_sprintf("waits for its memory: %s of %s are still on the host%s%s%s",
			host, all, why_when_in(w->group, when), told ? ": " : "",
			told ? trouble : "");
	return json_sprintf("is suspended by hand, with %s of its %s on the host%s%s", host, all,
		told ? ": " : "", told ? trouble : "");
}

/* It has no work that the device knows, and its memory is out. */
static json_t *out_now(const struct why *w)
{
	double waits = cli_num(why_memory_out(w->group), "waits_ms");
	char time[TABLE_TIME];

	if (waits <= 0)
		return why_where_memory_is(w, "has no work on the device", "");
	return why_where_memory_is(w, "is held for memory, now for ", table_ms(waits, time));
}

/* What the group does on the device now, as a sentence without its subject. The caller owns it. */
static json_t *why_doing(const struct why *w)
{
	const json_t *now = waiting_of(w->device);
	const char *state = cli_str(w->device, "state");

	if (json_is_object(now))
		return doing_waits(w, now);
	if (!strcmp(state, "running"))
		return json_string("has the device");
	if (!strcmp(state, "ready"))
		return json_string("is being stopped, and has to wait then");
	if (strcmp(state, "suspended") != 0 && why_memory_out(w->group))
		return out_now(w);
	if (strcmp(state, "suspended") != 0)
		return json_string("has no work on the device");
	if (json_is_true(json_object_get(w->group, "suspended")))
		return by_hand(w);
	return json_string("is suspended: the task has used up its budget");
}

static void add_row(struct table *t, const char *what, const char *who, double ms, double all)
{
	char time[TABLE_TIME];

	table_add(t, "%s%s", what, who);
	table_add(t, "%s", table_ms(ms, time));
	table_add(t, "%.1f%%", all > 0 ? 100 * ms / all : 0);
}

static int show_time(const json_t *device)
{
	static const struct table_column columns[] = {
		{"ITS TIME THERE", false, true},
		{"SUM", true, false},
		{"OF ALL", true, false},
	};
	const json_t *account = account_of(device);
	double all = cli_num(account, "since_ms"), budget = cli_num(account, "over_budget_ms");
	double suspended = cli_num(account, "suspended_ms");
	TABLE_CLEAN struct table t;
	json_t *who;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	add_row(&t, "ran", "", cli_num(account, "ran_ms"), all);
	add_row(&t, "  device time, as used", "", cli_num(device, "device_ms"), all);
	add_row(&t, "  device time, as charged", "", cli_num(device, "charged_ms"), all);
	add_row(&t, "waited", "", cli_num(account, "waited_ms"), all);
	json_array_foreach (json_object_get(account, "waited_for"), i, who) {
		const char *name = json_string_value(json_object_get(who, "group"));

		add_row(&t, "  for ", name ?: "others, or nobody", cli_num(who, "ms"), all);
	}
	if (suspended > budget)
		add_row(&t, "suspended by hand", "", suspended - budget, all);
	if (budget > 0)
		add_row(&t, "over its budget", "", budget, all);
	add_row(&t, "idle", "", cli_num(account, "idle_ms"), all);
	return table_print(&t);
}

static void show_causes(const json_t *account)
{
	static const struct {
		const char *key, *text;
	} causes[] = {
		{"policy", "the policy chose others"},
		{"nobody", "the policy let no group run"},
		{"gang", "it has to run on several devices at once, and another was not free"},
		{"demoted", "it was over its budget, and below all others"},
		{"draining", "it was chosen, but the group before it had not stopped yet"},
		{"resource", "it was chosen, but a resource that it needs was not ready"},
	};
	json_t *why = json_object_get(account, "waited_why");
	char time[TABLE_TIME];

	for (size_t i = 0; i < FM_ARRAY_LEN(causes); i++)
		if (json_object_get(why, causes[i].key))
			printf("  waited %s: %s\n", table_ms(cli_num(why, causes[i].key), time),
				causes[i].text);
}

static void show_waits(const json_t *waits)
{
	char half[TABLE_TIME], most[TABLE_TIME], max[TABLE_TIME];

	if (cli_num(waits, "count") > 0)
		printf("  %.0f waits have ended: half of them within %s, 99 of 100 within %s, the "
		       "longest after %s\n",
			cli_num(waits, "count"), table_ms(cli_num(waits, "p50_us") / 1e3, half),
			table_ms(cli_num(waits, "p99_us") / 1e3, most),
			table_ms(cli_num(waits, "max_us") / 1e3, max));
}

/* Shows what happens to the device when the group goes idle. */
static void show_linger(const json_t *linger)
{
	double keeps = cli_num(linger, "keeps_us"), pauses = cli_num(linger, "pauses");
	char keep[TABLE_TIME], handover[TABLE_TIME];
	bool learnt = json_is_true(json_object_get(linger, "learnt"));

	table_ms(keeps / 1e3, keep);
	table_ms(cli_num(linger, "handover_us") / 1e3, handover);
	if (learnt && !pauses)
		return;
	if (!learnt && keeps > 0)
		printf("  when it pauses it keeps the device for up to %s, as linger_us says\n",
			keep);
	else if (!learnt)
		puts("  when it pauses it gives the device away at once: linger_us says so, or its "
		     "last pauses were longer");
	else if (keeps > 0)
		printf("  when it pauses it keeps the device for up to %s: %.0f of 100 pauses are "
		       "not longer, and a hand-over there and back counts as %s\n",
			keep, 100 * cli_num(linger, "within"), handover);
	else
		printf("  when it pauses it gives the device away at once: its pauses are mostly "
		       "longer than a hand-over there and back, which counts as %s\n",
			handover);
}

/* Shows what the client held back by itself. */
static void show_held(const json_t *group, const char *device)
{
	char time[TABLE_TIME];
	json_t *q;
	size_t i;

	json_array_foreach (json_object_get(group, "queues"), i, q)
		if (!strcmp(cli_str(q, "device"), device) && cli_num(q, "held_ms") > 0)
			printf("  queue %s, level 1: its callers were held back for %s, at closed "
			       "gates or because the window was full\n",
				cli_str(q, "id"), table_ms(cli_num(q, "held_ms"), time));
}

/* Shows what goes on although others have the device. */
static void show_padding(const json_t *group, const char *device)
{
	char time[TABLE_TIME];
	json_t *q;
	size_t i;

	json_array_foreach (json_object_get(group, "queues"), i, q) {
		bool now = cli_num(q, "padding") > 0;

		if (strcmp(cli_str(q, "device"), device) != 0)
			continue;
		if (json_is_true(json_object_get(q, "pad_apart")))
			printf("  queue %s does not pad beside urgent work of another context\n",
				cli_str(q, "id"));
		if (cli_num(q, "padded_ms") <= 0)
			continue;
		printf("  queue %s %s on %.0f of %.0f multiprocessors while urgent work of its "
		       "process %s: %s in all\n",
			cli_str(q, "id"), now ? "runs" : "ran", cli_num(q, now ? "padding" : "pad"),
			cli_num(q, "multiprocessors"), now ? "has the device" : "had the device",
			table_ms(cli_num(q, "padded_ms"), time));
	}
}

static void show_line(const char *fmt, const char *text)
{
	FM_CLEAN_FREE char *clean = strdup(text);

	if (!clean)
		return;
	table_clean(clean);
	printf(fmt, clean);
}

/* Shows which queues order their work themselves. */
static void show_sets(const json_t *group, const char *device)
{
	json_t *q, *task;
	size_t i, k;

	json_array_foreach (json_object_get(group, "queues"), i, q) {
		const json_t *set = json_object_get(q, "set");

		if (!set || strcmp(cli_str(q, "device"), device) != 0)
			continue;
		printf("  queue %s is a %sset of tasks, which decides itself, by %s",
			cli_str(q, "id"),
			json_is_true(json_object_get(set, "resident")) ? "resident " : "",
			cli_str(set, "policy"));
		if (json_is_true(json_object_get(set, "stopped")))
			fputs(": it is stopped", stdout);
		json_array_foreach (json_object_get(set, "tasks"), k, task)
			if (json_is_true(json_object_get(task, "runs")))
				show_line(": %s runs", cli_str(task, "name"));
		puts(" (`fermata ps --queues')");
	}
}

static int show_device(const struct why *w)
{
	CLI_CLEAN_JSON json_t *doing = why_doing(w);
	const json_t *account = account_of(w->device);

	show_line("on %s it ", cli_str(w->device, "device"));
	show_line("%s\n", json_string_value(doing) ?: "-");
	if (show_time(w->device))
		return CLI_FAILED;
	show_causes(account);
	show_waits(json_object_get(w->device, "waits"));
	show_linger(json_object_get(w->device, "linger"));
	show_held(w->group, cli_str(w->device, "device"));
	show_padding(w->group, cli_str(w->device, "device"));
	show_sets(w->group, cli_str(w->device, "device"));
	return CLI_OK;
}

static void show_coverage(const json_t *group)
{
	double past = cli_num(group, "ungoverned"), long_ones = cli_num(group, "undivided");

	if (past > 0)
		printf("%.0f of its calls were not scheduled and are not accounted (`fermata ps "
		       "--calls')\n",
			past);
	if (long_ones > 0)
		printf("%.0f of its calls could not be interrupted (`fermata ps --calls')\n",
			long_ones);
	if (cli_binary_hint(group))
		printf("  hint: %s\n", cli_binary_hint(group));
}

/* What would keep the group's memory on the device; or why it does not leave it. */
static void show_out(const json_t *group)
{
	const json_t *out = json_object_get(group, "out");

	const json_t *away = json_object_get(group, "away");

	if (*cli_str(away, "trouble") &&
		(!strcmp(cli_str(away, "wish"), "in") || json_object_get(away, "stopped")))
		show_line("  hint: %s\n", cli_str(away, "remedy"));
	if (json_is_true(json_object_get(out, "stuck")))
		puts("others needed its memory's room, but the memory did not go out within a "
		     "second: the program is stopped, or its work does not end");
	if (!strcmp(cli_str(out, "why"), "demand"))
		puts("to keep its memory on the device: fermata hint TARGET memory-pin=1, or "
		     "memory-request=SIZE; `fermata ps --memory' shows who has what");
	if (!strcmp(cli_str(out, "why"), "idle"))
		puts("to keep its memory on the device: fermata hint TARGET idle-out=0");
}

static void show_advice(const json_t *advice)
{
	json_t *o, *word;
	size_t i, k;

	if (json_array_size(advice))
		puts("what would make it wait less:");
	json_array_foreach (advice, i, o) {
		const json_t *argv = json_object_get(o, "argv");

		if (argv)
			fputs("  fermata", stdout);
		json_array_foreach (argv, k, word)
			show_line(" %s", json_string_value(word) ?: "-");
		if (argv)
			putchar('\n');
		show_line(argv ? "    %s\n" : "  %s\n", cli_str(o, "text"));
	}
}

static bool uses_device(const json_t *group)
{
	return json_array_size(json_object_get(group, "devices")) > 0;
}

static int show_group(const json_t *reply, const json_t *group)
{
	struct why w = {.reply = reply, .group = group};
	json_t *device;
	size_t i;

	show_line("%s", cli_str(group, "name"));
	show_line(" of %s\n", cli_str(group, "user"));
	if (!uses_device(group))
		puts("it has no queue on any device");
	json_array_foreach (json_object_get(group, "devices"), i, device) {
		w.device = device;
		if (show_device(&w))
			return CLI_FAILED;
	}
	why_show_memory(group);
	why_show_host(group);
	show_coverage(group);
	show_out(group);
	show_advice(json_object_get(group, "advice"));
	return CLI_OK;
}

/* The groups that the request names, with the findings about each. */
static json_t *explain(const json_t *reply)
{
	json_t *list = json_array(), *id, *device, *advice;
	struct why w = {.reply = reply};
	size_t i, k;

	json_array_foreach (json_object_get(reply, "targets"), i, id) {
		json_t *group = (json_t *)why_group(reply, json_number_value(id));

		if (!group)
			continue;
		w.group = group;
		advice = json_array();
		json_array_foreach (json_object_get(group, "devices"), k, device) {
			w.device = device;
			json_object_set_new(device, "doing", why_doing(&w));
			why_advise(&w, advice);
		}
		json_object_set_new(group, "advice", advice);
		json_array_append(list, group);
	}
	return list;
}

static int as_json(const json_t *reply, json_t *groups)
{
	CLI_CLEAN_JSON json_t *o = json_object();

	json_object_set(o, "policy", json_object_get(reply, "policy"));
	json_object_set(o, "groups", groups);
	return cli_print_json(o);
}

int cli_why(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *reply = NULL, *groups = NULL, *request = NULL;
	struct cli_target r = {.cli = cli};
	struct fm_err err = {0};
	json_t *g;
	size_t i;
	int rc = CLI_OK;

	cli_parse(&argp, argc, argv, 0, &r);
	request = json_pack("{s:s, s:s}", "cmd", "why", "target", r.target);
	if (!request) {
		fprintf(stderr, "fermata: the target is not text in UTF-8\n");
		return CLI_USAGE;
	}
	if (ctl_call(cli, json_incref(request), &reply, NULL, &err))
		return cli_report(&err);
	groups = explain(reply);
	if (cli->json)
		return as_json(reply, groups);
	/* If a process has several groups, those that it does not use are left out. */
	json_array_foreach (groups, i, g)
		if (!rc && (uses_device(g) || json_array_size(groups) == 1))
			rc = show_group(reply, g);
	return rc;
}
