/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab profile -- PROGRAM`: what its kernels touch behind each pointer that they are given.
 */
#include "profile.h"
#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/attach.h"
#include "cmd/outfile.h"
#include "cmd/progress.h"
#include "commands.h"
#include "profile_rooms.h"
#include "profile_save.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_BY = CLI_KEY_OWN, KEY_CHECK, KEY_AGAINST, KEY_ATTACH, KEY_FOR, KEY_ROOMS };

#define ROOMS_USUAL "8,16,24,32,48,64"

#define BY_ALL ((1u << FM_SOURCES) - 1)

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0,
		"Write the result to FILE; default: to the user's own folder of "
		"kernels, merged with what is there",
		0},
	{"by", KEY_BY, "SOURCE", 0,
		"sanitizer, marks, hash, or auto: the best that there is for "
		"each kernel (default)",
		0},
	{"check", KEY_CHECK, 0, 0,
		"Compare with hashes of memory before and after each launch, and "
		"tell what was missed",
		0},
	{"against", KEY_AGAINST, "FILE", 0,
		"Compare what is touched with what the templates in FILE foretell, and write "
		"none; FILE may be a folder of kernels",
		0},
	{"attach-next", KEY_ATTACH, "GROUP", 0,
		"Start nothing: look at the next process of GROUP that `fermata run' starts", 0},
	{"for", KEY_FOR, "TIME", 0,
		"With --attach-next: look for so long; default: until the process ends", 0},
	{"rooms", KEY_ROOMS, "K,...", OPTION_ARG_OPTIONAL,
		"Time kernels instead: alone on the whole device, and on K multiprocessors each "
		"(default: " ROOMS_USUAL ")",
		0},
	CLI_OPT_FORCE,
	CLI_OPT_JSON,
	{0},
};

static unsigned source_named(struct argp_state *state, const char *name)
{
	struct fm_nearest near = {.typed = name};

	if (!strcmp(name, "auto"))
		return BY_ALL;
	fm_nearest_try(&near, "auto");
	for (unsigned i = 0; i < FM_SOURCES; i++) {
		if (!strcmp(name, fm_source_name(i)))
			return 1u << i;
		fm_nearest_try(&near, fm_source_name(i));
	}
	if (near.best)
		cli_usage(state, "there is no source '%s': did you mean '%s'?", name, near.best);
	cli_usage(state, "there is no source '%s': say sanitizer, marks, hash, or auto", name);
}

static void check_group(struct argp_state *state, const char *name)
{
	if (!*name || strlen(name) > ATTACH_GROUP_MOST || strpbrk(name, "/\n"))
		cli_usage(state, "'%s' is no name of a group", name);
}

