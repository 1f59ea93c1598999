/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/descriptors.h"
#include "board/proto.h"
#include "exporter.h"
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* How often the settings are looked at, besides at each scrape. */
#define POLL_US (5 * 1000 * 1000)

enum { OPT_SOCKET = 256, OPT_LISTEN, OPT_GROUP, OPT_LOOPBACK_GROUPS };

static const struct argp_option option_table[] = {
	{"socket", OPT_SOCKET, "DIR", 0, "Ask the daemon whose sockets are in DIR", 0},
	{"listen", OPT_LISTEN, "WHERE", 0,
		"Listen on /PATH, 127.0.0.1:PORT or [::1]:PORT, whatever the daemon's settings say",
		0},
	{"group", OPT_GROUP, "NAME", 0, "Let the members of this Unix group see everything", 0},
	{"loopback-groups", OPT_LOOPBACK_GROUPS, NULL, 0,
		"Export users' groups on TCP, too, where every user of this machine can read them",
		0},
	{"verbose", 'v', NULL, 0, "Log more", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct exporter *x = state->input;
	struct fm_listen at;
	struct fm_err err;

	switch (key) {
	case OPT_SOCKET:
		x->options.dir = arg;
		break;
	case OPT_LISTEN:
		if (fm_parse_listen(arg, &at, &err))
			argp_error(state, "--listen: %s; %s", err.text, err.hint);
		x->options.listen = arg;
		break;
	case OPT_GROUP:
		x->options.group = arg;
		break;
	case OPT_LOOPBACK_GROUPS:
		x->options.loopback_groups = true;
		break;
	case 'v':
		x->log.level = LOG_DEBUG;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "too many arguments: '%s'", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void print_version(FILE *stream, struct argp_state *state)
{
	fprintf(stream, "fermata-exporter %s\n", FM_VERSION);
}

/* The directory that was named, or the first with a daemon's socket in it, or the last. */
static int choose_dir(struct exporter *x, struct fm_err *err)
{
	char dirs[FM_SOCKET_CANDIDATES][108], path[2 * DIR_MAX];
	int n = x->options.dir ? 0 : fm_socket_dirs(dirs);
	const char *dir = x->options.dir;

	for (int i = 0; i < n; i++) {
		dir = dirs[i];
		snprintf(path, sizeof(path), "%.*s/" FM_CONTROL_NAME, DIR_MAX, dir);
		if (!access(path, F_OK))
			break;
	}
	if (!dir || (size_t)snprintf(x->dir, sizeof(x->dir), "%s", dir) >= sizeof(x->dir)) {
		fm_err_set(err, -ENAMETOOLONG, "the directory's name is too long, or missing");
		return fm_err_hint(err, "name one with --socket");
	}
	return 0;
}

static int on_poll(sd_event_source *s, uint64_t usec, void *arg)
{
	struct exporter *x = arg;
	struct fm_err err;

	settings_ask(x, &err);
	listen_move(x);
	sd_event_source_set_time(s, fm_now() / 1000 + POLL_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int on_signal(sd_event_source *s, const struct signalfd_siginfo *si, void *arg)
{
	struct exporter *x = arg;

	if (si->ssi_signo != SIGHUP)
		return sd_event_exit(x->event, 0);
	x->refused[0] = '\0';
	return sd_event_source_set_time(x->poll, 0);
}

static int watch(struct exporter *x)
{
	static const int signals[] = {SIGHUP, SIGTERM, SIGINT};
	uint64_t at = fm_now() / 1000 + POLL_US;
	sigset_t set;
	int rc;

	sigemptyset(&set);
	for (size_t i = 0; i < FM_ARRAY_LEN(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	rc = sd_event_new(&x->event);
	for (size_t i = 0; i < FM_ARRAY_LEN(signals) && rc >= 0; i++)
		rc = sd_event_add_signal(x->event, NULL, signals[i], on_signal, x);
	if (rc >= 0)
		rc = sd_event_add_time(x->event, &x->poll, CLOCK_MONOTONIC, at, 0, on_poll, x);
	return rc;
}

/* Without the daemon it starts all the same, and says of it that it does not answer. */
static int set_up(struct exporter *x, struct fm_err *err)
{
	struct fm_err none = {0};
	int rc = choose_dir(x, err);

	if (rc)
		return rc;
	rc = watch(x);
	if (rc < 0)
		return fm_err_set(err, rc, "event loop: %s", strerror(-rc));
	if (settings_ask(x, &none))
		fm_log_err(&x->log, LOG_WARNING, "no settings yet", &none);
	rc = serve_start(x, err);
	return rc ? rc : listen_open(x, err);
}

int main(int argc, char **argv)
{
	static struct exporter x = {.listening = -1};
	const struct argp argp = {option_table, parse_option, NULL,
		"Serve the metrics of the Fermata daemon to Prometheus, over HTTP at "
		"/metrics.\vSettings are in fermatad.conf(5), [metrics]. `fermata metrics' prints "
		"the same metrics.",
		NULL, NULL, NULL};
	struct fm_err err = {0};
	int rc;

	fm_descriptors_occupy();
	fm_log_init(&x.log, "fermata-exporter");
	fm_list_init(&x.connections);
	argp_program_version_hook = print_version;
	argp_err_exit_status = 2; /* as of fermata(1) */
	if (argp_parse(&argp, argc, argv, 0, NULL, &x))
		return EXIT_FAILURE;
	rc = set_up(&x, &err);
	if (rc) {
		fm_log_err(&x.log, LOG_ERR, "", &err);
	} else {
		sd_notify(0, "READY=1");
		rc = sd_event_loop(x.event);
		sd_notify(0, "STOPPING=1");
	}
	listen_close(&x);
	collect_free(&x);
	serve_stop(&x);
	sd_event_source_disable_unref(x.poll);
	sd_event_unref(x.event);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
