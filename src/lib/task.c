// SPDX-License-Identifier: Apache-2.0
/*
 * Real-time tasks: one request on the daemon's control socket, and its reply. The daemon sees from
 * the socket which process asks, and forgets the task when that process ends; nothing is kept here.
 */
#include "base/cleanup.h"
#include "board/proto.h"
#include "lib.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define WAIT_S    5
#define REPLY_MAX 8192
#define SEGMENTS  64
#define TIME_MAX  UINT64_C(3600000000000)

struct text {
	char s[512 + SEGMENTS * 96];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	size_t room = sizeof(t->s) - t->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->s + t->n, room, fmt, ap);
	va_end(ap);
	t->n += n > 0 ? FM_MIN((size_t)n, room - 1) : 0;
}

/* A name that the daemon accepts needs no escapes. */
static bool name_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("/\"'`\\", s[i]))
			return false;
	return n > 0 && n < FM_NAME_MAX;
}

static int check(const struct fm_task *t)
{
	if (!t || t->size < sizeof(*t) || !name_ok(t->name) || !t->period_ns ||
		t->period_ns > TIME_MAX || t->deadline_ns > t->period_ns || t->cpu_ns > TIME_MAX ||
		t->epsilon_ns > TIME_MAX || t->cpu < FM_TASK_OWN_CPU ||
		(unsigned)t->overrun > FM_TASK_REPORT || t->segment_count > SEGMENTS ||
		(t->segment_count && !t->segments))
		return -EINVAL;
	for (size_t i = 0; i < t->segment_count; i++)
		if (t->segments[i].gpu_ns > TIME_MAX || t->segments[i].misc_ns > TIME_MAX)
			return -EINVAL;
	return 0;
}

static void compose(struct text *to, const struct fm_group *g, const struct fm_task *t)
{
	static const char *const overrun[] = {"demote", "stop", "report"};

	add(to, "{\"cmd\":\"admit\",\"gpu_priority\":%s,", t->gpu_priority ? "true" : "false");
	if (t->epsilon_ns)
		add(to, "\"epsilon_ns\":%" PRIu64 ",", t->epsilon_ns);
	add(to, "\"tasks\":[{\"name\":\"%s\",\"priority\":%u,\"overrun\":\"%s\",", t->name,
		t->priority, overrun[t->overrun]);
	if (g && g->name[0])
		add(to, "\"group\":\"%s\",", g->name);
	if (t->cpu != FM_TASK_OWN_CPU)
		add(to, "\"cpu\":%d,", t->cpu);
	add(to, "\"period_ns\":%" PRIu64 ",\"deadline_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64,
		t->period_ns, t->deadline_ns ? t->deadline_ns : t->period_ns, t->cpu_ns);
	add(to, ",\"segments\":[");
	for (size_t i = 0; i < t->segment_count; i++)
		add(to, "%s{\"gpu_ns\":%" PRIu64 ",\"misc_ns\":%" PRIu64 "}", i ? "," : "",
			t->segments[i].gpu_ns, t->segments[i].misc_ns);
	add(to, "]}]}\n");
}

