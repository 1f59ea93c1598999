/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/util.h"
#include "commands.h"
#include <errno.h>
#include <string.h>

enum action { ANALYZE, COMPARE, EXPLAIN };
enum {
	KEY_GPU_PRIORITY = CLI_KEY_OWN,
	KEY_CSV,
	KEY_CPUS,
	KEY_CHARGE,
	KEY_PLATFORM,
	KEY_GPU,
	KEY_SLOTS,
	KEY_ENGINE
};

struct analyze {
	struct cli *cli;
	enum action action;
	bool named; /* a method is given */
	bool gedf, gpu, gpu_priority, csv, charged;
	enum fm_rta_method method;
	int64_t cpus, slots; /* 0: as the file says */
	const char *engine;
	enum fm_gedf_charge charge;
	const char *task, *platform_file;
	struct fm_platform platform;
	char **file;
	size_t files;
};

static const struct argp_option options[] = {
	{"method", 'm', "METHOD", 0, "Method of analysis: see below", 0},
	{"gpu-priority", KEY_GPU_PRIORITY, 0, 0,
		"Try separate GPU priorities if the CPU priorities do not suffice (gcaps)", 0},
	{"cpus", KEY_CPUS, "N", 0, "Number of CPUs (gedf)", 0},
	{"charge", KEY_CHARGE, "HOW", 0,
		"CPU cost of scheduling the GPU (gedf): none, dedicated, ceil, floor", 0},
	{"gpu", KEY_GPU, 0, 0,
		"The tasks are a set that schedules itself on a device (gedf); --platform has what "
		"that costs",
		0},
	{"slots", KEY_SLOTS, "M", 0, "Chunks of the set that run at once (gedf --gpu)", 0},
	{"engine", KEY_ENGINE, "ENGINE", 0,
		"Engine of the set: cpu, gates or graphs (gedf --gpu). Default: the last of them "
		"that was measured",
		0},
	{"platform", KEY_PLATFORM, "FILE", 0,
		"Results of `fermata calibrate': epsilon, slice and theta. If the file of tasks "
		"gives them too, the larger value is used. With --gpu, those of `fermata calibrate "
		"--gpu-sched'",
		0},
	{"task", 't', "TASK", 0, "Task whose bound is explained", 0},
	{"csv", KEY_CSV, 0, 0, "Print comma-separated values", -2},
	CLI_OPT_JSON,
	{0},
};

static void set_method(struct analyze *a, struct argp_state *state, const char *name)
{
	a->named = true;
	a->gedf = !strcmp(name, "gedf");
	if (!a->gedf && fm_rta_method_find(name, &a->method))
		cli_usage(state, "no method '%s'", name);
}

static void set_charge(struct analyze *a, struct argp_state *state, const char *name)
{
	a->charged = true;
	for (unsigned c = 0; c < FM_GEDF_CHARGES; c++) {
		a->charge = (enum fm_gedf_charge)c;
		if (!strcmp(name, fm_gedf_charge_name(a->charge)))
			return;
	}
	cli_usage(state, "'%s' is neither none, dedicated, ceil nor floor", name);
}

static void set_number(const struct argp_state *state, const char *number, int64_t most, int64_t *v)
{
	struct fm_err err;

	if (fm_parse_int(number, 1, most, v, &err))
		cli_usage_err(state, &err);
}

static void set_engine(struct analyze *a, const struct argp_state *state, const char *name)
{
	enum fm_platform_engine_id engine;

	if (fm_platform_engine_find(name, &engine))
		cli_usage(state, "'%s' is neither cpu, gates nor graphs", name);
	a->engine = name;
}

static void set_files(struct analyze *a, struct argp_state *state)
{
	a->file = state->argv + state->next;
	a->files = (size_t)(state->argc - state->next);
	state->next = state->argc;
	if (!strcmp(a->file[0], "compare"))
		a->action = COMPARE;
	else if (!strcmp(a->file[0], "explain"))
		a->action = EXPLAIN;
	if (a->action != ANALYZE) {
		a->file++;
		a->files--;
	}
}

static void check_gpu(const struct analyze *a, const struct argp_state *state)
{
	if (a->gpu && (!a->gedf || a->action != ANALYZE))
		cli_usage(state, "--gpu belongs to --method gedf");
	if (!a->gpu && (a->slots || a->engine))
		cli_usage(state, "--slots and --engine belong to --gpu");
	if (a->gpu && (a->cpus || a->charged))
		cli_usage(state, "--cpus and --charge are for CPUs: --gpu takes --slots, and its "
				 "costs from --platform");
	if (a->gpu && !a->platform_file)
		cli_usage(state, "--gpu needs --platform FILE: `fermata calibrate --gpu-sched -o "
				 "FILE' makes one");
}

static void check_usage(const struct analyze *a, const struct argp_state *state)
{
	check_gpu(a, state);
	if (a->action == COMPARE && (a->named || a->gpu_priority))
		cli_usage(state, "compare takes no method: it shows them all");
	if (a->action != COMPARE && !a->named)
		cli_usage(state, "no --method given");
	if (a->action == EXPLAIN && !a->task)
		cli_usage(state, "explain needs a task: give --task");
	if (a->action != EXPLAIN && a->task)
		cli_usage(state, "--task belongs to explain");
	if (a->action == EXPLAIN && a->gedf)
		cli_usage(state, "gedf has tests, and no bounds to explain");
	if (!a->gedf && (a->cpus || a->charged))
		cli_usage(state, "--cpus and --charge belong to --method gedf");
	if (a->gedf && !a->gpu && a->platform_file)
		cli_usage(state, "gedf does not model a device: --platform belongs to the other "
				 "methods, or to --gpu");
	if (a->gpu_priority && (a->gedf || !fm_rta_method_gpu_priority(a->method)))
		cli_usage(state, "--gpu-priority belongs to the gcaps methods");
	if (a->csv && a->cli->json)
		cli_usage(state, "either --csv or --json");
	if (!a->files)
		cli_usage(state, "no file given");
	if (a->action != ANALYZE && a->files > 1)
		cli_usage(state, "one file at a time");
}

