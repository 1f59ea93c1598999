/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"
#include "base/clock.h"
#include "daemon.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 64

/* The events are edge-triggered. A session that was not read to its end stays in its user's queue,
 * and so causes no further events while it waits there. */
static void collect(struct daemon *d)
{
	int fd = sd_event_source_get_io_fd(d->turn.io), n;
	struct epoll_event event[EVENTS];

	do {
		n = epoll_wait(fd, event, EVENTS, 0);
		for (int i = 0; i < n; i++) {
			struct turn_entry *e = event[i].data.ptr;

			if (!fm_list_empty(&e->link))
				continue;
			fm_list_add_tail(&e->user->ready, &e->link);
			if (fm_list_empty(&e->user->in_turn))
				fm_list_add_tail(&d->turn.users, &e->user->in_turn);
		}
	} while (n == EVENTS);
}

/* The first user within the budget, or else the user who will be within it soonest. *wait is the
 * time until then, or 0 if there is no other user to wait for. */
static struct quota_user *choose(struct daemon *d, uint64_t now, uint64_t *wait)
{
	struct quota_user *u, *best = NULL;
	uint64_t debt, least = UINT64_MAX;

	fm_list_each (u, &d->turn.users, in_turn) {
		debt = quota_debt(u, QUOTA_MESSAGES, now);
		if (debt < least) {
			least = debt;
			best = u;
		}
		if (!debt)
			break;
	}
	*wait = d->turn.n_users > 1 ? least : 0;
	return best;
}

static void serve(struct daemon *d, struct quota_user *u)
{
	struct turn_entry *e = fm_list_first(&u->ready, struct turn_entry, link);
	bool counts = u->limited && d->turn.n_users > 1; /* to ask for the time is a system call */
	uint64_t begin = counts ? fm_thread_time() : 0;
	enum turn_result result;

	fm_list_del(&e->link);
	fm_list_del(&u->in_turn);
	u->refs++; /* the last session may end */
	result = session_serve(e);
	if (result == TURN_MORE)
		fm_list_add_tail(&u->ready, &e->link);
	if (!fm_list_empty(&u->ready))
		fm_list_add_tail(&d->turn.users, &u->in_turn);
	if (counts)
		quota_spend(u, QUOTA_MESSAGES, fm_thread_time() - begin, fm_now());
	quota_put(u);
}

static int come_back(struct daemon *d, uint64_t wait)
{
	uint64_t at = (fm_now() + wait) / FM_US + 1;
	bool waits = wait && !fm_list_empty(&d->turn.users);
	int rc = sd_event_source_set_enabled(d->turn.again,
		!waits && !fm_list_empty(&d->turn.users) ? SD_EVENT_ON : SD_EVENT_OFF);

	if (rc >= 0 && waits)
		rc = sd_event_source_set_time(d->turn.later, at);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(
			d->turn.later, waits ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	return rc;
}

/* Serves one batch. After each the bridge does what is due. */
static int turn(struct daemon *d)
{
	struct quota_user *u;
	uint64_t wait = 0;

	collect(d);
	u = choose(d, fm_now(), &wait);
	if (u && !wait) {
		serve(d, u);
		choose(d, fm_now(), &wait);
	}
	return come_back(d, wait);
}

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	return turn(arg);
}

static int on_again(sd_event_source *source, void *arg)
{
	return turn(arg);
}

static int on_later(sd_event_source *source, uint64_t usec, void *arg)
{
	return turn(arg);
}

int turn_open(struct daemon *d)
{
	int fd = epoll_create1(EPOLL_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	fm_list_init(&d->turn.users);
	rc = sd_event_add_io(d->event, &d->turn.io, fd, EPOLLIN, on_ready, d);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	sd_event_source_set_io_fd_own(d->turn.io, true);
	rc = sd_event_add_defer(d->event, &d->turn.again, on_again, d);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(d->turn.again, SD_EVENT_OFF);
	if (rc >= 0)
		rc = sd_event_add_time(
			d->event, &d->turn.later, CLOCK_MONOTONIC, UINT64_MAX, 1, on_later, d);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(d->turn.later, SD_EVENT_OFF);
	return rc;
}

void turn_close(struct daemon *d)
{
	d->turn.again = sd_event_source_disable_unref(d->turn.again);
	d->turn.later = sd_event_source_disable_unref(d->turn.later);
	d->turn.io = sd_event_source_disable_unref(d->turn.io);
}

int turn_add(struct daemon *d, struct turn_entry *e, int sock)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = e};

	if (epoll_ctl(sd_event_source_get_io_fd(d->turn.io), EPOLL_CTL_ADD, sock, &event))
		return -errno;
	if (!e->user->entries++)
		d->turn.n_users++;
	return 0;
}

/* A close() is not enough: other processes may have the socket, too. */
void turn_del(struct daemon *d, struct turn_entry *e, int sock)
{
	if (epoll_ctl(sd_event_source_get_io_fd(d->turn.io), EPOLL_CTL_DEL, sock, NULL))
		return; /* it never was there */
	fm_list_del(&e->link);
	if (fm_list_empty(&e->user->ready))
		fm_list_del(&e->user->in_turn);
	if (!--e->user->entries)
		d->turn.n_users--;
}
