/* SPDX-License-Identifier: Apache-2.0 */
/* One socket: in the daemon's directory, elsewhere, or on the loopback interface. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "exporter.h"
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SOCKET_NAME       "metrics.sock"
#define ACCEPTS_PER_EVENT 16
#define PAUSE_US          (100 * 1000)

static int cannot(struct fm_err *err, int code, const char *at, const char *hint)
{
	fm_err_set(err, code, "cannot listen on %s: %s", at, strerror(-code));
	return fm_err_hint(err, "%s", hint);
}

/* What is in the way is removed only if it is a socket on which nobody listens any more. */
static int clear_path(const struct sockaddr_un *sa, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;
	struct stat st;

	if (lstat(sa->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return cannot(err, -EEXIST, sa->sun_path,
			"it is no socket; move it away, or name another place");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cannot(err, -errno, sa->sun_path, "see its log");
	if (!connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) || errno != ECONNREFUSED)
		return cannot(err, -EADDRINUSE, sa->sun_path,
			"end what listens there, or name another place");
	unlink(sa->sun_path);
	return 0;
}

/* Anybody may connect to the system's: what each sees is decided by who the kernel says it is. */
static int open_unix(const struct exporter *x, const char *path, int *out, struct fm_err *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	FM_CLEAN_FD int fd = -1;
	mode_t mask;
	int rc;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	rc = clear_path(&sa, err);
	if (rc)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mask = umask(x->settings.system ? 0111 : 0177);
	rc = fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
	umask(mask);
	if (!rc && listen(fd, SOMAXCONN))
		rc = -errno;
	if (rc)
		return cannot(err, rc, path, "name a place that its user may write to");
	*out = fm_take_fd(&fd);
	return 0;
}

static int open_tcp(const struct fm_listen *at, const char *name, int *out, struct fm_err *err)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(at->port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(at->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const struct sockaddr *sa = at->v6 ? (const void *)&v6 : (const void *)&v4;
	FM_CLEAN_FD int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0)
		return cannot(err, -errno, name, "it may not use the network: see its unit");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, sa, at->v6 ? sizeof(v6) : sizeof(v4)) || listen(fd, SOMAXCONN))
		return cannot(err, -errno, name,
			errno == EADDRINUSE ? "choose another port, or end what has this one"
					    : "choose another port");
	*out = fm_take_fd(&fd);
	return 0;
}

static int resume(sd_event_source *s, uint64_t usec, void *arg)
{
	struct exporter *x = arg;

	if (x->accept)
		sd_event_source_set_enabled(x->accept, SD_EVENT_ON);
	return 0;
}

/* The connection that cannot be accepted stays pending and would wake us again at once. */
static void pause_accepting(struct exporter *x, int error)
{
	uint64_t at = fm_now() / 1000 + PAUSE_US;

	fm_log_limited(&x->log, &x->troubles, LOG_WARNING, "cannot accept: %s", strerror(error));
	x->pause = sd_event_source_disable_unref(x->pause);
	if (sd_event_add_time(x->event, &x->pause, CLOCK_MONOTONIC, at, 0, resume, x) >= 0)
		sd_event_source_set_enabled(x->accept, SD_EVENT_OFF);
}

static int on_connection(sd_event_source *s, int listening, uint32_t revents, void *arg)
{
	struct exporter *x = arg;

	for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			serve_accept(x, fd, !x->path[0]);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN)
			pause_accepting(x, errno);
		break;
	}
	return 0;
}

void listen_close(struct exporter *x)
{
	x->accept = sd_event_source_disable_unref(x->accept);
	x->pause = sd_event_source_disable_unref(x->pause);
	if (x->listening >= 0)
		close(x->listening);
	x->listening = -1;
	if (x->path[0])
		unlink(x->path);
	x->path[0] = x->at[0] = '\0';
}

/* As people write it, so that two settings are the same place if they are the same text. */
static int place(
	const struct exporter *x, char at[SETTING_MAX], struct fm_listen *out, struct fm_err *err)
{
	int rc = fm_parse_listen(x->settings.listen, out, err);

	if (rc)
		return rc;
	if (out->tcp || out->path[0]) {
		snprintf(at, SETTING_MAX, "%s", x->settings.listen);
		return 0;
	}
	snprintf(at, SETTING_MAX, "%s/" SOCKET_NAME, x->dir);
	return fm_parse_listen(at, out, err);
}

int listen_open(struct exporter *x, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;
	sd_event_source *accept;
	char at[SETTING_MAX];
	struct fm_listen to;
	int rc = place(x, at, &to, err);

	if (rc)
		return rc;
	/* Who may connect was not known before the daemon told whose it is. */
	if (!strcmp(at, x->at) && (to.tcp || x->wide == x->settings.system))
		return 0;
	if (!strcmp(at, x->at))
		listen_close(x);
	rc = to.tcp ? open_tcp(&to, at, &fd, err) : open_unix(x, to.path, &fd, err);
	if (rc)
		return rc;
	rc = sd_event_add_io(x->event, &accept, fd, EPOLLIN, on_connection, x);
	if (rc < 0)
		return fm_err_set(err, rc, "out of memory");
	listen_close(x);
	x->listening = fm_take_fd(&fd);
	x->accept = accept;
	strcpy(x->at, at);
	strcpy(x->path, to.path);
	x->wide = x->settings.system;
	fm_log(&x->log, LOG_INFO, "listening on %s", x->at);
	return 0;
}

void listen_move(struct exporter *x)
{
	struct fm_err err = {0};
	int rc = listen_open(x, &err);

	if (rc && strcmp(x->refused, x->settings.listen) != 0)
		fm_log_err(&x->log, LOG_ERR, x->at[0] ? "staying where it is" : "", &err);
	snprintf(x->refused, sizeof(x->refused), "%s", rc ? x->settings.listen : "");
}
