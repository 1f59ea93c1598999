/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
#include "cmd/program.h"
#include "commands.h"
#include <string.h>

static const struct cli_command verbs[] = {
	{"record", NULL, trace_record},
	{"dump", NULL, trace_dump},
	{"export", NULL, cli_lab},
	{0},
};

static const struct argp_option options[] = {
	CLI_OPT_SOCKET,
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = cli_words,
	.args_doc = "record -o FILE\ndump FILE",
	.doc = "Record scheduling decisions with their reasons, or print a recording. "
	       "`fermata-lab trace export' converts a recording to a timeline.\v`fermata trace "
	       "record --help' and `fermata trace dump --help' explain these; fermata-trace(1) "
	       "has the details.",
};

int cli_trace(struct cli *cli, int argc, char **argv)
{
	struct cli_words w = {.cli = cli, .none = "trace needs record or dump"};
	const struct cli_command *verb;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &w);
	verb = cli_find(verbs, w.argv[0]);
	if (verb)
		return cli_run_command(verb, "fermata trace", cli, w.argc, w.argv);
	fprintf(stderr, "fermata: trace does not know '%.40s'\n  hint: record or dump\n",
		w.argv[0]);
	return CLI_USAGE;
}
