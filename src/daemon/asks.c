/* SPDX-License-Identifier: Apache-2.0 */
#include "asks.h"
#include "base/clock.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PRIORITY_LATE  (SD_EVENT_PRIORITY_NORMAL - 2)
#define LATE           (5 * FM_MS) /* so long others may come first */
#define EVENTS_AT_ONCE 16

struct asks {
	struct daemon *daemon;
	sd_event_source *io, *work, *budget;
	int epoll;
	struct fm_list users;
	struct fm_list turn;  /* users with something to do, the next first */
	uint64_t waits_since; /* since when a source waits; 0: none does */
	bool late;
};

struct asker *asker_get(struct daemon *d, uid_t uid)
{
	struct quota_user *books = quota_get(&d->quota, uid, fm_now());
	struct asker *u;

	fm_list_each (u, &d->asks->users, link)
		if (u->books == books) {
			quota_put(books);
			u->controls++;
			return u;
		}
	u = calloc(1, sizeof(*u));
	if (!u) {
		quota_put(books);
		return NULL;
	}
	u->books = books;
	u->controls = 1;
	fm_list_init(&u->in_turn);
	fm_list_init(&u->ready);
	fm_list_add_tail(&d->asks->users, &u->link);
	return u;
}

void asker_put(struct asker *u)
{
	if (--u->controls)
		return;
	fm_list_del(&u->link);
	fm_list_del(&u->in_turn);
	quota_put(u->books);
	free(u);
}

/* How long until the user's next step may be made. */
static uint64_t debt(const struct asker *u, uint64_t now)
{
	const struct control *c = fm_list_first(&u->ready, struct control, in_ready);

	return c->peer.steers ? 0 : quota_debt(u->books, QUOTA_REPLIES, now);
}

/* Plans the next turn: now, when a user's budget is there again, or, with no request, not at all.
 */
static void plan(struct asks *t)
{
	uint64_t now = fm_now(), least = FM_NEVER;
	struct asker *u;

	fm_list_each (u, &t->turn, in_turn)
		least = FM_MIN(least, debt(u, now));
	sd_event_source_set_enabled(t->work, least ? SD_EVENT_OFF : SD_EVENT_ON);
	if (least && least != FM_NEVER) {
		sd_event_source_set_time(t->budget, (now + least) / FM_US + 1);
		sd_event_source_set_enabled(t->budget, SD_EVENT_ONESHOT);
	} else {
		sd_event_source_set_enabled(t->budget, SD_EVENT_OFF);
	}
}

static int on_budget(sd_event_source *source, uint64_t usec, void *arg)
{
	plan(arg);
	return 0;
}

void asks_ready(struct control *c)
{
	struct asks *t = c->daemon->asks;
	struct asker *u = c->user;

	if (fm_list_empty(&u->ready))
		fm_list_add_tail(&t->turn, &u->in_turn);
	fm_list_add_tail(&u->ready, &c->in_ready);
	plan(t);
}

static void unready(struct control *c)
{
	fm_list_del(&c->in_ready);
	if (fm_list_empty(&c->user->ready))
		fm_list_del(&c->user->in_turn);
}

static int on_work(sd_event_source *source, void *arg)
{
	struct asks *t = arg;
	uint64_t now = fm_now(), before;
	struct quota_user *books;
	struct control *c;
	struct asker *u;

	t->waits_since = 0;
	fm_list_each (u, &t->turn, in_turn)
		if (!debt(u, now))
			break;
	if (&u->in_turn != &t->turn) {
		fm_list_del(&u->in_turn);
		fm_list_add_tail(&t->turn, &u->in_turn);
		c = fm_list_first(&u->ready, struct control, in_ready);
		unready(c);
		books = u->books; /* stay at least until others are asked for */
		before = fm_thread_time();
		control_step(c);
		quota_spend(books, QUOTA_REPLIES, fm_thread_time() - before, now);
	}
	plan(t);
	return 0;
}

/* Each connection has one event, so that none of them is freed by another's. */
static int on_io(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	struct asks *t = arg;
	int n = epoll_wait(fd, events, EVENTS_AT_ONCE, 0);

	t->waits_since = 0;
	for (int i = 0; i < n; i++)
		control_io(events[i].data.ptr);
	return 0;
}

/* EPOLLONESHOT: a connection that waits for its turn must not wake the loop meanwhile. */
int asks_watch(struct control *c, uint32_t events)
{
	struct epoll_event e = {.events = events | EPOLLONESHOT, .data.ptr = c};
	int epoll = c->daemon->asks->epoll;

	if (!epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e))
		return 0;
	return errno == ENOENT && !epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e) ? 0 : -errno;
}

/* There may be another descriptor of the socket. Then a close does not remove it from the epoll. */
void asks_end(struct control *c)
{
	epoll_ctl(c->daemon->asks->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	unready(c);
}

/* Requests are heard of before the next step is made: of equal sources the one that never rests
 * would come first. */
static void set_priority(struct asks *t, int64_t priority)
{
	sd_event_source_set_priority(t->io, priority);
	sd_event_source_set_priority(t->work, priority + 1);
	sd_event_source_set_priority(t->daemon->control.io, priority);
}

/* Clients without end must not keep people from steering. */
void asks_check(struct daemon *d)
{
	struct asks *t = d->asks;
	bool waits = sd_event_source_get_pending(t->io) > 0 ||
		     sd_event_source_get_pending(t->work) > 0 ||
		     sd_event_source_get_pending(d->control.io) > 0;
	bool late = false;

	if (!waits)
		t->waits_since = 0;
	else if (!t->waits_since)
		t->waits_since = fm_now();
	else
		late = fm_now() - t->waits_since >= LATE;
	if (late == t->late)
		return;
	t->late = late;
	set_priority(t, late ? PRIORITY_LATE : PRIORITY_CONTROL);
}

int asks_new(struct daemon *d)
{
	struct asks *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	d->asks = t;
	t->daemon = d;
	fm_list_init(&t->users);
	fm_list_init(&t->turn);
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0)
		return -errno;
	rc = sd_event_add_io(d->event, &t->io, t->epoll, EPOLLIN, on_io, t);
	if (rc >= 0)
		rc = sd_event_add_defer(d->event, &t->work, on_work, t);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(t->work, SD_EVENT_OFF);
	if (rc >= 0)
		rc = sd_event_add_time(
			d->event, &t->budget, CLOCK_MONOTONIC, 0, FM_MS / FM_US, on_budget, t);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(t->budget, SD_EVENT_OFF);
	if (rc >= 0)
		set_priority(t, PRIORITY_CONTROL);
	return rc;
}

void asks_free(struct daemon *d)
{
	struct asks *t = d->asks;

	if (!t)
		return;
	sd_event_source_disable_unref(t->io);
	sd_event_source_disable_unref(t->work);
	sd_event_source_disable_unref(t->budget);
	if (t->epoll >= 0)
		close(t->epoll);
	free(t);
	d->asks = NULL;
}