static uint64_t span_of(struct argp_state *state, const char *text)
{
	struct fm_err err = {0};
	int64_t ns;

	if (fm_parse_time(text, &ns, &err))
		cli_usage_err(state, &err);
	if (ns <= 0)
		cli_usage(state, "--for takes some time, such as 30s");
	return (uint64_t)ns;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct profile_options *o = state->input;

	switch (key) {
	case 'o':
		o->out = arg;
		return 0;
	case KEY_BY:
		o->by = source_named(state, arg);
		return 0;
	case KEY_CHECK:
		o->check = true;
		return 0;
	case KEY_AGAINST:
		o->against = arg;
		return 0;
	case KEY_ATTACH:
		check_group(state, arg);
		o->attach = arg;
		return 0;
	case KEY_FOR:
		o->span = span_of(state, arg);
		return 0;
	case KEY_ROOMS:
		o->times = true;
		if (!profile_rooms_parse(o, arg ? arg : ROOMS_USUAL))
			cli_usage(state,
				"--rooms=%s: give up to %u rising numbers of multiprocessors", arg,
				FM_PROFILE_ROOMS);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (o->span && !o->attach)
			cli_usage(state, "--for belongs to --attach-next");
		if (o->times && o->attach)
			cli_usage(state, "--rooms starts its program: leave out --attach-next");
		return 0;
	case ARGP_KEY_ARGS:
		if (o->attach)
			cli_usage(state, "--attach-next starts no program: leave out '%s'",
				state->argv[state->next]);
		o->command = state->argv + state->next;
		if (o->against && o->out)
			cli_usage(state, "--against writes no templates: leave out --output");
		if (o->times && (o->against || o->check || o->by != BY_ALL))
			cli_usage(state, "--rooms looks at no memory: leave out --by, --check and "
					 "--against");
		if (strcmp(*o->command, "show") || !strcmp(state->argv[state->next - 1], "--"))
			return 0;
		if (state->argc - state->next != 2)
			cli_usage(state, "name one file to show; for a program: -- show");
		if (o->against)
			cli_usage(state, "--against compares with a program: name one behind --");
		if (o->times)
			cli_usage(state, "--rooms runs a program: name one behind --");
		o->show = o->command[1];
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (o->attach)
			return 0;
		cli_usage(state, "no program given: fermata-lab profile -- PROGRAM");
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "-- PROGRAM [ARGUMENT...]\n--attach-next GROUP\nshow FILE",
	.doc = "Run a CUDA program and find out which memory its kernels touch behind each pointer "
	       "that they are given; or, with --rooms, how long they take on how much of the "
	       "device. "
	       "With `show': print such a result."
	       "\vThe exit status is the program's. fermata-lab-profile(1) says what is seen, and "
	       "how long it takes.",
};

/* --- records --- */

void profile_remove_dir(const char *dir)
{
	FM_CLEAN_DIR DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (*e->d_name != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	rmdir(dir);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_record(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && !strcmp(dot, FM_PROFILE_RECORDS);
}

int profile_read_records(
	struct fm_profile *p, const char *dir, fm_profile_seen *seen, void *arg, struct fm_err *err)
{
	struct dirent **list = NULL;
	int n = scandir(dir, &list, is_record, by_name), rc = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		FM_CLEAN_FREE char *path = NULL;

		if (!rc && asprintf(&path, "%s/%s", dir, list[i]->d_name) < 0)
			rc = -ENOMEM;
		rc = rc ? rc : fm_profile_read(p, path, seen, arg);
		free(list[i]);
	}
	free(list);
	return rc ? fm_err_set(err, rc, "cannot read the records of the program: %s", strerror(-rc))
		  : 0;
}

int profile_make_dir(char *dir, size_t size, struct fm_err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || *tmp != '/')
		tmp = "/tmp";
	if ((size_t)snprintf(dir, size, "%s/fermata-profile-XXXXXX", tmp) >= size ||
		!mkdtemp(dir)) {
		fm_err_set(err, -errno, "cannot make a folder for the records in %.100s: %m", tmp);
		return fm_err_hint(err, "set TMPDIR to a folder of yours with some room");
	}
	return 0;
}

/* --- all of it --- */

static int show_result(const struct profile_fit *f, const struct profile_options *o)
{
	CLI_CLEAN_JSON json_t *json = NULL;

	profile_tell(f, o);
	if (!o->cli->json)
		return profile_print(f->p);
	json = profile_json(f);
	return json ? cli_print_json(json) : CLI_FAILED;
}

static int fit_and_save(
	struct profile_fit *f, const char *dir, struct outfile *out, struct fm_err *err)
{
	int rc;

	progress_show("%s: finding templates for %u kernels", cli_name(), f->p->n);
	f->fit = fm_fit_new();
	rc = f->fit ? profile_read_records(NULL, dir, profile_fit_add, f, err)
		    : fm_err_set(err, -ENOMEM, "out of memory");
	rc = rc ? rc : profile_save(f, out, err);
	progress_clear();
	return rc;
}

static int finish(const struct profile_options *o, struct profile_fit *f, const char *dir,
	struct outfile *out, struct profile_against *against)
{
	struct fm_err err = {0};
	int rc;

	if (against) {
		rc = profile_against(against, f->p, dir, o, &err);
		return rc < 0 ? cli_report(&err) : rc;
	}
	rc = fit_and_save(f, dir, out, &err);
	if (!rc && out->path && f->kernels)
		rc = outfile_close(out, true, &err);
	return rc ? cli_report(&err) : show_result(f, o);
}

static int time_in(
	const struct profile_options *o, const char *dir, struct outfile *out, int status)
{
	struct fm_times times = {0};
	struct fm_profile p = {.times = &times};
	struct fm_err err = {0};
	int rc = profile_read_records(&p, dir, NULL, NULL, &err);

	if (!rc && !times.n && status)
		rc = fm_err_set(&err, -ENODATA,
			"nothing was timed before '%.100s' ended with status %d", o->command[0],
			status);
	rc = rc ? rc : profile_rooms(o, &p, out, &err);
	rc = rc < 0 ? cli_report(&err) : rc;
	fm_times_free(&times);
	fm_profile_free(&p);
	return status ? status : rc;
}

static int profile_in(const struct profile_options *o, const char *dir, struct outfile *out,
	struct profile_against *against)
{
	struct fm_err err = {0};
	struct fm_profile p = {0};
	struct profile_fit f = {.p = &p};
	int status = o->attach ? profile_attach(o, dir, &err) : profile_run(o, dir, &err), rc;

	if (status < 0)
		return cli_report(&err);
	if (err.code) {
		cli_report(&err);
		return status;
	}
	if (o->times)
		return time_in(o, dir, out, status);
	rc = profile_read_records(&p, dir, NULL, NULL, &err);
	if (!rc && !p.n && status)
		rc = fm_err_set(&err, -ENODATA,
			"nothing was seen before '%.100s' ended with status %d", o->command[0],
			status);
	else if (!rc && !p.n)
		rc = profile_nothing(&f, o, &err);
	rc = rc ? cli_report(&err) : finish(o, &f, dir, out, against);
	fm_fit_free(f.fit);
	fm_profile_free(&p);
	return status ? status : rc;
}

int lab_profile(struct cli *cli, int argc, char **argv)
{
	struct profile_options o = {.cli = cli, .by = BY_ALL};
	OUTFILE_CLEAN struct outfile out = {0};
	struct profile_against *against = NULL;
	char dir[PATH_MAX];
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &o);
	if (o.show)
		return profile_rooms_is_file(o.show) ? profile_rooms_show(&o) : profile_show(&o);
	if ((o.against && !(against = profile_against_new(o.against, &err))) ||
		(o.out && outfile_open(&out, o.out, cli->force, &err)) ||
		profile_make_dir(dir, sizeof(dir), &err)) {
		profile_against_free(against);
		return cli_report(&err);
	}
	rc = profile_in(&o, dir, &out, against);
	profile_remove_dir(dir);
	profile_against_free(against);
	return rc;
}
