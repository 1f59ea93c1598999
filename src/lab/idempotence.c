/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab idempotence': which kernels may run again after they were cut off, and from where.
 */
#include "idempotence.h"
#include "cmd/program.h"
#include "commands.h"
#include <stdio.h>

static const struct cli_command verbs[] = {
	{"record", NULL, idempotence_record},
	{"check", NULL, idempotence_check},
	{"show", NULL, idempotence_show},
	{"try", NULL, idempotence_try},
	{0},
};

static const struct argp argp = {
	.parser = cli_words,
	.args_doc = "record -o TRACE -- PROGRAM [ARGUMENT...]\n"
		    "check TRACE [-o LIST]\n"
		    "show LIST\n"
		    "try LIST -- PROGRAM [ARGUMENT...]",
	.doc = "Find out which kernels may run again after they were cut off, and from where: "
	       "record what a program's kernels touch, check the trace, show the list that "
	       "comes of it, and try whether it is right.\vEach has a --help of its own; "
	       "fermata-lab-idempotence(1) has the "
	       "details.",
};

int lab_idempotence(struct cli *cli, int argc, char **argv)
{
	struct cli_words w = {.cli = cli, .none = "idempotence needs record, check, show or try"};
	const struct cli_command *verb;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &w);
	verb = cli_find(verbs, w.argv[0]);
	if (verb)
		return cli_run_command(verb, "fermata-lab idempotence", cli, w.argc, w.argv);
	fprintf(stderr,
		"fermata-lab: idempotence does not know '%.40s'\n  hint: record, check, show or "
		"try\n",
		w.argv[0]);
	return CLI_USAGE;
}
