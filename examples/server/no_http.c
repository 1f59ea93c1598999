/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of http.c, where libmicrohttpd is not there. */
#include "talk.h"

struct http *http_start(
	struct engine *e, unsigned short port, unsigned connections, const char **failed)
{
	*failed = "HTTP is not in this build: it had no libmicrohttpd";
	return NULL;
}

void http_stop(struct http *h)
{
}
