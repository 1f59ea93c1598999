/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARTS       4 /* of a request: its head, and a body of these */
#define INTERIM_MAX 8 /* answers 1xx before the answer */
#define FIRST_ROOM  65536u

__attribute__((format(printf, 3, 4))) static int bad(struct http *h, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h->error, sizeof(h->error), fmt, ap);
	va_end(ap);
	return rc;
}

/* --- the head --- */

static bool digits(const char *p, size_t n, size_t most, size_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || *v > most)
			return false;
		*v = *v * 10 + (size_t)(p[i] - '0');
	}
	return n && *v <= most;
}

struct field {
	const char *value;
	size_t n;
};

static bool is_named(const char *line, size_t n, const char *name, struct field *f)
{
	size_t len = strlen(name);

	if (n <= len || line[len] != ':' || strncasecmp(line, name, len))
		return false;
	f->value = line + len + 1;
	f->n = n - len - 1;
	while (f->n && (*f->value == ' ' || *f->value == '\t'))
		f->value++, f->n--;
	while (f->n && (f->value[f->n - 1] == ' ' || f->value[f->n - 1] == '\t'))
		f->n--;
	return true;
}

/* NULL, or what is wrong. */
static const char *take_field(const char *line, size_t n, struct http_head *head, bool *sized)
{
	struct field f;
	size_t length;

	if (is_named(line, n, "Content-Length", &f)) {
		if (!digits(f.value, f.n, HTTP_BODY_MAX, &length))
			return "its Content-Length is no number, or beyond 256 MiB";
		if (*sized && length != head->length)
			return "it has two lengths";
		head->length = length;
		*sized = true;
	} else if (is_named(line, n, "Transfer-Encoding", &f)) {
		return "it comes in pieces (Transfer-Encoding), which is not understood here";
	} else if (is_named(line, n, "Connection", &f)) {
		head->close = head->close || (f.n == 5 && !strncasecmp(f.value, "close", 5));
	}
	return NULL;
}

static const char *take_status(const char *p, size_t n, struct http_head *head)
{
	size_t status;

	if (n < 12 || strncmp(p, "HTTP/1.", 7) || (p[7] != '0' && p[7] != '1') || p[8] != ' ' ||
		!digits(p + 9, 3, 599, &status) || status < 100 || (n > 12 && p[12] != ' '))
		return "it is not of HTTP/1.1";
	head->status = (int)status;
	head->close = p[7] == '0';
	return NULL;
}

static const char *take_lines(const char *p, size_t n, struct http_head *head)
{
	const char *end = memmem(p, n, "\r\n", 2), *wrong;
	bool sized = false;

	wrong = take_status(p, (size_t)(end - p), head);
	while (!wrong && end + 2 < p + n) {
		const char *line = end + 2;

		end = memmem(line, (size_t)(p + n - line), "\r\n", 2);
		if (end == line)
			break;
		wrong = take_field(line, (size_t)(end - line), head, &sized);
	}
	if (!wrong && !sized && head->status >= 200 && head->status != 204)
		return "it does not say how long it is";
	return wrong;
}

ssize_t http_parse_head(const char *p, size_t n, struct http_head *head, const char **why)
{
	const char *end = memmem(p, FM_MIN(n, (size_t)HTTP_HEAD_MAX), "\r\n\r\n", 4);

	*head = (struct http_head){0};
	*why = "its head is longer than 16 KiB";
	if (!end)
		return n >= HTTP_HEAD_MAX ? -EPROTO : 0;
	*why = take_lines(p, (size_t)(end - p) + 4, head);
	return *why ? -EPROTO : end - p + 4;
}

/* --- the connection --- */

