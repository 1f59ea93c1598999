/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections: requests are lines in, replies lines out. While a reply waits for the peer
 * to read it, no further request is read, and only a part of the reply is made. So a slow reader
 * costs little memory, and after a while it loses its connection.
 */
#include "asks.h"
#include "base/clock.h"
#include "daemon/admission/admission.h"
#include "trace.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define REQUEST_MAX (64 * 1024)
#define SEND_BUFFER (32 * 1024) /* in the kernel, for each connection */
#define SLOW_US     (10 * 1000 * 1000)

static void control_free(struct control *c)
{
	asks_end(c);
	admission_abandon(c->daemon, c);
	sd_event_source_disable_unref(c->slow);
	fm_list_del(&c->link);
	if (c->recorded)
		close_aside_of(c->user->books, c->fd);
	else
		close_socket_aside_of(c->user->books, c->fd);
	free(c->in);
	text_free(&c->out);
	listing_free(c->list);
	quota_give(c->user->books, QUOTA_BYTES, c->charged);
	quota_give(c->user->books, QUOTA_CONTROLS, 1);
	asker_put(c->user);
	free(c);
}

void control_free_all(struct daemon *d)
{
	while (!fm_list_empty(&d->controls))
		control_free(fm_list_first(&d->controls, struct control, link));
}

static int on_slow(sd_event_source *source, uint64_t usec, void *arg)
{
	struct control *c = arg;

	fm_log_limited(&c->daemon->log, &c->daemon->troubles, LOG_NOTICE,
		"pid %d does not read its reply: dropped", (int)c->peer.pid);
	control_free(c);
	return 0;
}

/* A reply that cannot be sent waits for the peer. Whenever the peer reads something, the time
 * starts again. */
static int wait_for_peer(struct control *c)
{
	uint64_t at = fm_now() / 1000 + SLOW_US;
	int rc;

	if (c->slow)
		rc = sd_event_source_set_time(c->slow, at);
	else
		rc = sd_event_add_time(
			c->daemon->event, &c->slow, CLOCK_MONOTONIC, at, 0, on_slow, c);
	return rc < 0 ? rc : sd_event_source_set_enabled(c->slow, SD_EVENT_ONESHOT);
}

static int flush_out(struct control *c)
{
	while (c->out_sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.at + c->out_sent, c->out.len - c->out_sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? wait_for_peer(c) : -errno;
		c->out_sent += (size_t)n;
	}
	c->out.len = c->out_sent = 0;
	if (!c->list)
		text_free(&c->out);
	return c->slow ? sd_event_source_set_enabled(c->slow, SD_EVENT_OFF) : 0;
}

static json_t *too_long(void)
{
	return json_pack("{s:b, s:{s:s, s:s, s:s}}", "ok", 0, "error", "code", "E2BIG", "text",
		"the request is longer than 64 KiB", "hint", "send less in one line");
}

static char *line_end(const struct control *c)
{
	return c->in_len ? memchr(c->in, '\n', c->in_len) : NULL;
}

/* Makes the next part of the reply, if there is one, with its end. */
static int reply(struct control *c, json_t *object)
{
	bool more = c->list;

	if (object && more)
		listing_begin(c->list, object, &c->out);
	else if (!more)
		text_json(&c->out, object);
	if (more && !c->out.failed)
		more = listing_step(c->list, c->daemon, &c->peer, &c->out);
	if (!more) {
		text_put(&c->out, "\n", 1);
		listing_free(c->list);
		c->list = NULL;
	}
	return c->out.failed ? -ENOMEM : flush_out(c);
}

static int answer_one(struct control *c, const char *end)
{
	size_t used = (size_t)(end - c->in) + 1;
	json_t *object = command_run(c->daemon, &c->peer, c->in, used - 1, &c->list);
	int rc = 0;

	c->waits = !object && admission_adopt(c->daemon, c);
	if (!c->waits)
		rc = reply(c, object);
	c->in_len -= used;
	memmove(c->in, c->in + used, c->in_len);
	if (!c->in_len) {
		free(c->in);
		c->in = NULL;
		c->in_cap = 0;
	}
	/* The connection asked for a recording, and is one now. The answer is one line and is sent
	 * at once.
	 */
	c->recorded = trace_adopt(c->daemon, c->fd);
	return c->recorded ? -ESHUTDOWN : rc;
}

