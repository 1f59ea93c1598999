/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that `fermata' once had and `fermata-lab' has now. Their old names still work. */
#include "base/cleanup.h"
#include "cmd/place.h"
#include "commands.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 4 /* of the command itself: "trace", "export" */

/* The remark is only for people. Scripts that use the old name find no change on standard error.
 */
static void tell_new_name(const char *words)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "fermata: `fermata %s' is `%s %s' now\n", words, CLI_LAB, words);
}

/* The command line for the other program. The command's own words are split into arguments. */
static char **lab_arguments(const struct cli *cli, char *words, int argc, char **argv)
{
	char **args = calloc((size_t)argc + WORDS_MAX + 3, sizeof(*args));
	char *rest = NULL;
	size_t n = 0;

	if (!args)
		return NULL;
	args[n++] = (char *)CLI_LAB;
	if (cli->socket) {
		args[n++] = (char *)"--socket";
		args[n++] = (char *)cli->socket;
	}
	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		args[n++] = w;
	if (argc > 1)
		memcpy(args + n, argv + 1, ((size_t)argc - 1) * sizeof(*args));
	return args;
}

/* argv[0] is "fermata COMMAND" or, of trace, "fermata trace VERB". */
int cli_lab(struct cli *cli, int argc, char **argv)
{
	FM_CLEAN_FREE char *words = strdup(strchr(argv[0], ' ') + 1);
	FM_CLEAN_FREE char **args = NULL;
	char path[PATH_MAX];
	struct fm_err err = {0};

	if (words)
		tell_new_name(words);
	args = words ? lab_arguments(cli, words, argc, argv) : NULL;
	if (!args) {
		fprintf(stderr, "fermata: out of memory\n");
		return CLI_FAILED;
	}
	if (place_program(CLI_LAB, path, &err)) {
		cli_report(&err);
		return CLI_NOT_FOUND;
	}
	execv(path, args);
	fm_err_set(&err, -errno, "cannot execute %s: %m", path);
	cli_report(&err);
	return CLI_CANNOT_EXECUTE;
}