static int open_control(const char *dir)
{
	FM_CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval wait = {.tv_sec = WAIT_S};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" FM_CONTROL_NAME, dir);

	if (fd < 0)
		return -errno;
	if (n < 0 || (size_t)n >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return -errno;
	return fm_take_fd(&fd);
}

static int find_daemon(void)
{
	char dirs[FM_SOCKET_CANDIDATES][108];
	int n = fm_socket_dirs(dirs);

	for (int i = 0; i < n; i++) {
		int fd = open_control(dirs[i]);

		if (fd >= 0)
			return fd;
	}
	return -ENODEV;
}

static int send_all(int fd, const char *s, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, s, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		s += sent > 0 ? sent : 0;
		n -= sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

static int receive(int fd, char reply[REPLY_MAX])
{
	size_t n = 0;

	while (n < REPLY_MAX - 1) {
		ssize_t got = recv(fd, reply + n, REPLY_MAX - 1 - n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return !got ? -ECONNRESET : errno == EAGAIN ? -ETIMEDOUT : -errno;
		n += (size_t)got;
		reply[n] = '\0';
		if (reply[n - 1] == '\n')
			return 0;
	}
	return -EPROTO;
}

static int exchange(const struct text *request, char reply[REPLY_MAX])
{
	FM_CLEAN_FD int fd = find_daemon();
	int rc = fd < 0 ? fd : send_all(fd, request->s, request->n);

	return rc ? rc : receive(fd, reply);
}

/* Members are looked for by name. In strings of a reply every quote has a backslash before it, so
 * "NAME": is found only where it is a name. Each member that is asked for occurs once. */
static const char *member(const char *reply, const char *name)
{
	char key[32];
	const char *at;
	int n = snprintf(key, sizeof(key), "\"%s\":", name);

	at = strstr(reply, key);
	return at ? at + n : NULL;
}

static bool is_true(const char *reply, const char *name)
{
	const char *at = member(reply, name);

	return at && !strncmp(at, "true", 4);
}

static int64_t number(const char *reply, const char *name)
{
	const char *at = member(reply, name);

	return at ? strtoll(at, NULL, 10) : 0;
}

static void copy_text(const char *reply, const char *name, char *to, size_t size)
{
	const char *at = member(reply, name);
	size_t n = 0;

	if (at && *at == '"')
		while (n + 1 < size && at[n + 1] && at[n + 1] != '"')
			n++;
	memcpy(to, at ? at + 1 : "", n);
	to[n] = '\0';
}

static int error_of(const char *reply)
{
	static const struct {
		const char *name;
		int code;
	} codes[] = {{"EINVAL", -EINVAL}, {"EPERM", -EPERM}, {"EDQUOT", -EDQUOT},
		{"EEXIST", -EEXIST}, {"ENODATA", -ENODATA}, {"ENOSPC", -ENOSPC},
		{"ENOENT", -ENOENT}, {"EBUSY", -EOPNOTSUPP}, {"EAGAIN", -EAGAIN}};
	char code[16];

	copy_text(reply, "code", code, sizeof(code));
	for (size_t i = 0; i < FM_ARRAY_LEN(codes); i++)
		if (!strcmp(code, codes[i].name))
			return codes[i].code;
	return -EIO;
}

static void explain(const char *reply, bool ok, struct fm_task_answer *a)
{
	char name[FM_NAME_MAX] = "", why[160];

	if (!ok) {
		copy_text(reply, "text", a->text, sizeof(a->text));
		return;
	}
	copy_text(reply, "name", name, sizeof(name));
	copy_text(reply, "why", why, sizeof(why));
	snprintf(a->text, sizeof(a->text), "%s%s %s", name[0] ? "task " : "",
		name[0] ? name : "a task of another user", why);
}

int fm_task_admit(fm_group *group, const struct fm_task *task, struct fm_task_answer *answer)
{
	struct fm_task_answer a = {0};
	struct text request = {.n = 0};
	char reply[REPLY_MAX];
	bool ok;
	int rc = check(task);

	if (!rc && answer && answer->size < sizeof(*answer))
		rc = -EINVAL;
	if (!rc && group && !fm_lib_alive(group->generation))
		rc = -EBADF;
	if (!rc && !fm_lib_client())
		rc = -ENODEV;
	if (rc)
		return rc;
	compose(&request, group, task);
	rc = exchange(&request, reply);
	if (rc)
		return rc;
	ok = is_true(reply, "ok");
	a.admitted = ok && is_true(reply, "admitted");
	if (a.admitted) {
		a.bound_ns = (uint64_t)number(reply, "bound_ns");
		a.slack_ns = (uint64_t)number(reply, "slack_ns");
	} else {
		explain(reply, ok, &a);
	}
	if (answer) {
		a.size = answer->size;
		*answer = a;
	}
	return a.admitted ? 0 : ok ? -EBUSY : error_of(reply);
}

int fm_task_leave(const char *name)
{
	struct text request = {.n = 0};
	char reply[REPLY_MAX];
	int rc;

	if (!name_ok(name))
		return -EINVAL;
	add(&request, "{\"cmd\":\"unadmit\",\"task\":\"%s\",\"own\":true}\n", name);
	rc = exchange(&request, reply);
	return rc ? rc : is_true(reply, "ok") ? 0 : error_of(reply);
}
