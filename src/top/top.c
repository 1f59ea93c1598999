/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "cmd/ctl.h"
#include "top_live.h"
#include <stdlib.h>
#include <string.h>

#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 3600
#define MAX_COUNT    1000000000

enum { KEY_ONCE = CLI_KEY_OWN, KEY_ASCII };

struct arguments {
	struct top *top;
	struct top_options *o;
};

static const struct argp_option options[] = {
	{"once", KEY_ONCE, 0, 0, "Print one table, of one interval, and end", 0},
	{"batch", 'b', 0, 0, "Print tables one after another, without a terminal", 0},
	{"interval", 'd', "SECONDS", 0, "Time between two updates (0.1 to 3600); default: 1", 0},
	{"iterations", 'n', "COUNT", 0, "End after COUNT updates", 0},
	{"sort", 'o', "COLUMN", 0,
		"share (default), time, group, user, priority, state, wait, preemptions, p99, "
		"misses or memory",
		0},
	{"user", 'u', "USER", 0, "Show only the groups of this user", 0},
	{"ascii", KEY_ASCII, 0, 0, "Draw with ASCII characters only", 0},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static void set_interval(const struct argp_state *state, const char *text, double *interval)
{
	if (cli_parse_seconds(text, interval) ||
		!(*interval >= INTERVAL_MIN && *interval <= INTERVAL_MAX))
		cli_usage(state, "'%s' is not a number of seconds from %g to %d", text,
			INTERVAL_MIN, INTERVAL_MAX);
}

static error_t finish(const struct argp_state *state, struct arguments *a)
{
	if (a->o->once) {
		a->o->batch = true;
		a->o->count = 1;
	}
	if (a->o->cli->json && !a->o->batch)
		cli_usage(state, "--json needs --once, or --batch");
	return 0;
}

static error_t parse_top(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	struct fm_err err;

	switch (key) {
	case KEY_ONCE:
		a->o->once = true;
		return 0;
	case 'b':
		a->o->batch = true;
		return 0;
	case 'd':
		set_interval(state, arg, &a->top->interval);
		return 0;
	case 'n':
		if (fm_parse_int(arg, 1, MAX_COUNT, &a->o->count, &err))
			cli_usage_err(state, &err);
		return 0;
	case 'o':
		if (top_sort_parse(arg, &a->top->sort))
			cli_usage(state, "'%s' is not a column to sort by", arg);
		return 0;
	case 'u':
		if ((size_t)snprintf(a->top->user, sizeof(a->top->user), "%s", arg) >=
			sizeof(a->top->user))
			cli_usage(state, "'%s' is too long for a user's name", arg);
		return 0;
	case KEY_ASCII:
		a->o->ascii = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage(state, "top takes no argument '%s'", arg);
	case ARGP_KEY_END:
		return finish(state, a);
	default:
		return cli_option(key, arg, a->o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_top,
	.doc = "Watch devices and groups, sorted by device time, and steer them.\vThe key ? lists "
	       "all keys. Rates are those of the last interval.",
};

int cli_top(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *version = NULL;
	struct top_options o = {.cli = cli};
	struct fm_err err = {0};
	struct top top;
	int rc;

	top_init(&top);
	cli_parse(&argp, argc, argv, 0, &(struct arguments){&top, &o});
	if (ctl_call(cli, json_pack("{s:s}", "cmd", "version"), &version, NULL, &err))
		return cli_report(&err);
	rc = o.batch ? top_batch(&top, &o) : top_live(&top, &o);
	top_free(&top);
	return rc;
}
