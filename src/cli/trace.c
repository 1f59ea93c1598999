/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
#include "base/util.h"
#include "lab/trace_tracks.h"
#include <string.h>

static const struct {
	const char *name;
	int (*run)(struct cli *cli, int argc, char **argv);
} verbs[] = {
	{"record", trace_record},
	{"dump", trace_dump},
	{"export", trace_export},
};

struct words {
	struct cli *cli;
	int argc;
	char **argv;
};

static error_t parse_words(int key, char *arg, struct argp_state *state)
{
	struct words *w = state->input;

	switch (key) {
	case ARGP_KEY_ARGS:
		w->argc = state->argc - state->next;
		w->argv = state->argv + state->next;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "trace needs record, dump or export");
	default:
		return cli_option(key, arg, w->cli);
	}
}

static const struct argp_option options[] = {
	CLI_OPT_SOCKET,
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse_words,
	.args_doc = "record -o FILE\ndump FILE\nexport FILE -o FILE",
	.doc = "Record what is scheduled and why, print it, or make a timeline of it.\v"
	       "`fermata trace record --help' and the like explain each; fermata-trace(1) tells "
	       "the "
	       "whole story.",
};

int cli_trace(struct cli *cli, int argc, char **argv)
{
	struct words w = {.cli = cli};
	char title[64];

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &w);
	for (size_t i = 0; i < FM_ARRAY_LEN(verbs); i++) {
		if (strcmp(w.argv[0], verbs[i].name) != 0)
			continue;
		snprintf(title, sizeof(title), "fermata trace %s", verbs[i].name);
		w.argv[0] = title;
		return verbs[i].run(cli, w.argc, w.argv);
	}
	fprintf(stderr, "fermata: trace does not know '%.40s'\n  hint: record, dump or export\n",
		w.argv[0]);
	return CLI_USAGE;
}
