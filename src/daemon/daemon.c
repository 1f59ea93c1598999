/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"
#include "base/clock.h"
#include "bus.h"
#include "cgroups.h"
#include "daemon/admission/admission.h"
#include "machine.h"
#include "mem/mem.h"
#include "strict.h"
#include "subuid.h"
#include "trace.h"
#include "turn.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

static const struct fm_bridge_host bridge_host = {
	.wake = session_wake,
	.hint = session_hint,
	.one_process = session_one_process,
	.limits = session_limits,
	.host_left = machine_host_left,
	.host_own = session_host_own,
	.place = machine_place,
};

#define POLICY_DEFAULT "fixed-priority"

#define LOOKS 8 /* at boards, between two at events */

#define RETRY_US (10 * 1000) /* pause after the loop could not wait because memory was short */

static const char *wanted_policy(const struct daemon *d, const struct config *c)
{
	return d->policy_option ? d->policy_option : c->policy;
}

static void configure_memory(struct daemon *d)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	struct fm_bridge_memory m = {
		.host = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0,
		.device = d->config.memory.device_limit,
		.policy = fm_mem_policies[d->config.memory.policy],
		.turns = !d->config.memory.overtime,
		.one_way = !d->config.memory.duplex,
		.keep_percent = d->config.memory.keep_percent,
		.away = d->config.memory.host,
	};

	m.nodes = config_host_nodes(&d->config.memory, m.node);
	fm_bridge_memory_settings(d->bridge, &m);
}

/* Applies all settings or none. Only the policy can fail, so it goes first. */
static int daemon_configure(struct daemon *d, const struct config *c, struct fm_err *err)
{
	struct fm_sched *s = fm_bridge_sched(d->bridge);
	struct shared_limits *before = d->limits;
	int rc = admission_check_policy(d, c, wanted_policy(d, c), err);

	fm_sched_fair_by(s, c->fair_by == FAIR_BY_USER);
	if (!rc)
		rc = config_set_policy(c, s, &d->plugin, wanted_policy(d, c), fm_now(), err);
	if (rc) {
		fm_sched_fair_by(s, d->config.fair_by == FAIR_BY_USER);
		return rc;
	}
	d->dropped[0] = '\0';
	fm_sched_linger(s, c->linger_ns == CONFIG_AUTO ? FM_LINGER_AUTO : c->linger_ns);
	d->config = *c;
	fm_bridge_set_ways(d->bridge, d->config.way, d->config.ways + 1, fm_now());
	strict_configured(d);
	admission_configure(d);
	d->access_gid = access_gid(c->access_group);
	subuid_load(&d->quota);
	d->limits = NULL;
	session_settings(d);
	configure_memory(d);
	cgroups_settings(d);
	control_settings(d);
	trace_settings(d);
	peer_limits_free(before);
	daemon_idle_check(d);
	sd_notifyf(0, "STATUS=Policy %s", fm_sched_policy_ops(s)->name);
	return 0;
}

static int on_idle(sd_event_source *source, uint64_t usec, void *arg)
{
	struct daemon *d = arg;

	fm_log(&d->log, LOG_INFO, "no clients left: ending");
	return sd_event_exit(d->event, 0);
}

void daemon_idle_check(struct daemon *d)
{
	int64_t seconds = d->idle_option >= 0 ? d->idle_option : d->config.idle_exit_s;
	uint64_t at = fm_now() / 1000 + (uint64_t)seconds * 1000000;

	if (!d->event)
		return;
	d->idle = sd_event_source_disable_unref(d->idle);
	if (seconds > 0 && !d->n_sessions && !admission_count(d) &&
		sd_event_add_time(d->event, &d->idle, CLOCK_MONOTONIC, at, 0, on_idle, d) < 0)
		fm_log(&d->log, LOG_WARNING, "out of memory: staying although idle");
}

int daemon_reload(struct daemon *d, struct fm_err *err)
{
	struct config c;
	int rc;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(fm_now() / 1000));
	rc = d->config_file ? config_load(&c, d->config_file, d->config_required, err) : 0;
	if (!rc && d->config_file)
		rc = daemon_configure(d, &c, err);
	if (rc)
		fm_log_err(&d->log, LOG_ERR, "the old settings stay", err);
	else
		fm_log(&d->log, LOG_INFO, "settings read again");
	sd_notify(0, "READY=1");
	return rc;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *arg)
{
	struct daemon *d = arg;

	if (si->ssi_signo == SIGHUP) {
		struct fm_err err = {0};

		daemon_reload(d, &err);
		audit_signal(d, si->ssi_uid, (pid_t)si->ssi_pid, &err);
		return 0;
	}
	if (si->ssi_signo == SIGCONT) {
		fm_log(&d->log, LOG_WARNING,
			"continued after a stop: programs that waited for more than %d s %s again",
			FM_SILENCE_MAX_S, d->config.strict ? "join" : "had continued, and join");
		return 0;
	}
	fm_log(&d->log, LOG_INFO, "ending: %s", strsignal((int)si->ssi_signo));
	return sd_event_exit(d->event, 0);
}

