/* SPDX-License-Identifier: Apache-2.0 */
/* The link to the daemon. */
#include "base/cleanup.h"
#include "client.h"
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fm_link {
	struct fm_client *client;
	struct fm_ownfd sock;
	bool welcome, strict;
};

static int dial(const char *dir)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" FM_SOCKET_NAME, dir);
	int fd;

	if (n < 0 || (size_t)n >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	/* Non-blocking: a daemon whose backlog is full counts as none, for now. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	n = -errno;
	close(fd);
	return n;
}

static int dial_any(const char *dir)
{
	char dirs[FM_SOCKET_CANDIDATES][108];
	int n, fd = -ENOENT;

	if (dir && *dir)
		return dial(dir);
	n = fm_socket_dirs(dirs);
	for (int i = 0; i < n && fd < 0; i++)
		fd = dial(dirs[i]);
	return fd;
}

static int socket_open(struct fm_link **out, struct fm_client *client, const char *arg,
	struct fm_board *board, int board_fd, const char *api)
{
	int fd = dial_any(arg), rc;
	struct fm_link *l;
	union fm_msg m;

	if (fd < 0)
		return fd;
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->client = client;
	fm_ownfd_adopt(&l->sock, fd);
	fm_msg_init(&m, FM_MSG_GATES);
	if (fm_client_gates(client) >= 0)
		fm_msg_send(l->sock.fd, &m, fm_client_gates(client));
	fm_msg_init(&m, FM_MSG_MEMORY);
	if (fm_client_memory(client) >= 0)
		fm_msg_send(l->sock.fd, &m, fm_client_memory(client));
	fm_msg_init(&m, FM_MSG_HELLO);
	m.hello.board_version = board->version;
	m.hello.board_size = board->size;
	snprintf(m.hello.api, sizeof(m.hello.api), "%s", api);
	rc = fm_msg_send(l->sock.fd, &m, board_fd);
	if (rc) {
		fm_ownfd_close(&l->sock);
		free(l);
		return rc;
	}
	atomic_store(&client->joins, true);
	*out = l;
	return 0;
}

static void socket_close(struct fm_link *l)
{
	atomic_store(&l->client->joins, false);
	fm_ownfd_close(&l->sock);
	free(l);
}

static int socket_send(struct fm_link *l, const union fm_msg *m)
{
	return fm_ownfd_valid(&l->sock) ? fm_msg_send(l->sock.fd, m, -1) : -EBADF;
}

static void socket_bell(struct fm_link *l)
{
	int saved = errno;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_BELL);
	if (fm_ownfd_valid(&l->sock)) {
		fm_msg_send(l->sock.fd, &m, -1);
	} else {
		atomic_store(&l->client->link_broken, true);
		fm_client_wake(l->client);
	}
	errno = saved;
}

static int socket_fd(const struct fm_link *l)
{
	return l->sock.fd;
}

/* A refusal before the welcome is final for this daemon; a later one concerns one request only. */
static bool take(struct fm_link *l, const union fm_msg *m, int *fd)
{
	switch (m->head.type) {
	case FM_MSG_GATES:
		if (l->welcome)
			return false;
		l->strict = true;
		fm_client_strict(l->client, fm_take_fd(fd));
		return true;
	case FM_MSG_WELCOME:
		if (!l->strict)
			fm_client_lax(l->client);
		l->welcome = true;
		FM_TRACE(daemon_found, fm_now(), FM_TRACE_NO_SLOT, 0, 0, 0, 0);
		fm_trace_switch(-1);
		l->client->backoff = 0;
		return true;
	case FM_MSG_REFUSED:
		return l->welcome;
	case FM_MSG_TRACE:
		if (!l->welcome)
			return false;
		fm_trace_switch(*fd); /* a ring that is none is left alone */
		return true;
	case FM_MSG_HINT:
		fm_client_remember_hint(l->client, m->hint.group, m->hint.hint, m->hint.value);
		return true;
	default:
		return m->head.type == FM_MSG_WAKE;
	}
}

static uint64_t socket_service(struct fm_link *l, uint64_t now)
{
	if (!fm_ownfd_valid(&l->sock))
		return 0;
	for (;;) {
		FM_CLEAN_FD int fd = -1;
		union fm_msg m;
		long n = fm_msg_recv(l->sock.fd, &m, &fd);

		if (n <= 0)
			return n == -EAGAIN || n == -EINTR ? FM_NEVER : 0;
		if (fm_msg_check(&m, (size_t)n, NULL) || !take(l, &m, &fd))
			return 0;
	}
}

/* Messages that the other end has not read are still in our queue. If the kernel does not tell,
 * they count as read. */
static bool socket_heard(const struct fm_link *l)
{
	int unread = 0;

	return !fm_ownfd_valid(&l->sock) || ioctl(l->sock.fd, SIOCOUTQ, &unread) || !unread;
}

const struct fm_link_ops fm_link_socket = {
	.open = socket_open,
	.close = socket_close,
	.send = socket_send,
	.bell = socket_bell,
	.fd = socket_fd,
	.service = socket_service,
	.heard = socket_heard,
};
