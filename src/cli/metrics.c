/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"
#include "base/cleanup.h"
#include "cmd/ctl.h"
#include "commands.h"

#define WAIT_MS 5000

enum { OPT_LIST = CLI_KEY_OWN };

struct options {
	struct cli *cli;
	bool list;
};

static const struct argp_option option_table[] = {
	{"list", OPT_LIST, 0, 0, "List all metrics as a table in Markdown", 0},
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_metrics(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	if (key == OPT_LIST)
		o->list = true;
	else if (key == ARGP_KEY_ARG)
		cli_usage(state, "metrics takes no argument '%s'", arg);
	else
		return cli_option(key, arg, o->cli);
	return 0;
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_metrics,
	.doc = "Print the daemon's metrics in the format of Prometheus, as far as you may see "
	       "them. fermata-exporter(8) serves them over HTTP.",
};

static int collect(struct cli *cli, struct fm_snapshot *s, struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *version = NULL;
	FM_CLEAN_FD int fd = -1;
	char dir[CTL_PATH];
	int rc = ctl_call(cli, json_pack("{s:s}", "cmd", "version"), &version, dir, err);

	rc = rc ? rc : fm_snapshot_connect(dir, WAIT_MS, &fd, err);
	return rc ? rc : fm_snapshot_take(s, fd, WAIT_MS, err);
}

int cli_metrics(struct cli *cli, int argc, char **argv)
{
	struct options o = {.cli = cli};
	const struct fm_view all = {.all = true};
	struct fm_err err = {0};
	struct fm_snapshot s;
	struct fm_rows *rows;

	cli_parse(&argp, argc, argv, 0, &o);
	if (o.list) {
		fm_metrics_list(stdout);
		return CLI_OK;
	}
	if (collect(cli, &s, &err))
		return cli_report(&err);
	rows = fm_rows_new(&s, &fm_sources_default);
	if (rows)
		fm_rows_write(rows, &all, stdout);
	else
		fprintf(stderr, "fermata: out of memory\n");
	fm_rows_free(rows);
	fm_snapshot_free(&s);
	return rows ? CLI_OK : CLI_FAILED;
}
