/* SPDX-License-Identifier: Apache-2.0 */
/* Where to listen, as people write it: a Unix socket's path, or a port that only this machine
 * reaches. Pure. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stdint.h>

#define FM_LISTEN_PATH 108 /* what fits struct sockaddr_un */

struct fm_listen {
	char path[FM_LISTEN_PATH]; /* "": none was named */
	bool tcp, v6;
	uint16_t port;
};

/* "", "/PATH", "127.0.0.1:PORT" or "[::1]:PORT"; anything else is -EINVAL, -ERANGE or
 * -ENAMETOOLONG. */
int fm_parse_listen(const char *s, struct fm_listen *out, struct fm_err *err);
