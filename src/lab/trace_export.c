/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/outfile.h"
#include "cmd/program.h"
#include "commands.h"
#include "trace_tracks.h"
#include <inttypes.h>
#include <string.h>

struct export
{
	struct cli *cli;
	const char *path, *to;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0,
		"Write the timeline into FILE (required); - is the standard "
		"output",
		0},
	CLI_OPT_FORCE,
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct export *e = state->input;

	switch (key) {
	case 'o':
		e->to = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (e->path)
			cli_usage(state, "one file at a time, not '%s' as well", arg);
		e->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!e->path || !e->to)
			cli_usage(state, e->path ? "no output file: give -o FILE" : "which file?");
		return 0;
	default:
		return cli_option(key, arg, e->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Convert FILE to a timeline for ui.perfetto.dev, or chrome://tracing: tracks for "
	       "devices, groups and queues, arrows from the group that wanted to run to the group "
	       "that was stopped for it.",
};

/* False: out of memory. */
static bool write_events(struct timeline *t)
{
	const struct fm_trace_file *file = t->file;
	struct trace_view v;

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", t->out);
	timeline_begin(t);
	for (size_t i = 0; i < file->n_items && !ferror(t->out) && !t->failed; i++) {
		trace_look(file, &file->items[i], &v);
		timeline_record(t, &v);
	}
	timeline_end(t);
	fprintf(t->out,
		"\n],\"otherData\":{\"producer\":\"fermata " FM_VERSION
		"\",\"clock\":\"CLOCK_MONOTONIC\",\"recorded_mono_ns\":%" PRIu64
		",\"recorded_real_ns\":%" PRIu64 "}}\n",
		file->head->mono_ns, file->head->real_ns);
	return !t->failed;
}

/* cli_main() reports errors of the standard output. */
static int finish(struct outfile *to, bool whole)
{
	struct fm_err err = {0};

	if (!whole) {
		fprintf(stderr, "fermata-lab: out of memory: nothing is written\n");
		return CLI_FAILED;
	}
	return outfile_close(to, true, &err) ? cli_report(&err) : CLI_OK;
}

static int trace_export(struct cli *cli, int argc, char **argv)
{
	struct export e = {.cli = cli};
	OUTFILE_CLEAN struct outfile to = {0};
	struct fm_trace_file file;
	struct timeline t = {.file = &file};
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, 0, &e);
	if (outfile_same(e.path, e.to)) {
		fprintf(stderr, "fermata-lab: %s is the recording itself\n", e.to);
		return CLI_USAGE;
	}
	if (outfile_open(&to, e.to, cli->force, &err))
		return cli_report(&err);
	rc = trace_open(&file, e.path);
	if (rc)
		return rc;
	t.out = to.f;
	rc = finish(&to, write_events(&t));
	timeline_free(&t);
	fm_trace_file_close(&file);
	return rc;
}

static const struct cli_command verbs[] = {
	{"export", NULL, trace_export},
	{"record", NULL, NULL},
	{"dump", NULL, NULL},
	{0},
};

static const struct argp trace_argp = {
	.parser = cli_words,
	.args_doc = "export FILE -o FILE",
	.doc = "Convert a recording of `fermata trace record' to a timeline.\v`fermata-lab trace "
	       "export --help' explains it; fermata-lab-trace(1) has the details.",
};

int lab_trace(struct cli *cli, int argc, char **argv)
{
	struct cli_words w = {.cli = cli, .none = "trace needs export"};
	const struct cli_command *verb;

	cli_parse(&trace_argp, argc, argv, ARGP_IN_ORDER, &w);
	verb = cli_find(verbs, w.argv[0]);
	if (verb && verb->run)
		return cli_run_command(verb, "fermata-lab trace", cli, w.argc, w.argv);
	fprintf(stderr, "fermata-lab: trace does not know '%.40s'\n  hint: %s\n", w.argv[0],
		verb ? "it is a command of `fermata trace'" : "export");
	return CLI_USAGE;
}
