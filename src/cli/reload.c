/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/ctl.h"
#include "commands.h"

static const struct argp_option options[] = {
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_reload(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		cli_usage(state, "reload takes no argument '%s'", arg);
	return cli_option(key, arg, state->input);
}

static const struct argp argp = {
	.options = options,
	.parser = parse_reload,
	.doc = "Make the daemon read its settings again.\vIf the settings have an error, the "
	       "message says where, and the old settings stay in force. This needs the rights of "
	       "the daemon's user.",
};

int cli_reload(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	int rc;

	cli_parse(&argp, argc, argv, 0, cli);
	rc = ctl_ask(cli, json_pack("{s:s}", "cmd", "reload"), &reply);
	return rc == CLI_USAGE ? CLI_FAILED : rc; /* the command line named no file */
}
