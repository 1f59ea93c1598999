/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked and answered, whichever way it comes. */
#pragma once
#include "engine.h"

/* A request of a client's words; they are checked as if an enemy had sent them. False: the request
 * says what is wrong. */
bool talk_read(struct engine *e, struct request *r, const char *model, const char *picture);

/* Over a Unix socket: a line for a request ("infer MODEL PICTURE", "stats"), a line for an answer
 * ("ok ...", "error CODE TEXT"), one after the other. Returns when the other end is gone, says
 * something that cannot be followed, or reads no answers. event: an eventfd. */
void talk_lines(struct engine *e, int fd, int event);

/* Over HTTP, on localhost: POST /infer?model=MODEL&picture=PICTURE, GET /stats. NULL: not built in,
 * or it did not start, which *failed says. */
struct http;
struct http *http_start(
	struct engine *e, unsigned short port, unsigned connections, const char **failed);
/* Takes no more; returns when all are answered. */
void http_stop(struct http *h);