static void warn_of_plugin(struct daemon *d)
{
	char text[FM_PLUGIN_WARNING];

	while (fm_plugin_warning(d->plugin, text))
		fm_log(&d->log, LOG_WARNING, "policy %s: %s", fm_plugin_ops(d->plugin)->name, text);
}

/* The default policy is built in and its defaults are sound, so only a lack of memory can stop it.
 * Then the plug-in's table stays in use, without asking the plug-in, and the next event tries
 * again. */
bool daemon_drop_plugin(struct daemon *d)
{
	struct fm_sched *s = fm_bridge_sched(d->bridge);
	const char *why = fm_plugin_failure(d->plugin);
	struct fm_err err = {0};

	warn_of_plugin(d);
	if (!why)
		return false;
	snprintf(d->dropped, sizeof(d->dropped), "%s: %s", fm_plugin_ops(d->plugin)->name, why);
	FM_PROBE(policy_dropped, fm_now(), NULL, NULL, d->dropped, 0, 0);
	trace_note(d, &(struct fm_bridge_note){
			      .event = FM_EV_policy_dropped, .at = fm_now(), .reason = d->dropped});
	if (config_set_policy(&d->config, s, &d->plugin, POLICY_DEFAULT, fm_now(), &err)) {
		fm_log_limited(&d->log, &d->troubles, LOG_ERR,
			"policy dropped, but %s cannot start: %s", POLICY_DEFAULT, err.text);
		return true;
	}
	d->count.dropped++;
	fm_log(&d->log, LOG_ERR, "policy dropped: %s; %s takes over", d->dropped, POLICY_DEFAULT);
	sd_notifyf(0, "STATUS=Policy %s", POLICY_DEFAULT);
	return true;
}

static void daemon_run(struct daemon *d)
{
	uint64_t next = fm_bridge_run(d->bridge, fm_now());

	if (bus_lost()) {
		session_end_lost(d);
		next = fm_bridge_run(d->bridge, fm_now());
	}
	if (daemon_drop_plugin(d))
		next = fm_bridge_run(d->bridge, fm_now());
	if (admission_next(d) <= fm_now()) {
		admission_run(d, fm_now());
		next = fm_bridge_run(d->bridge, fm_now());
	}
	if (trace_run(d))
		next = fm_bridge_run(d->bridge, fm_now());
	d->due = FM_MIN(next, admission_next(d));
}