const char *http_url(struct http *h, const char *url)
{
	const char *host = url, *end, *port = "8000";
	size_t n, v;

	*h = (struct http){.fd = -1};
	if (!strncmp(url, "https://", 8))
		return "https is not understood here: ask the server by http, or by a proxy";
	if (!strncmp(url, "http://", 7))
		host += 7;
	end = host + strcspn(host, "/");
	if (end[0] && end[1])
		return "nothing may follow the server's name and port";
	n = (size_t)(end - host);
	if (*host == '[' && memchr(host, ']', n)) {
		host++;
		n = (size_t)((const char *)memchr(host, ']', n - 1) - host);
	} else {
		n = strcspn(host, ":/");
	}
	if (!n || n >= sizeof(h->host))
		return "a server is HOST:PORT";
	memcpy(h->host, host, n);
	host += n + (host[n] == ']');
	if (host < end) {
		port = host + 1;
		if (*host != ':' || !digits(port, (size_t)(end - port), 65535, &v) || !v ||
			(size_t)(end - port) >= sizeof(h->port))
			return "a server's port is from 1 to 65535";
		memcpy(h->port, port, (size_t)(end - port));
		return NULL;
	}
	strcpy(h->port, port);
	return NULL;
}

void http_close(struct http *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	free(h->buf);
	h->buf = NULL;
	h->room = 0;
}

static void hang_up(struct http *h)
{
	close(h->fd);
	h->fd = -1;
}

/* 0; -ETIMEDOUT. */
static int wait_for(int fd, short events, uint64_t until)
{
	struct pollfd p = {.fd = fd, .events = events};
	int rc;

	do {
		uint64_t now = fm_now();
		uint64_t left = now < until ? (until - now + FM_MS - 1) / FM_MS : 0;

		rc = poll(&p, 1, (int)FM_MIN(left, (uint64_t)INT32_MAX));
	} while (rc < 0 && errno == EINTR);
	return rc > 0 ? 0 : -ETIMEDOUT;
}

static int try_address(const struct addrinfo *a, uint64_t until)
{
	FM_CLEAN_FD int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	socklen_t size = sizeof(int);
	int one = 1, rc;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen)) {
		if (errno != EINPROGRESS)
			return -errno;
		if (wait_for(fd, POLLOUT, until))
			return -ETIMEDOUT;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &size) || rc)
			return -rc;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	rc = fd;
	fd = -1;
	return rc;
}

static int dial(struct http *h, uint64_t until)
{
	const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int rc = getaddrinfo(h->host, h->port, &want, &found);

	if (rc)
		return bad(h, -EHOSTUNREACH, "%.60s: %s", h->host, gai_strerror(rc));
	rc = -EHOSTUNREACH;
	for (const struct addrinfo *a = found; a && h->fd < 0; a = a->ai_next) {
		rc = try_address(a, until);
		h->fd = rc < 0 ? -1 : rc;
	}
	freeaddrinfo(found);
	if (h->fd < 0)
		return bad(h, rc, "%.60s port %s: %s", h->host, h->port, strerror(-rc));
	return 0;
}

/* --- requests --- */

