/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice on how to make a group wait less. Each policy reads different hints, and a hint that is
 * not read changes nothing. So each kind of advice has a function, and each policy lists in its
 * table which kinds help (policy/policy.h). A policy that is not known here gets no advice.
 * tests/integration/cli/test_why.py follows each advice and checks that it helps.
 */
#include "base/util.h"
#include "policy/policy.h"
#include "why.h"
#include <ctype.h>
#include <fermata/hint.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct advice {
	const struct why *w;
	const json_t *culprit; /* or NULL */
	const char *policy;
	const struct fm_policy_ops *ops; /* NULL: it is not built in */
	json_t *list;
};

static bool has_kind(const struct advice *a, enum fm_advice kind)
{
	return a->ops && a->ops->advice & kind;
}

static double hint_of(const json_t *group, const char *name)
{
	return cli_num(json_object_get(group, "hints"), name);
}

static bool is_in(const json_t *list, const json_t *advice)
{
	json_t *other;
	size_t i;

	json_array_foreach (list, i, other)
		if (json_equal(other, advice))
			return true;
	return false;
}

static void add(const struct advice *a, json_t *argv, const char *fmt, va_list ap)
{
	json_t *o = json_object();

	json_object_set_new(o, "text", json_vsprintf(fmt, ap));
	if (argv)
		json_object_set_new(o, "argv", argv);
	if (!is_in(a->list, o))
		json_array_append(a->list, o);
	json_decref(o);
}

static void say(const struct advice *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct advice *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(a, NULL, fmt, ap);
	va_end(ap);
}

/* Is the name safe in a command that a user pastes into a shell? Names come from programs. A name
 * that looks like a process or a queue is not plain, since the daemon would take it for one. */
