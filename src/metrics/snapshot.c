/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon is asked for one page at a time: between two of them it schedules. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "metrics.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONTROL   "control.sock"
#define REPLY_MAX ((size_t)16 << 20)

struct line {
	int fd;
	uint64_t until;
	char *buf;
	size_t len, cap;
};

static int wait_for(const struct line *l, short events)
{
	struct pollfd p = {.fd = l->fd, .events = events};
	uint64_t now = fm_now();
	int n;

	if (now >= l->until)
		return -ETIMEDOUT;
	n = poll(&p, 1, (int)((l->until - now) / FM_MS + 1));
	if (n < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int send_request(struct line *l, const char *text)
{
	size_t len = strlen(text), sent = 0;
	int rc = 0;

	while (!rc && sent < len) {
		ssize_t n = send(l->fd, text + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			rc = wait_for(l, POLLOUT);
		else if (errno != EINTR)
			rc = -errno;
	}
	return rc;
}

static int make_room(struct line *l)
{
	size_t cap = l->cap ? 2 * l->cap : 65536;
	char *buf;

	if (l->len < l->cap)
		return 0;
	buf = cap <= REPLY_MAX ? realloc(l->buf, cap) : NULL;
	if (!buf)
		return cap <= REPLY_MAX ? -ENOMEM : -EMSGSIZE;
	l->buf = buf;
	l->cap = cap;
	return 0;
}

/* One line, whose end is the last that came: nothing is sent unasked. */
static int receive_reply(struct line *l)
{
	int rc;

	for (l->len = 0;;) {
		ssize_t n;

		rc = make_room(l);
		if (rc)
			return rc;
		n = recv(l->fd, l->buf + l->len, l->cap - l->len, MSG_DONTWAIT);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno == EAGAIN)
			rc = wait_for(l, POLLIN);
		else if (n < 0 && errno != EINTR)
			rc = -errno;
		if (rc)
			return rc;
		l->len += n > 0 ? (size_t)n : 0;
		if (l->len && l->buf[l->len - 1] == '\n')
			return 0;
	}
}

static int ask(struct line *l, const char *request, json_t **reply, struct fm_err *err)
{
	const json_t *told;
	int rc = send_request(l, request);

	rc = rc ? rc : receive_reply(l);
	if (rc) {
		fm_err_set(err, rc, "the daemon does not answer: %s", strerror(-rc));
		return fm_err_hint(err, "see its log; `fermata doctor' tells more");
	}
	*reply = json_loadb(l->buf, l->len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_true(json_object_get(*reply, "ok")))
		return 0;
	told = json_object_get(json_object_get(*reply, "error"), "text");
	fm_err_set(err, -EPROTO, "the daemon refuses the request: %s",
		json_is_string(told) ? json_string_value(told) : "not a Fermata daemon");
	fm_err_hint(err, "compare `fermata version' with `fermatad --version'");
	json_decref(*reply);
	*reply = NULL;
	return -EPROTO;
}

static int ask_daemon(struct line *l, json_t **out, struct fm_err *err)
{
	json_t *reply;
	int rc = ask(l, "{\"cmd\":\"metrics\",\"part\":\"daemon\"}\n", &reply, err);

	if (rc)
		return rc;
	*out = json_incref(json_object_get(reply, "daemon"));
	json_decref(reply);
	return *out ? 0 : fm_err_set(err, -EPROTO, "the daemon's reply lacks its own part");
}

bool fm_page_next(const json_t *reply, json_int_t *after)
{
	const json_t *next = json_object_get(reply, "next");

	if (!json_is_integer(next) || json_integer_value(next) <= *after)
		return false;
	*after = json_integer_value(next);
	return true;
}

/* All pages of a part, in one list. */
static int ask_part(struct line *l, const char *part, json_t **out, struct fm_err *err)
{
	json_int_t after = 0;
	char request[128];

	*out = json_array();
	for (int i = 0; i < FM_PAGES_MAX; i++) {
		json_t *reply;
		bool more;
		int rc;

		snprintf(request, sizeof(request),
			"{\"cmd\":\"metrics\",\"part\":\"%s\",\"after\":%" JSON_INTEGER_FORMAT
			"}\n",
			part, after);
		rc = ask(l, request, &reply, err);
		if (rc)
			return rc;
		json_array_extend(*out, json_object_get(reply, "items"));
		more = fm_page_next(reply, &after);
		json_decref(reply);
		if (!more)
			return 0;
	}
	return fm_err_set(err, -EPROTO, "the daemon's list of %s does not end", part);
}

int fm_snapshot_take(struct fm_snapshot *s, int fd, unsigned wait_ms, struct fm_err *err)
{
	uint64_t begin = fm_now();
	struct line l = {.fd = fd, .until = begin + wait_ms * FM_MS};
	int rc;

	*s = (struct fm_snapshot){0};
	rc = ask_daemon(&l, &s->daemon, err);
	rc = rc ? rc : ask_part(&l, "devices", &s->devices, err);
	rc = rc ? rc : ask_part(&l, "groups", &s->groups, err);
	rc = rc ? rc : ask_part(&l, "tasks", &s->tasks, err);
	free(l.buf);
	s->took_ns = fm_now() - begin;
	if (rc)
		fm_snapshot_free(s);
	return rc;
}

int fm_snapshot_daemon(int fd, unsigned wait_ms, json_t **out, struct fm_err *err)
{
	struct line l = {.fd = fd, .until = fm_now() + wait_ms * FM_MS};
	int rc = ask_daemon(&l, out, err);

	free(l.buf);
	return rc;
}

void fm_snapshot_free(struct fm_snapshot *s)
{
	json_decref(s->daemon);
	json_decref(s->devices);
	json_decref(s->groups);
	json_decref(s->tasks);
	*s = (struct fm_snapshot){0};
}

/* A daemon that does not accept must not hold us up: a full backlog is an answer, too. */
int fm_snapshot_connect(const char *dir, unsigned wait_ms, int *out, struct fm_err *err)
{
	FM_CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int rc = fd < 0 ? -errno : 0;

	if (!rc && (size_t)snprintf(to.sun_path, sizeof(to.sun_path), "%s/" CONTROL, dir) >=
			   sizeof(to.sun_path))
		rc = -ENAMETOOLONG;
	if (!rc)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (!rc && connect(fd, (struct sockaddr *)&to, sizeof(to)))
		rc = errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (!rc) {
		*out = fm_take_fd(&fd);
		return 0;
	}
	fm_err_set(err, rc, "no daemon answers in %s: %s", dir, strerror(-rc));
	fm_err_hint(err, "`fermata doctor' explains");
	return rc;
}
