/* SPDX-License-Identifier: Apache-2.0 */
/* A session is one client: its socket, its board and ledger, and a watch on its process. One file,
 * though a long one, since each step of a session's life changes its struct, which nobody else
 * sees. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "bus.h"
#include "cgroups.h"
#include "machine.h"
#include "strict.h"
#include "trace.h"
#include "turn.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* A batch; bells in a row count as one message. */
#define MESSAGES_PER_TURN 16
#define BELLS_PER_TURN    64
#define HELLO_US          (5 * 1000 * 1000)

struct session {
	struct fm_list link;
	struct daemon *daemon;
	int fd, pidfd;
	struct turn_entry turn;
	sd_event_source *deadline; /* before HELLO */
	bool shakes;               /* counted as one that has not joined */
	bool refuses_fds;          /* the kernel refuses new descriptors, */
	bool plain;                /* and no earlier ones are in the socket */
	bool more;                 /* there was more to read after the last batch */
	bool lost;                 /* its board or its ledger is lost (bus.h) */
	struct peer peer;
	char comm[16]; /* as long as the kernel keeps it */
	struct fm_board *board;
	struct fm_ledger *ledger;        /* NULL: it counts no device memory */
	ino_t board_ino;                 /* all boards are on the one file system of memfds */
	int offered;                     /* gates of an earlier daemon, before HELLO; else -1 */
	struct page *page;               /* strict mode, else NULL */
	struct fm_bridge_client *client; /* NULL before HELLO */
	struct trace_client trace;
	struct cgroups_client cgroups;
};

struct trace_client *session_trace(void *session)
{
	struct session *s = session;

	return &s->trace;
}

/* A client that leaves with work under way may have been killed, or have become another program.
 * Whether that is a fault cannot be told, so it is only logged. */
static void note_departure(const struct session *s)
{
	struct daemon *d = s->daemon;
	struct fm_bridge_client_work work = fm_bridge_client_work(s->client);

	if (work.commands)
		fm_log_limited(&d->log, &d->departures, LOG_INFO,
			"%s (pid %d, user %u) left with work under way%s", s->comm,
			(int)s->peer.pid, s->peer.uid, work.stopped ? ", which was stopped" : "");
}

static void leave_books(struct session *s)
{
	struct quota_user *u = s->turn.user;

	if (s->shakes)
		quota_give(u, QUOTA_HANDSHAKES, 1);
	quota_give(u, QUOTA_SESSIONS, 1);
	quota_put(u);
}

/* A child may have the other end of the socket. It is not told why the session ends. */
static void close_dead(const struct session *s)
{
	shutdown(s->fd, SHUT_RDWR);
	close_aside_of(s->turn.user, s->fd);
}

static void session_end(struct session *s, bool dead)
{
	struct daemon *d = s->daemon;

	turn_del(d, &s->turn, s->fd);
	sd_event_source_disable_unref(s->deadline);
	if (s->pidfd >= 0)
		lives_del(d, s->pidfd);
	if (s->client) {
		note_departure(s);
		cgroups_leave(&s->cgroups);
		fm_bridge_detach(d->bridge, s->client, fm_now());
	}
	if (s->page)
		strict_leave(s->page, dead);
	trace_client_end(d, &s->trace);
	fm_board_unmap(s->board);
	fm_ledger_unmap(s->ledger);
	if (s->offered >= 0)
		close_aside_of(s->turn.user, s->offered);
	fm_list_del(&s->link);
	fm_close_fd(&s->pidfd);
	if (dead)
		close_dead(s);
	else
		close_socket_aside_of(s->turn.user, s->fd);
	d->n_sessions--;
	leave_books(s);
	free(s);
	daemon_idle_check(d);
}

static void session_free(struct session *s)
{
	session_end(s, false);
}

/* Called at the end. The bridge is gone and has released every client, and the pages are closed. */
void session_free_all(struct daemon *d)
{
	while (!fm_list_empty(&d->sessions)) {
		struct session *s = fm_list_first(&d->sessions, struct session, link);

		s->client = NULL;
		s->page = NULL;
		session_free(s);
	}
}

