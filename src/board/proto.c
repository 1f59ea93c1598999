/* SPDX-License-Identifier: Apache-2.0 */
#include "proto.h"
#include "base/cleanup.h"
#include "base/runtime_dir.h"
#include "board.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PRIORITY_KEEP INT32_MIN
#define LEVELS_ALL                                                              \
	(1u << FM_LEVEL_NONE | 1u << FM_LEVEL_PENDING | 1u << FM_LEVEL_QUEUED | \
		1u << FM_LEVEL_RUNNING)

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static size_t msg_size(unsigned type)
{
	switch (type) {
#define CASE_SIZE(id, type) \
	case id:            \
		return sizeof(struct type);
		FM_MSG_MAP(CASE_SIZE)
#undef CASE_SIZE
	}
	return 0;
}

static const char *msg_name(unsigned type)
{
	switch (type) {
#define CASE_NAME(id, type) \
	case id:            \
		return &#id[sizeof("FM_MSG_") - 1];
		FM_MSG_MAP(CASE_NAME)
#undef CASE_NAME
	}
	return "?";
}

size_t fm_msg_head(union fm_msg *m, enum fm_msg_type type)
{
	m->head = (struct fm_msg_head){
		.magic = FM_PROTO_MAGIC,
		.version = FM_PROTO_VERSION,
		.type = (uint16_t)type,
	};
	return msg_size(type);
}

size_t fm_msg_init(union fm_msg *m, enum fm_msg_type type)
{
	memset(m, 0, FM_MAX(msg_size(type), sizeof(m->head)));
	return fm_msg_head(m, type);
}

static int bad(struct fm_err *err, const union fm_msg *m, const char *what)
{
	return fm_err_set(err, -EBADMSG, "%s message: %s", msg_name(m->head.type), what);
}

static bool printable(const char *s, size_t size)
{
	const char *end = memchr(s, '\0', size);

	if (!end)
		return false;
	for (; s < end; s++)
		if (*s < 0x20 || *s > 0x7e)
			return false;
	return true;
}

static bool nameable(const char *s, size_t size)
{
	return printable(s, size) && !s[strcspn(s, " /\"'`")];
}

static int check_hello(const union fm_msg *m, struct fm_err *err)
{
	if (m->hello.board_version != FM_BOARD_VERSION ||
		m->hello.board_size != sizeof(struct fm_board)) {
		fm_err_set(err, -EPROTONOSUPPORT,
			"board version %u of %u bytes; this side has %u of %zu",
			m->hello.board_version, m->hello.board_size, FM_BOARD_VERSION,
			sizeof(struct fm_board));
		fm_err_hint(err, "install the same version of the library and of fermatad");
		return -EPROTONOSUPPORT;
	}
	return printable(m->hello.api, sizeof(m->hello.api)) ? 0 : bad(err, m, "API not printable");
}

static int check_refused(const union fm_msg *m, struct fm_err *err)
{
	if (m->refused.code >= 0)
		return bad(err, m, "code is not a negative errno");
	if (!printable(m->refused.text, sizeof(m->refused.text)))
		return bad(err, m, "text not printable");
	return 0;
}

static int check_group(const union fm_msg *m, struct fm_err *err)
{
	if (m->group.group >= FM_BOARD_GROUPS)
		return bad(err, m, "group index out of range");
	if (!nameable(m->group.name, sizeof(m->group.name)))
		return bad(err, m, "name not printable, or with a space, '/' or quote");
	return 0;
}

static bool hint_in_range(uint32_t hint, int64_t value)
{
	switch (hint) {
#define CASE_HINT(id, name, min, max, def, unit) \
	case id:                                 \
		return value >= (min) && value <= (max);
		FM_HINT_MAP(CASE_HINT)
#undef CASE_HINT
	}
	return false;
}

static int check_hint(const union fm_msg *m, struct fm_err *err)
{
	if (m->hint.group >= FM_BOARD_GROUPS)
		return bad(err, m, "group index out of range");
	if (m->hint.hint >= FM_HINT_COUNT)
		return bad(err, m, "unknown hint");
	return hint_in_range(m->hint.hint, m->hint.value) ? 0 : bad(err, m, "value out of range");
}

static int check_queue(const union fm_msg *m, struct fm_err *err)
{
	if (m->queue.slot >= FM_BOARD_SLOTS)
		return bad(err, m, "slot out of range");
	if (m->queue.group >= FM_BOARD_GROUPS)
		return bad(err, m, "group index out of range");
	if (m->queue.levels & ~LEVELS_ALL)
		return bad(err, m, "unknown level");
	if (!m->queue.device[0] || !printable(m->queue.device, sizeof(m->queue.device)))
		return bad(err, m, "device key empty or not printable");
	return 0;
}

static int check_segment(const union fm_msg *m, struct fm_err *err)
{
	int32_t priority = m->segment.priority;

	if (m->segment.group >= FM_BOARD_GROUPS)
		return bad(err, m, "group index out of range");
	if (m->segment.begin > 1)
		return bad(err, m, "neither begin nor end");
	if (priority != PRIORITY_KEEP && (priority < FM_PRIORITY_MIN || priority > FM_PRIORITY_MAX))
		return bad(err, m, "priority out of range");
	return 0;
}

