/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/nearest.h"
#include "cmd/cli.h"
#include "plugin/plugin.h"
#include <errno.h>
#include <locale.h>
#include <string.h>

const struct cli_command cli_commands[] = {
	{"run", "Run a command with its device work under Fermata", cli_run},
	{"ps", "Show groups, queues and devices", cli_ps},
	{"top", "Watch devices and groups as they run, and steer them", cli_top},
	{"why", "Say what a group waits for, and what would change that", cli_why},
	{"hint", "Tell the policy about a group: priority, deadline, ...", cli_hint},
	{"suspend", "Take the device away from a group", cli_suspend},
	{"resume", "Give it back", cli_resume},
	{"policy", "Show or change the scheduling policy", cli_policy},
	{"reload", "Have the daemon read its settings again", cli_reload},
	{"admit", "Admit real-time tasks, if all deadlines are kept then", cli_admit},
	{"analyze", "Bound the response times of real-time tasks, before they run", cli_analyze},
	{"calibrate", "Measure what analyses need to know of this machine", cli_calibrate},
	{"study", "Repeat schedulability experiments with random sets of tasks", cli_study},
	{"trace", "Record what is scheduled and why; print it, or make a timeline", cli_trace},
	{"record", "Record what programs do, as a workload to simulate", cli_record},
	{"sim", "Simulate devices and programs under a policy, in virtual time", cli_sim},
	{"compare", "Put two runs side by side: recorded, or simulated", cli_compare},
	{"bench", "Measure what clients of a device get: latency, throughput", cli_bench},
	{"policy-test", "Try what a policy promises, in simulated scenarios", cli_policy_test},
	{"stats", "Show the daemon's counters", cli_stats},
	{"metrics", "Print the daemon's numbers as Prometheus reads them", cli_metrics},
	{"doctor", "Check what works on this machine, and say how to mend the rest", cli_doctor},
	{"version", "Show the versions of the command and the daemon", cli_version},
	{"help", "Explain a command", cli_help},
	{"_probe", NULL, cli_probe},
	{"_calibrate", NULL, cli_calibrate_program},
	{"_bench", NULL, cli_bench_client},
	{NULL, NULL, NULL},
};

struct words {
	struct cli *cli;
	int argc;
	char **argv;
};

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
	struct words *words = state->input;

	switch (key) {
	case 'V':
		printf("fermata %s\n", FM_VERSION);
		exit(CLI_OK);
	case ARGP_KEY_ARGS:
		words->argc = state->argc - state->next;
		words->argv = state->argv + state->next;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no command given");
	default:
		return cli_option(key, arg, words->cli);
	}
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
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (c->summary)
			fprintf(f, "  %-11s %s\n", c->name, c->summary);
	fputs("\n`fermata help COMMAND' explains a command; fermata(1) tells the whole story.", f);
	return fclose(f) ? NULL : list;
}

static const struct argp_option main_options[] = {
	CLI_OPT_SOCKET,
	{"version", 'V', 0, 0, "Print the version", -1},
	{0},
};

static const struct argp main_argp = {
	.options = main_options,
	.parser = parse_main,
	.args_doc = "COMMAND [ARGUMENT...]",
	.doc = "Preemptive multitasking for GPUs and other accelerators.\v",
	.help_filter = list_commands,
};

static const struct cli_command *find_command(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static int unknown_command(const char *name)
{
	struct fm_nearest near = {.typed = name};
	struct fm_err err;

	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (c->summary)
			fm_nearest_try(&near, c->name);
	fm_err_set(&err, -EINVAL, "no command '%s'", name);
	if (near.best)
		fm_err_hint(&err, "did you mean '%s'?", near.best);
	else
		fm_err_hint(&err, "fermata --help lists the commands");
	return cli_report(&err);
}

static int run_command(const struct cli_command *c, struct cli *cli, int argc, char **argv)
{
	FM_CLEAN_FREE char *title = NULL;

	if (asprintf(&title, "fermata %s", c->name) < 0)
		return CLI_FAILED;
	argv[0] = title;
	return c->run(cli, argc, argv);
}

static const struct argp help_argp = {
	.args_doc = "[COMMAND]",
	.doc = "Explain a command, or list them all.",
};

int cli_help(struct cli *cli, int argc, char **argv)
{
	char *help[] = {argv[0], "--help", NULL};
	struct words words = {.cli = cli};
	const struct cli_command *c;

	if (argc == 2 && argv[1][0] != '-') {
		c = find_command(argv[1]);
		return c ? run_command(c, cli, 2, help) : unknown_command(argv[1]);
	}
	if (argc == 1) {
		help[0] = "fermata";
		cli_parse(&main_argp, 2, help, 0, &words);
	}
	cli_parse(&help_argp, argc, argv, 0, NULL);
	return CLI_USAGE;
}

/* However it ends: a full disk or a closed pipe must not pass for success. */
static void finish(int rc, void *unused)
{
	if (fflush(stdout))
		fprintf(stderr, "fermata: cannot write the answer: %s\n", strerror(errno));
	else if (ferror(stdout))
		fputs("fermata: cannot write the answer\n", stderr);
	else
		return;
	_exit(rc ? rc : CLI_FAILED);
}

int main(int argc, char **argv)
{
	struct cli cli = {0};
	struct words words = {.cli = &cli};
	const struct cli_command *c;
	char *plain[] = {"fermata", NULL};

	if (argc == 2 && !strcmp(argv[1], "--policy-host")) /* a process of its own: plugin.h */
		return fm_plugin_host();
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
	c = find_command(words.argv[0]);
	if (!c)
		return unknown_command(words.argv[0]);
	return run_command(c, &cli, words.argc, words.argv);
}
