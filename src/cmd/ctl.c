/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl.h"
#include "base/cleanup.h"
#include "board/proto.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define WAIT_MS   5000
#define REPLY_MAX ((size_t)64 << 20)

bool ctl_dir_given(const struct cli *cli)
{
	const char *env = secure_getenv("FERMATA_SOCKET");

	return cli->socket || (env && *env);
}

static bool has_dir(char dirs[CTL_DIRS][CTL_PATH], int n, const char *dir)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(dirs[i], dir))
			return true;
	return false;
}

int ctl_dirs(const struct cli *cli, char dirs[CTL_DIRS][CTL_PATH])
{
	char personal[CTL_PATH];
	int n;

	_Static_assert(
		CTL_DIRS > FM_SOCKET_CANDIDATES, "room for the candidates and the user's own");
	if (cli->socket)
		return snprintf(dirs[0], CTL_PATH, "%s", cli->socket) < CTL_PATH ? 1 : 0;
	n = fm_socket_dirs(dirs);
	if (ctl_dir_given(cli) || personal_dir(personal) || has_dir(dirs, n, personal))
		return n;
	memmove(dirs[1], dirs[0], (size_t)n * CTL_PATH);
	memcpy(dirs[0], personal, CTL_PATH);
	return n + 1;
}

int ctl_connect(const char *dir, unsigned wait_ms, int *fd)
{
	FM_CLEAN_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int n;

	if (sock < 0)
		return -errno;
	n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/" FM_CONTROL_NAME, dir);
	if (n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)))
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	*fd = fm_take_fd(&sock);
	return 0;
}

int ctl_open(const char *dir, int *fd)
{
	return ctl_connect(dir, WAIT_MS, fd);
}