static int check_head(const union fm_msg *m, size_t size, struct fm_err *err)
{
	if (size < sizeof(m->head))
		return fm_err_set(
			err, -EBADMSG, "message of %zu bytes, shorter than its head", size);
	if (m->head.magic != FM_PROTO_MAGIC)
		return fm_err_set(err, -EBADMSG, "message without the magic number");
	if (m->head.version != FM_PROTO_VERSION) {
		fm_err_set(err, -EPROTONOSUPPORT, "protocol version %u; this side speaks %u",
			m->head.version, FM_PROTO_VERSION);
		fm_err_hint(err, "install the same version of the library and of fermatad");
		return -EPROTONOSUPPORT;
	}
	if (!msg_size(m->head.type))
		return fm_err_set(err, -EBADMSG, "unknown message type %u", m->head.type);
	if (size != msg_size(m->head.type))
		return bad(err, m, "wrong size");
	return 0;
}

int fm_msg_check(const union fm_msg *m, size_t size, struct fm_err *err)
{
	int rc = check_head(m, size, err);

	if (rc)
		return rc;
	switch (m->head.type) {
	case FM_MSG_HELLO:
		return check_hello(m, err);
	case FM_MSG_REFUSED:
		return check_refused(m, err);
	case FM_MSG_GROUP:
		return check_group(m, err);
	case FM_MSG_HINT:
		return check_hint(m, err);
	case FM_MSG_QUEUE:
		return check_queue(m, err);
	case FM_MSG_QUEUE_GONE:
		return m->queue_gone.slot < FM_BOARD_SLOTS ? 0 : bad(err, m, "slot out of range");
	case FM_MSG_SEGMENT:
		return check_segment(m, err);
	}
	return 0; /* WELCOME, bells, WAKE, GATES, TRACE, MEMORY: any content of the right size will
		     do */
}

long fm_send_bytes(int sock, const void *bytes, size_t size, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	ssize_t n;

	if (fd >= 0) {
		mh.msg_control = control;
		mh.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do
		n = sendmsg(sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int fm_msg_send(int sock, const union fm_msg *m, int fd)
{
	size_t size = msg_size(m->head.type);
	long n = size ? fm_send_bytes(sock, m, size, fd) : -EINVAL;

	return n < 0 ? (int)n : 0;
}

/* The descriptor that came, or -1. There is room for one; the kernel closes any others. */
static int take_descriptor(struct msghdr *mh)
{
	struct cmsghdr *c = mh->msg_controllen ? CMSG_FIRSTHDR(mh) : NULL;
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	if (fd >= 0 && mh->msg_flags & MSG_CTRUNC) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* *fd: the descriptor that came, or -1; NULL: there is no room for one. */
static long receive(int sock, void *bytes, size_t size, int *fd, int *flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {.iov_base = bytes, .iov_len = size};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fd) {
		*fd = -1;
		mh.msg_control = control;
		mh.msg_controllen = CMSG_LEN(sizeof(int));
	}
	do
		n = recvmsg(sock, &mh, *flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (fd)
		*fd = take_descriptor(&mh);
	*flags = mh.msg_flags;
	return n;
}

long fm_msg_recv(int sock, union fm_msg *m, int *fd)
{
	int flags = 0;
	long n = receive(sock, m, sizeof(*m), fd, &flags);

	if (n < 0 || !(flags & MSG_TRUNC))
		return n;
	if (fd && *fd >= 0)
		close(*fd);
	if (fd)
		*fd = -1;
	return -EMSGSIZE;
}

/* Peeks at the message. A descriptor that the peek brings is a duplicate of one that the message
 * still has, so closing it takes no time. */
static long peek(int sock, void *bytes, size_t size, int *fd)
{
	int flags = MSG_PEEK;
	long n = receive(sock, bytes, size, fd, &flags);

	return n >= 0 && flags & MSG_CTRUNC ? -EBADMSG : n;
}

long fm_msg_take(int sock, union fm_msg *m, int *fd)
{
	int flags = 0;
	long n = peek(sock, m, 1, fd);

	if (n < 0)
		return n;
	n = receive(sock, m, sizeof(*m), NULL, &flags);
	return n >= 0 && flags & MSG_TRUNC ? -EMSGSIZE : n;
}

/* Receives no more than was peeked at, since a descriptor may have come behind it. */
long fm_recv_bytes(int sock, void *bytes, size_t size)
{
	int flags = 0;
	long n = peek(sock, bytes, size, NULL);

	return n <= 0 ? n : receive(sock, bytes, (size_t)n, NULL, &flags);
}

bool fm_refuse_fds(int sock)
{
	int off = 0;

	return !setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

/* A directory too long for its sockets' addresses is no candidate. */
static int candidate(char *out, size_t size, const char *dir, const char *sub)
{
	struct sockaddr_un sa;
	int n = snprintf(out, size, "%s%s", dir, sub);

	return n > 0 && (size_t)n + sizeof("/" FM_CONTROL_NAME) <= sizeof(sa.sun_path);
}

int fm_socket_dirs(char dirs[FM_SOCKET_CANDIDATES][108])
{
	const char *only = secure_getenv("FERMATA_SOCKET");
	const char *run = fm_runtime_dir();
	int n = 0;

	if (only && *only)
		return candidate(dirs[0], sizeof(dirs[0]), only, "");
	if (run)
		n += candidate(dirs[n], sizeof(dirs[n]), run, "/fermata");
	n += candidate(dirs[n], sizeof(dirs[n]), FM_SYSTEM_DIR, "");
	return n;
}
