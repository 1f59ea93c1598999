/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/ctl.h"
#include "commands.h"
#include <errno.h>

static const struct argp_option options[] = {
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_version(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		cli_usage(state, "version takes no argument '%s'", arg);
	return cli_option(key, arg, state->input);
}

static const struct argp argp = {
	.options = options,
	.parser = parse_version,
	.doc = "Show the versions of this command and of the daemon, if one is reachable.",
};

/* It is not an error if there is no daemon: there is still a version to show. */
int cli_version(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *daemon = NULL;
	CLI_CLEAN_JSON json_t *both = NULL;
	char dir[CTL_PATH];
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, 0, cli);
	rc = ctl_call(cli, json_pack("{s:s}", "cmd", "version"), &daemon, dir, &err);
	if (cli->json) {
		both = json_pack("{s:s, s:O?}", "version", FM_VERSION, "daemon", daemon);
		if (both && !daemon)
			json_object_set_new(both, "daemon", json_null());
		return cli_print_json(both);
	}
	printf("fermata  %s\n", FM_VERSION);
	if (rc)
		printf("fermatad none answers\n");
	else
		printf("fermatad %s (%s, process %.0f) in %s\n", cli_str(daemon, "version"),
			cli_str(daemon, "instance"), cli_num(daemon, "pid"), dir);
	return CLI_OK;
}