static int send_line(int fd, const json_t *request)
{
	FM_CLEAN_FREE char *text = json_dumps(request, JSON_COMPACT);
	size_t len, sent = 0;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	text[len++] = '\n'; /* over the NUL: from here on it is len bytes, not a string */
	while (sent < len) {
		ssize_t n = send(fd, text + sent, len - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* One line, without its end, in *line (the caller frees it). */
static int receive_line(int fd, char **line, size_t *len)
{
	FM_CLEAN_FREE char *buf = NULL;
	size_t have = 0, cap = 0;

	for (;;) {
		ssize_t n;
		char *end;

		if (have == cap) {
			char *more = cap < REPLY_MAX ? realloc(buf, cap + 65536) : NULL;

			if (!more)
				return cap < REPLY_MAX ? -ENOMEM : -EMSGSIZE;
			buf = more;
			cap += 65536;
		}
		n = recv(fd, buf + have, cap - have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -ECONNRESET : errno == EAGAIN ? -ETIMEDOUT : -errno;
		end = memchr(buf + have, '\n', (size_t)n);
		have += (size_t)n;
		if (end) {
			*len = (size_t)(end - buf);
			*line = fm_take_ptr(buf);
			return 0;
		}
	}
}

static int exchange(const char *dir, const json_t *request, unsigned wait_ms, json_t **reply)
{
	FM_CLEAN_FREE char *line = NULL;
	FM_CLEAN_FD int fd = -1;
	size_t len = 0;
	int rc = ctl_connect(dir, wait_ms, &fd);

	rc = rc ? rc : send_line(fd, request);
	rc = rc ? rc : receive_line(fd, &line, &len);
	if (rc)
		return rc;
	*reply = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (*reply && json_is_boolean(json_object_get(*reply, "ok")))
		return 0;
	json_decref(*reply);
	*reply = NULL;
	return -EPROTO;
}

/* The daemon's own words for why it refused. */
static int refused(json_t **reply, struct fm_err *err)
{
	const json_t *e = json_object_get(*reply, "error");
	const char *hint = json_string_value(json_object_get(e, "hint"));
	const char *code = cli_str(e, "code"); /* of these two it told that it makes no sense */
	bool wrong = !strcmp(code, "EINVAL") || !strcmp(code, "ERANGE");

	fm_err_set(err, wrong ? -EINVAL : -EREMOTEIO, "%s",
		json_is_object(e) ? cli_str(e, "text") : "refused");
	if (hint)
		fm_err_hint(err, "%s", hint);
	json_decref(*reply);
	*reply = NULL;
	return -EREMOTEIO;
}

/* Why there is no daemon to talk to in dir: what rc, of a connection or an exchange, means. */
static void ctl_explain(const char *dir, int rc, struct fm_err *err)
{
	switch (rc) {
	case -ENOENT:
	case -ENOTDIR:
	case -ECONNREFUSED:
		fm_err_set(err, -ENOTCONN, "no daemon runs in %s", dir);
		fm_err_hint(
			err, "start one with `fermatad --dir %s'; `fermata doctor' explains", dir);
		break;
	case -EACCES:
	case -EPERM:
		fm_err_set(err, -ENOTCONN, "no permission to talk to the daemon in %s", dir);
		fm_err_hint(err,
			"`ls -ld %s' shows which group may; ask the administrator to add you", dir);
		break;
	case -EPROTO:
		fm_err_set(err, -ENOTCONN, "the server in %s is not a Fermata daemon", dir);
		fm_err_hint(err, "compare `fermata version' with `fermatad --version'");
		break;
	default:
		fm_err_set(
			err, -ENOTCONN, "the daemon in %s does not answer: %s", dir, strerror(-rc));
		fm_err_hint(err, "see its log; `fermata doctor' tells more");
	}
}

int ctl_call_at(
	const char *dir, json_t *request, unsigned wait_ms, json_t **reply, struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *owned = request;
	int rc = exchange(dir, owned, wait_ms, reply);

	if (rc) {
		ctl_explain(dir, rc, err);
		return rc;
	}
	return json_is_true(json_object_get(*reply, "ok")) ? 0 : refused(reply, err);
}

int ctl_explain_all(
	char dirs[CTL_DIRS][CTL_PATH], const int rc[CTL_DIRS], int n, struct fm_err *err)
{
	/* An error other than absence is worth more to the user than the absence of the next. */
	for (int i = 0; i < n; i++)
		if (n == 1 || (rc[i] != -ENOENT && rc[i] != -ENOTDIR && rc[i] != -ECONNREFUSED)) {
			ctl_explain(dirs[i], rc[i], err);
			return -ENOTCONN;
		}
	if (!n) {
		fm_err_set(err, -ENOTCONN, "the name of the socket directory is too long");
		fm_err_hint(err, "a socket's path has at most 107 characters");
		return -ENOTCONN;
	}
	fm_err_set(err, -ENOTCONN, "no daemon runs, neither in %s nor in %s", dirs[0], dirs[n - 1]);
	fm_err_hint(err, "`fermata run' starts one by itself, `systemctl start fermatad' the "
			 "system's; `fermata doctor' explains");
	return -ENOTCONN;
}

int ctl_call(const struct cli *cli, json_t *request, json_t **reply, char found[CTL_PATH],
	struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *owned = request;
	char dirs[CTL_DIRS][CTL_PATH];
	int n = ctl_dirs(cli, dirs);
	int rc[CTL_DIRS];

	for (int i = 0; i < n; i++) {
		rc[i] = ctl_call_at(dirs[i], json_incref(owned), WAIT_MS, reply, err);
		if (!rc[i])
			*err = (struct fm_err){0};
		if (!rc[i] || rc[i] == -EREMOTEIO) {
			if (found)
				memcpy(found, dirs[i], CTL_PATH);
			return rc[i];
		}
	}
	return ctl_explain_all(dirs, rc, n, err);
}

int ctl_ask(const struct cli *cli, json_t *request, json_t **reply)
{
	struct fm_err err = {0};

	if (ctl_call(cli, request, reply, NULL, &err))
		return cli_report(&err);
	return cli->json ? cli_print_json(*reply) : CLI_OK;
}
