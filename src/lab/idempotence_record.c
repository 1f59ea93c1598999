/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `idempotence record -- PROGRAM': with what writes the trace in it. For CUDA that is an agent of
 * ours; programs of OpenCL run under Oclgrind, with a plug-in. A program may have both: which one
 * has written kernels shows what it uses.
 */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/util.h"
#include "cmd/inject.h"
#include "cmd/outfile.h"
#include "cmd/place.h"
#include "cmd/preload.h"
#include "idempotence.h"
#include "profile.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libfermata-oclgrind.so"
#define TRACES ".trace"

enum { KEY_COLLECTOR = CLI_KEY_OWN };
struct record {
	struct cli *cli;
	unsigned by;
	const char *out;
	char **command; /* ends with NULL */
	int words;
};

static const struct argp_option options[] = {
	{"output", 'o', "TRACE", 0, "Write the trace to TRACE (required); - is the standard output",
		0},
	{"collector", KEY_COLLECTOR, "NAME", 0,
		"cuda: by marks in the text of kernels, on the device; opencl: under Oclgrind, on "
		"the processor. Without it, whichever the program uses",
		0},
	CLI_OPT_FORCE,
	{0},
};

unsigned idempotence_collector(struct argp_state *state, const char *name)
{
	static const char *const names[] = {"cuda", "opencl"};
	struct fm_nearest near = {.typed = name};

	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++) {
		if (!strcmp(name, names[i]))
			return 1u << i;
		fm_nearest_try(&near, names[i]);
	}
	if (near.best)
		cli_usage(state, "there is no collector '%s': did you mean '%s'?", name, near.best);
	cli_usage(state, "there is no collector '%s': say cuda or opencl", name);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record *r = state->input;

	switch (key) {
	case 'o':
		r->out = arg;
		return 0;
	case KEY_COLLECTOR:
		r->by = idempotence_collector(state, arg);
		return 0;
	case ARGP_KEY_ARGS:
		r->command = state->argv + state->next;
		r->words = state->argc - state->next;
		if (!r->out)
			cli_usage(state, "no trace to write: give -o TRACE");
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no program given: fermata-lab idempotence record -o TRACE -- "
				 "PROGRAM");
	default:
		return cli_option(key, arg, r->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "-- PROGRAM [ARGUMENT...]",
	.doc = "Run a program, and write to TRACE which bytes each of its operations on a device "
	       "reads and writes. Programs of OpenCL run under Oclgrind, on the processor; kernels "
	       "of "
	       "CUDA run on their device, one at a time. It takes long: give it little to do."
	       "\vThe exit status is the program's. fermata-lab-idempotence(1) says what is seen.",
};

/* --- the program --- */

static bool is_program(const char *name)
{
	FM_CLEAN_FREE char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	char *at = path, *dir;
	char file[PATH_MAX];

	if (strchr(name, '/'))
		return !access(name, X_OK);
	while (path && (dir = strsep(&at, ":")))
		if ((size_t)snprintf(file, sizeof(file), "%s/%s", *dir ? dir : ".", name) <
				sizeof(file) &&
			!access(file, X_OK))
			return true;
	return false;
}

static int find_tools(char plugin[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!is_program("oclgrind")) {
		fm_err_set(err, -ENOENT, "Oclgrind is not installed");
		return fm_err_hint(err, "apt-get install oclgrind; traces from elsewhere can be "
					"checked without it");
	}
	if (!place_file(PLUGIN, plugin, self)) {
		fm_err_set(err, -ENOENT, "cannot find " PLUGIN " near %s", self);
		return fm_err_hint(err, "build with liboclgrind-dev and g++ installed, and install "
					"it beside Fermata's other libraries, or set "
					"FERMATA_LIBDIR to their directory");
	}
	if (strchr(plugin, ':'))
		return fm_err_set(err, -EINVAL, "the path of the plug-in has a ':': %s", plugin);
	return 0;
}

static int run_oclgrind(
	char **program, int words, char *plugin, const char *dir, struct fm_err *err)
{
	char *first[] = {"oclgrind", "--plugins", plugin};
	const size_t n = FM_ARRAY_LEN(first);
	FM_CLEAN_FREE char **command = calloc(n + (size_t)words + 1, sizeof(*command));

	if (!command)
		return fm_err_set(err, -ENOMEM, "out of memory");
	if (!is_program(program[0])) {
		fm_err_set(err, -ENOENT, "cannot run '%.100s': it is not there, or is no program",
			program[0]);
		fm_err_hint(err, "check its name, or give its full path");
		return CLI_NOT_FOUND;
	}
	memcpy(command, first, sizeof(first));
	memcpy(command + n, program, (size_t)words * sizeof(*command));
	if (inject_set("FERMATA_IDEMPOTENCE", dir, err))
		return err->code;
	return profile_execute(command, program[0], dir, err);
}

int idempotence_find_collectors(unsigned by, struct idempotence_collectors *c, struct fm_err *err)
{
	static const struct preload agent = {
		.file = "libfermata-record.so", .name = "CUDA", .variable = "FERMATA_RECORD_AGENT"};
	struct fm_err none = {0}, *tell = by == IDEMPOTENCE_OPENCL ? err : &none;
	int rc;

	c->opencl = by & IDEMPOTENCE_OPENCL && !find_tools(c->plugin, tell);
	if (by == IDEMPOTENCE_OPENCL)
		return c->opencl ? 0 : err->code;
	rc = profile_preload(&agent, err);
	if (!rc || by == IDEMPOTENCE_CUDA || !c->opencl)
		return rc;
	*err = (struct fm_err){0}; /* this build is without CUDA */
	return 0;
}

int idempotence_run(struct idempotence_collectors *c, char **command, int words, const char *dir,
	struct fm_err *err)
{
	if (c->opencl)
		return run_oclgrind(command, words, c->plugin, dir, err);
	if (inject_set("FERMATA_IDEMPOTENCE", dir, err))
		return err->code;
	return profile_execute(command, command[0], dir, err);
}

/* --- what it has left --- */

/* Why kernels of CUDA were not seen, as the agent names it (api/cuda/record/record.h). */
static const struct {
	const char *name, *text;
} unseen[] = {{"machine", "have machine code alone, no PTX"},
	{"strange", "access memory in ways that marks do not tell"},
	{"parameters", "have parameters that are not known"},
	{"outside", "touch memory that no argument of theirs names"},
	{"graph", "are in graphs, or of calls that do not name their parameters"},
	{"large", "have too many threads, pointers or queues"}, {"slow", "did not end in 10 s"},
	{"failed", "could not be looked at: the driver refused"}};

struct copied {
	uint64_t lines, kernels, unseen[FM_ARRAY_LEN(unseen)];
	bool cut; /* the last line has no end, and is left out */
};

static void count_line(const char *line, struct copied *c)
{
	const char *why = strstr(line, "\"unseen\":\"");

	c->lines++;
	c->kernels += strstr(line, "\"kind\":\"kernel\"") != NULL;
	for (size_t i = 0; why && i < FM_ARRAY_LEN(unseen); i++)
		c->unseen[i] += !strncmp(why + 10, unseen[i].name, strlen(unseen[i].name));
}

static int copy_trace(const char *path, FILE *to, struct copied *c, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");
	FM_CLEAN_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while (f && (n = getline(&line, &room, f)) > 0) {
		c->cut = line[n - 1] != '\n';
		if (c->cut || fwrite(line, 1, (size_t)n, to) != (size_t)n)
			break;
		count_line(line, c);
	}
	if (!f || ferror(f) || ferror(to))
		return fm_err_set(err, -EIO, "cannot copy the trace: %s", strerror(errno));
	return 0;
}

static void tell(const struct record *r, const struct copied *c)
{
	uint64_t n = 0;

	fprintf(stderr, "%s: %" PRIu64 " lines in %s\n", cli_name(), c->lines, r->out);
	if (c->cut)
		fprintf(stderr,
			"%s: the program ended while it wrote a line, which was cut off: what it "
			"did "
			"last is not in the trace\n",
			cli_name());
	for (size_t i = 0; i < FM_ARRAY_LEN(unseen); i++)
		n += c->unseen[i];
	if (!n)
		return;
	fprintf(stderr,
		"%s: %" PRIu64 " of %" PRIu64
		" kernels count as touching all memory, and never run again:\n",
		cli_name(), n, c->kernels);
	for (size_t i = 0; i < FM_ARRAY_LEN(unseen); i++)
		if (c->unseen[i])
			fprintf(stderr, "  %" PRIu64 " %s\n", c->unseen[i], unseen[i].text);
}

static bool has_kernels(const char *path, bool *empty)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");
	FM_CLEAN_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;

	*empty |= f && strstr(path, ".cuda.trace") && !fseek(f, 0, SEEK_END) && !ftell(f) &&
		  !ferror(f);
	if (f)
		rewind(f);
	while (f && (n = getline(&line, &room, f)) > 0)
		if (strstr(line, "\"kind\":\"kernel\""))
			return true;
	return false;
}

int idempotence_find_trace(
	const char *dir, char path[PATH_MAX], const char *name, struct fm_err *err)
{
	FM_CLEAN_DIR DIR *d = opendir(dir);
	struct dirent *e;
	unsigned traces = 0, with_kernels = 0;
	bool empty = false;

	while (d && (e = readdir(d))) {
		const char *dot = strrchr(e->d_name, '.');
		char file[PATH_MAX];

		if (!dot || strcmp(dot, TRACES) ||
			(size_t)snprintf(file, sizeof(file), "%s/%s", dir, e->d_name) >=
				sizeof(file))
			continue;
		traces++;
		if (has_kernels(file, &empty) && !with_kernels++)
			memcpy(path, file, sizeof(file));
	}
	if (with_kernels == 1)
		return 0;
	if (with_kernels) {
		fm_err_set(
			err, -ENOTSUP, "%u processes of '%.100s' ran kernels", with_kernels, name);
		return fm_err_hint(err, "record each by itself: a trace is of one process");
	}
	if (empty) {
		fm_err_set(err, -ENOSPC, "the trace of '%.100s' could not be written", name);
		return fm_err_hint(err, "the disk of TMPDIR is full, or the trace has more than 4 "
					"GiB: free some room, or give the program less to do");
	}
	fm_err_set(err, -ENODATA,
		traces ? "'%.100s' ran no kernel" : "'%.100s' used neither CUDA nor OpenCL", name);
	return fm_err_hint(err,
		"a program that is linked statically cannot be recorded, nor one of OpenCL that "
		"asks for a GPU alone%s",
		is_program("oclgrind") ? "" : "; OpenCL needs Oclgrind (apt-get install oclgrind)");
}

static int keep_trace(
	const struct record *r, const char *dir, struct outfile *out, struct fm_err *err)
{
	char path[PATH_MAX];
	struct copied c = {0};
	int rc = idempotence_find_trace(dir, path, r->command[0], err);

	rc = rc ? rc : copy_trace(path, out->f, &c, err);
	rc = rc ? rc : outfile_close(out, true, err);
	if (!rc)
		tell(r, &c);
	return rc;
}

int idempotence_record(struct cli *cli, int argc, char **argv)
{
	struct record r = {.cli = cli, .by = IDEMPOTENCE_CUDA | IDEMPOTENCE_OPENCL};
	OUTFILE_CLEAN struct outfile out = {0};
	struct idempotence_collectors with;
	struct fm_err err = {0};
	char dir[PATH_MAX];
	int status, rc;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &r);
	if (idempotence_find_collectors(r.by, &with, &err) ||
		outfile_open(&out, r.out, cli->force, &err) ||
		profile_make_dir(dir, sizeof(dir), &err))
		return cli_report(&err);
	status = idempotence_run(&with, r.command, r.words, dir, &err);
	rc = err.code ? err.code : keep_trace(&r, dir, &out, &err);
	profile_remove_dir(dir);
	if (rc)
		rc = cli_report(&err);
	return status > 0 ? status : rc;
}