static error_t parse_analyze(int key, char *arg, struct argp_state *state)
{
	struct analyze *a = state->input;

	switch (key) {
	case 'm':
		set_method(a, state, arg);
		return 0;
	case KEY_GPU_PRIORITY:
		a->gpu_priority = true;
		return 0;
	case KEY_CPUS:
		set_number(state, arg, FM_GEDF_CPUS, &a->cpus);
		return 0;
	case KEY_CHARGE:
		set_charge(a, state, arg);
		return 0;
	case KEY_GPU:
		a->gpu = true;
		return 0;
	case KEY_SLOTS:
		set_number(state, arg, TASKSET_SLOTS, &a->slots);
		return 0;
	case KEY_ENGINE:
		set_engine(a, state, arg);
		return 0;
	case KEY_PLATFORM:
		a->platform_file = arg;
		return 0;
	case 't':
		a->task = arg;
		return 0;
	case KEY_CSV:
		a->csv = true;
		return 0;
	case ARGP_KEY_ARGS:
		set_files(a, state);
		return 0;
	case ARGP_KEY_END:
		check_usage(a, state);
		return 0;
	default:
		return cli_option(key, arg, a->cli);
	}
}

/* The methods, made from their table, as the text after the options. */
static char *list_methods(int key, const char *text, void *input)
{
	char *list = NULL;
	size_t size;
	FILE *f;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&list, &size);
	if (!f)
		return NULL;
	fputs("Methods:\n", f);
	for (unsigned m = 0; m < FM_RTA_METHODS; m++)
		fprintf(f, "  %-14s %s\n", fm_rta_method_name((enum fm_rta_method)m),
			fm_rta_method_summary((enum fm_rta_method)m));
	fputs("  gedf           global EDF on the CPUs: the tests BAK, GFB, RTA, BAR; with --gpu, "
	      "of a set on a device\n",
		f);
	fputs("\nfermata-analyze(1) describes the file.", f);
	return fclose(f) ? NULL : list;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_analyze,
	.args_doc =
		"--method METHOD FILE...\ncompare FILE\nexplain --method METHOD --task TASK FILE",
	.doc = "Compute bounds on the response times of tasks that share a GPU, before they run.\v",
	.help_filter = list_methods,
};

static enum analyze_format format_of(const struct analyze *a)
{
	return a->cli->json ? FORMAT_JSON : a->csv ? FORMAT_CSV : FORMAT_TABLE;
}

static int run_one(
	const struct analyze *a, struct analysis *one, const char *file, struct fm_err *err)
{
	uint32_t cpus;
	int rc = analysis_load(one, file,
		a->gpu    ? TASKSET_GPU
		: a->gedf ? TASKSET_GEDF
			  : TASKSET_RTA,
		a->platform_file ? &a->platform : NULL, err);

	if (rc || a->action == COMPARE)
		return rc;
	if (a->gpu)
		return analysis_gpu(one, (uint32_t)a->slots, a->engine, err);
	if (!a->gedf)
		return analysis_run(one, a->method, a->gpu_priority, err);
	cpus = a->cpus ? (uint32_t)a->cpus : one->ts.cpus;
	if (cpus)
		return analysis_gedf(one, cpus, a->charge, err);
	fm_err_set(err, -EINVAL, "%.120s: does not say how many CPUs there are", file);
	fm_err_hint(err, "give --cpus");
	return -EINVAL;
}

static int show(const struct analyze *a, struct analysis *all)
{
	enum analyze_format format = format_of(a);
	int rc;

	switch (a->action) {
	case COMPARE:
		return analyze_compare(all, format);
	case EXPLAIN:
		return analyze_explain(all, a->task, format);
	default:
		rc = a->gpu    ? analyze_show_gpu(all, a->files, format)
		     : a->gedf ? analyze_show_gedf(all, a->files, format)
			       : analyze_show(all, a->files, format);
	}
	for (size_t k = 0; k < a->files && rc == CLI_OK; k++)
		rc = all[k].schedulable ? CLI_OK : CLI_NO;
	return rc;
}

int cli_analyze(struct cli *cli, int argc, char **argv)
{
	struct analyze a = {.cli = cli};
	struct fm_err err = {0};
	struct analysis *all;
	int rc = 0;

	cli_parse(&argp, argc, argv, 0, &a);
	all = calloc(a.files + 1, sizeof(*all));
	if (!all)
		return CLI_FAILED;
	if (a.platform_file)
		rc = fm_platform_load(&a.platform, a.platform_file, &err);
	for (size_t k = 0; !rc && k < a.files; k++)
		rc = run_one(&a, &all[k], a.file[k], &err);
	rc = rc ? cli_report(&err) : show(&a, all);
	for (size_t k = 0; k < a.files; k++)
		analysis_free(&all[k]);
	free(all);
	return rc;
}
