/* SPDX-License-Identifier: Apache-2.0 */
/* A program with commands: the table of them, its --help, and its main(). */
#pragma once
#include "cli.h"

struct cli_program {
	const char *name;
	const char *doc;                    /* of --help, before the list of commands; ends in \v */
	const char *more;                   /* after that list; NULL: nothing */
	const struct cli_command *commands; /* ends with a NULL name */
	const char *other; /* the program whose commands have no summary here; NULL: none */
};

/* The whole of main(); returns the exit code. */
int cli_main(const struct cli_program *program, int argc, char **argv);

/* `help [COMMAND]', of every program. */
int cli_help(struct cli *cli, int argc, char **argv);

/* Parser of what has commands: options, then a command with its arguments, which stay as they are
 * (parse with ARGP_IN_ORDER). */
struct cli_words {
	struct cli *cli;
	const char *none; /* the mistake where no command is given */
	int argc;         /* from the command on */
	char **argv;
};
error_t cli_words(int key, char *arg, struct argp_state *state);

/* One of commands[], which end with a NULL name; NULL: there is none of that name. */
const struct cli_command *cli_find(const struct cli_command *commands, const char *name);

/* Run it, called "BEFORE NAME" in its messages. The exit code. */
int cli_run_command(const struct cli_command *command, const char *before, struct cli *cli,
	int argc, char **argv);
