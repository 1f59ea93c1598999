/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ABOVE 10 /* descriptors move out of the way of those that the process will have */

void process_clean(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
			*c = '?';
}

static int actions_for(posix_spawn_file_actions_t *a, int socket, int object)
{
	int rc = posix_spawn_file_actions_init(a);

	if (rc)
		return rc;
	rc = posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_addopen(a, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(a, socket, WIRE_SOCKET);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(a, object, WIRE_OBJECT);
	if (!rc)
		rc = posix_spawn_file_actions_addclosefrom_np(a, WIRE_OBJECT + 1);
	if (rc)
		posix_spawn_file_actions_destroy(a);
	return rc;
}

/* A fresh image, not a fork: the daemon's memory holds the boards of all clients. */
static int spawn(pid_t *pid, const char *host, int socket, int object)
{
	char arg0[] = "fermatad", arg1[] = "--policy-host", *argv[] = {arg0, arg1, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc = actions_for(&actions, socket, object);

	if (rc)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (!rc) {
		sigemptyset(&none);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
		rc = posix_spawn(pid, host, &actions, &attr, argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -rc;
}

void process_end(struct fm_plugin *p)
{
	if (p->pid <= 0)
		return;
	kill(p->pid, SIGKILL);
	while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	close(p->fd);
	p->fd = -1;
}

void process_fail(struct fm_plugin *p, const char *fmt, ...)
{
	va_list ap;

	if (!p->failure[0]) {
		va_start(ap, fmt);
		vsnprintf(p->failure, sizeof(p->failure), fmt, ap);
		va_end(ap);
		process_clean(p->failure, sizeof(p->failure));
	}
	process_end(p);
}

/* It has closed its end, or says nothing. What it died of is a better reason than that. */
static int fail_by_status(struct fm_plugin *p, bool closed, uint64_t budget)
{
	int status = 0;
	pid_t got;

	if (closed)
		kill(p->pid, SIGKILL); /* changes nothing for one that is dying */
	do
		got = waitpid(p->pid, &status, closed ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (got == p->pid) {
		p->pid = 0;
		close(fm_take_fd(&p->fd));
	}
	if (got <= 0)
		process_fail(p, "it gave no answer within %llu us",
			(unsigned long long)(budget / FM_US));
	else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		process_fail(p, "it crashed: %s", strsignal(WTERMSIG(status)));
	else
		process_fail(p, "its process ended");
	return -EIO;
}

/* 0, -ETIMEDOUT, or -EPIPE. */
static int wait_for(struct fm_plugin *p, short what, uint64_t deadline)
{
	struct pollfd pfd = {.fd = p->fd, .events = what};
	int n;

	do {
		struct timespec left = fm_timespec(fm_sub_sat(deadline, fm_now()));

		n = ppoll(&pfd, 1, &left, NULL);
	} while (n < 0 && errno == EINTR);
	if (!n)
		return -ETIMEDOUT;
	return n > 0 && (pfd.revents & what) ? 0 : -EPIPE;
}

static int flush(struct fm_plugin *p, uint64_t deadline)
{
	size_t size = p->n_batch * sizeof(p->batch[0]);
	int rc = 0;

	p->n_batch = 0;
	while (!rc && send(p->fd, p->batch, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		rc = errno == EAGAIN ? wait_for(p, POLLOUT, deadline) : -EPIPE;
	}
	return rc;
}

/* One packet of exactly this size. */
static int receive(struct fm_plugin *p, void *buf, size_t size, uint64_t deadline)
{
	ssize_t n;
	int rc;

	for (;;) {
		rc = wait_for(p, POLLIN, deadline);
		if (rc)
			return rc;
		n = recv(p->fd, buf, size, MSG_DONTWAIT | MSG_TRUNC);
		if (n == (ssize_t)size)
			return 0;
		if (n > 0)
			return -EBADMSG;
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return -EPIPE;
	}
}

static int fail_io(struct fm_plugin *p, int rc, uint64_t budget)
{
	if (rc == -EBADMSG) {
		process_fail(p, "it sent a message out of turn");
		return -EIO;
	}
	return fail_by_status(p, rc == -EPIPE, budget);
}

struct wire_event *process_event(struct fm_plugin *p)
{
	struct wire_event *ev;

	if (p->n_batch == WIRE_BATCH) {
		int rc = flush(p, fm_now() + p->budget_ns);

		if (rc)
			fail_io(p, rc, p->budget_ns);
	}
	ev = &p->batch[p->n_batch++];
	*ev = (struct wire_event){0};
	return ev;
}

/* The answer to the last question; those to earlier ones that it owed come before. */
static int receive_answer(struct fm_plugin *p, struct wire_reply *r, uint64_t deadline)
{
	for (;;) {
		int rc = receive(p, r, sizeof(*r), deadline);

		if (rc || !p->owed || r->serial >= p->serial || r->rc)
			return rc;
		p->owed--;
	}
}

bool process_caught_up(struct fm_plugin *p)
{
	struct wire_reply r = {0};

	while (p->owed && !p->failure[0]) {
		int rc = receive(p, &r, sizeof(r), 0);

		if (rc == -ETIMEDOUT)
			return false;
		p->owed--;
		process_clean(r.reason, sizeof(r.reason));
		if (rc)
			fail_io(p, rc, p->budget_ns);
		else if (r.rc)
			process_fail(p, "%s", r.reason);
		else if (r.serial > p->serial)
			process_fail(p, "it sent a message out of turn");
	}
	return !p->failure[0];
}

/* It may have ended instead, which is another matter. */
static bool is_there(const struct fm_plugin *p)
{
	siginfo_t info = {0};

	return !waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

int process_ask(struct fm_plugin *p, uint64_t budget_ns, bool may_be_late, struct wire_reply *r)
{
	uint64_t deadline = fm_now() + budget_ns;
	int rc;

	if (p->failure[0]) /* while the events were sent */
		return -EIO;
	p->batch[p->n_batch - 1].serial = ++p->serial;
	rc = flush(p, deadline);
	if (!rc) {
		rc = receive_answer(p, r, deadline);
		if (rc == -ETIMEDOUT && may_be_late && is_there(p)) {
			p->owed++;
			return rc;
		}
	}
	if (rc)
		return fail_io(p, rc, budget_ns);
	process_clean(r->reason, sizeof(r->reason));
	if (r->rc)
		process_fail(p, "%s", r->reason);
	else if (r->serial != p->serial)
		process_fail(p, "it sent a message out of turn");
	return p->failure[0] ? -EIO : 0;
}

static int handshake(struct fm_plugin *p, struct fm_err *err)
{
	int rc = receive(p, &p->hello, sizeof(p->hello), fm_now() + FM_PLUGIN_LOAD);

	if (rc) {
		fail_io(p, rc, FM_PLUGIN_LOAD);
		return fm_err_set(
			err, -EINVAL, "policy %s could not be loaded: %s", p->name, p->failure);
	}
	process_clean(p->hello.error, sizeof(p->hello.error));
	if (p->hello.error[0])
		return fm_err_set(
			err, -EINVAL, "policy %s could not be loaded: %s", p->name, p->hello.error);
	return 0;
}

int process_start(struct fm_plugin *p, const char *host, int object, struct fm_err *err)
{
	FM_CLEAN_FD int theirs = -1;
	FM_CLEAN_FD int far = fcntl(object, F_DUPFD_CLOEXEC, ABOVE);
	FM_CLEAN_FD int end = -1;
	int pair[2], rc;

	if (far < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		rc = -errno;
		return fm_err_set(err, rc, "policy %s: %s", p->name, strerror(-rc));
	}
	p->fd = pair[0];
	end = pair[1];
	theirs = fcntl(end, F_DUPFD_CLOEXEC, ABOVE);
	rc = theirs < 0 ? -errno : spawn(&p->pid, host, theirs, far);
	if (rc) {
		p->pid = 0;
		close(p->fd);
		return fm_err_set(
			err, rc, "policy %s: cannot start its process: %s", p->name, strerror(-rc));
	}
	/* Its end must be seen, so nobody else holds one. */
	close(fm_take_fd(&theirs));
	close(fm_take_fd(&end));
	return handshake(p, err);
}