/* A server may answer, and close, before it has read all: what went wrong is then in its answer. */
static int send_all(struct http *h, struct iovec *part, int parts, uint64_t until)
{
	struct msghdr msg = {.msg_iov = part, .msg_iovlen = (size_t)parts};
	ssize_t n;

	while (msg.msg_iovlen) {
		n = sendmsg(h->fd, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return 0;
		if (n < 0 && wait_for(h->fd, POLLOUT, until))
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		for (; msg.msg_iovlen && (size_t)n >= msg.msg_iov->iov_len; msg.msg_iovlen--)
			n -= (ssize_t)msg.msg_iov++->iov_len;
		if (msg.msg_iovlen) {
			msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + n;
			msg.msg_iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* Bytes grow as they come, whatever length was told. */
static int make_room(struct http *h, size_t have)
{
	size_t room = h->room ? 2 * h->room : FIRST_ROOM;
	char *more;

	if (have < h->room)
		return 0;
	more = realloc(h->buf, room);
	if (!more)
		return bad(h, -ENOMEM, "out of memory");
	h->buf = more;
	h->room = room;
	return 0;
}

/* How many more; 0: the server closed. */
static ssize_t receive(struct http *h, size_t have, uint64_t until)
{
	ssize_t n;
	int rc = make_room(h, have);

	if (rc)
		return rc;
	for (;;) {
		n = recv(h->fd, h->buf + have, h->room - have, 0);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return bad(h, -errno, "the server has gone: %s", strerror(errno));
		if (wait_for(h->fd, POLLIN, until))
			return bad(h, -ETIMEDOUT, "the server does not answer in time");
	}
}

struct reading {
	struct http_head head;
	size_t have, at; /* bytes; where the answer begins */
};

static int read_head(struct http *h, struct reading *r, uint64_t until)
{
	const char *why;
	ssize_t n;

	for (int answers = 0; answers <= INTERIM_MAX; answers++) {
		while (!(n = http_parse_head(h->buf + r->at, r->have - r->at, &r->head, &why))) {
			n = receive(h, r->have, until);
			if (n < 0)
				return (int)n;
			if (!n)
				return bad(h, -EPIPE, "the server has closed the connection");
			r->have += (size_t)n;
		}
		if (n < 0)
			return bad(h, -EPROTO, "the server's answer makes no sense: %s", why);
		r->at += (size_t)n;
		if (r->head.status >= 200)
			return 0;
	}
	return bad(h, -EPROTO, "the server's answer does not come to its end");
}

static int read_answer(struct http *h, struct reading *r, uint64_t until)
{
	int rc = make_room(h, 0);
	ssize_t n;

	rc = rc ? rc : read_head(h, r, until);
	while (!rc && r->have - r->at < r->head.length) {
		n = receive(h, r->have, until);
		if (n <= 0)
			return n ? (int)n : bad(h, -EPROTO, "the server's answer is cut");
		r->have += (size_t)n;
	}
	if (!rc && r->have - r->at > r->head.length)
		return bad(h, -EPROTO, "the server's answer is longer than it says");
	return rc;
}

static int try(struct http *h, struct iovec *part, int parts, uint64_t until, struct reading *r)
{
	int rc = h->fd < 0 ? dial(h, until) : 0;

	if (rc)
		return rc;
	*r = (struct reading){.have = 0};
	rc = send_all(h, part, parts, until);
	if (rc)
		bad(h, rc, "the server does not read what it is sent");
	rc = rc ? rc : read_answer(h, r, until);
	if (rc || r->head.close)
		hang_up(h);
	return rc;
}

int http_ask(struct http *h, const char *method, const char *path, const char *headers,
	const struct iovec *body, int parts, int timeout_ms, struct http_answer *a)
{
	uint64_t until = fm_now() + (uint64_t)timeout_ms * FM_MS;
	bool kept = h->fd >= 0;
	struct iovec part[1 + PARTS];
	struct reading r;
	size_t length = 0;
	const bool six = strchr(h->host, ':');
	char head[1024];
	int n, rc;

	for (int i = 0; i < parts; i++)
		length += body[i].iov_len;
	n = snprintf(head, sizeof(head),
		"%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Length: %zu\r\n%s\r\n", method, path,
		six ? "[" : "", h->host, six ? "]" : "", h->port, length, headers);
	if (n >= (int)sizeof(head) || parts > PARTS)
		return bad(h, -E2BIG, "the request is too long");
	for (;;) {
		part[0] = (struct iovec){head, (size_t)n};
		for (int i = 0; i < parts; i++)
			part[1 + i] = body[i];
		rc = try(h, part, 1 + parts, until, &r);
		/* A server may close a connection that nobody has used for a while. */
		if (!kept || r.have || (rc != -EPIPE && rc != -ECONNRESET))
			break;
		kept = false;
	}
	if (!rc)
		*a = (struct http_answer){r.head.status, h->buf + r.at, r.head.length};
	return rc;
}
