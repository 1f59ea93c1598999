/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata trace record`. */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/outfile.h"
#include "trace.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "Write the recording into FILE (required)", 0},
	{"duration", 'd', "SECONDS", 0, "End after SECONDS; default: at Ctrl-C", 0},
	{"group", 'g', "NAME", 0, "Record only this group; can be given several times", 0},
	{"exact", 'e', 0, 0,
		"Also record each job of groups that are alone on their device, at a small cost "
		"to them; needs the right to steer all groups",
		0},
	CLI_OPT_FORCE,
	{"quiet", 'q', 0, 0, "Do not show progress", 0},
	CLI_OPT_SOCKET,
	{0},
};

struct options {
	struct cli *cli;
	const char *path;
	struct trace_wishes wishes;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	struct trace_wishes *w = &o->wishes;

	switch (key) {
	case 'o':
		o->path = arg;
		return 0;
	case 'd':
		if (cli_parse_seconds(arg, &w->duration) || !(w->duration > 0 && w->duration < 1e9))
			cli_usage(state, "'%s' is not a number of seconds", arg);
		return 0;
	case 'g':
		if (w->n_groups == TRACE_GROUPS)
			cli_usage(state, "more than %d groups", TRACE_GROUPS);
		trace_check_group(state, arg);
		w->group[w->n_groups++] = arg;
		return 0;
	case 'e':
		w->exact = true;
		return 0;
	case 'q':
		w->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage(state, "trace record takes no argument '%s'", arg);
	case ARGP_KEY_END:
		if (!o->path)
			cli_usage(state, "no output file: give -o FILE");
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Record the daemon's decisions and their effects until Ctrl-C: for your own "
	       "groups, or for all groups if you may see all.",
};

static int finish(const struct options *o, const struct trace_outcome *out, int rc)
{
	if (rc) {
		fprintf(stderr,
			"fermata: %s: cannot write: %s\n"
			"  hint: the records written so far can be read\n",
			o->path, strerror(-rc));
		return CLI_FAILED;
	}
	if (!o->wishes.quiet)
		fprintf(stderr, "fermata: %" PRIu64 " records in %s, %" PRIu64 " lost\n",
			out->records, o->path, out->lost);
	if (o->wishes.exact && !out->exact)
		fputs("fermata: not exact: you may not steer all groups\n", stderr);
	if (!out->gone)
		return CLI_OK;
	fprintf(stderr, "fermata: the daemon ended the recording, or ended itself\n"
			"  hint: its log may say why\n");
	return CLI_FAILED;
}

int trace_record(struct cli *cli, int argc, char **argv)
{
	TRACE_CLEAN struct recorder *r = NULL;
	OUTFILE_CLEAN struct outfile to = {0};
	struct options o = {.cli = cli};
	struct trace_outcome out;
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, 0, &o);
	if (outfile_open_live(&to, o.path, cli->force, &err) ||
		trace_connect(&r, cli, &o.wishes, &err))
		return cli_report(&err);
	if (!o.wishes.quiet)
		fprintf(stderr, "fermata: recording into %s%s\n", o.path,
			o.wishes.duration > 0 ? "" : "; Ctrl-C ends it");
	rc = trace_run(r, to.f, -1, &out);
	if (rc)
		outfile_keep(&to);
	else
		rc = outfile_close(&to, true, &err);
	return finish(&o, &out, rc);
}