static bool is_plain(const char *name)
{
	const char *p = name + (*name == 'q');

	if (!isalpha((unsigned char)*name) || !*p || strspn(p, "0123456789") == strlen(p))
		return false;
	for (p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	return true;
}

static bool is_unique(const json_t *reply, const char *name)
{
	unsigned n = 0;
	json_t *g;
	size_t i;

	json_array_foreach (json_object_get(reply, "groups"), i, g)
		n += !strcmp(cli_str(g, "name"), name);
	return n == 1;
}

static const char *target_of(const struct advice *a, const json_t *group)
{
	const char *name = cli_str(group, "name");

	if (is_plain(name) && is_unique(a->w->reply, name))
		return name;
	return cli_str(json_array_get(json_object_get(group, "queues"), 0), "id");
}

/* Adds advice with a command of `fermata` about that group. */
static void tell(const struct advice *a, const char *command, const json_t *group, json_t *value,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void tell(const struct advice *a, const char *command, const json_t *group, json_t *value,
	const char *fmt, ...)
{
	json_t *argv = json_array();
	va_list ap;

	json_array_append_new(argv, json_string(command));
	json_array_append_new(argv, json_string(target_of(a, group)));
	if (value)
		json_array_append_new(argv, value);
	va_start(ap, fmt);
	add(a, argv, fmt, ap);
	va_end(ap);
}

static json_t *setting(const char *name, double value, const char *unit)
{
	return json_sprintf("%s=%.12g%s", name, value, unit);
}

static const char *name_of(const json_t *group)
{
	return group ? cli_str(group, "name") : "a group that you may not see";
}

static void by_priority(const struct advice *a)
{
	const json_t *group = a->w->group;
	double own = cli_num(group, "effective_priority"), other;

	if (own > FM_PRIORITY_MAX) {
		say(a, "it has an admitted real-time task: hints do not change its place");
		return;
	}
	if (own != hint_of(group, "priority")) {
		say(a,
			"its priority is %.0f, not its hint's, while it is inside a declared "
			"segment or over its budget",
			own);
		return;
	}
	if (!a->culprit) {
		say(a, "a higher priority than that of the group it waits for, which you may not "
		       "see");
		return;
	}
	other = cli_num(a->culprit, "effective_priority");
	if (other > FM_PRIORITY_MAX)
		say(a,
			"%s has an admitted real-time task, which comes before all priorities: no "
			"hint changes that (`fermata ps --tasks')",
			name_of(a->culprit));
	else if (other < own)
		say(a,
			"%s has a lower priority (%.0f): it had the device until it had stopped, "
			"or it had a turn because it had waited long",
			name_of(a->culprit), other);
	else if (other < FM_PRIORITY_MAX)
		tell(a, "hint", group, setting("priority", other + 1, ""),
			"would go before %s (priority %.0f)", name_of(a->culprit), other);
	else if (own > FM_PRIORITY_MIN)
		tell(a, "hint", a->culprit, setting("priority", own - 1, ""),
			"would go behind %s (priority %.0f); now it has the highest priority of "
			"all",
			name_of(group), own);
	else
		say(a, "a higher priority for it, and a lower one for %s, which has the highest",
			name_of(a->culprit));
}

static void by_foreground(const struct advice *a)
{
	const json_t *group = a->w->group;

	if (!hint_of(group, "foreground"))
		tell(a, "hint", group, setting("foreground", 1, ""),
			"would go before all groups in the background, and take turns with those "
			"in the foreground");
	else if (a->culprit && hint_of(a->culprit, "foreground"))
		tell(a, "hint", a->culprit, setting("foreground", 0, ""),
			"%s would be in the background, and %s would go first", name_of(a->culprit),
			name_of(group));
	else
		say(a, "it is in the foreground already; the group it waited for is not");
}

/* "5ms", as the daemon shows settings. */
static double setting_ms(const struct why *w, const char *name)
{
	const json_t *params = json_object_get(json_object_get(w->reply, "policy"), "params");
	const char *text = cli_str(params, name);
	char *unit;
	double value = strtod(text, &unit);

	return !strcmp(unit, "us") ? value / 1e3 : !strcmp(unit, "ns") ? value / 1e6 : value;
}

static void by_slice(const struct advice *a)
{
	double slice = hint_of(a->w->group, "slice_ms");

	slice = slice > 0 ? slice : setting_ms(a->w, "slice");
	if (slice > 0 && slice <= 5000)
		tell(a, "hint", a->w->group, setting("slice", 2 * slice, "ms"),
			"its turns would be twice as long (now %.12g ms)", slice);
	else
		say(a, "its turns are as long as the hint `slice' can make them");
}

static double weight_of(const json_t *group)
{
	double weight = hint_of(group, "weight"), share = hint_of(group, "share");

	return weight > 0 ? weight : share > 0 ? share : FM_WEIGHT_DEFAULT;
}

/* Hints move time only among the groups of one user. */
static bool by_user(const struct advice *a)
{
	if (!why_other_user(a->w))
		return false;
	say(a, "users have equal parts of the device (fair_by = user in fermatad.conf): it has "
	       "more when its user's other groups use less, or when an operator changes fair_by");
	return true;
}

static void by_weight(const struct advice *a)
{
	double weight = weight_of(a->w->group);

	if (by_user(a))
		return;
	if (weight <= 5000)
		tell(a, "hint", a->w->group, setting("weight", 2 * weight, ""),
			"twice as much of the device, compared with each of the others (now %.0f)",
			weight);
	else if (a->culprit && weight_of(a->culprit) >= 2)
		tell(a, "hint", a->culprit,
			setting("weight", (double)(long)(weight_of(a->culprit) / 2), ""),
			"half as much of the device for %s", name_of(a->culprit));
	else
		say(a, "its weight is as high as it can be");
}

/* The sum of the shares of other groups on this device, as far as the user may see them. */
static double reserved(const struct advice *a)
{
	const char *device = cli_str(a->w->device, "device");
	const json_t *policy = json_object_get(a->w->reply, "policy");
	bool of_user = !strcmp(cli_str(policy, "fair_by"), "user");
	double uid = cli_num(a->w->group, "uid"), sum = 0;
	json_t *g;
	size_t i;

	json_array_foreach (json_object_get(a->w->reply, "groups"), i, g)
		if (g != a->w->group && why_on(g, device) && (!of_user || cli_num(g, "uid") == uid))
			sum += hint_of(g, "share");
	return sum;
}

static void by_share(const struct advice *a)
{
	double share = hint_of(a->w->group, "share"), room = 100 - reserved(a);
	double other = a->culprit ? hint_of(a->culprit, "share") : 0;

	if (by_user(a))
		return;
	if (other >= 2) {
		tell(a, "hint", a->culprit, setting("share", (double)(long)(other / 2), ""),
			"half as much of the device would be reserved for %s (now %.0f%%)",
			name_of(a->culprit), other);
		return;
	}
	room = FM_MIN(room, FM_MAX(2 * share, 75.0));
	if (room > share && room >= 1)
		tell(a, "hint", a->w->group, setting("share", room, ""),
			"this percentage of the device would be reserved for it (now %.0f)", share);
	else
		say(a, "all of the device is reserved: lower the `share' of other groups");
}

static void by_deadline(const struct advice *a)
{
	const json_t *group = a->w->group;
	bool own = hint_of(group, "deadline_ms") > 0 || hint_of(group, "period_ms") > 0;
	bool other = !a->culprit || hint_of(a->culprit, "deadline_ms") > 0 ||
		     hint_of(a->culprit, "period_ms") > 0;

	if (!own && !other)
		tell(a, "hint", group, setting("deadline", 20, "ms"),
			"would go before all groups without a deadline; set the deadline that it "
			"really has");
	else
		say(a, "the job with the earliest deadline runs: its arrival plus the hint "
		       "`deadline', or `period'");
}

static void by_runtime(const struct advice *a)
{
	say(a, "the job with the shortest remaining time runs: set the hint `runtime' if the "
	       "length learnt of its jobs is wrong");
}

static void by_no_hint(const struct advice *a)
{
	say(a, "%s reads no hints: %s", a->policy, a->ops->summary);
}

static void by_policy(const struct advice *a)
{
	static const struct {
		enum fm_advice kind;
		void (*advise)(const struct advice *a);
	} kinds[] = {
		{FM_ADVICE_PRIORITY, by_priority},
		{FM_ADVICE_FOREGROUND, by_foreground},
		{FM_ADVICE_SLICE, by_slice},
		{FM_ADVICE_WEIGHT, by_weight},
		{FM_ADVICE_SHARE, by_share},
		{FM_ADVICE_DEADLINE, by_deadline},
		{FM_ADVICE_RUNTIME, by_runtime},
		{FM_ADVICE_NO_HINT, by_no_hint},
	};
	bool any = false;

	for (size_t i = 0; i < FM_ARRAY_LEN(kinds); i++) {
		if (!has_kind(a, kinds[i].kind))
			continue;
		kinds[i].advise(a);
		any = true;
	}
	if (!any)
		say(a, "the policy %s decides that: its author knows which hints it uses",
			a->policy);
}

/* Advice for when no group had the device. */
static void by_limit(const struct advice *a)
{
	double share = hint_of(a->w->group, "share");

	if (has_kind(a, FM_ADVICE_LIMIT) && share > 0 && share < 100)
		tell(a, "hint", a->w->group, setting("share", FM_MIN(100.0, 2 * share), ""),
			"its share is a limit, too (capped=1): it would have twice as much (now "
			"%.0f%%)",
			share);
	else if (has_kind(a, FM_ADVICE_ELSEWHERE))
		say(a, "a group of higher priority works on another device: give this one a "
		       "higher `priority'");
	else
		say(a, "the policy %s let no group run on the device", a->policy);
}

static void by_victim(const struct advice *a)
{
	const json_t *queue = json_array_get(json_object_get(a->culprit, "queues"), 0);

	if (queue)
		say(a,
			"%s stops late, at level %.0f, because its commands are long; only its "
			"own hints `level' and `guard-from' change that",
			name_of(a->culprit), cli_num(queue, "level"));
	else
		say(a, "the group that had the device stopped late, because its commands are "
		       "long; no hint of yours changes that");
}

static void by_gang(const struct advice *a)
{
	if (hint_of(a->w->group, "gang"))
		tell(a, "hint", a->w->group, setting("gang", 0, ""),
			"each of its devices would be scheduled separately: not for programs "
			"whose work on one device waits for another device");
}

static void by_budget(const struct advice *a)
{
	say(a, "it has used up the budget of its task, and is below all others until its next "
	       "period: admit the task with a larger budget");
}

static void if_suspended(const struct advice *a)
{
	const json_t *away = json_object_get(a->w->group, "away");

	if (!strcmp(cli_str(away, "wish"), "in") &&
		json_is_true(json_object_get(away, "goes_on"))) {
		say(a, "it goes on when its memory is in; if the device has no room for that: "
		       "`fermata ps --memory' shows who has it");
		return;
	}
	if (!json_is_true(json_object_get(a->w->group, "suspended"))) {
		say(a, "its task has used up its budget, and continues with its next period: "
		       "admit the task with a larger budget, or with --overrun=demote");
		return;
	}
	tell(a, "resume", a->w->group, NULL, "lets it continue");
}

static void by_resource(const struct advice *a)
{
	say(a, "a resource that it needs was not ready when its turn came: no hint changes that");
}

/* Is this the cause of the present wait, or of a good part of past waiting? That other groups are
 * coming to rest just now does not count. */
static bool matters(const json_t *device, const char *cause)
{
	const json_t *account = json_object_get(device, "account");
	const char *now = cli_str(json_object_get(account, "waiting"), "why");
	double ms = cli_num(json_object_get(account, "waited_why"), cause);

	if (!strcmp(now, cause) && strcmp(cause, "draining") != 0)
		return true;
	return ms > 0 && ms >= cli_num(account, "waited_ms") / 4;
}

void why_advise(const struct why *w, json_t *list)
{
	static const struct {
		const char *cause;
		void (*advise)(const struct advice *a);
	} causes[] = {
		{"policy", by_policy},
		{"nobody", by_limit},
		{"gang", by_gang},
		{"demoted", by_budget},
		{"draining", by_victim},
		{"resource", by_resource},
	};
	const char *policy = cli_str(json_object_get(w->reply, "policy"), "name");
	const struct advice a = {w, why_culprit(w), policy, fm_policy_find(policy), list};

	if (!strcmp(cli_str(w->device, "state"), "suspended")) {
		if_suspended(&a);
		return;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(causes); i++)
		if (matters(w->device, causes[i].cause))
			causes[i].advise(&a);
}