/* Never waits: a client that does not read its socket misses what it would have been told. */
void session_wake(void *session)
{
	struct session *s = session;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_WAKE);
	fm_msg_send(s->fd, &m, -1);
}

void session_hint(void *session, uint32_t group, enum fm_hint h, int64_t value)
{
	struct session *s = session;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_HINT);
	m.hint.group = group;
	m.hint.hint = (uint32_t)h;
	m.hint.value = value;
	fm_msg_send(s->fd, &m, -1);
}

/* The process may have ended with many messages unread. They need not be handled any more. */
static bool is_dead(const struct session *s)
{
	struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

	return s->pidfd >= 0 && poll(&p, 1, 0) == 1;
}

/* A program that replaced itself (exec) has closed its sockets. */
static bool has_hung_up(const struct session *s)
{
	struct pollfd p = {.fd = s->fd};

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* Both sessions had one pid when they connected. If both processes live, they are one process. */
bool session_one_process(void *session, void *other)
{
	const struct session *s = session, *o = other;

	return s->pidfd >= 0 && o->pidfd >= 0 && !is_dead(s) && !is_dead(o) && !has_hung_up(o);
}

const struct fm_bridge_limits *session_limits(void *session)
{
	const struct session *s = session;

	return &s->peer.limits->of;
}

uint64_t session_host_own(void *session)
{
	const struct session *s = session;

	return machine_own(s->peer.pid);
}

void session_settings(struct daemon *d)
{
	struct session *s;

	fm_list_each (s, &d->sessions, link)
		peer_of(d, s->fd, &s->peer);
}

static void read_comm(pid_t pid, char *to, size_t size)
{
	char path[32], comm[16] = "unknown";
	FM_CLEAN_FD int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, comm, sizeof(comm) - 1);
	if (n > 0)
		comm[n] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
	fm_bridge_plain(to, size, comm);
}

/* The line is logged before the answer is sent, so that a client with the answer finds the line. */
static void tell_refused(
	struct daemon *d, const struct peer *p, const char *comm, int fd, const struct fm_err *err)
{
	char name[16];
	union fm_msg m;

	d->count.refused++;
	if (audit_admit(d, p, false)) {
		if (!comm)
			read_comm(p->pid, name, sizeof(name));
		fm_log(&d->log, LOG_NOTICE, "%s (pid %d, user %u) refused: %s", comm ? comm : name,
			(int)p->pid, p->uid, err->text);
	}
	fm_msg_init(&m, FM_MSG_REFUSED);
	m.refused.code = err->code;
	snprintf(m.refused.text, sizeof(m.refused.text), "%.*s", (int)sizeof(m.refused.text) - 1,
		err->text);
	fm_msg_send(fd, &m, -1);
}

static void refuse(struct session *s, const struct fm_err *err)
{
	tell_refused(s->daemon, &s->peer, s->comm, s->fd, err);
}

static void drop(struct session *s, const struct fm_err *err)
{
	refuse(s, err);
	session_free(s);
}

static bool is_refusal(int code)
{
	return code == -EPERM || code == -EDQUOT || code == -EEXIST || code == -ENOMEM ||
	       code == -ENOSPC || code == -ERANGE;
}

/* A client that gave up its session comes again with the same board or gates. The daemon may see
 * the new session before the old one's end, and two sessions must not write to one board. */
static void end_former(struct session *s)
{
	const struct page *shown = strict_find(s->daemon, s->offered);
	struct session *o, *next;

	fm_list_each_safe (o, next, &s->daemon->sessions, link)
		if (o != s && o->client && o->peer.pid == s->peer.pid &&
			(o->board_ino == s->board_ino || (shown && o->page == shown)))
			session_free(o);
}

/* Maps a board and closes its descriptor. That is quick, since the mapping holds the board, too. */
static int map_board(struct session *s, int *fd)
{
	struct stat st;
	int rc = *fd < 0 ? -EBADF : fm_board_map(&s->board, *fd);

	if (rc)
		return rc;
	if (!fstat(*fd, &st))
		s->board_ino = st.st_ino;
	close(fm_take_fd(fd));
	return 0;
}

