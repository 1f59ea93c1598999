/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections: requests are lines in, replies lines out. While a reply waits to be read no
 * further request is: a slow reader costs one reply of memory, and after a while its connection.
 */
#include "base/clock.h"
#include "trace.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_MAX      (64 * 1024)
#define CONTROLS_PER_UID 32
#define SLOW_US          (10 * 1000 * 1000)

struct control {
	struct fm_list link;
	struct daemon *daemon;
	int fd;
	bool recorded; /* somebody else has the connection, by another descriptor */
	sd_event_source *io, *slow;
	struct peer peer;
	char *in;
	size_t in_len, in_cap;
	char *out;
	size_t out_len, out_sent;
};

static void control_free(struct control *c)
{
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->slow);
	fm_list_del(&c->link);
	if (c->recorded)
		close(c->fd);
	else
		close_socket_aside(c->fd);
	free(c->in);
	free(c->out);
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

/* A reply that cannot be sent waits for the peer; each byte read starts the time anew. */
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
	while (c->out_sent < c->out_len) {
		ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? wait_for_peer(c) : -errno;
		c->out_sent += (size_t)n;
	}
	free(c->out);
	c->out = NULL;
	c->out_len = c->out_sent = 0;
	return c->slow ? sd_event_source_set_enabled(c->slow, SD_EVENT_OFF) : 0;
}

static int reply(struct control *c, json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;

	json_decref(object);
	if (!text)
		return -ENOMEM;
	c->out_len = strlen(text) + 1;
	c->out = text;
	text[c->out_len - 1] = '\n'; /* in place of the NUL: the length is known */
	return flush_out(c);
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

static int answer_one(struct control *c, const char *end)
{
	size_t used = (size_t)(end - c->in) + 1;
	int rc = reply(c, command_run(c->daemon, &c->peer, c->in, used - 1));

	c->in_len -= used;
	memmove(c->in, c->in + used, c->in_len);
	return rc;
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

/* One step an event, so that many requests on one connection do not hold up the scheduling: send
 * what waits, else answer one request, else read. A request that is there already needs the next
 * event. */
static int on_io(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct control *c = arg;
	int rc = 0;

	if (c->out)
		rc = flush_out(c);
	else if (!line_end(c))
		rc = take_input(c);
	if (rc >= 0 && !c->out && line_end(c))
		rc = answer_one(c, line_end(c));
	/* It asked for a recording, and is one now. An answer of one line goes out at once. */
	c->recorded = trace_adopt(c->daemon, fd);
	if (c->recorded)
		rc = -ESHUTDOWN;
	if (rc >= 0)
		rc = sd_event_source_set_io_events(
			c->io, c->out || line_end(c) ? EPOLLOUT : EPOLLIN);
	if (rc < 0)
		control_free(c);
	return 0;
}

void control_settings(struct daemon *d)
{
	struct control *c;

	fm_list_each (c, &d->controls, link)
		peer_of(d, c->fd, &c->peer);
}

static bool over_limit(const struct daemon *d, const struct peer *p)
{
	struct control *c;
	unsigned n = 0;

	fm_list_each (c, &d->controls, link)
		if (c->peer.uid == p->uid)
			n++;
	return !p->steers && n >= CONTROLS_PER_UID;
}

void control_accept(struct daemon *d, int fd)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c || peer_of(d, fd, &c->peer) || over_limit(d, &c->peer)) {
		free(c);
		close_socket_aside(fd);
		return;
	}
	c->daemon = d;
	c->fd = fd;
	fm_list_add_tail(&d->controls, &c->link);
	if (sd_event_add_io(d->event, &c->io, fd, EPOLLIN, on_io, c) < 0)
		control_free(c);
}
