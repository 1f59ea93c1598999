/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"
#include "base/cleanup.h"
#include "cmd/ctl.h"
#include "commands.h"
#include <stdio.h>
#include <string.h>

enum { KEY_NAMES = CLI_KEY_OWN };

struct request {
	struct cli *cli;
	char *name;
	json_t *params;
	bool names;
};

static const struct argp_option options[] = {
	{"names", KEY_NAMES, 0, 0,
		"List the names of the built-in policies, one per line, without asking a daemon",
		0},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static void add_word(struct request *r, const struct argp_state *state, const char *word)
{
	if (!r->name) {
		r->name = strdup(word);
		if (!r->name)
			cli_usage(state, "out of memory");
	} else if (!strchr(word, '=')) {
		cli_usage(state, "'%s' is not NAME=VALUE", word);
	} else if (json_array_append_new(r->params, json_string(word))) {
		cli_usage(state, "'%s' is not text in UTF-8", word);
	}
}

/* A policy and its parameters may stand in one argument, as other commands and files take them. */
static void add_words(struct request *r, const struct argp_state *state, const char *arg)
{
	FM_CLEAN_FREE char *copy = strdup(arg);
	char *next = NULL;

	if (!copy)
		cli_usage(state, "out of memory");
	if (!arg[strspn(arg, " \t")])
		cli_usage(state, "'%s' is not NAME=VALUE", arg);
	for (char *w = strtok_r(copy, " \t", &next); w; w = strtok_r(NULL, " \t", &next))
		add_word(r, state, w);
}

static error_t parse_policy(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	switch (key) {
	case KEY_NAMES:
		r->names = true;
		return 0;
	case ARGP_KEY_ARG:
		add_words(r, state, arg);
		return 0;
	case ARGP_KEY_END:
		if (r->names && r->name)
			cli_usage(state, "--names only lists policies: it takes no NAME");
		return 0;
	default:
		return cli_option(key, arg, r->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_policy,
	.args_doc = "[NAME [PARAMETER=VALUE...]]\n--names",
	.doc = "Show the policy in force and those available, or choose one.\vThe policy in force "
	       "is marked '*'. Choosing a policy needs the rights of the daemon's user.",
};

/* A value of the reply, as a user would type it. Values in force are text; ends of ranges are
 * numbers in the unit. */
static void print_value(const json_t *v, const char *unit)
{
	if (json_is_string(v))
		fputs(json_string_value(v), stdout);
	else
		printf("%g%s", json_number_value(v), unit);
}

static void print_param(const json_t *p, const json_t *in_force)
{
	const char *unit = json_string_value(json_object_get(p, "unit")) ?: "";
	const char *name = cli_str(p, "name");
	const json_t *now = json_object_get(in_force, name);

	printf("      %s=", name);
	print_value(now ? now : json_object_get(p, "default"), unit);
	printf("  %s (", cli_str(p, "help"));
	print_value(json_object_get(p, "min"), unit);
	fputs(" to ", stdout);
	print_value(json_object_get(p, "max"), unit);
	if (now) {
		fputs(", default ", stdout);
		print_value(json_object_get(p, "default"), unit);
	}
	fputs(")\n", stdout);
}

static void print_policies(const json_t *reply)
{
	const json_t *in_force = json_object_get(reply, "policy");
	const char *current = cli_str(in_force, "name");
	json_t *policy, *param;
	const char *dropped = json_string_value(json_object_get(in_force, "dropped"));
	size_t i, j;

	if (dropped)
		printf("! dropped: %s\n", dropped);
	json_array_foreach (json_object_get(reply, "available"), i, policy) {
		const char *name = cli_str(policy, "name");
		bool chosen = !strcmp(name, current);

		printf("%c %-22s %s\n", chosen ? '*' : ' ', name, cli_str(policy, "summary"));
		if (chosen && !strcmp(cli_str(in_force, "fair_by"), "user"))
			puts("      among users first (fair_by = user in fermatad.conf)");
		json_array_foreach (json_object_get(policy, "params"), j, param)
			print_param(param, chosen ? json_object_get(in_force, "params") : NULL);
	}
}

/* For completion: quick, and the same without a daemon. */
static int print_names(const struct cli *cli)
{
	CLI_CLEAN_JSON json_t *list = json_array();

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		json_array_append_new(list, json_string((*p)->name));
		if (!cli->json)
			puts((*p)->name);
	}
	return cli->json ? cli_print_json(list) : CLI_OK;
}

int cli_policy(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *params = json_array();
	CLI_CLEAN_JSON json_t *reply = NULL;
	struct request r = {.cli = cli, .params = params};
	json_t *request;
	bool show;
	int rc;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &r);
	if (r.names)
		return print_names(cli);
	if (r.name)
		request = json_pack(
			"{s:s, s:s, s:O}", "cmd", "policy", "name", r.name, "params", params);
	else
		request = json_pack("{s:s}", "cmd", "policy");
	show = !r.name;
	free(r.name);
	if (!request) {
		fprintf(stderr, "fermata: the policy's name is not text in UTF-8\n");
		return CLI_USAGE;
	}
	rc = ctl_ask(cli, request, &reply);
	if (!rc && !cli->json && show)
		print_policies(reply);
	return rc;
}