/* Takes the message GATES, which may come once, before HELLO. */
static int take_offer(struct session *s, int *fd, struct fm_err *err)
{
	if (s->offered >= 0 || *fd < 0)
		return fm_err_set(err, -EBADMSG, "GATES message: no descriptor, or one too many");
	s->offered = fm_take_fd(fd);
	return 0;
}

/* Takes the message MEMORY, which may come once, before HELLO. */
static int take_ledger(struct session *s, int *fd, struct fm_err *err)
{
	int rc = s->ledger || *fd < 0 ? -EBADMSG : fm_ledger_map(&s->ledger, *fd);

	if (rc)
		return fm_err_set(
			err, rc, "MEMORY message: no ledger, none that is valid, or one too many");
	close(fm_take_fd(fd));
	return 0;
}

/* Tells the client where its gates are, before anything is decided about them. */
static int give_gates(struct session *s, struct fm_err *err)
{
	struct daemon *d = s->daemon;
	int rc = strict_join(d, &s->page, s->peer.pid, s->offered, err);

	if (rc || !s->page)
		return rc;
	rc = strict_send(s->page, s->fd);
	if (rc)
		return fm_err_set(err, rc, "gates not sent: %s", strerror(-rc));
	fm_bridge_gates(d->bridge, s->client, strict_gates(s->page), fm_now());
	return 0;
}

static int greet(struct session *s, const union fm_msg *m, int *board_fd, struct fm_err *err)
{
	struct daemon *d = s->daemon;
	union fm_msg welcome;
	int rc;

	if (m->head.type != FM_MSG_HELLO)
		return fm_err_set(err, -EBADMSG, "the first message must be HELLO");
	rc = map_board(s, board_fd);
	if (rc)
		return fm_err_set(err, rc, "HELLO came without a valid board");
	end_former(s);
	rc = fm_bridge_attach(d->bridge, &s->client, s->board, s->peer.uid, s->peer.pid, s->comm,
		m->hello.api, s, fm_now());
	if (rc)
		return fm_err_set(err, rc, "user %u has reached the limit of groups", s->peer.uid);
	if (s->ledger && fm_bridge_ledger(d->bridge, s->client, s->ledger))
		return fm_err_set(err, -ENOMEM, "out of memory for a ledger");
	if (s->ledger)
		cgroups_join(d, &s->cgroups, s->client, s->peer.pid);
	rc = give_gates(s, err);
	if (rc)
		return rc;
	s->deadline = sd_event_source_disable_unref(s->deadline);
	s->refuses_fds = fm_refuse_fds(s->fd);
	s->shakes = false;
	quota_give(s->turn.user, QUOTA_HANDSHAKES, 1);
	d->count.joined++;
	fm_msg_init(&welcome, FM_MSG_WELCOME);
	welcome.welcome.daemon_pid = (uint32_t)getpid();
	fm_msg_send(s->fd, &welcome, -1);
	fm_log(&d->log, LOG_DEBUG, "%s (pid %d, user %u) joined", s->comm, (int)s->peer.pid,
		s->peer.uid);
	return 0;
}

/* The daemon measures its own reaction: the time from its wake-up until the gates are stored that a
 * bell caused. */
static void note_reaction(struct daemon *d)
{
	uint64_t woke_us;

	if (sd_event_now(d->event, CLOCK_MONOTONIC, &woke_us) == 0)
		fm_hist_add(&d->react, fm_sub_sat(fm_now(), woke_us * FM_US));
}

/* 0: the session goes on. */
static int take_message(struct session *s, const union fm_msg *m, size_t size, int *fd)
{
	struct daemon *d = s->daemon;
	struct fm_err err = {0};
	bool joined = s->client;
	int rc = fm_msg_check(m, size, &err);

	if (!rc && !joined && m->head.type == FM_MSG_GATES)
		rc = take_offer(s, fd, &err);
	else if (!rc && !joined && m->head.type == FM_MSG_MEMORY)
		rc = take_ledger(s, fd, &err);
	else if (!rc && !joined)
		rc = greet(s, m, fd, &err);
	else if (!rc)
		rc = fm_bridge_message(d->bridge, s->client, m, fm_now(), &err);
	if (!rc)
		return 0;
	if (joined && is_refusal(rc)) {
		refuse(s, &err);
		return 0;
	}
	drop(s, &err);
	return rc;
}

