/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "cmd/ctl.h"
#include "commands.h"
#include "policy/policy.h"
#include "unread.h"
#include <errno.h>
#include <string.h>

struct request {
	struct cli *cli;
	const char *target;
	json_t *hints;
	uint32_t given;
};

static const struct argp_option options[] = {
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

/* The value is checked here, so that a typing error is reported without a daemon. It is sent as
 * written, so that the daemon need not rely on this command's idea of the unit. */
static void add_hint(const struct argp_state *state, struct request *r, const char *pair)
{
	FM_CLEAN_FREE char *name = strdup(pair);
	struct fm_err err = {0};
	enum fm_hint h;
	int64_t value;
	char *equals = name ? strchr(name, '=') : NULL;

	if (!equals)
		cli_usage(state, "'%s' is not NAME=VALUE", pair);
	*equals = '\0';
	if (fm_parse_hint(name, equals + 1, &h, &value, &err))
		cli_usage_err(state, &err);
	r->given |= FM_READS(h);
	if (json_object_set_new(r->hints, name, json_string(equals + 1)))
		cli_usage(state, "'%s' is not text in UTF-8", pair);
}

static error_t parse_hint(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			r->target = arg;
		else
			add_hint(state, r, arg);
		return 0;
	case ARGP_KEY_END:
		if (state->arg_num < 2)
			cli_usage(state, "hint needs a target and at least one NAME=VALUE");
		return 0;
	default:
		return cli_option(key, arg, r->cli);
	}
}

static const struct argp hint_argp = {
	.options = options,
	.parser = parse_hint,
	.args_doc = "TARGET NAME=VALUE...",
	.doc = "Set hints about a group, for the policy.\vTARGET is a group's name, a process id, "
	       "or a queue such as q3; `fermata ps' lists them.\n"
	       "Hints: priority (low, normal, high, realtime or -255 to 255), weight, share "
	       "(percent), latency-nice (-20 to 19), foreground and gang (0 or 1), level (2 or "
	       "3), deadline, period, runtime, slice and guard-from (times such as 20ms; a bare "
	       "number is milliseconds), memory-limit and memory-request (such as 40G; a bare "
	       "number is bytes), memory-pin (0 or 1), idle-out (a time), pad (auto, auto:5%, "
	       "device, 0, or "
	       "8, 16 "
	       "and so on to 64 multiprocessors). A policy uses the "
	       "hints that it knows and ignores the others. The command warns about hints that the "
	       "policy in force ignores.",
};

/* Sends the request, and prints the names of the groups that it changed, one a line. */
static int send_to_groups(struct cli *cli, json_t *request, uint32_t hints)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	int rc;

	if (!request) {
		fprintf(stderr, "fermata: the target is not text in UTF-8\n");
		return CLI_USAGE;
	}
	rc = ctl_ask(cli, request, &reply);
	if (!rc)
		unread_tell(json_object_get(reply, "policy"), hints);
	if (rc || cli->json)
		return rc;
	return cli_print_names(json_object_get(reply, "groups"));
}

int cli_hint(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *hints = json_object();
	struct request r = {.cli = cli, .hints = hints};

	cli_parse(&hint_argp, argc, argv, ARGP_IN_ORDER, &r);
	return send_to_groups(cli,
		json_pack("{s:s, s:s, s:O}", "cmd", "hint", "target", r.target, "hints", hints),
		r.given);
}
