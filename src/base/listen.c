/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"
#include "parse.h"
#include <errno.h>
#include <string.h>

#define V4 "127.0.0.1:"
#define V6 "[::1]:"

static int parse_path(const char *s, struct fm_listen *out, struct fm_err *err)
{
	if (strlen(s) >= sizeof(out->path)) {
		fm_err_set(err, -ENAMETOOLONG, "the path is too long for the address of a socket");
		fm_err_hint(err, "it has %zu characters, give at most %zu", strlen(s),
			sizeof(out->path) - 1);
		return -ENAMETOOLONG;
	}
	strcpy(out->path, s);
	return 0;
}

static int parse_port(const char *s, struct fm_listen *out, struct fm_err *err)
{
	int64_t port;
	int rc = *s == '+' ? -EINVAL : fm_parse_int(s, 1, UINT16_MAX, &port, NULL);

	if (rc) {
		fm_err_set(err, rc, "'%.40s' is no port", s);
		fm_err_hint(err, "give a number from 1 to 65535");
		return rc;
	}
	out->tcp = true;
	out->port = (uint16_t)port;
	return 0;
}

int fm_parse_listen(const char *s, struct fm_listen *out, struct fm_err *err)
{
	*out = (struct fm_listen){0};
	if (!*s)
		return 0;
	if (*s == '/')
		return parse_path(s, out, err);
	if (!strncmp(s, V4, strlen(V4)))
		return parse_port(s + strlen(V4), out, err);
	out->v6 = !strncmp(s, V6, strlen(V6));
	if (out->v6)
		return parse_port(s + strlen(V6), out, err);
	fm_err_set(err, -EINVAL, "'%.80s' is neither a socket's path nor a loopback address", s);
	fm_err_hint(err, "give /PATH, 127.0.0.1:PORT or [::1]:PORT: the metrics must not be open "
			 "to the network");
	return -EINVAL;
}
