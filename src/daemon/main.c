/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/parse.h"
#include "base/runtime_dir.h"
#include "daemon.h"
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NICE          (-10)
#define RR_PRIORITY   10
#define SYSTEM_CONFIG FM_SYSCONFDIR "/fermata/fermatad.conf"

/* Exit codes of --check-config, as of fermata(1). */
enum { CHECK_SOUND, CHECK_UNREADABLE, CHECK_WRONG };
#define USAGE 2

enum {
	OPT_DIR = 256,
	OPT_CONFIG,
	OPT_POLICY,
	OPT_IDLE,
	OPT_CHECK,
	OPT_PRINT,
	OPT_SYSTEM,
	OPT_FOREGROUND,
};

struct options {
	struct daemon *daemon;
	const char *dir, *config;
	bool check, print, system;
};

static const struct argp_option option_table[] = {
	{"dir", OPT_DIR, "DIR", 0,
		"Put the sockets into DIR (default: " FM_SYSTEM_DIR " for root, else "
		"$XDG_RUNTIME_DIR/fermata)",
		0},
	{"config", OPT_CONFIG, "FILE", 0,
		"Read settings from FILE (default: " SYSTEM_CONFIG " for root, else "
		"$XDG_CONFIG_HOME/fermata/fermatad.conf)",
		0},
	{"policy", OPT_POLICY, "\"NAME [KEY=VALUE...]\"", 0,
		"Schedule by this policy, instead of that of the settings", 0},
	{"idle-exit", OPT_IDLE, "SECONDS", 0, "End after SECONDS without clients; 0: never", 0},
	{"system", OPT_SYSTEM, NULL, 0,
		"Serve every user of the machine, as root's daemon does, without being root", 0},
	{"check-config", OPT_CHECK, NULL, 0,
		"Check the settings, or FILE, and exit: 0 valid, 2 invalid, 1 unreadable", 0},
	{"print-config", OPT_PRINT, NULL, 0,
		"Print all settings in force, or those that FILE would give, and exit", 0},
	{"foreground", OPT_FOREGROUND, NULL, 0, "Accepted for convenience: there is no other mode",
		0},
	{"verbose", 'v', NULL, 0, "Log more", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	struct fm_err err;

	switch (key) {
	case OPT_DIR:
		o->dir = arg;
		break;
	case OPT_CONFIG:
		o->config = arg;
		break;
	case OPT_POLICY:
		o->daemon->policy_option = arg;
		break;
	case OPT_IDLE:
		if (fm_parse_int(arg, 0, 86400, &o->daemon->idle_option, &err))
			argp_error(state, "--idle-exit: %s", err.text);
		break;
	case OPT_CHECK:
		o->check = true;
		break;
	case OPT_PRINT:
		o->print = true;
		break;
	case OPT_SYSTEM:
		o->system = true;
		break;
	case ARGP_KEY_ARG:
		if (!(o->check || o->print) || o->config)
			argp_error(state, "too many arguments: '%s'", arg);
		o->config = arg;
		break;
	case 'v':
		o->daemon->log.level = LOG_DEBUG;
		break;
	case OPT_FOREGROUND:
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void print_version(FILE *stream, struct argp_state *state)
{
	fprintf(stream, "fermatad %s\n", FM_VERSION);
	if (fflush(stream))
		exit(EXIT_FAILURE);
}

static int no_dir(const char *run, struct fm_err *err)
{
	if (!run || !*run)
		return fm_err_set(
			err, -ENOENT, "XDG_RUNTIME_DIR is not set; name a directory with --dir");
	fm_err_set(err, -EPERM,
		"XDG_RUNTIME_DIR, %.60s, is not a directory of this user's with mode 0700", run);
	return fm_err_hint(err, "chmod 700 it if it is yours, or name another with --dir");
}

/* If no runtime directory is found, there is an error: none is guessed from $HOME.
 */
static int choose_dir(struct daemon *d, const struct options *o, struct fm_err *err)
{
	const char *run = fm_runtime_dir(), *set = getenv("XDG_RUNTIME_DIR");
	int n;

	if (o->dir)
		n = snprintf(d->dir, sizeof(d->dir), "%s", o->dir);
	else if (d->system)
		n = snprintf(d->dir, sizeof(d->dir), "%s", FM_SYSTEM_DIR);
	else if (run)
		n = snprintf(d->dir, sizeof(d->dir), "%s/fermata", run);
	else
		return no_dir(set, err);
	if (n <= 0 || n >= (int)sizeof(d->dir))
		return fm_err_set(err, -ENAMETOOLONG, "the directory's name is empty or too long");
	return 0;
}

/* Allocated for the life of the process. */
static char *choose_config(const struct options *o)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (o->config)
		return strdup(o->config);
	if (o->system || !geteuid())
		return strdup(SYSTEM_CONFIG);
	if (base && *base == '/')
		n = asprintf(&path, "%s/fermata/fermatad.conf", base);
	else if (home && *home == '/')
		n = asprintf(&path, "%s/.config/fermata/fermatad.conf", home);
	return n < 0 ? NULL : path;
}

static void raise_limit(int which)
{
	struct rlimit r;

	if (getrlimit(which, &r) || r.rlim_cur == r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(which, &r);
}

/* Memory is locked only where that cannot make a later allocation fail. */
static void lock_memory(struct daemon *d)
{
	struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(RLIMIT_MEMLOCK, &r) &&
		(getrlimit(RLIMIT_MEMLOCK, &r) || r.rlim_cur != RLIM_INFINITY))
		return;
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		fm_log(&d->log, LOG_DEBUG, "memory not locked: %s", strerror(errno));
}

/* To decide late is to waste a device: run before ordinary work where that is allowed. */
static void claim_cpu(struct daemon *d)
{
	struct sched_param p = {.sched_priority = RR_PRIORITY};

	if (d->config.realtime) {
		if (!sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &p))
			return;
		fm_log(&d->log, LOG_WARNING, "realtime = yes, but not allowed: %s",
			strerror(errno));
	}
	if (setpriority(PRIO_PROCESS, 0, NICE))
		fm_log(&d->log, LOG_DEBUG, "nice level not raised: %s", strerror(errno));
}

static int fail(struct daemon *d, const struct fm_err *err)
{
	fm_log_err(&d->log, LOG_ERR, "", err);
	return EXIT_FAILURE;
}

static bool readable(const char *file)
{
	FM_CLEAN_FILE FILE *f = NULL;
	struct stat st;

	if (stat(file, &st) || S_ISDIR(st.st_mode))
		return false;
	if (!S_ISREG(st.st_mode)) /* it has been read: a pipe would be waited for again */
		return true;
	f = fopen(file, "re");
	return f && (getc(f) != EOF || !ferror(f));
}

/* The message of what is wrong goes to stderr, that all is well to stdout. */
static int check(struct daemon *d, const struct options *o)
{
	bool missing = d->config_file && access(d->config_file, F_OK);
	struct fm_err err = {0};

	if (d->policy_option && config_try_policy(&d->config, d->policy_option, &err)) {
		fail(d, &err);
		return CHECK_WRONG;
	}
	if (d->policy_option)
		snprintf(d->config.policy, sizeof(d->config.policy), "%s", d->policy_option);
	if (o->print)
		config_print(&d->config, stdout);
	else if (d->config_file)
		printf("%s: %s\n", d->config_file,
			missing ? "does not exist; the defaults are used" : "sound");
	if (!fflush(stdout))
		return CHECK_SOUND;
	fm_log(&d->log, LOG_ERR, "cannot write the answer: %s", strerror(errno));
	return CHECK_UNREADABLE;
}

static int serve(struct daemon *d)
{
	struct fm_err err = {0};
	int rc;

	raise_limit(RLIMIT_NOFILE);
	if (daemon_new(d, &err)) {
		daemon_free(d);
		return fail(d, &err);
	}
	claim_cpu(d);
	lock_memory(d);
	fm_log(&d->log, LOG_INFO, "version %s, policy %s, in %s", FM_VERSION,
		fm_sched_policy_ops(fm_bridge_sched(d->bridge))->name, d->dir);
	rc = daemon_loop(d);
	daemon_free(d);
	if (rc)
		fm_log(&d->log, LOG_ERR, "event loop: %s", strerror(-rc));
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct daemon d; /* large; the one of this process */
	struct options o = {.daemon = &d};
	const struct argp argp = {option_table, parse_option,
		"\n--check-config [FILE]\n--print-config [FILE]",
		"The Fermata daemon decides which programs may use the machine's "
		"accelerators.\vTalk to it with fermata(1); settings are in fermatad.conf(5).",
		NULL, NULL, NULL};
	struct fm_err err = {0};

	/* How the daemon starts the process of a policy by users; not for people. */
	if (argc == 2 && !strcmp(argv[1], "--policy-host"))
		return fm_plugin_host();
	fm_descriptors_occupy();
	fm_log_init(&d.log, "fermatad");
	d.idle_option = -1;
	d.client.fd = d.control.fd = d.lock = -1;
	argp_program_version_hook = print_version;
	argp_err_exit_status = USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return EXIT_FAILURE;
	d.system = o.system || !geteuid();
	config_defaults(&d.config);
	d.config_required = o.config != NULL;
	d.config_file = choose_config(&o);
	if (d.config_file && config_load(&d.config, d.config_file, d.config_required, &err)) {
		fail(&d, &err);
		if (!o.check && !o.print)
			return EXIT_FAILURE;
		return readable(d.config_file) ? CHECK_WRONG : CHECK_UNREADABLE;
	}
	if (o.check || o.print)
		return check(&d, &o);
	if (choose_dir(&d, &o, &err))
		return fail(&d, &err);
	d.machine = o.system || !strcmp(d.dir, FM_SYSTEM_DIR);
	return serve(&d);
}
