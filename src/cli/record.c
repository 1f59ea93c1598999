/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata record`: what the daemon saw, as a workload that `fermata-lab sim` takes. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "cmd/ctl.h"
#include "cmd/outfile.h"
#include "commands.h"
#include "model/recorded.h"
#include "trace.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* The records are on disk until the end, and then this many need about 1 GiB of memory. */
#define LIMIT (UINT64_C(1) << 24)

enum { KEY_FROM = CLI_KEY_OWN, KEY_ARRIVALS };

struct options {
	struct cli *cli;
	const char *output, *from;
	struct outfile out;
	char how; /* recorded_write() */
	struct trace_wishes wishes;
	char **argv; /* to be run meanwhile, or NULL */
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0,
		"Write the workload into FILE (required); - is the standard output", 0},
	{"duration", 'd', "SECONDS", 0, "End after SECONDS; default: at Ctrl-C", 0},
	{"group", 'g', "NAME", 0, "Record only this group; can be given several times", 0},
	{"from", KEY_FROM, "TRACE", 0,
		"Convert TRACE, a file of `fermata trace record', instead of recording", 0},
	{"arrivals", KEY_ARRIVALS, "HOW", 0,
		"Jobs arrive at their recorded times (open), or with their recorded pause after "
		"the end of the job before (closed), or as detected for each group (auto, the "
		"default)",
		0},
	CLI_OPT_FORCE,
	{"quiet", 'q', 0, 0, "Do not show progress", 0},
	CLI_OPT_SOCKET,
	{0},
};

static void set_how(struct options *o, const char *arg, const struct argp_state *state)
{
	if (strcmp(arg, "auto") != 0 && strcmp(arg, "open") != 0 && strcmp(arg, "closed") != 0)
		cli_usage(state, "arrivals are auto, open or closed, not '%s'", arg);
	o->how = *arg;
}

static void set_duration(struct options *o, const char *arg, const struct argp_state *state)
{
	if (cli_parse_seconds(arg, &o->wishes.duration) ||
		!(o->wishes.duration > 0 && o->wishes.duration < 1e9))
		cli_usage(state, "'%s' is not a number of seconds", arg);
}

static void check(const struct options *o, const struct argp_state *state)
{
	const struct trace_wishes *w = &o->wishes;

	if (!o->output)
		cli_usage(state, "no output file: give -o FILE");
	if (o->from && (o->argv || w->duration > 0 || w->n_groups))
		cli_usage(state, "--from takes neither a duration, nor groups, nor a command");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case 'd':
		set_duration(o, arg, state);
		return 0;
	case 'g':
		if (o->wishes.n_groups == TRACE_GROUPS)
			cli_usage(state, "more than %d groups", TRACE_GROUPS);
		trace_check_group(state, arg);
		o->wishes.group[o->wishes.n_groups++] = arg;
		return 0;
	case 'q':
		o->wishes.quiet = true;
		return 0;
	case KEY_FROM:
		o->from = arg;
		return 0;
	case KEY_ARRIVALS:
		set_how(o, arg, state);
		return 0;
	case ARGP_KEY_ARGS:
		o->argv = state->argv + state->next;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		check(o, state);
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "-o FILE [-- COMMAND [ARGUMENT...]]\n--from TRACE -o FILE",
	.doc = "Record the device work of programs as a workload for `fermata-lab sim', until "
	       "Ctrl-C, or while COMMAND runs under Fermata.\vfermata-record(1) has the details.",
};

static int save(struct options *o, const struct recorded *r, const char *from, struct fm_err *err)
{
	errno = 0;
	if (!outfile_is_stdout(&o->out))
		return outfile_close(&o->out, recorded_write(r, o->out.f, from, o->how), err);
	/* Write errors are checked and reported only at the end. */
	recorded_write(r, stdout, from, o->how);
	return 0;
}

static void tell(const struct options *o, const struct recorded *r)
{
	size_t jobs = 0;

	for (uint32_t i = 0; i < r->groups; i++)
		jobs += r->group[i].jobs;
	if (!o->wishes.quiet)
		fprintf(stderr, "fermata: %zu jobs of %u groups on %u devices, %.3f s, in %s\n",
			jobs, r->groups, r->devices, (double)(r->end - r->begin) / FM_S, o->output);
	if (r->lost)
		fprintf(stderr,
			"fermata: %" PRIu64 " records were lost: some jobs are missing or merged\n",
			r->lost);
	for (uint32_t i = 0; i < r->groups; i++)
		if (r->group[i].elsewhere)
			fprintf(stderr,
				"fermata: group %s works on other devices, too: the workload has "
				"a separate group for each\n",
				r->group[i].name);
}

static int convert(struct options *o, const struct fm_trace_file *t, const char *from,
	uint64_t until, struct fm_err *err)
{
	RECORDED_CLEAN struct recorded r = {0};
	int rc = recorded_read(&r, t, until, err);

	if (!rc && !r.groups) {
		fm_err_set(err, -ENODATA,
			"no program used a device during the recording: nothing "
			"is written");
		fm_err_hint(err, "`fermata ps --queues' lists the programs that have queues");
		rc = -ENODATA;
	}
	rc = rc ? rc : save(o, &r, from, err);
	if (!rc)
		tell(o, &r);
	return rc;
}

static int from_file(struct options *o)
{
	struct fm_trace_file t;
	struct fm_err err = {0};
	int rc = trace_open(&t, o->from);

	if (rc)
		return rc;
	rc = convert(o, &t, o->from, 0, &err);
	fm_trace_file_close(&t);
	return rc ? cli_report(&err) : CLI_OK;
}

