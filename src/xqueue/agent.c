/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: one thread for each client, made at first use. It opens gates as the device advances,
 * listens to the daemon, and looks for a new daemon when the old one is gone. It sleeps unless
 * there is something to do.
 */
#include "segment.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Collects all queues with a reference to each, because the lock is not held over what calls the
 * driver. Only the agent retires queues, so their hwqueues stay until it goes on. */
static unsigned hold_all(struct fm_client *c, struct fm_xq *held[FM_CLIENT_QUEUES])
{
	unsigned n = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		if (!c->queue[i])
			continue;
		held[n++] = c->queue[i];
		atomic_fetch_add(&c->queue[i]->refs, 1);
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}

static uint64_t pump_all(struct fm_client *c)
{
	struct fm_xq *held[FM_CLIENT_QUEUES];
	bool asks = fm_client_asks(c, fm_now());
	uint64_t next = FM_NEVER;
	unsigned n = hold_all(c, held);

	/* Queues that are to stop come first, because others wait for them. */
	for (unsigned i = 0; i < n; i++)
		fm_xq_pump_stop(held[i]);
	for (unsigned i = 0; i < n; i++) {
		uint64_t at;

		if (FM_UNLIKELY(asks))
			fm_xq_ask(held[i]);
		at = fm_xq_pump(held[i], fm_now());
		next = FM_MIN(next, at);
		fm_xq_unref(held[i]);
	}
	return next;
}

static uint64_t service_link(struct fm_client *c)
{
	struct fm_link *l = atomic_load(&c->link);
	uint64_t now = fm_now(), next;

	if (l && !atomic_load(&c->link_broken)) {
		next = c->link_ops->service(l, now);
		if (next)
			return next;
	}
	if (l)
		fm_client_disconnect(c, now);
	if (now >= c->connect_at && fm_client_connect(c, now))
		return now;
	fm_client_fail_open(c);
	return c->connect_at;
}

/* If the settings say so and others wait for the agent, it polls for a while before it sleeps,
 * because a wake-up takes some ten microseconds. Returns whether there is something to do. */
static bool spin(struct fm_client *c, struct pollfd fds[2], uint64_t next)
{
	const struct timespec none = {0};
	uint64_t until = FM_MIN(next, fm_now() + c->set.spin_ns);

	if (!c->set.spin_ns || !atomic_load_explicit(&c->board->contended, memory_order_relaxed))
		return false;
	while (!ppoll(fds, 2, &none, NULL))
		if (fm_now() >= until)
			return until == next;
	return true;
}

static void sleep_until(struct fm_client *c, uint64_t next)
{
	struct fm_link *l = atomic_load(&c->link);
	struct pollfd fds[2] = {{.fd = c->wake_rd.fd, .events = POLLIN},
		{.fd = l ? c->link_ops->fd(l) : -1, .events = POLLIN}};
	uint64_t now = fm_now();
	char drain[64];

	if (next <= now)
		return;
	if (atomic_load(&c->forked))
		next = FM_MIN(next, now + FM_CLIENT_FORKED_LOOK);
	if (!fm_ownfd_valid(&c->wake_rd) || !fm_ownfd_valid(&c->wake_wr)) {
		/* The program closed our descriptors: look around every millisecond instead. */
		fds[0].fd = -1;
		next = FM_MIN(next, now + FM_MS);
	}
	if (!spin(c, fds, next)) {
		struct timespec ts = fm_timespec(fm_sub_sat(next, fm_now()));

		ppoll(fds, 2, next == FM_NEVER ? NULL : &ts, NULL);
	}
	if (fds[0].revents & POLLIN)
		(void)!read(c->wake_rd.fd, drain, sizeof(drain));
}

static void quiesce_all(struct fm_client *c)
{
	struct fm_xq *held[FM_CLIENT_QUEUES];
	unsigned n = hold_all(c, held);

	for (unsigned i = 0; i < n; i++) {
		if (held[i]->ops->quiesce)
			held[i]->ops->quiesce(held[i]->hwq);
		fm_xq_unref(held[i]);
	}
}

/* Is there a command that was stopped in its middle and has not gone on yet? */
static bool busy(struct fm_client *c)
{
	bool yes = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		yes |= c->queue[i] && fm_xq_is_stopped(c->queue[i]);
	}
	pthread_mutex_unlock(&c->lock);
	return yes;
}

static void *agent(void *arg)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	struct fm_client *c = arg;
	uint64_t next, link_next;

	prctl(PR_SET_TIMERSLACK, 1ul); /* of this thread alone */
	while (!atomic_load(&c->stop)) {
		service_link(c);
		fm_slice_tell(c, fm_now());
		pump_all(c);
		/* Announce the sleep, then look once more: a scheduler that changes a gate after
		 * that look sees the announcement and wakes us (board.h, memory order). */
		atomic_store(&c->board->agent_sleeps, 1);
		link_next = service_link(c);
		/* Behind what takes the daemon's messages: one that came since is read, and nothing
		 * wakes us for it again. */
		if (c->config.looked)
			c->config.looked(c);
		next = fm_slice_tell(c, fm_now());
		next = FM_MIN(next, pump_all(c));
		next = FM_MIN(next, fm_watch(c, fm_now()));
		sleep_until(c, FM_MIN(next, link_next));
		atomic_store(&c->board->agent_sleeps, 0);
	}
	fm_client_disconnect(c, fm_now());
	fm_client_lax(c);
	pump_all(c);
	for (unsigned i = 0; i < FM_CLIENT_LAST_MS && busy(c); i++) {
		nanosleep(&ms, NULL);
		pump_all(c);
	}
	quiesce_all(c);
	atomic_store(&c->stopped, true);
	return NULL;
}

/* The driver's own exit handlers come after ours, and by then no code of ours may call it.
 * Bounded. */
void fm_agent_stop(struct fm_client *c)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	atomic_store(&c->stop, true);
	for (int i = 0; i < FM_CLIENT_STOP_MS && !atomic_load(&c->stopped); i++) {
		fm_client_wake(c);
		nanosleep(&ms, NULL);
	}
}

/* All signals are blocked in the agent: the program's handlers run in the program's threads. */
int fm_agent_start(struct fm_client *c)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, agent, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}
