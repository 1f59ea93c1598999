/* SPDX-License-Identifier: Apache-2.0 */
#include "top_link.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECT_MS 200
#define CHUNK      65536
#define REPLY_MAX  ((size_t)64 << 20)

void top_link_init(struct top_link *l, const struct cli *cli)
{
	*l = (struct top_link){.cli = cli, .fd = -1};
}

void top_link_close(struct top_link *l)
{
	fm_close_fd(&l->fd);
	l->fd = -1;
	free(l->in);
	free(l->out);
	l->in = l->out = NULL;
	l->in_len = l->in_cap = l->out_len = l->out_sent = 0;
	top_request_free(&l->request);
}

int top_link_open(struct top_link *l, struct fm_err *err)
{
	char dirs[CTL_DIRS][CTL_PATH];
	int n = ctl_dirs(l->cli, dirs), rc[CTL_DIRS];

	for (int i = 0; i < n; i++) {
		rc[i] = ctl_connect(dirs[i], CONNECT_MS, &l->fd);
		if (!rc[i])
			return 0;
	}
	return ctl_explain_all(dirs, rc, n, err);
}

short top_link_events(const struct top_link *l)
{
	return l->out ? POLLIN | POLLOUT : POLLIN;
}

int top_link_send(struct top_link *l, struct top *t, uint64_t now)
{
	if (l->fd < 0 || l->request.body || !top_next_request(t, &l->request))
		return 0;
	l->out = json_dumps(l->request.body, JSON_COMPACT);
	if (!l->out)
		return -ENOMEM;
	l->out_len = strlen(l->out) + 1;
	l->out[l->out_len - 1] = '\n'; /* over the NUL: from here on it is bytes, not a string */
	l->out_sent = 0;
	l->asked = now;
	return 0;
}

static int flush(struct top_link *l)
{
	while (l->out && l->out_sent < l->out_len) {
		ssize_t n = send(l->fd, l->out + l->out_sent, l->out_len - l->out_sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		l->out_sent += (size_t)n;
	}
	free(l->out);
	l->out = NULL;
	return 0;
}

static int grow(struct top_link *l)
{
	char *in;

	if (l->in_cap - l->in_len >= CHUNK)
		return 0;
	if (l->in_cap >= REPLY_MAX)
		return -EMSGSIZE;
	in = realloc(l->in, FM_MAX(2 * l->in_cap, (size_t)2 * CHUNK));
	if (!in)
		return -ENOMEM;
	l->in = in;
	l->in_cap = FM_MAX(2 * l->in_cap, (size_t)2 * CHUNK);
	return 0;
}

/* The reply to the request under way ends at `end`. Text that is not a reply ends the connection.
 */
static int deliver(struct top_link *l, struct top *t, const char *end, uint64_t now)
{
	size_t len = (size_t)(end - l->in);
	struct top_request r = l->request;
	json_t *reply = json_loadb(l->in, len, 0, NULL);
	int rc;

	l->in_len -= len + 1;
	memmove(l->in, end + 1, l->in_len);
	if (!reply || !r.body || !json_is_boolean(json_object_get(reply, "ok"))) {
		json_decref(reply);
		return -EPROTO;
	}
	l->request.body = NULL;
	rc = top_reply(t, &r, reply, now);
	top_request_free(&r);
	return rc;
}

int top_link_step(struct top_link *l, struct top *t, uint64_t now)
{
	int rc = flush(l);

	while (!rc) {
		ssize_t n;
		char *end;

		rc = grow(l);
		if (rc)
			break;
		n = recv(l->fd, l->in + l->in_len, l->in_cap - l->in_len, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (!n)
			return -ECONNRESET;
		end = memchr(l->in + l->in_len, '\n', (size_t)n);
		l->in_len += (size_t)n;
		if (end)
			return deliver(l, t, end, now);
	}
	return rc;
}