static bool is_bell(const struct session *s, const union fm_msg *m, long n)
{
	return s->client && n > 0 && !fm_msg_check(m, (size_t)n, NULL) &&
	       m->head.type == FM_MSG_BELL;
}

static void look(struct session *s)
{
	struct daemon *d = s->daemon;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_BELL);
	fm_bridge_message(d->bridge, s->client, &m, fm_now(), NULL);
	note_reaction(d);
}

static long receive(struct session *s, union fm_msg *m, int *fd)
{
	if (s->plain)
		return fm_msg_recv(s->fd, m, NULL);
	return fm_msg_take(s->fd, m, s->client ? NULL : fd);
}

/* n: the result of receive(), which is not a message. */
static void end_by(struct session *s, long n)
{
	if (n == -EMSGSIZE)
		drop(s, &(struct fm_err){.code = -EBADMSG, .text = "message too long"});
	else if (n == -EBADMSG)
		drop(s, &(struct fm_err){
				.code = -EBADMSG, .text = "a descriptor where none belongs"});
	else
		session_free(s);
}

static enum turn_result drained(struct session *s)
{
	s->more = false;
	s->plain = s->refuses_fds;
	return TURN_DRAINED;
}

/* The first of several bells in a row is answered at once, and the others together, since the board
 * would say the same to each. */
static enum turn_result read_batch(struct session *s)
{
	struct quota_user *u = s->turn.user;
	unsigned bells = 0;

	for (unsigned i = 0; i < MESSAGES_PER_TURN;) {
		union fm_msg m;
		int fd = -1, rc;
		long n = receive(s, &m, &fd);

		if (is_bell(s, &m, n) && bells < BELLS_PER_TURN) {
			if (!bells++)
				look(s);
			continue;
		}
		if (bells > 1)
			look(s);
		bells = 0;
		i++;
		if (n == -EAGAIN)
			return drained(s);
		rc = n > 0 ? take_message(s, &m, (size_t)n, &fd) : (int)n;
		if (fd >= 0)
			close_aside_of(u, fd);
		if (n <= 0)
			end_by(s, n);
		if (n <= 0 || rc)
			return TURN_ENDED;
	}
	s->more = true;
	return TURN_MORE;
}

enum turn_result session_serve(struct turn_entry *e)
{
	struct session *s = fm_container(e, struct session, turn);

	if (s->more && is_dead(s)) {
		session_end(s, true);
		return TURN_ENDED;
	}
	return read_batch(s);
}

/* The socket may outlive the process, in a child that inherited it. So the process is watched, too.
 */
void session_died(void *session)
{
	session_end(session, true);
}

static bool lies_in(const void *at, const void *map, size_t size)
{
	return map && (uintptr_t)at - (uintptr_t)map < size;
}

void *session_map_lost(struct daemon *d, const void *at, size_t *size)
{
	struct session *s;

	fm_list_each (s, &d->sessions, link) {
		bool board = lies_in(at, s->board, sizeof(*s->board));

		if (!board && !lies_in(at, s->ledger, sizeof(*s->ledger)))
			continue;
		s->lost = true;
		*size = board ? sizeof(*s->board) : sizeof(*s->ledger);
		return board ? (void *)s->board : (void *)s->ledger;
	}
	return NULL;
}

void session_end_lost(struct daemon *d)
{
	struct session *s, *next;

	fm_list_each_safe (s, next, &d->sessions, link)
		if (s->lost)
			drop(s, &(struct fm_err){.code = -EFAULT,
					.text = "there is no memory for its board or its ledger"});
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *arg)
{
	drop(arg, &(struct fm_err){.code = -ETIMEDOUT, .text = "no HELLO within 5 s"});
	return 0;
}

