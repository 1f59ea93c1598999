/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab policy-test`: the laboratory's scenarios, for built-in policies and for the user's
 * own.
 */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "commands.h"
#include "model/workload.h"
#include "own_policy.h"
#include "sim/lab.h"
#include <errno.h>
#include <string.h>

enum { KEY_PROMISE = CLI_KEY_OWN, KEY_AT_ONCE, KEY_LIST };

struct options {
	struct cli *cli;
	const char *policy;
	struct fm_policy_promise own; /* as given on the command line */
	unsigned settings;
	bool promised, list;
};

static const struct argp_option options[] = {
	{"promise", KEY_PROMISE, "LIST", 0,
		"Promises to test, separated by commas; default: conserves,alone,calm", 0},
	{"at-once", KEY_AT_ONCE, "N", 0, "Groups that the policy lets run at a time; default: 1",
		0},
	{"list", KEY_LIST, 0, 0, "List the promises that can be tested", 0},
	CLI_OPT_JSON,
	{0},
};

static int find_promise(const char *word, uint32_t *promises, struct fm_err *err)
{
	struct fm_nearest near = {.typed = word};
	const char *name;

	for (unsigned p = 0; (name = fm_lab_promise_name((enum fm_promise)p)); p++) {
		if (!strcmp(name, word)) {
			*promises |= FM_PROMISE_BIT(p);
			return 0;
		}
		fm_nearest_try(&near, name);
	}
	fm_err_set(err, -EINVAL, "'%.40s' cannot be promised", word);
	if (near.best)
		return fm_err_hint(err, "did you mean '%s'?", near.best);
	return fm_err_hint(err, "fermata-lab policy-test --list lists what can");
}

static void set_promises(const struct argp_state *state, char *words, struct options *o)
{
	struct fm_err err = {0};
	char *save;

	o->promised = true;
	for (char *w = strtok_r(words, ", ", &save); w; w = strtok_r(NULL, ", ", &save))
		if (find_promise(w, &o->own.bits, &err))
			cli_usage_err(state, &err);
	if (!o->own.bits)
		cli_usage(state, "nothing is promised: there is nothing to test");
}

static error_t parse_test(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	struct fm_err err = {0};
	int64_t v = 0;

	switch (key) {
	case KEY_PROMISE:
		set_promises(state, arg, o);
		return 0;
	case KEY_AT_ONCE:
		if (fm_parse_int(arg, 1, FM_RUN_MAX, &v, &err))
			cli_usage_err(state, &err);
		o->own.at_once = (unsigned)v;
		return 0;
	case KEY_LIST:
		o->list = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			o->policy = arg;
		else if (!strchr(arg, '='))
			cli_usage(state, "'%s' is not NAME=VALUE", arg);
		else if (o->settings == FM_ARRAY_LEN(o->own.setting))
			cli_usage(state, "more than %zu settings", FM_ARRAY_LEN(o->own.setting));
		else
			o->own.setting[o->settings++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->policy && (o->promised || o->own.at_once))
			cli_usage(state, "no policy named that has the promises");
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_test,
	.args_doc = "[NAME|./NAME.so [SETTING=VALUE...]]",
	.doc = "Test the promises of a policy in simulated scenarios. Without a name, all "
	       "built-in policies are tested.\vThe test fails if a promise is broken. A built-in "
	       "policy has the promises of its document, unless settings or --promise are given.",
};

static int list_promises(void)
{
	static const struct table_column columns[] = {
		{"PROMISE", false, false}, {"WHAT", false, true}};
	TABLE_CLEAN struct table t;
	const char *name;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned p = 0; (name = fm_lab_promise_name((enum fm_promise)p)); p++) {
		table_add(&t, "%s", name);
		table_add(&t, "%s", fm_lab_promise_text((enum fm_promise)p));
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

struct trial {
	struct table table; /* one row for each property */
	json_t *findings;   /* with --json, or NULL */
	unsigned tried, scenarios;
	const char *scenario;
};

static bool on_finding(void *ctx, const struct fm_lab_finding *f)
{
	struct trial *t = ctx;

	t->tried++;
	t->scenarios += t->scenario != f->scenario;
	t->scenario = f->scenario;
	table_add(&t->table, "%s", f->scenario);
	table_add(&t->table, "%s", f->property);
	table_add(&t->table, "%s", f->holds ? "kept" : "BROKEN");
	table_add(&t->table, "%s", f->text);
	if (t->findings)
		json_array_append_new(t->findings,
			json_pack("{s:s, s:s, s:b, s:s}", "scenario", f->scenario, "property",
				f->property, "kept", (int)f->holds, "seen", f->text));
	return true;
}

/* A policy by the user's name for it, and the promises that it is tried for. */
struct subject {
	const char *name;
	const struct fm_policy_ops *ops;
	const struct fm_plugin *own; /* NULL: it is built in */
	const struct fm_policy_promise *promise;
};

static void title(const struct subject *s, char *out, size_t size)
{
	const char *const *setting = s->promise->setting;
	size_t len = (size_t)snprintf(out, size, "%s", s->name);

	for (size_t i = 0; i < FM_PROMISE_SETTINGS && setting[i] && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, " %s", setting[i]);
}

/* The findings for one policy: all of them if it is the only one, otherwise only broken promises.
 */
static int show(const struct subject *s, const struct trial *t, unsigned failed, bool all)
{
	char name[256];

	title(s, name, sizeof(name));
	if ((all || failed) && table_print(&t->table))
		return CLI_FAILED;
	printf("%s%s: %u properties in %u scenarios, %u broken\n", all || failed ? "\n" : "", name,
		t->tried, t->scenarios, failed);
	return failed ? CLI_NO : CLI_OK;
}

static json_t *subject_json(const struct subject *s, json_t *findings, unsigned failed)
{
	char name[256];

	title(s, name, sizeof(name));
	return json_pack("{s:s, s:I, s:o}", "policy", name, "broken", (json_int_t)failed,
		"findings", findings);
}

/* json: where to append; NULL: print. */
static int try_one(const struct subject *s, bool all, json_t *json)
{
	static const struct table_column columns[] = {{"SCENARIO", false, false},
		{"PROPERTY", false, false}, {"", false, false}, {"SEEN", false, true}};
	struct trial t = {.findings = json ? json_array() : NULL};
	const struct fm_lab_report report = {.finding = on_finding, .ctx = &t};
	struct fm_err err = {0};
	unsigned failed = 0;
	int rc;

	table_init(&t.table, columns, FM_ARRAY_LEN(columns));
	rc = fm_lab_run(s->ops, s->promise, &report, &failed, &err);
	if (fm_plugin_failure(s->own))
		rc = fm_err_set(
			&err, -EIO, "policy %s: %s", s->ops->name, fm_plugin_failure(s->own));
	if (rc)
		json_decref(t.findings);
	else if (json)
		json_array_append_new(json, subject_json(s, t.findings, failed));
	if (rc)
		rc = cli_report(&err);
	else
		rc = json ? (failed ? CLI_NO : CLI_OK) : show(s, &t, failed, all);
	table_free(&t.table);
	return rc;
}

static int try_own(struct options *o, json_t *json)
{
	struct fm_policy_promise promise = o->own;
	struct subject s = {.name = o->policy, .promise = &promise};
	struct fm_plugin *own = NULL;
	struct fm_err err = {0};
	int rc;

	promise.bits = o->promised ? promise.bits : FM_PROMISE_SOUND;
	promise.at_once = promise.at_once ? promise.at_once : 1;
	if (own_policy_is(s.name) && own_policy_open(&own, s.name, &err))
		return cli_report(&err);
	s.own = own;
	s.ops = own ? fm_plugin_ops(own) : fm_policy_find(s.name);
	rc = try_one(&s, true, json);
	fm_plugin_close(own);
	return rc;
}

/* With each of the settings for which it promises something. */
static int try_promises(const struct fm_policy_ops *ops, bool all, json_t *json)
{
	struct subject s = {.name = ops->name, .ops = ops};
	int rc = CLI_OK;

	for (s.promise = fm_lab_promises(ops); s.promise->bits; s.promise++)
		rc = try_one(&s, all, json) ?: rc;
	return rc;
}

static int try_known(const char *name, json_t *json)
{
	int rc = CLI_OK;

	if (name)
		return try_promises(fm_policy_find(name), true, json);
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		rc = try_promises(*p, false, json) ?: rc;
	return rc;
}

int lab_policy_test(struct cli *cli, int argc, char **argv)
{
	struct options o = {.cli = cli};
	CLI_CLEAN_JSON json_t *json = NULL;
	const char *name;
	struct fm_err err = {0};
	int rc, printed;

	cli_parse(&argp, argc, argv, 0, &o);
	name = o.policy;
	if (o.list)
		return list_promises();
	if (name && !own_policy_is(name) && !fm_policy_find(name)) {
		workload_no_policy(name, &err);
		return cli_report(&err);
	}
	if (cli->json)
		json = json_array();
	if (name && (own_policy_is(name) || o.promised || o.settings || o.own.at_once))
		rc = try_own(&o, json);
	else
		rc = try_known(name, json);
	printed = json ? cli_print_json(json) : CLI_OK;
	return rc ? rc : printed;
}