/* The program that this command started and waits for. */
struct child {
	pid_t pid; /* 0: none */
	int fd;
};

/* Starts the program under Fermata, by `fermata run', with the signals that are blocked here
 * unblocked. */
static int start(const struct options *o, struct child *c, struct fm_err *err)
{
	size_t n = 0, extra = 0;
	FM_CLEAN_FREE char **argv = NULL;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc;

	while (o->argv[n])
		n++;
	argv = calloc(n + 6, sizeof(*argv));
	if (!argv)
		return fm_err_set(err, -ENOMEM, "out of memory");
	argv[extra++] = (char *)"fermata";
	if (o->cli->socket) {
		argv[extra++] = (char *)"--socket";
		argv[extra++] = (char *)o->cli->socket;
	}
	argv[extra++] = (char *)"run";
	argv[extra++] = (char *)"--";
	memcpy(argv + extra, o->argv, n * sizeof(*argv));
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawn(&c->pid, "/proc/self/exe", NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	if (rc)
		return fm_err_set(err, -rc, "cannot run `fermata run': %s", strerror(rc));
	c->fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->fd >= 0 ? 0 : fm_err_set(err, -errno, "cannot watch it: %s", strerror(errno));
}

/* Waits for the program, which goes on if the recording ends first, and reports how it ended. */
static int reap(struct child *c)
{
	int status = 0;

	if (!c->pid || waitpid(c->pid, &status, 0) != c->pid)
		return CLI_OK;
	close(c->fd);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return CLI_OK;
	fprintf(stderr, "fermata: the command ended with %s %d\n",
		WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return CLI_FAILED;
}

/* Finds a daemon that answers, or starts the user's own: the recording must begin before the
 * command does. */
static int need_daemon(const struct options *o, struct fm_err *err)
{
	char dir[CTL_PATH];
	CLI_CLEAN_JSON json_t *version = NULL;
	int rc = ctl_call(o->cli, json_pack("{s:s}", "cmd", "version"), &version, dir, err);

	if (rc != -ENOTCONN || !o->argv || ctl_dir_given(o->cli) || personal_dir(dir))
		return rc;
	return personal_start(dir, err);
}

static void tell_outcome(const struct options *o, const struct trace_outcome *out)
{
	if (out->gone)
		fputs("fermata: the daemon ended the recording, or ended itself: the records "
		      "until then are written\n",
			stderr);
	if (out->full)
		fprintf(stderr, "fermata: %" PRIu64 " records: the recording is full\n", LIMIT);
	if (!out->exact)
		fputs("fermata: several jobs of a group that is alone on its device may be "
		      "recorded as one: users who may steer all groups can record exactly\n",
			stderr);
	if (!o->wishes.quiet)
		fprintf(stderr, "fermata: %" PRIu64 " records, %" PRIu64 " lost\n", out->records,
			out->lost);
}

static int of_records(
	struct options *o, FILE *f, const struct trace_outcome *out, struct fm_err *err)
{
	char path[64];
	struct fm_trace_file t;
	uint64_t until = fm_now();
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(f));
	rc = fm_trace_file_open(&t, path, err);
	if (rc)
		return rc;
	tell_outcome(o, out);
	rc = convert(o, &t, "the daemon", out->gone ? 0 : until, err);
	fm_trace_file_close(&t);
	return rc;
}

/* The records of it are in a file without a name, on the disk that the workload is to be on. */
static int record(struct options *o, struct recorder *r, struct fm_err *err)
{
	bool elsewhere = outfile_is_stdout(&o->out);
	FM_CLEAN_FILE FILE *f = NULL;
	struct child c = {.fd = -1};
	struct trace_outcome out;
	int rc = outfile_scratch(elsewhere ? "/tmp/fermata-record" : o->output, &f, err), end;

	if (rc)
		return rc;
	rc = o->argv ? start(o, &c, err) : 0;
	if (!rc && !o->wishes.quiet)
		fprintf(stderr, "fermata: recording into %s%s\n", o->output,
			o->wishes.duration > 0 || o->argv ? "" : "; Ctrl-C ends it");
	if (!rc) {
		rc = trace_run(r, f, c.fd, &out);
		rc = rc ? fm_err_set(err, rc, "%s: cannot write: %s", o->output, strerror(-rc))
			: of_records(o, f, &out, err);
	}
	end = reap(&c);
	if (!rc && (end || out.gone))
		rc = fm_err_set(err, -ECANCELED, "%s",
			out.gone ? "the recording is cut short"
				 : "the command failed; its work until then is written");
	return rc;
}

int cli_record(struct cli *cli, int argc, char **argv)
{
	TRACE_CLEAN struct recorder *r = NULL;
	struct options o = {
		.cli = cli, .how = 'a', .wishes = {.exact = true, .jobs = true, .limit = LIMIT}};
	struct fm_err err = {0};
	int rc = CLI_OK;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &o);
	if (o.from && outfile_same(o.from, o.output)) {
		fm_err_set(&err, -EINVAL, "%.150s is the recording itself", o.output);
		return cli_report(&err);
	}
	if (outfile_open(&o.out, o.output, cli->force, &err))
		return cli_report(&err);
	if (o.from)
		rc = from_file(&o);
	else if (need_daemon(&o, &err) || trace_connect(&r, cli, &o.wishes, &err) ||
		 record(&o, r, &err))
		rc = cli_report(&err);
	outfile_drop(&o.out);
	return rc;
}
