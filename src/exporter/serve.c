/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP is libmicrohttpd's, driven from our loop; which connections there are is ours. Each asks
 * once and lives for five seconds, whatever it does: who dribbles a request, or reads an answer by
 * the byte, holds a place for so long, and where all are taken the oldest gives way.
 */
#include "exporter.h"
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define MEMORY_PER_CONNECTION (16 * 1024) /* the longest request */

static const char help[] = "Metrics of Fermata are at /metrics.\n";

static enum MHD_Result answer(
	struct MHD_Connection *c, unsigned status, const char *text, const char *allow)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result done;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	if (allow)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
	done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

/* Of who sends as much as a proxy would get, too: RFC 9112, 3.2.2. */
static const char *path_of(const char *url)
{
	const char *path = !strncasecmp(url, "http://", 7) ? strchr(url + 7, '/') : url;

	return path ? path : "/";
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **request)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	const struct connection *conn = info ? info->socket_context : NULL;
	struct MHD_Response *r;

	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, help, "GET, HEAD");
	/* First the head alone; then what comes with it, which is dropped. */
	if (!*request || *upload_size) {
		*request = arg;
		*upload_size = 0;
		return MHD_YES;
	}
	url = path_of(url);
	if (!strcmp(url, "/"))
		return answer(c, MHD_HTTP_OK, help, NULL);
	if (strcmp(url, "/metrics") != 0)
		return answer(c, MHD_HTTP_NOT_FOUND, help, NULL);
	r = conn ? collect_for(arg, &conn->view) : NULL;
	if (!r)
		return answer(c, MHD_HTTP_SERVICE_UNAVAILABLE, "Not now.\n", NULL);
	return MHD_queue_response(c, MHD_HTTP_OK, r);
}

static void on_change(void *arg, struct MHD_Connection *c, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct exporter *x = arg;
	struct connection *conn = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = x->accepting;
		x->accepting = NULL;
	} else if (conn) {
		fm_list_del(&conn->link);
		x->n_connections--;
		free(conn);
		*context = NULL;
	}
}

static void on_message(void *arg, const char *format, va_list args)
{
	const struct exporter *x = arg;
	char text[256];

	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	fm_log(&x->log, LOG_DEBUG, "http: %s", text);
}

static int run_http(struct exporter *x);

static int on_http(sd_event_source *s, int fd, uint32_t revents, void *arg)
{
	return run_http(arg);
}

static int on_again(sd_event_source *s, uint64_t usec, void *arg)
{
	return run_http(arg);
}

/* Where it has more to do without anything happening, it says so by a time. */
static int run_http(struct exporter *x)
{
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(x->http);
	if (MHD_get_timeout(x->http, &ms) != MHD_YES)
		return sd_event_source_set_enabled(x->http_again, SD_EVENT_OFF);
	sd_event_source_set_time(x->http_again, fm_now() / 1000 + 1000 * ms);
	return sd_event_source_set_enabled(x->http_again, SD_EVENT_ONESHOT);
}

/* libmicrohttpd sees the end, and closes; a place is free as soon as it is clear that it will be.
 */
static void end(struct connection *c)
{
	if (!c->doomed)
		shutdown(c->fd, SHUT_RDWR);
	c->doomed = true;
}

static int on_life(sd_event_source *s, uint64_t usec, void *arg)
{
	struct exporter *x = arg;
	uint64_t now = fm_now() / 1000;
	struct connection *c;

	fm_list_each (c, &x->connections, link) {
		if (c->until_us > now) {
			sd_event_source_set_time(x->life, c->until_us);
			return sd_event_source_set_enabled(x->life, SD_EVENT_ONESHOT);
		}
		end(c);
	}
	return run_http(x);
}

static unsigned of_user(const struct exporter *x, uid_t uid)
{
	const struct connection *c;
	unsigned n = 0;

	fm_list_each (c, &x->connections, link)
		n += c->known && !c->view.all && c->view.uid == uid && !c->doomed;
	return n;
}

/* The oldest of those who may not see all, else the oldest. */
static void make_room(struct exporter *x)
{
	struct connection *c, *oldest = NULL;

	if (x->n_connections < CONNECTIONS)
		return;
	fm_list_each (c, &x->connections, link) {
		if (c->doomed)
			continue;
		if (!oldest)
			oldest = c;
		if (!c->known || !c->view.all) {
			oldest = c;
			break;
		}
	}
	if (oldest)
		end(oldest);
	run_http(x);
}

static bool admit(struct exporter *x, struct connection *c, bool tcp)
{
	if (tcp) {
		c->view = (struct fm_view){
			.all = x->settings.loopback_groups, .nobody = !x->settings.loopback_groups};
		return true;
	}
	c->known = !settings_view(x, c->fd, &c->view);
	return c->known && (c->view.all || of_user(x, c->view.uid) < PER_USER);
}

void serve_accept(struct exporter *x, int fd, bool tcp)
{
	const struct sockaddr address = {.sa_family = tcp ? AF_INET : AF_UNIX};
	struct connection *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct connection){.exporter = x, .fd = fd};
	if (!c || !admit(x, c, tcp)) {
		free(c);
		close(fd);
		return;
	}
	make_room(x);
	c->until_us = fm_now() / 1000 + LIFE_US;
	fm_list_add_tail(&x->connections, &c->link);
	x->n_connections++;
	x->accepting = c;
	/* Takes the descriptor, also when it fails. */
	if (MHD_add_connection(x->http, fd, &address, sizeof(address)) != MHD_YES &&
		x->accepting == c) {
		fm_list_del(&c->link);
		x->n_connections--;
		free(c);
	}
	x->accepting = NULL;
	if (sd_event_source_get_enabled(x->life, NULL) == 0)
		on_life(x->life, 0, x);
	run_http(x);
}

int serve_start(struct exporter *x, struct fm_err *err)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
	const union MHD_DaemonInfo *info;
	int rc;

	x->http = MHD_start_daemon(flags, 0, NULL, NULL, on_request, x, MHD_OPTION_EXTERNAL_LOGGER,
		on_message, x, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS + CONNECTIONS / 2,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_PER_CONNECTION,
		MHD_OPTION_NOTIFY_CONNECTION, on_change, x, MHD_OPTION_END);
	info = x->http ? MHD_get_daemon_info(x->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info)
		return fm_err_set(err, -ENOMEM, "libmicrohttpd does not start");
	rc = sd_event_add_io(x->event, &x->http_io, info->epoll_fd, EPOLLIN, on_http, x);
	if (rc >= 0)
		rc = sd_event_add_time(
			x->event, &x->http_again, CLOCK_MONOTONIC, 0, 1, on_again, x);
	if (rc >= 0)
		rc = sd_event_add_time(x->event, &x->life, CLOCK_MONOTONIC, 0, 0, on_life, x);
	return rc < 0 ? fm_err_set(err, rc, "event loop: %s", strerror(-rc)) : 0;
}

void serve_stop(struct exporter *x)
{
	x->http_io = sd_event_source_disable_unref(x->http_io);
	x->http_again = sd_event_source_disable_unref(x->http_again);
	x->life = sd_event_source_disable_unref(x->life);
	if (x->http)
		MHD_stop_daemon(x->http);
	x->http = NULL;
}
