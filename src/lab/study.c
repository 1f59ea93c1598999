/* SPDX-License-Identifier: Apache-2.0 */
#include "study.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/table.h"
#include "commands.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SETS     1000000
#define MAX_THREADS  1024
#define MAX_DECISION INT64_C(1000000000)

enum { KEY_SETS = CLI_KEY_OWN, KEY_SEED, KEY_DECISION };

struct options {
	struct cli *cli;
	int64_t sets;                    /* 0: as the paper */
	int64_t seed, threads, decision; /* decision: ns; 0: as the study has it */
	const char *dir;
	char **name;
	size_t names;
};

static const struct argp_option options[] = {
	{"out", 'o', "DIR", 0, "Directory of the results; default: this one", 0},
	{"sets", KEY_SETS, "N", 0, "Sets of tasks at each point; default: as in the paper", 0},
	{"seed", KEY_SEED, "N", 0, "Seed of the random numbers; default: 1", 0},
	{"threads", 'j', "N", 0, "Number of threads; default: one per processor", 0},
	{"decision", KEY_DECISION, "TIME", 0,
		"What a decision of ours costs (gedf-4, gedf-8); default: 6us, an aim", 0},
	CLI_OPT_FORCE,
	{0},
};

static void set_number(
	const struct argp_state *state, const char *text, int64_t min, int64_t max, int64_t *v)
{
	struct fm_err err;

	if (fm_parse_int(text, min, max, v, &err))
		cli_usage_err(state, &err);
}

static void set_decision(const struct argp_state *state, const char *text, int64_t *v)
{
	struct fm_err err;

	if (fm_parse_time(text, v, &err))
		cli_usage_err(state, &err);
	if (*v < 1 || *v > MAX_DECISION)
		cli_usage(state, "a decision takes from 1ns to 1s");
}

static void no_study(const struct argp_state *state, const char *name)
{
	struct fm_err err;

	fm_err_set(&err, -EINVAL, "no study '%s'", name);
	fm_err_hint(&err, "`fermata-lab study' lists them");
	cli_usage_err(state, &err);
}

static error_t parse_study(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->dir = arg;
		return 0;
	case KEY_SETS:
		set_number(state, arg, 1, MAX_SETS, &o->sets);
		return 0;
	case KEY_SEED:
		set_number(state, arg, 0, INT64_MAX, &o->seed);
		return 0;
	case KEY_DECISION:
		set_decision(state, arg, &o->decision);
		return 0;
	case 'j':
		set_number(state, arg, 1, MAX_THREADS, &o->threads);
		return 0;
	case ARGP_KEY_ARGS:
		o->name = state->argv + state->next;
		o->names = (size_t)(state->argc - state->next);
		state->next = state->argc;
		for (size_t k = 0; k < o->names; k++)
			if (strcmp(o->name[k], "all") && !study_find(o->name[k]))
				no_study(state, o->name[k]);
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_study,
	.args_doc = "[NAME...]\nall",
	.doc = "Repeat the schedulability experiments of the papers: the part of many random sets "
	       "of tasks that passes, by method. Without a name, list the studies.",
};

static int list(void)
{
	static const struct table_column columns[] = {
		{"STUDY", false, false},
		{"POINTS", true, false},
		{"SETS", true, false},
		{"WHAT", false, true},
	};
	TABLE_CLEAN struct table t;
	const struct study *s;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t k = 0; (s = study_at(k)); k++) {
		table_add(&t, "%s", s->name);
		table_add(&t, "%u", s->points);
		table_add(&t, "%u", s->sets);
		table_add(&t, "%s", s->title);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

/* Areas under the curves, and how far the first exceeds each other one. */
static int summary(const struct study_result *r)
{
	static const struct table_column columns[] = {
		{"CURVE", false, true},
		{"AREA", true, false},
		{"GAIN OF THE FIRST", true, false},
	};
	double first = study_area(r, 0);
	TABLE_CLEAN struct table t;

	printf("%s: %s, %u sets a point\n", r->study->name, r->study->title, r->sets);
	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned c = 0; c < r->study->curves; c++) {
		double area = study_area(r, c);

		table_add(&t, "%s", r->study->curve[c]);
		table_add(&t, "%.4g", area);
		if (c && area > 0)
			table_add(&t, "%.1f%%", 100 * (first / area - 1));
		else
			table_add(&t, "-");
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static int run_one(const struct options *o, const struct study *s)
{
	struct study own = *s;
	struct study_result r = {.study = &own,
		.seed = (uint64_t)o->seed,
		.sets = o->sets ? (unsigned)o->sets : s->sets};
	__attribute__((cleanup(study_files_drop))) struct study_files files = {0};
	struct fm_err err = {0};
	unsigned points;
	int rc;

	if (s->decision && o->decision)
		own.decision = o->decision;
	if (study_open(&files, s, o->dir, o->cli->force, &err))
		return cli_report(&err);
	points = study_resume(&r, o->dir);
	if (points)
		fprintf(stderr, "fermata-lab: %s: %u of %u points are there already\n", s->name,
			points, s->points);
	rc = study_run(&r, o->dir, (unsigned)o->threads, isatty(STDERR_FILENO), &err);
	if (!rc)
		rc = study_write(&r, &files, o->dir, &err);
	if (rc) {
		fm_err_hint(&err, "what is done so far is kept, and not done again");
		return cli_report(&err);
	}
	return summary(&r);
}

static int check_one(const struct options *o, const struct study *s)
{
	struct study_files files = {0};
	struct fm_err err = {0};
	int rc = study_open(&files, s, o->dir, o->cli->force, &err);

	study_files_drop(&files);
	return rc ? cli_report(&err) : CLI_OK;
}

static int each(const struct options *o, int (*fn)(const struct options *o, const struct study *s))
{
	const struct study *s;
	int rc = CLI_OK;

	for (size_t k = 0; rc == CLI_OK && k < o->names; k++) {
		if (strcmp(o->name[k], "all")) {
			rc = fn(o, study_find(o->name[k]));
			continue;
		}
		for (size_t n = 0; rc == CLI_OK && (s = study_at(n)); n++)
			rc = fn(o, s);
	}
	return rc;
}

/* It is checked that all can be written before the first one begins. */
static int run_all(const struct options *o)
{
	int rc = each(o, check_one);

	return rc ? rc : each(o, run_one);
}

int lab_study(struct cli *cli, int argc, char **argv)
{
	struct options o = {.cli = cli, .seed = 1, .dir = "."};
	struct fm_err err = {0};

	cli_parse(&argp, argc, argv, 0, &o);
	if (!o.names)
		return list();
	if (!o.threads)
		o.threads = sysconf(_SC_NPROCESSORS_ONLN);
	o.threads = FM_MIN(FM_MAX(o.threads, INT64_C(1)), (int64_t)MAX_THREADS);
	if (mkdir(o.dir, 0777) && errno != EEXIST) {
		fm_err_set(&err, -errno, "%s: cannot be made: %s", o.dir, strerror(errno));
		return cli_report(&err);
	}
	return run_all(&o);
}