#define GONE (-2)

/* The kernel's own handle for the peer, since a pid may belong to another process by now. -1: the
 * kernel has none. */
static int open_pidfd(int sock, pid_t pid)
{
	int fd = -1;
	socklen_t size = sizeof(fd);

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &size))
		return fd;
	if (errno == ESRCH)
		return GONE;
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	return fd < 0 && pid > 0 && errno == ESRCH ? GONE : fd;
}

static int watch(struct session *s)
{
	sd_event *event = s->daemon->event;
	uint64_t deadline = fm_now() / 1000 + HELLO_US;
	int rc = turn_add(s->daemon, &s->turn, s->fd);

	if (!rc && s->shakes)
		rc = sd_event_add_time(
			event, &s->deadline, CLOCK_MONOTONIC, deadline, 0, on_deadline, s);
	return rc;
}

/* HELLO has usually come already. */
static void begin(struct session *s, struct quota_user *u)
{
	struct daemon *d = s->daemon;

	fm_list_init(&s->turn.link);
	s->turn.user = u;
	u->refs++;
	quota_charge(u, QUOTA_SESSIONS, 1);
	quota_charge(u, QUOTA_HANDSHAKES, 1);
	s->shakes = true;
	s->offered = -1;
	fm_list_add_tail(&d->sessions, &s->link);
	d->n_sessions++;
	daemon_idle_check(d);
	read_comm(s->peer.pid, s->comm, sizeof(s->comm));
	trace_client_init(&s->trace, s->fd, s->peer.pid, s->comm);
	if (s->pidfd >= 0 && lives_add(d, s->pidfd, s)) {
		session_free(s);
		return;
	}
	if (session_serve(&s->turn) != TURN_ENDED && watch(s) < 0)
		session_free(s);
}

/* The reason for refusing this client, if there is one. */
static const char *objection(const struct peer *p, const struct quota_user *u, uint64_t now)
{
	const uint64_t *most = u->quota->limits.most;

	if (p->uid && p->limits->clients && quota_held(u, QUOTA_SESSIONS) >= p->limits->clients)
		return "the user has reached the limit of clients";
	if (!u->limited)
		return NULL;
	if (quota_held(u, QUOTA_HANDSHAKES) >= most[QUOTA_HANDSHAKES])
		return "too many clients of the user have not said HELLO yet";
	if (quota_held(u, QUOTA_CLOSING) >= most[QUOTA_CLOSING])
		return "too many descriptors that the user has sent are still to be closed";
	if (quota_debt(u, QUOTA_JOINS, now))
		return "the user's clients come and go too fast";
	return NULL;
}

static void take_up(struct daemon *d, int fd, const struct peer *p, struct quota_user *u)
{
	const char *why = objection(p, u, fm_now());
	struct session *s;

	if (why) {
		struct fm_err err = {.code = -EDQUOT};

		snprintf(err.text, sizeof(err.text), "%s", why);
		tell_refused(d, p, NULL, fd, &err);
		close_socket_aside_of(u, fd);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		fm_log_limited(&d->log, &d->troubles, LOG_WARNING,
			"out of memory: a client was turned away");
		close_socket_aside_of(u, fd);
		return;
	}
	s->daemon = d;
	s->fd = fd;
	s->peer = *p;
	s->pidfd = open_pidfd(fd, p->pid);
	if (s->pidfd == GONE || is_dead(s)) {
		fm_close_fd(&s->pidfd);
		close_socket_aside_of(u, fd);
		free(s);
		return;
	}
	begin(s, u);
}

void session_accept(struct daemon *d, int fd)
{
	uint64_t begin = fm_thread_time();
	struct quota_user *u;
	struct peer p;

	if (peer_of(d, fd, &p)) {
		close_socket_aside(fd);
		return;
	}
	u = quota_get(&d->quota, p.uid, fm_now());
	take_up(d, fd, &p, u);
	quota_spend(u, QUOTA_JOINS, fm_thread_time() - begin, fm_now());
	quota_put(u);
}
