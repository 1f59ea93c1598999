/* SPDX-License-Identifier: Apache-2.0 */
/* `idempotence check TRACE'. */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/util.h"
#include "cmd/outfile.h"
#include "idempotence.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ALGORITHM = CLI_KEY_OWN };

struct check {
	struct cli *cli;
	const char *path, *out;
	enum fm_idem_algorithm algorithm;
	struct fm_idem_trace trace;
	struct fm_idem_report report;
	int32_t *start;
};

static const struct argp_option options[] = {
	{"algorithm", KEY_ALGORITHM, "NAME", 0,
		"forward: one pass (default); greedy: as in the paper; brute: by the definition, "
		"to check the others. All find the same",
		0},
	{"output", 'o', "LIST", 0, "Write the kernels and their classes to LIST", 0},
	CLI_OPT_FORCE,
	CLI_OPT_JSON,
	{0},
};

static enum fm_idem_algorithm algorithm_named(struct argp_state *state, const char *name)
{
	struct fm_nearest near = {.typed = name};

	for (unsigned i = 0; i < FM_IDEM_ALGORITHMS; i++) {
		if (!strcmp(name, fm_idem_algorithm_name(i)))
			return i;
		fm_nearest_try(&near, fm_idem_algorithm_name(i));
	}
	if (near.best)
		cli_usage(state, "there is no algorithm '%s': did you mean '%s'?", name, near.best);
	cli_usage(state, "there is no algorithm '%s': say forward, greedy or brute", name);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct check *c = state->input;

	switch (key) {
	case 'o':
		c->out = arg;
		return 0;
	case KEY_ALGORITHM:
		c->algorithm = algorithm_named(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (c->path)
			cli_usage(state, "one trace at a time, not '%s' as well", arg);
		c->path = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "which trace?");
	default:
		return cli_option(key, arg, c->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "TRACE",
	.doc = "Find for each operation of TRACE the operation from which its queue may run again "
	       "if it is cut off there, and the classes of kernels: idempotent (any of its blocks "
	       "may run again), group (it and some operations in front of it may), never."
	       "\vThe exit status is 0 whatever the classes are, and 2 if TRACE makes no sense.",
};

/* --- JSON: written as it goes, since traces are long --- */

static void print_op(const struct fm_idem_trace *t, size_t i, int32_t start)
{
	const struct fm_idem_op *o = &t->op[i];

	printf("%s\n{\"op\":%" PRId64 ",\"start\":", i ? "," : "", o->op);
	if (start < 0)
		fputs("null", stdout);
	else
		printf("%" PRId64, t->op[start].op);
	printf(",\"why\":\"%s\"}", fm_idem_why_text(fm_idem_why(t, o, start)));
}

static int print_json(const struct check *c)
{
	const struct fm_idem_report *r = &c->report;
	bool any = false;

	fputs("{\"ops\":[", stdout);
	for (size_t i = 0; i < c->trace.n_ops; i++)
		print_op(&c->trace, i, c->start[i]);
	fputs("],\n\"kernels\":[", stdout);
	for (size_t i = 0; i < r->n; i++) {
		CLI_CLEAN_JSON json_t *one = idempotence_kernel_json(&r->kernel[i]);

		fputs(i ? ",\n" : "\n", stdout);
		if (!one || json_dumpf(one, stdout, JSON_COMPACT))
			return CLI_FAILED;
	}
	printf("],\n\"summary\":{\"kernels\":%" PRIu64 ",\"idempotent\":%" PRIu64
	       ",\"never\":%" PRIu64 ",\"groups\":{",
		r->kernels, r->idempotent, r->never);
	for (unsigned i = 0; i < FM_ARRAY_LEN(r->group); i++) {
		if (!r->group[i])
			continue;
		printf("%s\"%u\":%" PRIu64, any ? "," : "", i, r->group[i]);
		any = true;
	}
	fputs("}}}\n", stdout);
	return CLI_OK;
}

/* --- for people --- */

static int print_text(const struct check *c)
{
	const struct fm_idem_report *r = &c->report;
	int rc = idempotence_print_kernels(r->kernel, r->n);

	printf("%" PRIu64 " launches: %" PRIu64 " idempotent", r->kernels, r->idempotent);
	for (unsigned i = 0; i < FM_ARRAY_LEN(r->group); i++)
		if (r->group[i])
			printf(", %" PRIu64 " in groups of %u", r->group[i], i);
	printf(", %" PRIu64 " never\n", r->never);
	return rc;
}

/* --- all of it --- */

static int find_all(struct check *c, struct fm_err *err)
{
	int rc = fm_idem_load(&c->trace, c->path, err);

	if (rc)
		return rc;
	c->start = reallocarray(NULL, c->trace.n_ops + 1, sizeof(*c->start));
	rc = c->start ? fm_idem_start(&c->trace, c->algorithm, c->start) : -ENOMEM;
	rc = rc ? rc : fm_idem_judge(&c->trace, c->start, &c->report);
	return rc ? fm_err_set(err, rc, "out of memory") : 0;
}

static int write_list(const struct check *c, struct outfile *out, struct fm_err *err)
{
	int rc;

	if (!out->path)
		return 0;
	rc = fm_idem_print(out->f, &c->report);
	if (rc == -E2BIG)
		return fm_err_set(err, rc,
			"%zu kernels are too many for a list, which has %u, and %zu MiB",
			c->report.n, FM_IDEM_KERNELS, FM_IDEM_FILE >> 20);
	return outfile_close(out, !rc, err);
}

int idempotence_check(struct cli *cli, int argc, char **argv)
{
	struct check c = {.cli = cli};
	OUTFILE_CLEAN struct outfile out = {0};
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, 0, &c);
	if (c.out && outfile_same(c.path, c.out)) {
		fprintf(stderr, "fermata-lab: %s is the trace itself\n", c.out);
		return CLI_USAGE;
	}
	if (c.out && outfile_open(&out, c.out, cli->force, &err))
		return cli_report(&err);
	rc = find_all(&c, &err);
	rc = rc ? rc : write_list(&c, &out, &err);
	rc = rc ? cli_report(&err) : cli->json ? print_json(&c) : print_text(&c);
	free(c.start);
	fm_idem_report_free(&c.report);
	fm_idem_trace_free(&c.trace);
	return rc;
}