static int watch_signals(struct daemon *d)
{
	static const int signals[] = {SIGHUP, SIGTERM, SIGINT, SIGCONT};
	sigset_t set;
	int rc = 0;

	sigemptyset(&set);
	for (size_t i = 0; i < FM_ARRAY_LEN(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* EFBIG instead, for what `ulimit -f' forbids */
	for (size_t i = 0; i < FM_ARRAY_LEN(signals) && rc >= 0; i++)
		rc = sd_event_add_signal(d->event, NULL, signals[i], on_signal, d);
	return rc;
}

static int watch_all(struct daemon *d)
{
	int rc = watch_signals(d);

	if (rc >= 0)
		rc = lives_open(d);
	if (rc >= 0)
		rc = turn_open(d);
	if (rc >= 0)
		rc = listen_watch(d);
	if (rc >= 0)
		rc = asks_new(d);
	if (rc >= 0)
		rc = sd_event_set_watchdog(d->event, true);
	bus_guard(d);
	return rc;
}

int daemon_new(struct daemon *d, struct fm_err *err)
{
	int rc;

	fm_list_init(&d->sessions);
	fm_list_init(&d->cgroups.clients);
	fm_list_init(&d->controls);
	fm_list_init(&d->pages);
	quota_init(&d->quota, geteuid(), &quota_default_limits);
	d->started = fm_now();
	d->due = FM_NEVER;
	prctl(PR_SET_TIMERSLACK, 1ul);
	rc = listen_setup(d, err);
	if (rc)
		return rc;
	rc = sd_event_new(&d->event);
	if (rc >= 0)
		rc = fm_bridge_new(&d->bridge, &bridge_host);
	if (rc >= 0)
		rc = admission_new(d);
	if (rc >= 0)
		rc = trace_new(d);
	if (rc >= 0)
		rc = watch_all(d);
	if (rc < 0)
		return fm_err_set(err, rc, "cannot set up the event loop: %s", strerror(-rc));
	strict_start(d);
	return daemon_configure(d, &d->config, err);
}

/* Can due work change what the event loop waits for? The bridge's work cannot. */
static bool is_more_than_bridge(const struct daemon *d)
{
	return d->config.busy_poll_ns || d->plugin || admission_count(d) || trace_on(d);
}

static int sleep_until(const struct daemon *d, uint64_t due)
{
	struct pollfd p = {.fd = sd_event_get_fd(d->event), .events = POLLIN};
	struct timespec ts = fm_timespec(fm_sub_sat(due, fm_now()));

	return ppoll(&p, 1, due == FM_NEVER ? NULL : &ts, NULL);
}

/* Handles one event, or waits until something is due. The wait does not use a timer of the event
 * loop: reading and setting it would be a quarter of a tick's cost. After a due time the loop is
 * still prepared to wait. */
static int run_event(struct daemon *d)
{
	int rc = d->prepared ? 0 : sd_event_prepare(d->event);

	if (!rc) {
		d->prepared = !sleep_until(d, d->due) && !is_more_than_bridge(d);
		if (d->prepared)
			return 0;
		rc = sd_event_wait(d->event, 0);
	}
	return rc > 0 ? sd_event_dispatch(d->event) : rc;
}

/* Handles the next event. For busy_poll_ns after an event the loop does not sleep. It then looks at
 * boards, too, since a bell takes a few microseconds to arrive. */
static int next_event(struct daemon *d, uint64_t last)
{
	uint64_t poll = d->config.busy_poll_ns;
	int rc;

	while (poll && !d->prepared && fm_now() - last < poll && fm_now() < d->due) {
		rc = sd_event_run(d->event, 0);
		if (rc || sd_event_get_state(d->event) == SD_EVENT_FINISHED)
			return rc;
		for (int i = 0; i < LOOKS; i++)
			if (fm_bridge_look(d->bridge, fm_now()))
				return 0;
	}
	return run_event(d);
}

/* The daemon does not end for lack of memory, since every client would lose its schedule. It waits:
 * there may be memory again soon. */
static int survive(struct daemon *d, int rc)
{
	if (rc != -ENOMEM)
		return rc;
	fm_log_limited(&d->log, &d->troubles, LOG_WARNING, "out of memory: waiting for some");
	usleep(RETRY_US);
	return 0;
}

/* Records how long the loop was busy with the event. */
static void note_loop(struct daemon *d)
{
	uint64_t woke_us;

	if (trace_on(d) && sd_event_now(d->event, CLOCK_MONOTONIC, &woke_us) == 0)
		trace_loop(d, woke_us);
}

/* Handles one event, then what the bridge has due. So messages are handled as they come, and ticks
 * in between. */
int daemon_loop(struct daemon *d)
{
	uint64_t last = 0;
	int rc;

	sd_notify(0, "READY=1");
	while (sd_event_get_state(d->event) != SD_EVENT_FINISHED) {
		rc = next_event(d, last);
		if (rc < 0 && survive(d, rc))
			return rc;
		if (d->config.busy_poll_ns)
			last = fm_now();
		daemon_run(d);
		asks_check(d);
		note_loop(d);
	}
	sd_notify(0, "STOPPING=1");
	return 0;
}

void daemon_free(struct daemon *d)
{
	sd_event_source_disable_unref(d->cgroups.timer);
	fm_bridge_free(d->bridge); /* opens every gate while the boards are still mapped */
	d->bridge = NULL;
	strict_stop(d);
	admission_free(d);
	fm_plugin_close(d->plugin);
	d->plugin = NULL;
	d->idle_option = 0;
	audit_flush(d);
	session_free_all(d);
	turn_close(d);
	lives_close(d);
	control_free_all(d);
	asks_free(d);
	trace_free(d);
	peer_limits_free(d->limits);
	d->limits = NULL;
	d->idle = sd_event_source_disable_unref(d->idle);
	listen_close(d);
	quota_free(&d->quota);
	d->event = sd_event_unref(d->event);
	bus_unguard();
}