static int grow(struct control *c)
{
	size_t cap = c->in_cap ? 4 * c->in_cap : 4096;
	char *in;

	if (c->in_len < c->in_cap)
		return 0;
	cap = FM_MIN(cap, (size_t)REQUEST_MAX);
	in = realloc(c->in, cap);
	if (!in)
		return -ENOMEM;
	c->in = in;
	c->in_cap = cap;
	return 0;
}

static int take_input(struct control *c)
{
	long n;

	if (grow(c))
		return -ENOMEM;
	n = fm_recv_bytes(c->fd, c->in + c->in_len, c->in_cap - c->in_len);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	if (!n)
		return -ESHUTDOWN;
	c->in_len += (size_t)n;
	if (!line_end(c) && c->in_len >= REQUEST_MAX) {
		reply(c, too_long());
		return -E2BIG; /* where the next request begins is unknown */
	}
	return 0;
}

/* What peers that may steer everything hold is counted, and not limited. */
static bool take(struct control *c, enum quota_kind kind, uint64_t n)
{
	if (!c->peer.steers)
		return quota_take(c->user->books, kind, n);
	quota_charge(c->user->books, kind, n);
	return true;
}

/* Charges what the connection holds to the user's books. */
static int charge(struct control *c)
{
	size_t held = c->in_cap + c->out.cap;

	if (held > c->charged && !take(c, QUOTA_BYTES, held - c->charged)) {
		fm_log_limited(&c->daemon->log, &c->daemon->troubles, LOG_NOTICE,
			"user %u has too many unread replies: pid %d dropped", c->peer.uid,
			(int)c->peer.pid);
		return -EDQUOT;
	}
	if (held < c->charged)
		quota_give(c->user->books, QUOTA_BYTES, c->charged - held);
	c->charged = held;
	return 0;
}

/* One step is done. Decides what comes next. */
static void go_on(struct control *c, int rc)
{
	if (rc >= 0)
		rc = charge(c);
	if (rc >= 0 && c->waits)
		return;
	if (rc >= 0 && c->out.len)
		rc = asks_watch(c, EPOLLOUT);
	else if (rc >= 0 && (c->list || line_end(c)))
		asks_ready(c);
	else if (rc >= 0)
		rc = asks_watch(c, EPOLLIN);
	if (rc < 0)
		control_free(c);
}

void control_io(struct control *c)
{
	go_on(c, c->out.len ? flush_out(c) : take_input(c));
}

void control_step(struct control *c)
{
	go_on(c, c->list ? reply(c, NULL) : answer_one(c, line_end(c)));
}

void control_answer(struct control *c, json_t *object, struct listing *list)
{
	c->waits = false;
	c->list = list;
	go_on(c, reply(c, object));
}

void control_settings(struct daemon *d)
{
	struct control *c;

	fm_list_each (c, &d->controls, link)
		peer_of(d, c->fd, &c->peer);
}

static void turn_away(struct control *c, int fd)
{
	if (c && c->user) {
		close_socket_aside_of(c->user->books, fd);
		asker_put(c->user);
	} else {
		close_socket_aside(fd);
	}
	free(c);
}

/* The connection is closed if memory is short, or if the user has too many. */
void control_accept(struct daemon *d, int fd)
{
	const int size = SEND_BUFFER;
	struct control *c = calloc(1, sizeof(*c));

	if (c && !peer_of(d, fd, &c->peer))
		c->user = asker_get(d, c->peer.uid);
	if (!c || !c->user || !take(c, QUOTA_CONTROLS, 1)) {
		turn_away(c, fd);
		return;
	}
	c->daemon = d;
	c->fd = fd;
	fm_list_init(&c->in_ready);
	fm_list_add_tail(&d->controls, &c->link);
	if (!c->peer.steers)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (asks_watch(c, EPOLLIN))
		control_free(c);
}
