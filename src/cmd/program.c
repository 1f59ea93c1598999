/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"
#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/nearest.h"
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_program *program;

const char *cli_name(void)
{
	return program ? program->name : "fermata";
}

error_t cli_words(int key, char *arg, struct argp_state *state)
{
	struct cli_words *words = state->input;

	switch (key) {
	case ARGP_KEY_ARGS:
		words->argc = state->argc - state->next;
		words->argv = state->argv + state->next;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "%s", words->none);
	default:
		return cli_option(key, arg, words->cli);
	}
}

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
	if (key != 'V')
		return cli_words(key, arg, state);
	printf("%s %s\n", program->name, FM_VERSION);
	exit(CLI_OK);
}

/* The list of commands, made from the table, as the text after the options. */
static char *list_commands(int key, const char *text, void *input)
{
	char *list = NULL;
	size_t size;
	FILE *f;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&list, &size);
	if (!f)
		return NULL;
	fputs("Commands:\n", f);
	for (const struct cli_command *c = program->commands; c->name; c++)
		if (c->summary)
			fprintf(f, "  %-11s %s\n", c->name, c->summary);
	if (program->more)
		fprintf(f, "\n%s\n", program->more);
	fprintf(f, "\n`%s help COMMAND' explains a command; %s(1) is the manual.", program->name,
		program->name);
	return fclose(f) ? NULL : list;
}

static const struct argp_option main_options[] = {
	CLI_OPT_SOCKET,
	{"version", 'V', 0, 0, "Print the version", -1},
	{0},
};

static struct argp main_argp = {
	.options = main_options,
	.parser = parse_main,
	.args_doc = "COMMAND [ARGUMENT...]",
	.help_filter = list_commands,
};

const struct cli_command *cli_find(const struct cli_command *commands, const char *name)
{
	for (const struct cli_command *c = commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static int unknown_command(const char *name)
{
	struct fm_nearest near = {.typed = name};
	const struct cli_command *c;
	struct fm_err err;

	for (c = program->commands; c->name; c++)
		if (*c->name != '_')
			fm_nearest_try(&near, c->name);
	c = near.best ? cli_find(program->commands, near.best) : NULL;
	fm_err_set(&err, -EINVAL, "no command '%s'", name);
	if (!c)
		fm_err_hint(&err, "%s --help lists the commands", program->name);
	else if (c->summary)
		fm_err_hint(&err, "did you mean '%s'?", c->name);
	else
		fm_err_hint(&err, "did you mean '%s %s'?", program->other, c->name);
	return cli_report(&err);
}

int cli_run_command(const struct cli_command *command, const char *before, struct cli *cli,
	int argc, char **argv)
{
	FM_CLEAN_FREE char *title = NULL;

	if (asprintf(&title, "%s %s", before, command->name) < 0)
		return CLI_FAILED;
	argv[0] = title;
	return command->run(cli, argc, argv);
}

static const struct argp help_argp = {
	.args_doc = "[COMMAND]",
	.doc = "Explain a command, or list them all.",
};

int cli_help(struct cli *cli, int argc, char **argv)
{
	char *help[] = {argv[0], "--help", NULL};
	struct cli_words words = {.cli = cli};
	const struct cli_command *c;

	if (argc == 2 && argv[1][0] != '-') {
		c = cli_find(program->commands, argv[1]);
		return c ? cli_run_command(c, program->name, cli, 2, help)
			 : unknown_command(argv[1]);
	}
	if (argc == 1) {
		help[0] = (char *)program->name;
		cli_parse(&main_argp, 2, help, 0, &words);
	}
	cli_parse(&help_argp, argc, argv, 0, NULL);
	return CLI_USAGE;
}

/* However it ends: a full disk or a closed pipe must not pass for success. */
static void finish(int rc, void *unused)
{
	if (fflush(stdout))
		fprintf(stderr, "%s: cannot write the answer: %s\n", program->name,
			strerror(errno));
	else if (ferror(stdout))
		fprintf(stderr, "%s: cannot write the answer\n", program->name);
	else
		return;
	_exit(rc ? rc : CLI_FAILED);
}

int cli_main(const struct cli_program *p, int argc, char **argv)
{
	struct cli cli = {0};
	struct cli_words words = {.cli = &cli, .none = "no command given"};
	const struct cli_command *c;
	char *plain[] = {(char *)p->name, NULL};

	program = p;
	main_argp.doc = p->doc;
	fm_descriptors_occupy(); /* the user's command finds what it would have found without us */
	on_exit(finish, NULL);
	setlocale(LC_CTYPE, "");
	argp_err_exit_status = CLI_USAGE;
	if (argc < 1) {
		argc = 1;
		argv = plain;
	}
	argv[0] = plain[0];
	cli_parse(&main_argp, argc, argv, ARGP_IN_ORDER, &words);
	c = cli_find(p->commands, words.argv[0]);
	return c ? cli_run_command(c, p->name, &cli, words.argc, words.argv)
		 : unknown_command(words.argv[0]);
}
